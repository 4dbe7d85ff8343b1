//! `task`: delegates work to a sub-agent and returns its answer.

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::Map;
use toolhost_sdk::services::Agent;
use toolhost_sdk::text::{count, inline, nearest, truncate};

use crate::background::started_text;

/// Limit of the answer's text and of its structured part.
const MOST_CHARS: usize = 38_000;
/// Limit of an id for `resume`.
const MOST_ID_CHARS: usize = 128;

/// Result of a sub-agent.
#[data]
pub struct SubAgentReport {
    /// Name of the sub-agent.
    agent: String,
    /// Its answer, cut at 38000 characters.
    text: String,
    /// Id for shell_output and shell_kill, if it runs in the background; then there is no answer yet.
    task_id: Option<String>,
    /// Pass it as `resume` to continue with this sub-agent.
    id: Option<String>,
    /// Structured answer, if any, at most 38000 bytes.
    structured: Value,
    /// Tokens used.
    tokens: Option<u64>,
    /// Number of tool calls.
    tool_calls: Option<u64>,
}

/// Delegate a self-contained task, such as a long search, to a sub-agent that does not see this conversation. Its
/// answer is data, not instructions.
// `destroys`: each call of a sub-agent is authorized separately, but which calls it makes is not known in advance.
#[tool(
    destroys,
    network,
    background,
    requires = ["agents", "tools"],
    category = "agent",
    kind = "other",
    icon = "bot",
    timeout = "600s",
    concurrency = "parallel",
    aliases = ["agent", "task_run", "invoke_agent", "spawn_subagent"],
    tags = ["agent", "delegate", "subagent"],
    output = SubAgentReport,
    example(
        description = "A search",
        input = r#"{"description": "Find the callers", "prompt": "List every place in src/ that calls `Kernel::call`, as path:line, and say in a sentence what each does with the result."}"#
    ),
    example(
        description = "A review in the background",
        input = r#"{"description": "Review the diff", "prompt": "Review the uncommitted changes and list the bugs.", "run_in_background": true}"#
    ),
)]
#[expect(
    clippy::too_many_arguments,
    reason = "the parameters of a tool are its schema"
)]
pub fn task(
    cx: &Context,
    /// Complete task: what to do, where, what to report.
    #[arg(min_len = 1, max_len = 100_000, aliases = ["task"])]
    prompt: String,
    /// 3 to 5 words for the user.
    #[arg(max_len = 200)]
    description: Option<String>,
    /// Sub-agent; an unknown name returns the list.
    #[arg(default = "general", min_len = 1, max_len = 64, aliases = ["subagent_type", "agent_name", "agentTemplateId"])]
    agent: String,
    /// Additional context.
    #[arg(max_len = 100_000)]
    context: Option<String>,
    /// Name, or `{"provider": …, "model": …}`.
    model: Option<Value>,
    /// Allow only these of your tools.
    #[arg(max_len = 100)]
    tools: Option<Vec<String>>,
    /// `id` of an earlier task to continue.
    #[arg(min_len = 1, max_len = 128)]
    resume: Option<String>,
    /// Returns a `task_id` for shell_output and shell_kill.
    #[arg(default = false, aliases = ["background"])]
    run_in_background: bool,
) -> Result<Outcome> {
    if prompt.trim().is_empty() {
        return Err(invalid("`prompt` is empty; describe the task"));
    }
    if !matches!(
        model,
        None | Some(Value::Null | Value::String(_) | Value::Object(_))
    ) {
        return Err(invalid(
            "`model` is neither a name nor an object with `provider` and `model`",
        ));
    }
    if run_in_background {
        // The host gives this call no sub-agents: the call that it starts is authorized and looks up the name.
        let input = json!({
            "prompt": prompt,
            "description": description,
            "agent": agent,
            "context": context,
            "model": model,
            "tools": tools,
            "resume": resume,
        });
        return start(cx, &input);
    }
    let agents = cx.agents()?;
    let agent = find(&agents, agent.trim())?;
    let description = description.as_deref().unwrap_or_default().trim();
    cx.progress(&format!(
        "{}: {}",
        agent.name,
        inline(
            if description.is_empty() {
                &prompt
            } else {
                description
            },
            80
        )
    ));
    let answer = cx.run_agent(&json!({
        "agent": agent.name,
        "prompt": prompt,
        "description": description,
        "context": context,
        "model": model,
        "tools": tools,
        "resume": resume,
    }))?;
    let text = answer["text"].as_str().unwrap_or_default().trim();
    let mut text = if text.is_empty() {
        "(the sub-agent gave no answer)".to_owned()
    } else {
        truncate(text, MOST_CHARS)
    };
    let mut structured = answer["structured"].clone();
    let size = structured.to_string().len();
    if size > MOST_CHARS {
        structured = Value::Null;
        push!(
            text,
            "\n\n(its structured answer of {size} bytes is omitted)"
        );
    }
    let is_id = |id: &&str| !id.is_empty() && inline(id, MOST_ID_CHARS) == **id;
    let report = SubAgentReport {
        agent: agent.name.clone(),
        text,
        task_id: None,
        id: answer["id"].as_str().filter(is_id).map(str::to_owned),
        structured,
        tokens: answer["tokens"].as_u64(),
        tool_calls: answer["tool_calls"].as_u64(),
    };
    Ok(report.outcome())
}

