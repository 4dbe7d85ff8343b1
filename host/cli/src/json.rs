//! The JSON formats of `--json`.
//!
//! Scripts rely on them, so they are written out here instead of being derived from internal types.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolhost_contract::{
    CallError, Concurrency, Descriptor, Display, Failure, FileChange, Limits, Manifest, Outcome,
    Part, text,
};
use toolhost_formats::profile::{ProfiledTool, RenderedResult};
use toolhost_kernel::{Report, Stats, ToolEntry};

/// Formats JSON for output, with everything that a terminal must not get as JSON escapes, so that `print` changes nothing
/// in it. Parsing yields the same values.
pub fn pretty(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(text::escape_json(&serde_json::to_string_pretty(value)?))
}

pub fn report(report: &Report) -> Value {
    let mut shown = Map::new();
    shown.insert(
        "ok".into(),
        json!(matches!(&report.result, Ok(outcome) if !outcome.is_error())),
    );
    shown.insert("id".into(), json!(report.id.0));
    shown.insert("tool".into(), json!(report.tool));
    match &report.result {
        Ok(result) => shown.insert("outcome".into(), outcome(result)),
        Err(reason) => shown.insert("error".into(), error(reason)),
    };
    shown.insert(
        "duration_ms".into(),
        json!((report.duration.as_secs_f64() * 1e6).round() / 1e3),
    );
    shown.insert("allowed_by".into(), json!(report.allowed_by));
    if !report.commits.is_empty() {
        shown.insert("undo_ids".into(), json!(report.commits));
    }
    if !report.rendering.is_empty() {
        let blocks = report.rendering.iter().map(display);
        shown.insert("rendering".into(), blocks.collect());
    }
    if !report.repairs.is_empty() {
        shown.insert("repairs".into(), json!(report.repairs));
    }
    Value::Object(shown)
}

fn outcome(outcome: &Outcome) -> Value {
    without_nulls(json!({
        "summary": outcome.summary,
        "content": outcome.llm.iter().map(part).collect::<Vec<_>>(),
        "structured": outcome.structured,
        "display": outcome.display.as_ref().map(display),
        "error": outcome.error.as_ref().map(failure),
        "truncated": outcome.truncated.as_ref().map(|cut| without_nulls(json!({
            "original_bytes": cut.original_bytes, "shown_bytes": cut.shown_bytes, "saved_to": cut.saved_to,
        }))),
        "tail": outcome.tail.as_ref().map(|tail| json!({"tool": tail.tool, "input": tail.input})),
        "meta": outcome.meta,
    }))
}

fn part(part: &Part) -> Value {
    let data = |data: &[u8]| STANDARD.encode(data);
    without_nulls(match part {
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Json(value) => json!({"type": "json", "value": value}),
        Part::Image {
            data: bytes,
            media_type,
        } => {
            json!({"type": "image", "media_type": media_type, "data": data(bytes)})
        }
        Part::Audio {
            data: bytes,
            media_type,
        } => {
            json!({"type": "audio", "media_type": media_type, "data": data(bytes)})
        }
        Part::File {
            data: bytes,
            media_type,
            uri,
            name,
        } => {
            json!({"type": "file", "media_type": media_type, "uri": uri, "name": name, "data": data(bytes)})
        }
        Part::ResourceLink {
            uri,
            name,
            media_type,
        } => {
            json!({"type": "resource_link", "uri": uri, "name": name, "media_type": media_type})
        }
        Part::Other { kind, text } => json!({"type": kind, "text": text}),
    })
}

fn display(display: &Display) -> Value {
    without_nulls(json!({
        "kind": display.kind,
        "text": display.text,
        "diff": display.diff.as_ref().map(|diff| without_nulls(json!({
            "file_name": diff.file_name, "diff": diff.diff, "original": diff.original, "new": diff.new,
        }))),
        "data": display.data,
    }))
}

fn failure(failure: &Failure) -> Value {
    without_nulls(json!({
        "code": failure.code,
        "message": failure.message,
        "recommendations": failure.recommendations,
        "retryable": failure.retryable,
        "cause": failure.cause,
        "details": failure.details,
    }))
}

