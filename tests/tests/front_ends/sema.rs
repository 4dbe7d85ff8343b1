//! Sema: draws summaries and contents, and answers `tool:permission:request` with `tool:permission:response`.

use serde_json::{Value, json};

use crate::{Drawing, FrontEnd, text};

pub const FRONT_END: FrontEnd = FrontEnd {
    system: "sema",
    title: "Sema",
    calls: || {
        [
            ("Read", json!({"file_path": "missing.txt"})),
            (
                "Edit",
                json!({"file_path": "notes.txt", "old_string": "milk", "new_string": "oats"}),
            ),
            (
                "Bash",
                json!({"command": "sleep 60", "run_in_background": true}),
            ),
            (
                "Write",
                json!({"file_path": "list.txt", "content": "bread\n"}),
            ),
        ]
    },
    draw: |event| draw(event).into_iter().collect(),
    answer,
    ended_calls: |event| {
        let kind = event["type"].as_str().unwrap_or_default();
        usize::from(kind.starts_with("tool:execution:"))
    },
};

fn draw(event: &Value) -> Option<Drawing> {
    let (kind, content) = (event["type"].as_str()?, &event["content"]);
    let line = format!("{kind} {}: ", text(&event["toolName"]));
    let summary = text(&event["summary"]);
    let (line, block) = match kind {
        "tool:permission:request" => {
            let options = event["options"].as_object()?.keys();
            let options: Vec<&str> = options.map(String::as_str).collect();
            let about = [&content["diff"], &content["command"]];
            let about = about.into_iter().find(|about| about.is_string())?;
            (format!("{line}{summary}: {}", options.join(", ")), about)
        }
        "tool:permission:response" => (line + &text(&event["selected"]), &Value::Null),
        "tool:execution:error" => (line + &summary, content),
        "tool:execution:complete" => (line + &summary, &Value::Null),
        _ => return None,
    };
    Some(Drawing::new(&event["toolId"], &line, block))
}

fn answer(event: &Value, answered: usize) -> Option<Value> {
    let selected = ["agree", "allow", "refuse"];
    (event["type"] == "tool:permission:request").then(|| {
        json!({"event": {
            "type": "tool:permission:response",
            "toolName": event["toolName"],
            "selected": selected[answered],
        }})
    })
}
