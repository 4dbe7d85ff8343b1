//! `background_run`: starts a tool call that continues in the background.

use std::collections::BTreeMap;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::ToolSummary;
use toolhost_sdk::text::{inline, list};

use crate::chain::is_chain;

/// A call that was started in the background.
#[data]
pub struct StartedCall {
    /// Id for `shell_output` and `shell_kill`.
    task_id: String,
    /// Name of the tool.
    tool: String,
    /// `running` or `ended`.
    state: String,
    /// Start time, in milliseconds since 1970.
    started_ms: f64,
}

/// Start a long tool call in the background; pass the returned `task_id` to `shell_output` or `shell_kill`.
// `destroys`: the started call is authorized separately, but it can be a call of any tool.
#[tool(
    destroys,
    plain_text,
    requires = ["tools"],
    category = "agent",
    kind = "other",
    icon = "play",
    aliases = ["bg_run"],
    tags = ["background", "job", "asynchronous"],
    output = StartedCall,
    example(description = "A long build", input = r#"{"tool": "shell", "params": {"command": "make all"}, "timeout_ms": 600000}"#),
)]
pub fn background_run(
    cx: &Context,
    /// A tool that can run in the background.
    #[arg(min_len = 1, max_len = 128, aliases = ["name"])]
    tool: String,
    /// Its input.
    #[arg(aliases = ["args", "arguments", "input"])]
    params: Option<BTreeMap<String, Value>>,
    /// Time limit in milliseconds; by default the tool's own.
    #[arg(min = 1, max = 86_400_000)]
    timeout_ms: Option<u32>,
) -> Result<Outcome> {
    let shown = inline(&tool, 64);
    if is_chain(&tool) {
        let message = "a chain cannot run in the background; start its long step instead";
        return Err(Error::invalid_input(message).code("cannot_background"));
    }
    let tools = cx.tools()?;
    let is = |summary: &&ToolSummary| {
        let mut names = std::iter::once(&summary.name).chain(&summary.aliases);
        names.any(|name| name.eq_ignore_ascii_case(tool.trim()))
    };
    let can = || {
        list(
            tools
                .iter()
                .filter(|tool| tool.can_background)
                .map(|tool| tool.name.as_str()),
            20,
        )
    };
    // The host resolves other forms of a name, such as `plugin/tool`.
    if let Some(known) = tools.iter().find(is)
        && !known.can_background
    {
        let advice = match can() {
            can if can.is_empty() => "call it without background_run".to_owned(),
            can => format!("call it without background_run; these can: {can}"),
        };
        let message = format!("{shown} cannot run in the background");
        return Err(Error::invalid_input(message)
            .code("cannot_background")
            .recommend(advice));
    }
    let job = cx.start_tool(tool.trim(), &json!(params.unwrap_or_default()), timeout_ms)?;
    let (text, summary) = started_text(&shown, &job.id);
    let started = StartedCall {
        task_id: job.id,
        tool: job.tool,
        state: job.state,
        started_ms: job.started_ms,
    };
    Ok(Outcome::text(text).summary(summary).structured(&started))
}

/// The text for the model and the summary of a call that was started.
pub fn started_text(what: &str, id: &str) -> (String, String) {
    let id = inline(id, 128);
    let text = format!(
        "{what} runs in the background as {id}\nread it: shell_output with task_id {id:?}; stop it: shell_kill with task_id {id:?}"
    );
    (text, format!("{what} runs as {id}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, run_examples};

    fn tool(name: &str, can_background: bool) -> Value {
        json!({
            "name": name, "plugin": "p", "description": "", "input_schema": {}, "aliases": [format!("{name}_alias")],
            "tags": [], "can_background": can_background,
        })
    }

    fn host() -> Context {
        Context::test()
            .with_service("tools.tools", |_| {
                Ok(json!([tool("shell", true), tool("read_file", false)]))
            })
            .with_service("tools.start", |call| {
                if call["tool"] == "shel" {
                    return Err(
                        Error::not_found("Tool \"shel\" not found").code("tool_not_registered")
                    );
                }
                assert_eq!(call["input"]["command"], "make");
                Ok(json!({"id": "tool-1", "tool": "shell", "state": "running", "started_ms": 5.0}))
            })
    }

    #[test]
    fn a_call_is_begun() {
        let input = json!({"tool": "shell", "args": {"command": "make"}, "timeout_ms": 1000});
        check::<background_run>(
            &host(),
            input,
            expect![[r#"
            shell runs in the background as tool-1
            read it: shell_output with task_id "tool-1"; stop it: shell_kill with task_id "tool-1"
            summary: shell runs as tool-1
            {"task_id":"tool-1","tool":"shell","state":"running","started_ms":5.0}"#]],
        );
    }

    #[test]
    fn bad_calls() {
        check::<background_run>(
            &host(),
            json!({"tool": "read_file_alias"}),
            expect![[r#"
                InvalidInput cannot_background: read_file_alias cannot run in the background
                - call it without background_run; these can: shell"#]],
        );
        check::<background_run>(
            &host(),
            json!({"tool": "shel"}),
            expect![[r#"NotFound tool_not_registered: Tool "shel" not found"#]],
        );
        check::<background_run>(
            &host(),
            json!({"tool": "tool_chain"}),
            expect![
                "InvalidInput cannot_background: a chain cannot run in the background; start its long step instead"
            ],
        );
        check::<background_run>(
            &host(),
            json!({"tool": "shell", "params": "make"}),
            expect![[r#"InvalidInput invalid_input: `params`: "make" is not of type object"#]],
        );
        check::<background_run>(
            &host(),
            json!({"tool": "shell", "timeout_ms": 0}),
            expect!["InvalidInput invalid_input: `timeout_ms`: 0 is less than the minimum of 1"],
        );
        check::<background_run>(
            &host(),
            json!({}),
            expect!["InvalidInput invalid_input: `tool` is missing"],
        );
        let none = Context::test().with_service("tools.tools", |_| Ok(json!([tool("a", false)])));
        check::<background_run>(
            &none,
            json!({"tool": "A"}),
            expect![[r#"
                InvalidInput cannot_background: A cannot run in the background
                - call it without background_run"#]],
        );
    }

    #[test]
    fn examples_work() {
        run_examples::<background_run>(|| {
            host().with_service("tools.start", |_| {
                Ok(json!({"id": "tool-1", "tool": "shell", "state": "running", "started_ms": 5.0}))
            })
        });
    }
}
