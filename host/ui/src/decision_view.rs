//! Why a call was allowed, asked about or denied: what was recorded, and what the rules of the running host say now.

use maud::{Markup, html};
use serde_json::Value;
use toolhost_contract::policy::{Decision, Explanation};
use toolhost_contract::{Principal, UserId};

use crate::guest_text::{block, code, line};
use crate::links::link;
use crate::pages::call::CallDetails;
use crate::pages::policy::rule_text;
use crate::state::AppState;

/// Maximum length of shown texts, in characters.
const MAX_FACT: usize = 2_000;
const MAX_EXPLANATION: usize = 20_000;

pub fn show(state: &AppState, call: &CallDetails) -> Markup {
    html! {
        section class="block" {
            h2 { "Decision" }
            (recorded(call))
            (evaluated_now(state, call))
        }
    }
}

/// What the record states about the decision. Also in the exported page.
pub fn recorded(call: &CallDetails) -> Markup {
    let approval = call.text("/approval/decision").map(|decision| {
        let by = call.text("/approval/decidedBy").unwrap_or("unknown");
        let scope = call
            .text("/approval/scope")
            .map(|scope| format!(" ({scope})"))
            .unwrap_or_default();
        let verb = if decision == "allow" {
            "allowed"
        } else {
            "denied"
        };
        format!("{verb} by {by}{scope}")
    });
    let state = call.row.state.as_str();
    let allowed = call.text("/policyRuleId").filter(|_| state != "denied");
    html! {
        dl class="facts" {
            @if let Some(by) = allowed { div { dt { "allowed by" } dd { (line(by, MAX_FACT)) } } }
            @if let Some(reason) = call.text("/approval/reason") { div { dt { "asked because" } dd { (line(reason, MAX_FACT)) } } }
            @if let Some(rule) = call.text("/approval/rule") { div { dt { "rule that asked" } dd { (code(rule, 200)) } } }
            @if let Some(approval) = approval { div { dt { "answer" } dd { (line(&approval, MAX_FACT)) } } }
            @if let Some(note) = call.text("/approval/note") { div { dt { "note" } dd { (line(note, MAX_FACT)) } } }
        }
        @if allowed.is_none() && call.text("/approval/decision").is_none() {
            p class="meta" { "The call ended before a decision, or waits for one." }
        }
    }
}

/// The decision about the same call by the current rules. Hooks do not run.
fn evaluated_now(state: &AppState, call: &CallDetails) -> Markup {
    let Some(kernel) = &state.options.kernel else {
        return html! {};
    };
    let registry = kernel.registry();
    let Some(entry) = call.row.tool.as_deref().and_then(|tool| registry.get(tool)) else {
        return html! { p class="meta" { "The tool is not loaded now, so the rules cannot be evaluated again." } };
    };
    let input = call.row.record.get("inputPreview").unwrap_or(&Value::Null);
    let user = UserId::from_name(call.text("/userId"));
    let caller = Principal {
        user,
        agent: call.text("/agentId").unwrap_or_default().to_owned(),
        parent_agent: call.text("/parentAgentId").map(str::to_owned),
        ..Principal::default()
    };
    let explanation = kernel.explain(entry, input, &caller);
    html! {
        details open[call.row.state == "denied"] {
            summary { "With the current rules: " strong { (verb(explanation.decision())) } }
            (explained(&explanation))
            p class="meta" {
                "Evaluated with the recorded input"
                @if is_shortened(input) { ", in which secrets are masked or texts are shortened, so the decision about the real input can differ" }
                ". Hooks were not run. Saved approvals and the mode are those of now. "
                a href=(link("/policy", [("tool", entry.name.as_str()), ("input", &explain_input(input))])) { "Change the input" }
            }
        }
        (rule_text(state, &explanation))
    }
}

/// The input for the address of the explain box; empty if it is long.
fn explain_input(input: &Value) -> String {
    let text = input.to_string();
    if text.len() <= 2_000 {
        text
    } else {
        String::new()
    }
}

pub fn verb(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allowed",
        Decision::Ask => "the user is asked",
        Decision::Deny => "denied",
    }
}

/// The steps of a decision, as `host policy explain` prints them.
pub fn explained(explanation: &Explanation) -> Markup {
    block(explanation.to_string().trim_end(), MAX_EXPLANATION)
}

/// Whether masking has changed a recorded input.
fn is_shortened(input: &Value) -> bool {
    match input {
        Value::String(text) => text.contains('…') || text.contains("***"),
        Value::Array(items) => items.iter().any(is_shortened),
        Value::Object(members) => members
            .iter()
            .any(|(name, value)| name == "…" || is_shortened(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::lifecycle::mask_value;

    use super::*;

    #[test]
    fn masked_and_shortened_inputs_are_recognized() {
        for (input, expected) in [
            (json!({"path": "a"}), false),
            (json!({"content": "x".repeat(5_000)}), true),
            (json!({"token": "hush"}), true),
            (json!({"items": vec![0; 80]}), true),
        ] {
            assert_eq!(is_shortened(&mask_value(&input)), expected, "{input}");
        }
    }
}
