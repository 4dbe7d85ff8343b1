//! `set_env`: sets a variable for the rest of a session.

use toolhost_sdk::prelude::*;

use crate::environment::shown;
use crate::overlay::{MOST_VALUE_BYTES, SessionVariables, check_name};

/// Previous value.
#[data]
pub struct Previous {
    /// Name.
    key: String,
    /// Value before this call, from this session or the host; null if none or not shown.
    previous: Value,
}

/// Set an environment variable for later programs of this session, at most 64. `PATH` and similar ones cannot be set.
#[tool(
    writes,
    idempotent,
    plain_text,
    requires = ["env", "session"],
    category = "system",
    kind = "other",
    icon = "terminal",
    concurrency = "serial",
    tags = ["environment", "variable"],
    output = Previous,
    example(description = "Enable verbose logs", input = r#"{"key": "RUST_LOG", "value": "debug"}"#),
    example(description = "Unset it", input = r#"{"key": "RUST_LOG"}"#),
)]
pub fn set_env(
    cx: &Context,
    /// Letters, digits and `_`.
    #[arg(min_len = 1, max_len = 128, aliases = ["name"])]
    key: String,
    /// Omit to unset.
    #[arg(max_len = 8192)]
    value: Option<String>,
) -> Result<Outcome> {
    check_name(&key)?;
    if let Some(value) = &value {
        if value.contains('\0') {
            let message = format!("the value of {key} contains a NUL character; remove it");
            return Err(Error::invalid_input(message).code("invalid_value"));
        }
        if value.len() > MOST_VALUE_BYTES {
            let message = format!(
                "the value of {key} has {} bytes; at most {MOST_VALUE_BYTES} are stored",
                value.len()
            );
            return Err(Error::invalid_input(message).code("invalid_value"));
        }
    }
    let text = match &value {
        Some(_) => format!("{key} is set for this session"),
        None => format!("{key} is no longer set by this session"),
    };
    let previous = SessionVariables::of(cx)?.set(cx, &key, value)?;
    let previous = previous_value(&key, previous, std::env::var(&key).ok());
    Ok(Outcome::text(&*text)
        .summary(text)
        .structured(&Previous { key, previous }))
}