pub fn error(error: &CallError) -> Value {
    without_nulls(json!({
        "class": error.class.as_str(),
        "code": error.code,
        "message": error.message,
        "recommendations": error.recommendations,
        "retryable": error.retryable,
        "cause": error.cause,
        "details": error.details,
        "stderr": error.stderr,
    }))
}

pub fn entry(entry: &ToolEntry) -> Value {
    let mut shown = tool(&entry.tool);
    // After qualification, the registered name differs from the tool's own name.
    shown["name"] = json!(entry.name);
    shown["plugin"] = json!(entry.plugin.name);
    shown["plugin_version"] = json!(entry.plugin.version);
    shown["enabled"] = json!(entry.enabled);
    shown
}

/// A change that a call would make, as shown in a question.
pub fn change(change: &FileChange) -> Value {
    without_nulls(json!({
        "path": change.path,
        "kind": change.kind.as_str(),
        "size": change.sizes.1,
        "link_target": change.link_targets.1,
        "old_link_target": change.link_targets.0,
        "diff": change.diff.as_ref().map(|diff| diff.diff.as_str()),
    }))
}

/// A tool as a profile's model sees it.
pub fn shown(one: &ProfiledTool) -> Value {
    let mut shown = tool(&one.descriptor);
    shown["name"] = json!(one.name);
    shown["canonical"] = json!(one.canonical);
    shown
}

/// Statistics in the form of Pegasus. `shown` returns the name of a tool for the model.
pub fn stats(stats: &Stats, shown: impl Fn(&str) -> String) -> Value {
    let calls = stats.calls.iter().map(|(tool, calls)| {
        let millis = calls.avg_duration.as_secs_f64() * 1e3;
        let calls =
            json!({"count": calls.count, "failures": calls.failures, "avgDuration": millis});
        (shown(tool), calls)
    });
    json!({
        "total": stats.total,
        "byCategory": stats.by_category,
        "callStats": calls.collect::<Map<_, _>>(),
    })
}

/// A result in the format of a profile.
pub fn rendered(rendered: &RenderedResult) -> Value {
    json!({
        "content": rendered.parts.iter().map(part).collect::<Vec<_>>(),
        "structured": rendered.structured,
        "is_error": rendered.is_error,
    })
}

pub fn tool(tool: &Descriptor) -> Value {
    let hints = &tool.annotations;
    without_nulls(json!({
        "name": tool.name,
        "display_name": tool.display_name,
        "description": tool.description,
        "aliases": tool.aliases,
        "icon": tool.icon,
        "category": tool.category,
        "kind": tool.kind,
        "version": tool.version,
        "tags": tool.tags,
        "effect": tool.effect().as_str(),
        "annotations": without_nulls(json!({
            "read_only": hints.read_only,
            "pure": hints.pure,
            "destructive": hints.destructive,
            "idempotent": hints.idempotent,
            "open_world": hints.open_world,
            "interactive": hints.interactive,
        })),
        "concurrency": match tool.concurrency {
            Concurrency::Parallel => "parallel",
            Concurrency::Serial => "serial",
            Concurrency::Exclusive => "exclusive",
        },
        "timeout_ms": tool.timeout.map(|timeout| timeout.as_secs_f64() * 1e3),
        "inactivity_timeout_ms": tool.inactivity_timeout.map(|limit| limit.as_secs_f64() * 1e3),
        "max_output_bytes": tool.max_output_bytes,
        "strict": tool.strict,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "requires": tool.requires,
        "depends_on": tool.depends_on,
        "sinks": (!tool.sinks.is_empty()).then_some(&tool.sinks),
        "sources": (!tool.sources.is_empty())
            .then(|| tool.sources.iter().map(|source| source.as_str()).collect::<Vec<_>>()),
        "examples": tool.examples.iter().map(|example| json!({
            "description": example.description, "input": example.input,
        })).collect::<Vec<_>>(),
        "extra": tool.extra,
    }))
}

pub fn needs(manifest: &Manifest) -> Value {
    let needs = manifest.needs.iter().map(|need| {
        let mut shown = json!({"capability": need.capability.as_str(), "why": need.why});
        if !need.names.is_empty() {
            shown["names"] = json!(need.names);
        }
        shown
    });
    Value::Array(needs.collect())
}

