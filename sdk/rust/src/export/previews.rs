//! Implementation of `export_previews!`: the exports of the interface `preview`.

use serde_json::Value;

use super::Entry;
pub use crate::bindings::preview::exports::toolhost::plugin::preview as wit;
use crate::bindings::toolhost::plugin::types;
use crate::{Context, Location, Outcome, Previews, Result};

pub fn validate(tools: &[Entry], request: wit::Request) -> Result<(), types::Failure> {
    let (cx, input, previews) = read(tools, request);
    let validate = previews.validate.unwrap_or(|_, _| Ok(()));
    validate(&cx, input).map_err(Into::into)
}

pub fn describe_call(tools: &[Entry], request: wit::Request) -> String {
    let (cx, input, previews) = read(tools, request);
    let describe = previews.describe_call.unwrap_or(|_, _| Ok(String::new()));
    expect(describe(&cx, input))
}

pub fn locations(tools: &[Entry], request: wit::Request) -> Vec<wit::Location> {
    let (cx, input, previews) = read(tools, request);
    let locations = previews.locations.unwrap_or(|_, _| Ok(Vec::new()));
    let locations = expect(locations(&cx, input)).into_iter();
    locations.map(Into::into).collect()
}

pub fn confirm(tools: &[Entry], request: wit::Request) -> Option<String> {
    let (cx, input, previews) = read(tools, request);
    let confirm = previews.confirm.unwrap_or(|_, _| Ok(None));
    expect(confirm(&cx, input))
}

pub fn render_permission(tools: &[Entry], request: wit::Request) -> Vec<types::Display> {
    let (cx, input, previews) = read(tools, request);
    let render = previews.render_permission.unwrap_or(|_, _| Ok(Vec::new()));
    let blocks = expect(render(&cx, input)).into_iter();
    blocks.map(Into::into).collect()
}

pub fn render_result(
    tools: &[Entry],
    request: wit::Request,
    outcome: wit::Outcome,
) -> Vec<types::Display> {
    let (cx, input, previews) = read(tools, request);
    let Some(render) = previews.render_result else {
        return Vec::new();
    };
    let blocks = expect(render(&cx, input, &Outcome::from(outcome))).into_iter();
    blocks.map(Into::into).collect()
}

fn read(tools: &[Entry], request: wit::Request) -> (Context, Value, Previews) {
    let previews = super::find(tools, &request.tool).map(|entry| (entry.previews)());
    let input = expect(super::parse(&request.input));
    let cx = super::context(request.call_id, request.context);
    (cx, input, expect(previews))
}

/// The contract has no errors for these functions. The host treats a crash as the careful answer.
fn expect<T>(result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{}", error.message()))
}

impl From<Location> for wit::Location {
    fn from(Location { path, write, line }: Location) -> Self {
        Self {
            path,
            access: if write { "write" } else { "read" }.to_owned(),
            line,
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{Display, Error, tool};

    fn check_lines(lines: u32, _path: String) -> Result<()> {
        match lines {
            0 => Err(Error::invalid_input("no lines").code("empty")),
            _ => Ok(()),
        }
    }

    fn describe(lines: u32, path: String) -> String {
        format!("Write {lines} lines to {path}")
    }

    fn logs(_: u32, path: String) -> Vec<Location> {
        vec![
            Location::write(format!("{path}.log")).at_line(7),
            Location::read("in"),
        ]
    }

    fn many(lines: u32, _path: String) -> Option<String> {
        (lines > 100).then(|| "it is long".to_owned())
    }

    fn ask(lines: u32, _path: String) -> Vec<Display> {
        vec![Display::text(format!("{lines}"))]
    }

    fn show(_: u32, path: String, outcome: &Outcome) -> Vec<Display> {
        vec![Display::text(format!("{path}: {:?}", outcome.summary))]
    }

    /// Write lines.
    #[tool(
        writes,
        validate = check_lines,
        describe_call = describe,
        locations = logs,
        confirm = many,
        render_permission = ask,
        render_result = show
    )]
    fn write_lines(
        /// How many.
        #[arg(default = 7)]
        lines: u32,
        /// Where.
        path: String,
    ) -> String {
        format!("{path}{lines}")
    }

    /// Do nothing.
    #[tool(pure)]
    fn nothing() {}

    const TOOLS: &[Entry] = &[Entry::of::<write_lines>(), Entry::of::<nothing>()];

    fn request(tool: &str, input: &str) -> wit::Request {
        wit::Request {
            call_id: "c".to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
            context: types::Context {
                agent_id: "a".to_owned(),
                parent_agent_id: None,
                session_id: "s".to_owned(),
                task_id: "t".to_owned(),
                user_id: None,
                mode: "default".to_owned(),
                roots: Vec::new(),
                extra: None,
            },
        }
    }

    fn all(tool: &str, input: &str) -> String {
        let request = || request(tool, input);
        let outcome = Outcome::text("t").summary("s").into();
        let texts = |blocks: Vec<types::Display>| {
            let texts = blocks.into_iter().filter_map(|block| block.text);
            texts.collect::<Vec<_>>()
        };
        format!(
            "{:?}\n{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
            validate(TOOLS, request()),
            describe_call(TOOLS, request()),
            locations(TOOLS, request()),
            confirm(TOOLS, request()),
            texts(render_permission(TOOLS, request())),
            texts(render_result(TOOLS, request(), outcome)),
        )
    }

    #[test]
    fn functions_get_the_parameters_of_the_tool() {
        expect![[r#"
            Ok(())
            "Write 7 lines to f"
            [Location { path: "f.log", access: "write", line: Some(7) }, Location { path: "in", access: "read", line: None }]
            None
            ["7"]
            ["f: Some(\"s\")"]"#]]
        .assert_eq(&all("write_lines", r#"{"path": "f"}"#));
        expect![[r#"
            Ok(())
            "Write 101 lines to f"
            [Location { path: "f.log", access: "write", line: Some(7) }, Location { path: "in", access: "read", line: None }]
            Some("it is long")
            ["101"]
            ["f: Some(\"s\")"]"#]]
        .assert_eq(&all("write_lines", r#"{"path": "f", "lines": 101}"#));
        expect![[r#"
            Ok(())
            ""
            []
            None
            []
            []"#]]
        .assert_eq(&all("nothing", "{}"));
        let refused = validate(
            TOOLS,
            request("write_lines", r#"{"path": "f", "lines": 0}"#),
        );
        assert_eq!(refused.unwrap_err().code.as_deref(), Some("empty"));
    }

    #[test]
    fn descriptors_list_the_functions() {
        let hooks: Vec<_> = crate::export::describe(TOOLS, &[])
            .into_iter()
            .map(|tool| tool.hooks)
            .collect();
        let all = [
            "validate",
            "describe-call",
            "locations",
            "confirm",
            "render-permission",
            "render-result",
        ];
        assert_eq!(hooks, [all.map(str::to_owned).to_vec(), Vec::new()]);
    }

    #[test]
    #[should_panic(expected = "missing field")]
    fn an_input_that_does_not_fit_panics() {
        confirm(TOOLS, request("write_lines", "{}"));
    }
}
