//! Implementation of `export_tools!`: the exports of the interface `tool` for a list of tools.

mod hooks;
pub mod previews;

use std::borrow::Cow;

use serde_json::Value;

pub use self::hooks::{Hooks, after, before};
use crate::backend::Backend;
use crate::bindings::toolhost::plugin::types as wit;
use crate::context::CallFacts;
use crate::{Context, Descriptor, Error, Outcome, Previews, Result, Tool};

/// The functions of one exported tool, without its type, so that tools fit into a list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    name: fn() -> Cow<'static, str>,
    describe: fn(&[(String, String)]) -> Descriptor,
    call: fn(&Context, Value) -> Result<Outcome>,
    previews: fn() -> Previews,
}

impl Entry {
    pub const fn of<T: Tool>() -> Self {
        Self {
            name: T::name,
            describe: T::describe,
            call: T::call,
            previews: T::previews,
        }
    }
}

pub fn describe(tools: &[Entry], environment: &[(String, String)]) -> Vec<wit::Descriptor> {
    tools
        .iter()
        .map(|tool| {
            let mut descriptor = (tool.describe)(environment);
            let previews = (tool.previews)();
            descriptor.hooks.extend(previews.names().map(str::to_owned));
            descriptor.into()
        })
        .collect()
}

pub fn call(tools: &[Entry], request: wit::Request) -> Result<wit::Outcome, wit::ToolError> {
    Ok(run(tools, request)?.into())
}

fn run(tools: &[Entry], request: wit::Request) -> Result<Outcome> {
    let wit::Request {
        call_id,
        tool,
        input,
        context,
    } = request;
    let entry = find(tools, &tool)?;
    let input = parse(&input)?;
    (entry.call)(&self::context(call_id, context), input)
}

fn find<'a>(tools: &'a [Entry], name: &str) -> Result<&'a Entry> {
    let mut entries = tools.iter();
    entries.find(|entry| (entry.name)() == name).ok_or_else(|| {
        let names: Vec<_> = tools.iter().map(|entry| (entry.name)()).collect();
        let message = format!(
            "no tool `{name}` in this plugin; available: {}",
            names.join(", ")
        );
        Error::not_found(message).code("tool_not_found")
    })
}

fn parse(input: &str) -> Result<Value> {
    serde_json::from_str(input).map_err(|error| {
        Error::invalid_input(format!("the input is not JSON: {error}")).code("invalid_json")
    })
}

fn context(call_id: String, context: wit::Context) -> Context {
    Context {
        facts: CallFacts::new(call_id, context),
        backend: Backend::new(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::tool;

    /// Divide.
    #[tool(pure)]
    fn divide(
        cx: &Context,
        /// Above the line.
        dividend: i32,
        /// Below the line.
        #[arg(default = 2)]
        divisor: i32,
    ) -> Result<i32> {
        cx.info(cx.roots().first().map_or("", |root| &root.path));
        dividend.checked_div(divisor).ok_or_else(|| {
            Error::invalid_input("division by 0")
                .code("zero")
                .recommend("another divisor")
                .retryable()
        })
    }

    /// Fail.
    #[tool(reads)]
    fn read_nothing() -> Result<()> {
        Err(Error::from(std::io::Error::from(
            std::io::ErrorKind::NotFound,
        )))
    }

    const TOOLS: &[Entry] = &[Entry::of::<read_nothing>(), Entry::of::<divide>()];

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(tool: &str, input: &str, expected: Expect) {
        let context = wit::Context {
            agent_id: "a".to_owned(),
            parent_agent_id: None,
            session_id: "s".to_owned(),
            task_id: "t".to_owned(),
            user_id: None,
            mode: "default".to_owned(),
            roots: vec![wit::Root {
                path: "/ws".to_owned(),
                access: "ro".to_owned(),
            }],
            extra: Some("{}".to_owned()),
        };
        let request = wit::Request {
            call_id: "c".to_owned(),
            tool: tool.to_owned(),
            input: input.to_owned(),
            context,
        };
        let text = match call(TOOLS, request) {
            Ok(outcome) => format!("{:?} {:?}", outcome.llm[0].text, outcome.structured),
            Err(error) => format!("{error:?}"),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn a_call_finds_its_tool() {
        check(
            "divide",
            r#"{"dividend": 7}"#,
            expect![[r#"Some("3") Some("3")"#]],
        );
    }

    #[test]
    fn errors_keep_their_kind() {
        check(
            "divide",
            r#"{"dividend": 7, "divisor": 0}"#,
            expect![[
                r#"ToolError::InvalidInput(Failure { code: Some("zero"), message: "division by 0", recommendations: ["another divisor"], retryable: true, cause: None, details: None })"#
            ]],
        );
        check(
            "read_nothing",
            "{}",
            expect![[
                r#"ToolError::NotFound(Failure { code: Some("file_not_found"), message: "no such file or directory", recommendations: [], retryable: false, cause: Some("entity not found"), details: None })"#
            ]],
        );
    }

    #[test]
    fn input_errors_contain_the_message_of_serde() {
        check(
            "divide",
            r#"{"dividend": "seven"}"#,
            expect![[
                r#"ToolError::InvalidInput(Failure { code: Some("invalid_input"), message: "`dividend`: invalid type: string \"seven\", expected i32", recommendations: [], retryable: false, cause: None, details: None })"#
            ]],
        );
        check(
            "divide",
            "{",
            expect![[
                r#"ToolError::InvalidInput(Failure { code: Some("invalid_json"), message: "the input is not JSON: EOF while parsing an object at line 1 column 1", recommendations: [], retryable: false, cause: None, details: None })"#
            ]],
        );
        check(
            "divide",
            "null",
            expect![[
                r#"ToolError::InvalidInput(Failure { code: Some("invalid_input"), message: "the input is not a JSON object", recommendations: [], retryable: false, cause: None, details: None })"#
            ]],
        );
    }

    #[test]
    fn an_unknown_tool_is_named() {
        check(
            "multiply",
            "{}",
            expect![[
                r#"ToolError::NotFound(Failure { code: Some("tool_not_found"), message: "no tool `multiply` in this plugin; available: read_nothing, divide", recommendations: [], retryable: false, cause: None, details: None })"#
            ]],
        );
    }

    #[test]
    fn schemas_travel_as_text() {
        let descriptors = describe(TOOLS, &[]);
        assert_eq!(descriptors.len(), 2);
        expect![[r#"{"type":"object","properties":{"dividend":{"type":"integer","description":"Above the line."},"divisor":{"type":"integer","description":"Below the line.","default":2}},"required":["dividend"],"additionalProperties":false}"#]].assert_eq(&descriptors[1].input_schema);
    }
}
