//! Tools that use all host services, and hooks that guard one of them.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Command;

/// Use one of the host services.
#[tool(
    destroys,
    kind = "execute",
    requires = ["session", "user", "agents", "tools", "resources", "process", "fs.read", "fs.write"]
)]
fn services_rs(
    cx: &Context,
    /// The service.
    part: String,
    /// The command of run and start.
    command: Option<String>,
    /// Whether start uses a terminal.
    tty: Option<bool>,
    /// The job of write and jobs.
    task_id: Option<String>,
    /// The input of write.
    chars: Option<String>,
) -> Result<Value> {
    let command = Command {
        program: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), command.unwrap_or_default()],
        tty: tty.unwrap_or_default(),
        label: "a sample".to_owned(),
        ..Command::default()
    };
    let job = task_id.unwrap_or_default();
    match part.as_str() {
        "host" => {
            cx.output("stdout", "some output\n");
            cx.emit("sample", &json!({"language": "rs"}));
            Ok(json!({}))
        }
        "session" => session(cx),
        "run" => run(cx, command),
        // The host compares command, terminal and typed text with the input of the call, which the user has approved.
        "start" => {
            let job = cx.start_program(&command)?;
            Ok(json!({"id": job.id, "state": job.state, "label": job.label}))
        }
        "write" => {
            cx.write_job(&job, chars.unwrap_or_default().as_bytes())?;
            Ok(json!({}))
        }
        "jobs" => jobs(cx, &job),
        "user" => user(cx),
        "agents" => {
            let names: Vec<String> = cx.agents()?.into_iter().map(|agent| agent.name).collect();
            let result = cx.run_agent(&json!({"agent": "echo", "text": "hello"}))?;
            Ok(json!({"names": names, "text": result["text"]}))
        }
        "tools" => {
            let visible = cx.tools()?.iter().any(|tool| tool.name == "echo_rs");
            let outcome = cx.call_tool("echo_rs", &json!({"text": "hello"}))?;
            let refused = code(cx.call_tool("other", &json!({})));
            Ok(json!({"visible": visible, "text": text(&outcome), "refused": refused}))
        }
        "background" => background(cx),
        "denied" => {
            cx.run_program(&Command {
                program: "ls".to_owned(),
                ..Command::default()
            })?;
            Ok(json!({}))
        }
        "absent" => {
            cx.read_resource("note://absent", None)?;
            Ok(json!({}))
        }
        "resources" => {
            let list = cx.resources(None)?;
            let (uri, server) = (&list[0]["uri"], &list[0]["server"]);
            let parts = cx.read_resource(uri.as_str().unwrap_or_default(), server.as_str())?;
            let absent = code(cx.read_resource("note://absent", None));
            Ok(json!({"uri": uri, "server": server, "text": parts[0].text, "absent": absent}))
        }
        other => Err(Error::invalid_input(format!("there is no part `{other}`"))),
    }
}

fn session(cx: &Context) -> Result<Value> {
    cx.remember("sent", &json!({"letters": 1}))?;
    let recalled: Option<Value> = cx.recall("sent")?;
    cx.forget("sent")?;
    // The other SDKs replace what is not UTF-8.
    cx.remember("\u{fffd}", &"\u{fffd}")?;
    let repaired: Option<String> = cx.recall("\u{fffd}")?;
    cx.record_observation("/workspace/a.txt", &"0".repeat(64), Some((1, 2)))?;
    Ok(json!({
        "recalled": recalled,
        "forgotten": cx.recall::<Value>("sent")?,
        "repaired": repaired,
        "seen": cx.last_observation("/workspace/a.txt")?,
        "unseen": cx.last_observation("/workspace/b.txt")?,
    }))
}

fn run(cx: &Context, command: Command) -> Result<Value> {
    let ended = cx.run_program(&Command {
        timeout_ms: Some(20_000),
        ..command
    })?;
    let refused = code(cx.run_program(&Command {
        program: "ls".to_owned(),
        ..Command::default()
    }));
    Ok(json!({
        "stdout": String::from_utf8_lossy(&ended.stdout),
        "kind": ended.exit_status.kind,
        "code": ended.exit_status.code,
        "refused": refused,
    }))
}

