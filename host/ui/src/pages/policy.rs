//! The rules by tier with their matches of the last week, an explain box, and rules made from decisions.

use std::sync::Arc;

use axum::extract::{Query, State};
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};
use toolhost_contract::lifecycle::Timestamp;
use toolhost_contract::policy::{Decision, Explanation, Policy, Rule, Tier};
use toolhost_contract::{Descriptor, Principal, text};
use toolhost_kernel::records::{self, RuleMatches, rule_matches};
use toolhost_kernel::{Kernel, RegistrySnapshot};
use toolhost_store::HistoryFilter;

use crate::access::Session;
use crate::decision_view::{explained, verb};
use crate::error_page::ErrorPage;
use crate::guest_text::{block, code, line};
use crate::history::Coverage;
use crate::layout::{self, NavPage};
use crate::links::{self, link};
use crate::pages::timeline::count_of;
use crate::record_pages;
use crate::relative_time;
use crate::state::AppState;

/// The time in which matches are counted, in milliseconds.
const WEEK_MS: i64 = 7 * 86_400_000;
/// Maximum number of shown rules and warnings.
const MAX_RULES: usize = 500;
const MAX_WARNINGS: usize = 50;
/// Maximum number of listed denied calls.
const MAX_DENIED: u32 = 5;
/// Maximum length of shown texts, in characters, and of an input to explain, in bytes.
const MAX_FACT: usize = 1_000;
const MAX_INPUT: usize = 64 << 10;

#[derive(Deserialize, Default)]
#[serde(default)]
pub struct PolicyQuery {
    tool: String,
    /// JSON, or the value of the only required parameter.
    input: String,
    agent: String,
}

pub async fn policy(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Query(query): Query<PolicyQuery>,
) -> Result<Markup, ErrorPage> {
    record_pages::blocking(move || {
        let content = match &state.options.kernel {
            Some(kernel) => show(&state, kernel, &query)?,
            None => record_pages::no_host("Rules are those of a running host."),
        };
        Ok(layout::page(&state, NavPage::Policy, "Policy", content))
    })
    .await
}

fn show(state: &AppState, kernel: &Kernel, query: &PolicyQuery) -> Result<Markup, ErrorPage> {
    let (policy, registry) = (kernel.policy(), kernel.registry());
    let coverage = state
        .history
        .update()
        .map_err(|error| record_pages::unreadable(&error))?;
    let since = state.now().0 - WEEK_MS;
    let matches = match &state.history.records {
        Some(records) => records.log.read(|calls, _| {
            let recent = calls.iter().filter(|call| call.created_ms >= since);
            rule_matches(recent, policy.rules())
        }),
        None => vec![RuleMatches::default(); policy.rules().len()],
    };
    Ok(html! {
        div class="page-head" {
            h1 { "Policy" }
            p class="meta" { "Mode " strong { (policy.mode()) } ", " (count_of(policy.rules().len(), "rule")) ". What no rule covers is decided by the mode." }
        }
        (explain_box(state, kernel, &registry, query))
        (recently_denied(state)?)
        (rules(state, &policy, &matches, coverage))
        (warnings(&policy, &registry))
    })
}

/// The newest denied calls, with the pages that show the rule for them.
fn recently_denied(state: &AppState) -> Result<Markup, ErrorPage> {
    let Some(records) = &state.history.records else {
        return Ok(html! {});
    };
    let filter = HistoryFilter {
        states: vec!["denied".to_owned()],
        limit: MAX_DENIED,
        ..HistoryFilter::default()
    };
    let page = records
        .history
        .page(&filter)
        .map_err(|error| record_pages::unreadable(&error))?;
    Ok(html! {
        @if !page.rows.is_empty() {
            section class="block" {
                h2 { "Recently denied" }
                ul {
                    @for (_, row) in &page.rows {
                        li {
                            a href=(links::call(&row.id)) { (line(records::tool_name(row), 80)) } " "
                            @if let Some(target) = records::target(row) { (code(&target, 160)) " " }
                            span class="meta" { (relative_time::since(Timestamp(row.created_ms), state.now())) }
                        }
                    }
                }
                p class="meta" { "The page of a call says what denied it, and shows a rule that would allow similar calls." }
            }
        }
    })
}

