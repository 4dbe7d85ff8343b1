//! Kode-SDK: draws the events of the channels `progress` and `control`, and decides as `agent.decide` does.

use serde_json::{Value, json};

use crate::{Drawing, FrontEnd, text};

pub const FRONT_END: FrontEnd = FrontEnd {
    system: "kode",
    title: "Kode-SDK",
    calls: || {
        [
            ("fs_read", json!({"path": "missing.txt"})),
            (
                "fs_edit",
                json!({"path": "notes.txt", "old_string": "milk", "new_string": "oats"}),
            ),
            (
                "bash_run",
                json!({"command": "sleep 60", "background": true}),
            ),
            (
                "fs_write",
                json!({"path": "list.txt", "content": "bread\n"}),
            ),
        ]
    },
    draw: |event| draw(event).into_iter().collect(),
    answer,
    ended_calls: |event| usize::from(event["type"] == "tool:end"),
};

fn draw(event: &Value) -> Option<Drawing> {
    let call = &event["call"];
    let kind = event["type"].as_str()?;
    let line = format!("{kind} {}", text(&call["name"]));
    let (line, block) = match kind {
        "tool:start" => (format!("{line} {}", call["inputPreview"]), &Value::Null),
        "tool:error" => (line, &event["error"]),
        "tool:end" => (
            format!("{line} {}", text(&call["state"])),
            &call["result"]["task_id"],
        ),
        "permission_required" => {
            let (input, meta) = (&call["inputPreview"], &call["approval"]["meta"]);
            let about = [&meta["diff"], &input["command"]];
            let about = about.into_iter().find(|about| about.is_string())?;
            (format!("{line}: {}", text(&meta["reason"])), about)
        }
        "permission_decided" => {
            let decision = text(&event["decision"]);
            let line = format!("{kind} {decision}");
            return Some(Drawing::new(&event["callId"], &line, &event["note"]));
        }
        _ => return None,
    };
    Some(Drawing::new(&call["id"], &line, block))
}

fn answer(event: &Value, answered: usize) -> Option<Value> {
    if event["type"] != "permission_required" {
        return None;
    }
    let call = &event["respond"]["callId"];
    let mut answer = json!({"type": "permission_decided", "callId": call, "decision": "allow"});
    if answered == 2 {
        answer["decision"] = json!("deny");
        answer["note"] = json!("use notes.txt");
    }
    Some(json!({ "event": answer }))
}