pub fn limits(limits: &Limits) -> Value {
    without_nulls(json!({
        "memory": limits.memory,
        "output": limits.output,
        "stdout": limits.stdout,
        "timeout_ms": limits.timeout.map(|timeout| timeout.as_secs_f64() * 1e3),
    }))
}

/// Removes null members, so that readers have one case for absent values and not two.
pub fn without_nulls(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolhost_contract::{CallId, ErrorClass};
    use toolhost_kernel::ToolStats;

    use super::*;
    use crate::terminal::screen::escape_controls;

    //
    #[test]
    fn r_074_statistics_have_the_form_of_pegasus() {
        let stats = Stats {
            total: 3,
            by_category: [("file".to_owned(), 2), ("system".to_owned(), 1)].into(),
            calls: [(
                "shell".to_owned(),
                ToolStats {
                    count: 2,
                    failures: 1,
                    avg_duration: Duration::from_micros(2_500),
                },
            )]
            .into(),
            variants: Vec::new(),
        };
        assert_eq!(
            super::stats(&stats, |tool| format!("{tool}_exec")),
            json!({
                "total": 3,
                "byCategory": {"file": 2, "system": 1},
                "callStats": {"shell_exec": {"count": 2, "failures": 1, "avgDuration": 2.5}},
            })
        );
    }

    fn check(result: Result<Outcome, CallError>, expected: &Value) {
        let shown = report(&Report {
            id: CallId("call-1".to_owned()),
            tool: None,
            result,
            allowed_by: None,
            duration: Duration::from_micros(1_500),
            started_at: None,
            completed_at: None,
            commits: vec!["commit-1".to_owned()],
            stopped: false,
            repairs: Vec::new(),
            rendering: Vec::new(),
        });
        assert_eq!(&shown, expected);
    }

    #[test]
    fn t_07_printed_json_contains_no_control_characters() {
        // `print` changes nothing in it.
        let marked = pretty(&json!({"path": format!("a{}", "\u{301}".repeat(8))})).unwrap();
        assert_eq!(escape_controls(&marked), marked);
        let value = json!({"a\u{9b}": "\u{9b}2J\u{202e}\u{200b}\u{e0041}\u{7f}\u{fffe}\u{1b}", "e\u{301}": "ß\n"});
        let shown = pretty(&value).unwrap();
        assert_eq!(
            shown,
            "{\n  \"a\\u009b\": \"\\u009b2J\\u202e\\u200b\\udb40\\udc41\\u007f\\ufffe\\u001b\",\n  \"e\u{301}\": \"ß\\n\"\n}"
        );
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn a_report_has_an_outcome_or_an_error() {
        let image = Part::Image {
            data: vec![1, 2, 3],
            media_type: "image/png".to_owned(),
        };
        check(
            Ok(Outcome {
                llm: vec![Part::Text("hi\u{1b}".to_owned()), image],
                ..Outcome::default()
            }),
            &json!({
                "ok": true, "id": "call-1", "tool": null, "duration_ms": 1.5, "undo_ids": ["commit-1"], "allowed_by": null,
                "outcome": {"content": [
                    {"type": "text", "text": "hi\u{1b}"},
                    {"type": "image", "media_type": "image/png", "data": "AQID"},
                ]},
            }),
        );
        check(
            Ok(Outcome {
                error: Some(Failure::new("x", "no")),
                ..Outcome::default()
            }),
            &json!({
                "ok": false, "id": "call-1", "tool": null, "duration_ms": 1.5, "undo_ids": ["commit-1"], "allowed_by": null,
                "outcome": {"content": [], "error": {"code": "x", "message": "no", "recommendations": [], "retryable": false}},
            }),
        );
        check(
            Err(CallError::new(ErrorClass::Denied, "no")),
            &json!({
                "ok": false, "id": "call-1", "tool": null, "duration_ms": 1.5, "undo_ids": ["commit-1"], "allowed_by": null,
                "error": {
                    "class": "permission_denied", "code": "permission_denied", "message": "no",
                    "recommendations": [], "retryable": false,
                },
            }),
        );
    }
}
