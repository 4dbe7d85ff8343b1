//! Pegasus: draws the three events of calls. It has none for questions, so the lines of `host turns` are used.

use serde_json::{Value, json};

use crate::{Drawing, FrontEnd, text};

pub const FRONT_END: FrontEnd = FrontEnd {
    system: "pegasus",
    title: "Pegasus",
    calls: || {
        [
            ("read_file", json!({"path": "missing.txt"})),
            (
                "edit_file",
                json!({"path": "notes.txt", "old_string": "milk", "new_string": "oats"}),
            ),
            // A parameter of the host: the calls of `bg_run` ask at the same time as later calls.
            (
                "shell_exec",
                json!({"command": "sleep 60", "run_in_background": true}),
            ),
            (
                "write_file",
                json!({"path": "list.txt", "content": "bread\n"}),
            ),
        ]
    },
    draw: |event| draw(event).into_iter().collect(),
    answer,
    ended_calls: |event| {
        let kind = event["type"].as_str().unwrap_or_default();
        usize::from(matches!(kind, "TOOL_CALL_COMPLETED" | "TOOL_CALL_FAILED"))
    },
};

fn draw(line: &Value) -> Option<Drawing> {
    if let Some(ask) = line.get("ask") {
        let line = format!("ask {}: {}", text(&ask["tool"]), text(&ask["reason"]));
        let about = [&ask["changes"][0]["diff"], &ask["input"]["command"]];
        let about = about.into_iter().find(|about| about.is_string())?;
        return Some(Drawing::new(&ask["call"], &line, about));
    }
    let (kind, payload) = (line["type"].as_str()?, &line["payload"]);
    let call = &line["callId"];
    let line = format!("{kind} {}", text(&payload["toolName"]));
    let (line, block) = match kind {
        "TOOL_CALL_REQUESTED" => (format!("{line} {}", payload["params"]), &Value::Null),
        "TOOL_CALL_COMPLETED" => (line, &payload["result"]["task_id"]),
        "TOOL_CALL_FAILED" => (line, &payload["error"]),
        _ => return None,
    };
    Some(Drawing::new(call, &line, block))
}

fn answer(ask: &Value, answered: usize) -> Option<Value> {
    let id = ask.get("offers").map(|_| &ask["id"])?;
    Some(match answered {
        2 => json!({"answer": {"id": id, "deny": "use notes.txt"}}),
        _ => json!({"answer": {"id": id, "allow": 0}}),
    })
}
