//! Tools that call host services step by step and report the results.

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json;

/// Requires everything a reading tool may have, and tries more.
#[tool(reads, background, requires = ["session", "user", "resources", "fs.read"])]
fn services(
    cx: &Context,
    /// `recall KEY`, `remember KEY JSON`, `saw PATH`, `seen PATH`, `ask JSON`, `mode WORD`, `wish JSON`, `agents`,
    /// `task JSON`, `tools`, `call TOOL JSON`, `start TOOL JSON`, `running`, `resources`, `read PATH`, `write PATH TEXT`, `spin`, `fail`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    all(cx, &steps)
}

/// Requires only session state.
#[tool(reads, requires = ["session"])]
fn narrow(
    cx: &Context,
    /// As for `services`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    all(cx, &steps)
}

/// Calls other tools.
#[tool(destroys, requires = ["tools", "session"])]
fn relay(
    cx: &Context,
    /// As for `services`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    all(cx, &steps)
}

/// Delegates tasks.
#[tool(writes, requires = ["agents"])]
fn hand_on(
    cx: &Context,
    /// As for `services`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    all(cx, &steps)
}

/// Has no capabilities.
#[tool(pure)]
fn nothing(
    cx: &Context,
    /// As for `services`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    all(cx, &steps)
}

fn all(cx: &Context, steps: &[String]) -> Result<Vec<String>> {
    let mut results = Vec::new();
    for step in steps {
        if step == "fail" {
            return Err(Error::failed(results.join("; ")));
        }
        results.push(match done(cx, step) {
            Ok(result) => result,
            Err(error) => format!("! {}", error.code.unwrap_or(error.message)),
        });
    }
    Ok(results)
}

fn done(cx: &Context, step: &str) -> Result<String> {
    let (verb, rest) = step.split_once(' ').unwrap_or((step, ""));
    let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
    let json = |text: &str| serde_json::from_str::<Value>(text).map_err(Error::from);
    Ok(match verb {
        "recall" => cx
            .recall::<Value>(first)?
            .map_or_else(|| "-".to_owned(), |value| value.to_string()),
        "remember" => {
            cx.remember(first, &json(second)?)?;
            "done".to_owned()
        }
        "saw" => {
            cx.record_observation(first, &"a".repeat(64), None)?;
            "done".to_owned()
        }
        "seen" => cx.last_observation(first)?.is_some().to_string(),
        "ask" => cx.ask(&json(rest)?)?.to_string(),
        "mode" => cx.change_mode(first, "a test")?,
        "wish" => cx.request_permissions(&json(rest)?)?.to_string(),
        "agents" => {
            let names: Vec<String> = cx.agents()?.into_iter().map(|agent| agent.name).collect();
            names.join(" ")
        }
        "task" => cx.run_agent(&json(rest)?)?.to_string(),
        "tools" => {
            let tools = cx.tools()?.into_iter();
            let mut names: Vec<String> = tools.map(|tool| tool.name).collect();
            names.sort();
            names.join(" ")
        }
        "call" => {
            let outcome = cx.call_tool(first, &json(second)?)?;
            outcome
                .structured
                .map_or_else(|| "()".to_owned(), |value| value.to_string())
        }
        "start" => cx.start_tool(first, &json(second)?, None)?.state,
        "running" => cx.running_tools()?.len().to_string(),
        "resources" => cx.resources(None)?.to_string(),
        "read" => std::fs::read_to_string(first)?,
        "write" => {
            std::fs::write(first, second)?;
            "done".to_owned()
        }
        "spin" => loop {
            std::hint::black_box(());
        },
        other => return Err(Error::invalid_input(format!("no such step: {other}"))),
    })
}

export_tools![services, narrow, relay, hand_on, nothing];