fn jobs(cx: &Context, id: &str) -> Result<Value> {
    let label = cx.jobs()?.into_iter().find(|job| job.id == id);
    let label = label.map(|job| job.label);
    let (mut output, mut after) = (String::new(), 0);
    let found = loop {
        let chunk = cx.read_job(id, after, 1000, 1000)?;
        output.push_str(&String::from_utf8_lossy(&chunk.bytes));
        after = chunk.next;
        if let Some(at) = output.find("got ") {
            break output[at..].trim();
        }
    };
    let killed = cx.kill_job(id, "TERM")?.id;
    Ok(json!({"label": label, "output": found, "killed": killed}))
}

fn user(cx: &Context) -> Result<Value> {
    let question = json!({"question": "Which?", "options": [{"label": "a"}, {"label": "b"}]});
    let answers = cx.ask(&json!([question]))?;
    let request = json!({"reason": "a sample", "write": ["a.txt"], "scope": "turn"});
    let granted = cx.request_permissions(&request)?;
    let mode = cx.change_mode("plan", "a sample")?;
    Ok(json!({"answers": answers, "granted": granted["write"], "mode": mode}))
}

fn background(cx: &Context) -> Result<Value> {
    let started = cx.start_tool("echo_rs", &json!({"text": "hello"}), Some(20_000))?;
    let ended = loop {
        if let Some(ended) = cx.wait_tool(&started.id, 1000)? {
            break ended?;
        }
    };
    let listed = cx.running_tools()?.iter().any(|call| call.id == started.id);
    let endless = cx.start_tool("echo_rs", &json!({"text": "wait"}), None)?;
    let waiting = cx.wait_tool(&endless.id, 0)?.map(|_| true);
    let stopped = cx.stop_tool(&endless.id)?.id == endless.id;
    let code = loop {
        if let Some(ended) = cx.wait_tool(&endless.id, 1000)? {
            break code(ended);
        }
    };
    Ok(json!({
        "tool": started.tool,
        "text": text(&ended),
        "listed": listed,
        "waiting": waiting,
        "stopped": stopped,
        "code": code,
    }))
}

fn text(outcome: &Outcome) -> Option<&str> {
    outcome.llm.first()?.text.as_deref()
}

/// The code of an error.
fn code<T>(result: Result<T>) -> Option<String> {
    result.err()?.code
}

/// Return a text.
#[tool(pure, background, hooks = ["pre-tool-use", "post-tool-use"])]
fn echo_rs(
    cx: &Context,
    /// The text.
    text: String,
) -> Result<String> {
    if text == "fail" {
        return Err(Error::failed("it failed").code("sample"));
    }
    if text == "wait" {
        loop {
            cx.check()?;
        }
    }
    Ok(text)
}

fn before(_: &Context, call: &HookCall) -> Before {
    // Only where the operator configured this plugin as a hook for `services_rs`.
    if call.text("command") == Some("answered") {
        return Before::answer(Outcome::text("an answer"));
    }
    match call.text("text") {
        Some("forbidden") => {
            let outcome = Outcome::text(format!("{} refuses it", call.tool));
            Before::deny("the text is forbidden").outcome(outcome)
        }
        Some("risky") => {
            let reason = format!("the text is risky ({})", call.effect);
            Before::ask(reason).meta(json!({"risk": "high"}))
        }
        Some("typo") => Before::proceed().with_input(json!({"text": "type"})),
        // In the other SDKs, the hook returns a value that is no decision.
        Some("invalid") => panic!("the hook has no decision"),
        _ => Before::proceed(),
    }
}

fn after(_: &Context, _: &HookCall, outcome: &Outcome) -> After {
    if let Some(error) = &outcome.error {
        let code = error.code.as_deref().unwrap_or_default();
        return After::text(format!("after {code}"));
    }
    match text(outcome) {
        Some("secret") => After::update(toolhost_sdk::Patch {
            summary: Some("one word".to_owned()),
            llm: Some(vec![toolhost_sdk::Part::text("[removed]")]),
            meta: Some(json!({"removed": 1})),
            ..toolhost_sdk::Patch::default()
        }),
        Some("lost") => panic!("the hook has no decision"),
        Some("other") => {
            let other = Outcome::text("another outcome").structured(&json!({"replaced": true}));
            After::replace(other)
        }
        _ => After::keep(),
    }
}

export_tools![services_rs, echo_rs];
export_hooks! { before: before, after: after }