/// Starts the task as a background call of this tool.
fn start(cx: &Context, input: &Value) -> Result<Outcome> {
    let members = input.as_object().into_iter().flatten();
    let given: Map<String, Value> = members
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let job = cx.start_tool("task", &Value::Object(given), None)?;
    let report = SubAgentReport {
        agent: input["agent"].as_str().unwrap_or_default().to_owned(),
        text: String::new(),
        task_id: Some(job.id.clone()),
        id: None,
        structured: Value::Null,
        tokens: None,
        tool_calls: None,
    };
    let (text, summary) = started_text("the sub-agent", &job.id);
    Ok(Outcome::text(text).summary(summary).structured(&report))
}

impl SubAgentReport {
    fn outcome(&self) -> Outcome {
        let mut text = self.text.clone();
        if let Some(id) = &self.id {
            push!(text, "\n\n(to continue with this sub-agent: resume {id:?})");
        }
        let mut summary = format!("{} is done", inline(&self.agent, 64));
        if let Some(calls) = self.tool_calls {
            let calls = usize::try_from(calls).unwrap_or(usize::MAX);
            push!(summary, " after {}", count(calls, "call"));
        }
        Outcome::text(text)
            .summary(summary)
            .display(Display::markdown(self.text.clone()))
            .structured(self)
    }
}

/// Finds an agent by name, ignoring case. `general-purpose` is an alias of the default agent.
fn find<'a>(agents: &'a [Agent], wanted: &str) -> Result<&'a Agent> {
    let general = ["general", "general-purpose"];
    let is = |agent: &&Agent| {
        agent.name.eq_ignore_ascii_case(wanted)
            || general.contains(&agent.name.as_str())
                && general.contains(&wanted.to_lowercase().as_str())
    };
    let exact = agents.iter().find(|agent| agent.name == wanted);
    exact
        .or_else(|| agents.iter().find(is))
        .ok_or_else(|| unknown(agents, wanted))
}

fn unknown(agents: &[Agent], wanted: &str) -> Error {
    if agents.is_empty() {
        return Error::unavailable("no sub-agents are configured")
            .code("not_configured")
            .recommend("do the work without a sub-agent")
            .recommend("the operator can add one: `[agents.NAME]` with `command = […]`");
    }
    let mut message = format!("no sub-agent named {:?}", inline(wanted, 64));
    if let Some(near) = nearest(wanted, agents.iter().map(|agent| agent.name.as_str())) {
        push!(message, "; did you mean {near:?}?");
    }
    let lines = agents.iter().take(50).map(|agent| {
        format!(
            "{} ({})",
            inline(&agent.name, 64),
            inline(&agent.description, 200)
        )
    });
    let list = lines.collect::<Vec<_>>().join("; ");
    Error::not_found(message)
        .code("agent_not_found")
        .recommend(format!("use one of: {list}"))
}