/// The value that programs of the session had. A hidden value must not be revealed by setting it.
fn previous_value(key: &str, of_session: Option<String>, of_host: Option<String>) -> Value {
    let previous = of_session.or(of_host);
    let previous = previous.and_then(|value| shown(key, value).ok());
    previous.map_or(Value::Null, Value::String)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;
    use crate::environment::get_env;

    fn result_line<T: Tool>(cx: &Context, input: Value) -> String {
        match testing::call::<T>(cx, input) {
            Ok(outcome) => format!(
                "{} {}",
                outcome.llm[0].text.as_deref().unwrap(),
                outcome.structured.unwrap()
            ),
            Err(error) => testing::error_line(&error),
        }
    }

    fn check(input: Value, expected: Expect) {
        expected.assert_eq(&result_line::<set_env>(&Context::test(), input));
    }

    // R-362, R-363, C-28
    #[test]
    fn r_363_what_is_set_is_what_is_read() {
        let cx = Context::test();
        let results = [
            result_line::<set_env>(&cx, json!({"key": "CARGO_PKG_NAME", "value": "x"})),
            result_line::<set_env>(&cx, json!({"key": "EXAMPLE_LEVEL", "value": "debug"})),
            result_line::<get_env>(&cx, json!({"key": "EXAMPLE_LEVEL"})),
            result_line::<set_env>(&cx, json!({"name": "EXAMPLE_LEVEL", "value": ""})),
            result_line::<get_env>(&cx, json!({"key": "EXAMPLE_LEVEL"})),
            result_line::<set_env>(&cx, json!({"key": "EXAMPLE_LEVEL"})),
            result_line::<set_env>(&cx, json!({"key": "EXAMPLE_LEVEL"})),
            result_line::<get_env>(&cx, json!({"key": "UNSET_VARIABLE"})),
        ];
        expect![[r#"
            Denied forbidden_variable: CARGO_PKG_NAME cannot be set: it determines which programs run, what they load or which servers they use
            EXAMPLE_LEVEL is set for this session {"key":"EXAMPLE_LEVEL","previous":null}
            debug {"key":"EXAMPLE_LEVEL","value":"debug"}
            EXAMPLE_LEVEL is set for this session {"key":"EXAMPLE_LEVEL","previous":"debug"}
             {"key":"EXAMPLE_LEVEL","value":""}
            EXAMPLE_LEVEL is no longer set by this session {"key":"EXAMPLE_LEVEL","previous":""}
            EXAMPLE_LEVEL is no longer set by this session {"key":"EXAMPLE_LEVEL","previous":null}
            UNSET_VARIABLE: not set, or not exposed by the operator {"key":"UNSET_VARIABLE","value":null,"note":"not set, or not exposed by the operator"}"#]].assert_eq(&results.join("\n"));
        assert!(
            std::env::var("EXAMPLE_LEVEL").is_err(),
            "the process never sees it"
        );
    }

    #[test]
    fn r_363_the_previous_value_may_be_that_of_the_host() {
        let previous = |key, of_session: Option<&str>, of_host: Option<&str>| {
            let of_session = of_session.map(str::to_owned);
            previous_value(key, of_session, of_host.map(str::to_owned))
        };
        assert_eq!(previous("LANG", None, Some("C")), json!("C"));
        assert_eq!(previous("LANG", Some("de"), Some("C")), json!("de"));
        assert_eq!(previous("LANG", None, None), Value::Null);
        assert_eq!(previous("API_KEY", None, Some("k")), Value::Null);
    }

    #[test]
    fn a_session_can_hide_a_variable_of_the_host() {
        let cx = Context::test();
        // Cargo sets this one for every test; the name is one that may be set only here.
        cx.remember("shared/env", &json!({"CARGO_PKG_NAME": "mine"}))
            .unwrap();
        assert!(result_line::<get_env>(&cx, json!({"key": "CARGO_PKG_NAME"})).starts_with("mine "));
    }

    #[test]
    fn a_secret_that_was_set_is_not_shown_again() {
        let cx = Context::test();
        let results = [
            result_line::<set_env>(&cx, json!({"key": "API_KEY", "value": "k"})),
            result_line::<set_env>(&cx, json!({"key": "API_KEY", "value": "l"})),
            result_line::<get_env>(&cx, json!({"key": "API_KEY"})),
            result_line::<set_env>(&cx, json!({"key": "DB", "value": "pg://me:pw@h/d"})),
            result_line::<set_env>(&cx, json!({"key": "DB", "value": "x"})),
        ];
        expect![[r#"
            API_KEY is set for this session {"key":"API_KEY","previous":null}
            API_KEY is set for this session {"key":"API_KEY","previous":null}
            API_KEY: secrets are not shown {"key":"API_KEY","value":null,"note":"secrets are not shown"}
            DB is set for this session {"key":"DB","previous":null}
            DB is set for this session {"key":"DB","previous":null}"#]].assert_eq(&results.join("\n"));
    }

    #[test]
    fn bad_variables() {
        check(
            json!({"key": "A=B", "value": "x"}),
            expect![[
                r#"InvalidInput invalid_name: "A=B" is not a variable name; use letters, digits and `_`, not starting with a digit"#
            ]],
        );
        check(
            json!({"key": "1A", "value": "x"}),
            expect![[
                r#"InvalidInput invalid_name: "1A" is not a variable name; use letters, digits and `_`, not starting with a digit"#
            ]],
        );
        check(
            json!({"key": "Ä", "value": "x"}),
            expect![[
                r#"InvalidInput invalid_name: "Ä" is not a variable name; use letters, digits and `_`, not starting with a digit"#
            ]],
        );
        check(
            json!({"key": "", "value": "x"}),
            expect![
                "InvalidInput invalid_input: `key`: a length of 0 is less than the minimum of 1"
            ],
        );
        check(
            json!({"key": "A", "value": "x\0"}),
            expect![
                "InvalidInput invalid_value: the value of A contains a NUL character; remove it"
            ],
        );
        check(
            json!({"key": "A", "value": "ä".repeat(5000)}),
            expect![
                "InvalidInput invalid_value: the value of A has 10000 bytes; at most 8192 are stored"
            ],
        );
        check(
            json!({"key": "A", "value": "x".repeat(8193)}),
            expect![
                "InvalidInput invalid_input: `value`: a length of 8193 is more than the maximum of 8192"
            ],
        );
        check(
            json!({"value": "x"}),
            expect!["InvalidInput invalid_input: `key` is missing"],
        );
        check(
            json!({"key": "PATH", "value": "x"}),
            expect![
                "Denied forbidden_variable: PATH cannot be set: it determines which programs run, what they load or which servers they use"
            ],
        );
    }

    #[test]
    fn names_that_decide_what_runs_are_forbidden() {
        for key in [
            "Path",
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "PERL5OPT",
            "RUBYOPT",
            "JAVA_TOOL_OPTIONS",
            "_JAVA_OPTIONS",
            "GIT_SSH_COMMAND",
            "https_proxy",
            "SSL_CERT_FILE",
            "IFS",
            "EDITOR",
            "RUSTC_WRAPPER",
            "GLIBC_TUNABLES",
            "HOME",
        ] {
            assert_eq!(
                check_name(key).unwrap_err().code.as_deref(),
                Some("forbidden_variable"),
                "{key}"
            );
        }
        for key in [
            "RUST_LOG",
            "LANG",
            "TZ",
            "NO_COLOR",
            "_A1",
            "MY_PATHS",
            "ENVIRONMENT",
        ] {
            assert_eq!(check_name(key), Ok(()), "{key}");
        }
    }

    #[test]
    fn the_variables_of_a_session_are_bounded() {
        let cx = Context::test();
        for n in 0..64 {
            testing::call::<set_env>(&cx, json!({"key": format!("V{n}"), "value": "x"})).unwrap();
        }
        expect!["InvalidInput too_many_variables: 64 variables are already set; unset one first"]
            .assert_eq(&result_line::<set_env>(
                &cx,
                json!({"key": "W", "value": "x"}),
            ));
        let cx = Context::test();
        let large = |n: u8| json!({"key": format!("V{n}"), "value": "x".repeat(8190)});
        for n in 0..8 {
            testing::call::<set_env>(&cx, large(n)).unwrap();
        }
        expect!["InvalidInput too_many_variables: the variables of a session are limited to 65536 bytes; this would make 73728"].assert_eq(&result_line::<set_env>(&cx, large(8)));
    }

    #[test]
    fn examples_work() {
        testing::check_examples::<set_env>().unwrap();
        let cx = Context::test();
        for example in set_env::descriptor().examples {
            let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
            testing::call::<set_env>(&cx, input).unwrap();
        }
    }
}
