//! `get_env`: variables of the session, then those exposed by the operator, without secrets.

use std::env;

use toolhost_sdk::prelude::*;

use crate::overlay::SessionVariables;

/// Substrings that mark a secret.
const SECRET_PARTS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "APIKEY",
    "PRIVATE",
];
/// Words that mark a secret if they are a whole component of the name: `API_KEY`, not `KEYBOARD`.
const SECRET_WORDS: &[&str] = &["KEY", "KEYS", "PASS", "AUTH", "COOKIE", "PAT", "DSN"];

/// A variable.
#[data]
pub struct Variable {
    /// Name.
    key: String,
    /// Value, or null.
    value: Value,
    /// Why there is no value.
    note: Option<String>,
}

/// Read an environment variable of this session (`set_env`) or of the host, if exposed. Secrets are never shown.
#[tool(
    reads,
    plain_text,
    requires = ["env", "session"],
    category = "system",
    kind = "read",
    icon = "terminal",
    tags = ["environment", "variable"],
    output = Variable,
    example(description = "The language", input = r#"{"key": "LANG"}"#),
)]
pub fn get_env(
    cx: &Context,
    /// Name.
    #[arg(min_len = 1, max_len = 128, aliases = ["name"])]
    key: String,
) -> Result<Outcome> {
    // Neither is valid in a name, and `env::var` may panic on them.
    if key.contains(['=', '\0']) {
        let message = format!("{key:?} is not a variable name; a name must not contain `=`");
        return Err(Error::invalid_input(message).code("invalid_name"));
    }
    // Without a session, the environment is still available.
    let overlay = SessionVariables::of(cx).ok();
    let set = overlay.and_then(|overlay| overlay.get(&key).cloned());
    let variable = show(key.clone(), set.or_else(|| env::var(key).ok()));
    let text = match (&variable.value, &variable.note) {
        (Value::String(value), _) => value.clone(),
        (_, note) => format!(
            "{}: {}",
            variable.key,
            note.as_deref().unwrap_or("no value")
        ),
    };
    Ok(Outcome::text(text).structured(&variable))
}

fn show(key: String, value: Option<String>) -> Variable {
    let (value, note) = match value {
        // Whether a secret is set is not revealed either.
        None if is_secret_name(&key) => (None, Some("secrets are not shown")),
        None => (None, Some("not set, or not exposed by the operator")),
        Some(value) => match shown(&key, value) {
            Ok(value) => (Some(value), None),
            Err(reason) => (None, Some(reason)),
        },
    };
    Variable {
        key,
        value: value.map_or(Value::Null, Value::String),
        note: note.map(str::to_owned),
    }
}

/// The value, unless it is or contains a secret.
pub fn shown(key: &str, value: String) -> Result<String, &'static str> {
    if is_secret_name(key) {
        Err("secrets are not shown")
    } else if has_password(&value) {
        Err("its value contains a password and is not shown")
    } else {
        Ok(value)
    }
}

fn is_secret_name(key: &str) -> bool {
    let key = key.to_uppercase();
    SECRET_PARTS.iter().any(|part| key.contains(part))
        || key.split(|c: char| !c.is_alphanumeric()).any(|word| SECRET_WORDS.contains(&word))
        // `PWD` and `OLDPWD` are directories; `MYSQL_PWD` is not.
        || key.ends_with("_PWD")
}

/// `scheme://user:password@host`
fn has_password(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority
            .rsplit_once('@')
            .is_some_and(|(user, _)| user.contains(':'))
    })
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use toolhost_sdk::testing;

    use super::*;

    fn check(key: &str, value: Option<&str>, expected: Expect) {
        let variable = show(key.to_owned(), value.map(str::to_owned));
        expected.assert_eq(
            &toolhost_sdk::serde_json::to_value(variable)
                .unwrap()
                .to_string(),
        );
    }

    // R-362
    #[test]
    fn a_value_or_null() {
        check(
            "LANG",
            Some("de_AT.UTF-8"),
            expect![[r#"{"key":"LANG","value":"de_AT.UTF-8"}"#]],
        );
        check(
            "EMPTY",
            Some(""),
            expect![[r#"{"key":"EMPTY","value":""}"#]],
        );
        check(
            "LANG",
            None,
            expect![[
                r#"{"key":"LANG","value":null,"note":"not set, or not exposed by the operator"}"#
            ]],
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        check(
            "GITHUB_TOKEN",
            Some("x"),
            expect![[r#"{"key":"GITHUB_TOKEN","value":null,"note":"secrets are not shown"}"#]],
        );
        check(
            "GITHUB_TOKEN",
            None,
            expect![[r#"{"key":"GITHUB_TOKEN","value":null,"note":"secrets are not shown"}"#]],
        );
        check(
            "DATABASE_URL",
            Some("postgres://me:hunter2@localhost/db"),
            expect![[
                r#"{"key":"DATABASE_URL","value":null,"note":"its value contains a password and is not shown"}"#
            ]],
        );
        check(
            "REMOTE",
            Some("https://example.org/@me:x"),
            expect![[r#"{"key":"REMOTE","value":"https://example.org/@me:x"}"#]],
        );
    }

    #[test]
    fn names_of_secrets() {
        let secret = [
            "API_KEY",
            "aws_secret_access_key",
            "APIKEY",
            "DB_PASS",
            "MYSQL_PWD",
            "SSH_AUTH_SOCK",
            "my-key",
        ];
        let plain = [
            "PWD", "OLDPWD", "KEYBOARD", "PATH", "COMPASS", "AUTHOR", "TZ", "",
        ];
        for (names, expected) in [(secret.as_slice(), true), (plain.as_slice(), false)] {
            for name in names {
                assert_eq!(is_secret_name(name), expected, "{name}");
            }
        }
    }

    #[test]
    fn the_environment_is_read() {
        // Set for every test.
        let outcome =
            testing::call::<get_env>(&Context::test(), json!({"key": "CARGO_MANIFEST_DIR"}))
                .unwrap();
        assert_eq!(
            outcome.structured,
            Some(
                json!({"key": "CARGO_MANIFEST_DIR", "value": std::env::var("CARGO_MANIFEST_DIR").unwrap()})
            )
        );
    }

    #[test]
    fn invalid_names() {
        for key in ["", "A=B", "A\0"] {
            let error =
                testing::call::<get_env>(&Context::test(), json!({"key": key})).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidInput, "{key:?}");
        }
    }

    #[test]
    fn it_needs_the_environment_and_the_session_alone() {
        assert_eq!(get_env::descriptor().requires, ["env", "session"]);
        testing::check_examples::<get_env>().unwrap();
    }
}
