//! Gemini CLI: draws the list of `onToolCallsUpdate`, and calls `onConfirm` of `confirmationDetails`.

use serde_json::{Value, json};

use crate::{Drawing, FrontEnd, text};

pub const FRONT_END: FrontEnd = FrontEnd {
    system: "gemini",
    title: "Gemini CLI",
    calls: || {
        [
            ("read_file", json!({"file_path": "missing.txt"})),
            (
                "replace",
                json!({"file_path": "notes.txt", "old_string": "milk", "new_string": "oats"}),
            ),
            (
                "run_shell_command",
                json!({"command": "sleep 60", "is_background": true}),
            ),
            (
                "write_file",
                json!({"file_path": "list.txt", "content": "bread\n"}),
            ),
        ]
    },
    draw,
    answer,
    ended_calls: |event| match event["type"].as_str() {
        Some("onAllToolCallsComplete") => event["calls"].as_array().unwrap().len(),
        _ => 0,
    },
};

fn draw(event: &Value) -> Vec<Drawing> {
    let calls = event["calls"].as_array().into_iter().flatten();
    match event["type"].as_str() {
        Some("onToolCallsUpdate") => calls.filter_map(draw_call).collect(),
        Some("onAllToolCallsComplete") => {
            vec![Drawing::new(
                &Value::Null,
                "onAllToolCallsComplete",
                &Value::Null,
            )]
        }
        _ => Vec::new(),
    }
}

fn draw_call(call: &Value) -> Option<Drawing> {
    let (dialog, response) = (&call["confirmationDetails"], &call["response"]);
    let line = format!(
        "{} {}",
        text(&call["request"]["name"]),
        text(&call["status"])
    );
    let (line, block) = match call["status"].as_str()? {
        // The dialog follows with the next update.
        "awaiting_approval" if dialog.is_null() => return None,
        "awaiting_approval" => {
            let outcomes = dialog["onConfirm"]["outcomes"].as_array()?;
            let outcomes: Vec<&str> = outcomes.iter().filter_map(Value::as_str).collect();
            let (kind, outcomes) = (text(&dialog["type"]), outcomes.join(", "));
            let about = [&dialog["fileDiff"], &dialog["command"]];
            let about = about.into_iter().find(|about| about.is_string())?;
            (format!("{line}: {kind}: {outcomes}"), about)
        }
        "success" => match &response["resultDisplay"] {
            Value::String(display) => (format!("{line}: {display}"), &Value::Null),
            diff => (line, &diff["fileDiff"]),
        },
        "error" => {
            let error = text(&response["errorType"]);
            (format!("{line}: {error}"), &response["error"]["message"])
        }
        "executing" | "cancelled" => (line, &Value::Null),
        _ => return None,
    };
    Some(Drawing::new(&call["request"]["callId"], &line, block))
}

fn answer(event: &Value, answered: usize) -> Option<Value> {
    let mut calls = event["calls"].as_array()?.iter();
    let asking = calls.find(|call| call["confirmationDetails"].is_object())?;
    let outcomes = ["ProceedOnce", "ProceedAlways", "Cancel"];
    Some(json!({"event": {
        "type": "onConfirm",
        "callId": asking["request"]["callId"],
        "outcome": outcomes[answered],
    }}))
}