fn explain_box(
    state: &AppState,
    kernel: &Kernel,
    registry: &RegistrySnapshot,
    query: &PolicyQuery,
) -> Markup {
    html! {
        section class="block" {
            h2 { "Explain a call" }
            p class="meta" { "What would happen to a call, and why. Nothing runs, and nobody is asked." }
            form class="filters" method="get" action="/policy" {
                label {
                    "Tool"
                    input type="text" name="tool" value=(query.tool) list="tools" required maxlength="300" autocomplete="off";
                    datalist id="tools" { @for entry in registry.list() { option value=(entry.name.as_str()) {} } }
                }
                label class="wide" {
                    "Input: JSON, or the value of the only required parameter"
                    textarea name="input" class="code" rows="3" spellcheck="false" { (query.input) }
                }
                label { "Agent (optional)" input type="text" name="agent" value=(query.agent) maxlength="300" autocomplete="off"; }
                div class="actions" { button class="primary" { "Explain" } }
            }
            @if !query.tool.trim().is_empty() { (explanation(state, kernel, registry, query)) }
        }
    }
}

fn explanation(
    state: &AppState,
    kernel: &Kernel,
    registry: &RegistrySnapshot,
    query: &PolicyQuery,
) -> Markup {
    let problem = |text: String| html! { p class="warning-text" role="alert" { bdi { (text) } } };
    let Some(entry) = registry.get(query.tool.trim()) else {
        return problem(format!("{}", registry.unknown(query.tool.trim())));
    };
    let input = match parse_input(&query.input, &entry.tool) {
        Ok(input) => input,
        Err(reason) => return problem(reason),
    };
    let caller = Principal {
        agent: match query.agent.trim() {
            "" => Principal::default().agent,
            agent => agent.to_owned(),
        },
        ..Principal::default()
    };
    let explanation = kernel.explain(entry, &input, &caller);
    let decision = if entry.enabled {
        explanation.decision()
    } else {
        Decision::Deny
    };
    html! {
        div class="explained" role="status" {
            p {
                span class={ "outcome " (class(decision)) } { (verb(decision)) } " "
                (line(explanation.reason(), MAX_FACT))
            }
            @if !entry.enabled { p class="warning-text" { "The tool is disabled, so every call is denied." } }
            (explained(&explanation))
            p class="meta" { "Hooks were not run. They can deny the call, ask, or change its input." }
        }
        (rule_text(state, &explanation))
    }
}

fn class(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "completed",
        Decision::Ask => "waiting",
        Decision::Deny => "denied",
    }
}

/// Reads an input as the prompt of the terminal does.
fn parse_input(given: &str, tool: &Descriptor) -> Result<Value, String> {
    let given = given.trim();
    if given.len() > MAX_INPUT {
        return Err(format!("the input is longer than {MAX_INPUT} bytes"));
    }
    if given.is_empty() {
        return Ok(json!({}));
    }
    if given.starts_with('{') {
        return serde_json::from_str(given)
            .map_err(|error| format!("the input is not valid JSON: {error}"));
    }
    let required = tool.input_schema.get("required").and_then(Value::as_array);
    match required.map(Vec::as_slice) {
        Some([Value::String(name)]) => Ok(json!({ name: given })),
        _ => Err("the input is not a JSON object, and the tool does not have exactly one required parameter".to_owned()),
    }
}

/// The text of a rule for calls of this kind, with the file to put it into.
pub fn rule_text(state: &AppState, explanation: &Explanation) -> Markup {
    if explanation.rule_forms().is_empty() {
        return html! {};
    }
    let forms: Vec<String> = explanation
        .rule_forms()
        .iter()
        .map(|form| Value::from(form.as_str()).to_string())
        .collect();
    if let Some(rule) = explanation.rule() {
        return html! {
            p class="note" {
                "Rule " (code(rule, 100)) " decides. "
                @if let Some(remedy) = explanation.remedy() { (line(remedy, MAX_FACT)) "." }
            }
        };
    }
    let is_allowed = explanation.decision() == Decision::Allow;
    let list = if is_allowed { "deny" } else { "allow" };
    let rule = format!("[policy]\n{list} = [{}]", forms.join(", "));
    let view = state.options.view.as_ref();
    let file = view.and_then(|view| view.config_file());
    html! {
        details class="block" open[explanation.decision() == Decision::Deny] {
            summary { @if is_allowed { "Deny calls of this kind" } @else { "Allow calls of this kind" } }
            p {
                "Put this into "
                @match &file {
                    Some(file) => (code(&file.to_string_lossy(), 400)),
                    None => code { "toolhost.toml" },
                }
                " and start the host again:"
            }
            (block(&rule, 4_000))
            p class="meta" {
                "If the table exists there, add the entries to its list. Or start the host with "
                @for form in explanation.rule_forms() {
                    code { "--" (list) "-tool '" (text::escape_line(form, 300)) "'" } " "
                }
            }
            @if let Some(remedy) = explanation.remedy() { p class="meta" { (line(remedy, MAX_FACT)) } }
        }
    }
}