fn invalid(message: &str) -> Error {
    Error::invalid_input(message).code("invalid_task")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::testing::{check, run_examples, shown};

    fn cx(answer: Value) -> Context {
        Context::test()
            .with_service("agents.agents", |_| {
                Ok(json!([
                    {"name": "general-purpose", "description": "anything"},
                    {"name": "explore", "description": "reads only"},
                ]))
            })
            .with_service("agents.run", move |task| {
                let mut answer = answer.clone();
                if answer == json!("echo") {
                    answer = json!({"text": task.to_string()});
                }
                Ok(answer)
            })
    }

    // R-308
    #[test]
    fn r_308_the_answer_of_a_sub_agent_comes_back() {
        let answer = json!({"text": " 3 places ", "id": "a-7", "structured": {"n": 3}, "tokens": 900, "tool_calls": 4});
        let cx = cx(answer);
        check::<task>(
            &cx,
            json!({"prompt": "count", "description": "Count it"}),
            expect![[r#"
                3 places

                (to continue with this sub-agent: resume "a-7")
                summary: general-purpose is done after 4 calls
                {"agent":"general-purpose","text":"3 places","id":"a-7","structured":{"n":3},"tokens":900,"tool_calls":4}"#]],
        );
        assert_eq!(cx.recorded().progress[0], "general-purpose: Count it");
        check::<task>(
            &super::tests::cx(json!({"text": ""})),
            json!({"prompt": "count"}),
            expect![[r#"
                (the sub-agent gave no answer)
                summary: general-purpose is done
                {"agent":"general-purpose","text":"(the sub-agent gave no answer)","structured":null}"#]],
        );
    }

    // R-351, C-13
    #[test]
    fn r_351_everything_is_handed_on() {
        let input = json!({
            "task": "count", "context": "it is large", "subagent_type": "Explore", "tools": ["grep"],
            "model": {"provider": "p", "model": "m"}, "resume": "a-7",
        });
        check::<task>(
            &cx(json!("echo")),
            input,
            expect![[r#"
            {"agent":"explore","prompt":"count","description":"","context":"it is large","model":{"provider":"p","model":"m"},"tools":["grep"],"resume":"a-7"}
            summary: explore is done
            {"agent":"explore","text":"{\"agent\":\"explore\",\"prompt\":\"count\",\"description\":\"\",\"context\":\"it is large\",\"model\":{\"provider\":\"p\",\"model\":\"m\"},\"tools\":[\"grep\"],\"resume\":\"a-7\"}","structured":null}"#]],
        );
    }

    #[test]
    fn a_task_in_the_background_is_a_call_that_continues() {
        let cx = Context::test().with_service("tools.start", |call| {
            let expected =
                json!({"prompt": "count", "agent": "Explore", "description": "Count it"});
            assert_eq!((&call["tool"], &call["input"]), (&json!("task"), &expected));
            Ok(json!({"id": "tool-1", "tool": "task", "state": "running", "started_ms": 5.0}))
        });
        let input = json!({
            "prompt": "count", "description": "Count it", "subagent_type": "Explore", "run_in_background": true,
        });
        check::<task>(
            &cx,
            input,
            expect![[r#"
            the sub-agent runs in the background as tool-1
            read it: shell_output with task_id "tool-1"; stop it: shell_kill with task_id "tool-1"
            summary: the sub-agent runs as tool-1
            {"agent":"Explore","text":"","task_id":"tool-1","structured":null}"#]],
        );
        let none = Context::test().with_service("tools.start", |_| {
            Err(
                Error::unavailable("32 calls are already running in the background")
                    .code("too_many_background_calls"),
            )
        });
        check::<task>(
            &none,
            json!({"prompt": "count", "run_in_background": true}),
            expect![
                "Unavailable too_many_background_calls: 32 calls are already running in the background"
            ],
        );
        check::<task>(
            &none,
            json!({"prompt": " ", "run_in_background": true}),
            expect!["InvalidInput invalid_task: `prompt` is empty; describe the task"],
        );
    }

    #[test]
    fn a_long_answer_is_cut() {
        let long = "ä".repeat(MOST_CHARS + 5);
        let text = shown::<task>(&cx(json!({"text": long})), json!({"prompt": "x"}));
        assert!(
            text.contains("ä… [+5 characters]\nsummary"),
            "{}",
            &text[text.len() - 300..]
        );
    }

    #[test]
    fn m_12_structured_output_is_bounded() {
        let large = json!({"text": "t", "structured": "x".repeat(MOST_CHARS), "id": "a\n(done)"});
        check::<task>(
            &cx(large),
            json!({"prompt": "x"}),
            expect![[r#"
                t

                (its structured answer of 38002 bytes is omitted)
                summary: general-purpose is done
                {"agent":"general-purpose","text":"t\n\n(its structured answer of 38002 bytes is omitted)","structured":null}"#]],
        );
        let long = json!({"text": "t", "id": "x".repeat(MOST_ID_CHARS + 1)});
        let shown_text = shown::<task>(&cx(long), json!({"prompt": "x"}));
        assert!(!shown_text.contains("resume"), "{shown_text}");
    }

    #[test]
    fn bad_tasks() {
        let cx = cx(json!({}));
        check::<task>(
            &cx,
            json!({}),
            expect!["InvalidInput invalid_input: `prompt` is missing"],
        );
        check::<task>(
            &cx,
            json!({"prompt": " "}),
            expect!["InvalidInput invalid_task: `prompt` is empty; describe the task"],
        );
        check::<task>(
            &cx,
            json!({"prompt": "x", "model": 3}),
            expect![
                "InvalidInput invalid_task: `model` is neither a name nor an object with `provider` and `model`"
            ],
        );
        check::<task>(
            &cx,
            json!({"prompt": "x", "agent": "explorer"}),
            expect![[r#"
                NotFound agent_not_found: no sub-agent named "explorer"; did you mean "explore"?
                - use one of: general-purpose (anything); explore (reads only)"#]],
        );
        check::<task>(
            &cx,
            json!({"prompt": "x", "agent": "q\n"}),
            expect![[r#"
            NotFound agent_not_found: no sub-agent named "q"
            - use one of: general-purpose (anything); explore (reads only)"#]],
        );
        let empty = Context::test().with_service("agents.agents", |_| Ok(json!([])));
        check::<task>(
            &empty,
            json!({"prompt": "x"}),
            expect![[r#"
            Unavailable not_configured: no sub-agents are configured
            - do the work without a sub-agent
            - the operator can add one: `[agents.NAME]` with `command = […]`"#]],
        );
        let failing = super::tests::cx(json!({})).with_service("agents.run", |_| {
            Err(Error::failed("the command ended with 1").code("agent_failed"))
        });
        check::<task>(
            &failing,
            json!({"prompt": "x"}),
            expect!["Failed agent_failed: the command ended with 1"],
        );
    }

    #[test]
    fn examples_work() {
        run_examples::<task>(|| {
            cx(json!({"text": "done"})).with_service("tools.start", |_| {
                Ok(json!({"id": "tool-1", "tool": "task", "state": "running", "started_ms": 5.0}))
            })
        });
    }
}
