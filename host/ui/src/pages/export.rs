//! Exports of a call: its record as JSON, and a page that needs no other file. Secrets are masked.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};
use toolhost_contract::lifecycle::{mask_text, mask_value};
use toolhost_kernel::IN_ADVANCE;

use super::call::{self, CallDetails, CallQuery, Links, hex};
use crate::access::Session;
use crate::commit_view::CommitView;
use crate::error_page::ErrorPage;
use crate::guest_text::code;
use crate::state::AppState;
use crate::{assets, decision_view, record_pages, times};

pub async fn json(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Query(query): Query<CallQuery>,
) -> Result<Response, ErrorPage> {
    record_pages::blocking(move || {
        let call = masked(CallDetails::find(&state, &query.id)?);
        let text = format!("{:#}\n", to_json(&call));
        Ok(download("application/json", "json", text))
    })
    .await
}

pub async fn page(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Query(query): Query<CallQuery>,
) -> Result<Response, ErrorPage> {
    record_pages::blocking(move || {
        let call = masked(CallDetails::find(&state, &query.id)?);
        Ok(download(
            "text/html; charset=utf-8",
            "html",
            document(&state, &call).into_string(),
        ))
    })
    .await
}

/// The name contains nothing of the call, whose id the caller chose.
fn download(content_type: &'static str, extension: &str, text: String) -> Response {
    let disposition = format!("attachment; filename=\"toolhost-call.{extension}\"");
    (
        [
            (CONTENT_TYPE, content_type.to_owned()),
            (CONTENT_DISPOSITION, disposition),
        ],
        text,
    )
        .into_response()
}

/// Masks secrets in everything that was recorded as a tool or a user stated it.
fn masked(mut call: CallDetails) -> CallDetails {
    call.row.record = masked_record(&call.row.record);
    for step in &mut call.steps {
        step.row.note = step.row.note.as_deref().map(mask_text);
        step.row.detail = mask_value(&step.row.detail);
    }
    for (_, event) in &mut call.events {
        event.body = mask_value(&event.body);
    }
    call
}

fn masked_record(record: &Value) -> Value {
    let mut members = match record {
        Value::Object(members) => members.clone(),
        other => return mask_value(other),
    };
    // Only needed to answer the question of the call.
    members.remove("input");
    members.remove(IN_ADVANCE);
    // Recorded in this form already, and nested as deeply as it may be.
    let input = members.remove("inputPreview");
    let mut shown = mask_value(&Value::Object(members));
    if let (Value::Object(all), Some(input)) = (&mut shown, input) {
        all.insert("inputPreview".to_owned(), mask_value(&input));
    }
    shown
}

/// The record, its steps with their hashes, events and the states of its file changes, all masked. Contents of files are
/// not included.
fn to_json(call: &CallDetails) -> Value {
    let mut shown = call.row.record.clone();
    let steps = call.steps.iter().map(|step| {
        json!({
            "seq": step.seq, "timestamp": step.row.at_ms, "state": step.row.state, "kind": step.row.kind,
            "note": step.row.note, "detail": step.row.detail, "hash": hex(&step.hash),
        })
    });
    shown["auditTrail"] = steps.collect();
    let events = call.events.iter().map(|(seq, event)| {
        json!({"seq": seq, "timestamp": event.at_ms, "kind": event.kind, "body": event.body})
    });
    shown["events"] = events.collect();
    let commits = call.commits.iter().map(|commit| {
        json!({"id": commit.id, "timestamp": commit.at_ms, "state": commit.state.as_str(), "reverts": commit.of})
    });
    shown["commits"] = commits.collect();
    shown
}

fn document(state: &AppState, call: &CallDetails) -> Markup {
    let view = CommitView::open(state);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                // The file needs no other file, and nothing in it runs.
                meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'";
                title { "Call · Toolhost" }
                style { (PreEscaped(assets::STYLE)) }
            }
            body {
                main id="main" class="exported" {
                    (call::head(call))
                    (call::facts(call, Links::Omitted))
                    section class="block" { h2 { "Decision" } (decision_view::recorded(call)) }
                    (call::input(call))
                    @if !call.commits.is_empty() {
                        section class="block" {
                            h2 { "File changes" }
                            @for commit in &call.commits {
                                h3 { (call::describe_commit(commit, &call.commits)) }
                                p class="meta" { (code(&commit.id, 80)) " · " (times::time(commit.at_ms)) }
                                (view.describe(commit))
                            }
                        }
                    }
                    (call::steps(call))
                    (call::events(call))
                    p class="meta" { "Exported " (times::time(state.now().0)) ". Secrets that were recognized are masked." }
                }
            }
        }
    }
}