fn rules(state: &AppState, policy: &Policy, matches: &[RuleMatches], coverage: Coverage) -> Markup {
    let all: Vec<(&Rule, &RuleMatches)> =
        policy.rules().iter().zip(matches).take(MAX_RULES).collect();
    html! {
        section class="block" {
            h2 { "Rules" }
            (coverage_note(coverage))
            @if all.is_empty() {
                p { "No rules. Write them under " code { "[policy]" } " in the configuration, or use " code { "--allow-tool" } "." }
            }
            @for tier in Tier::ALL.into_iter().rev() {
                @let of_tier: Vec<_> = all.iter().filter(|(rule, _)| rule.tier() == tier).collect();
                @if !of_tier.is_empty() {
                    h3 { (tier_name(tier)) }
                    div class="table-scroll" tabindex="0" role="region" aria-label=(tier_name(tier)) {
                        table class="calls" {
                            thead { tr {
                                th scope="col" { "Rule" } th scope="col" { "Decision" } th scope="col" { "Applies to" }
                                th scope="col" { "Matches of the last week" } th scope="col" { "Source" }
                            } }
                            tbody { @for (rule, matches) in of_tier { (rule_row(state, rule, matches)) } }
                        }
                    }
                }
            }
            @if policy.rules().len() > MAX_RULES { p class="note" { (policy.rules().len() - MAX_RULES) " more rules" } }
        }
    }
}

fn rule_row(state: &AppState, rule: &Rule, matches: &RuleMatches) -> Markup {
    let parts = [
        ("allowed", matches.allowed),
        ("asked", matches.asked),
        ("denied", matches.denied),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(what, count)| format!("{count} {what}"))
        .collect();
    html! {
        tr {
            th scope="row" { (code(rule.id(), 100)) }
            td { span class={ "outcome " (class(rule.decision())) } { (rule.decision()) } }
            td { (code(rule.tools(), 300)) " " span class="meta" { "priority " (rule.priority()) } }
            td data-label="last week" {
                @if matches.total() == 0 {
                    span class="dead" { "none" }
                } @else {
                    (parts.join(", "))
                    @if let Some(latest) = matches.latest_ms {
                        " " span class="meta" { (relative_time::since(Timestamp(latest), state.now())) }
                    }
                }
            }
            td { (code(&rule.source().to_string(), 200)) }
        }
    }
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Admin => "Administrator",
        Tier::User => "User",
        Tier::Workspace => "Project",
        Tier::Extension => "Extensions",
        Tier::Default => "Defaults",
    }
}

/// What the counted calls are.
pub fn coverage_note(coverage: Coverage) -> Markup {
    html! {
        @if !coverage.is_complete && coverage.calls > 0 {
            p class="note" role="status" { "Records are still being read; " (coverage.calls) " calls are counted so far. Load the page again." }
        } @else if coverage.is_limited {
            p class="note" { "The newest " (coverage.calls) " calls are counted." }
        }
    }
}

/// Rules that cannot match, as the host reports them at its start.
fn warnings(policy: &Policy, registry: &RegistrySnapshot) -> Markup {
    let found: Vec<String> = registry
        .rule_warnings(policy)
        .iter()
        .chain(&policy.check_wildcards())
        .map(ToString::to_string)
        .collect();
    html! {
        @if !found.is_empty() {
            section class="block" {
                h2 { "Warnings about rules" }
                ul { @for warning in found.iter().take(MAX_WARNINGS) { li { (line(warning, MAX_FACT)) } } }
                @if found.len() > MAX_WARNINGS { p class="note" { (found.len() - MAX_WARNINGS) " more warnings" } }
            }
        }
    }
}

/// The page that explains a call of this tool.
pub fn explain_link(tool: &str) -> String {
    link("/policy", [("tool", tool)])
}
