//! Explanations of decisions, as text and JSON.

use std::fmt;

use serde_json::{Value, json};

use super::decide::LayerEvaluation;
use super::evaluation::Reason;
use super::offer::suggest_forms;
use super::{Decision, HookDecisions, Tier, Verdict};

/// The steps of a decision. Built from the evaluation that decides, so it cannot differ from the decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    tool: String,
    decision: Decision,
    reason: String,
    remedy: Option<String>,
    rule: Option<String>,
    rule_forms: Vec<String>,
    value: Value,
}

impl Explanation {
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The explanation as JSON.
    pub fn to_value(&self) -> &Value {
        &self.value
    }

    /// What decided.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    /// How the call could be allowed, if it is not.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }

    /// The id of the rule that denies the call or asks about it.
    pub fn rule(&self) -> Option<&str> {
        self.rule.as_deref()
    }

    /// The narrowest forms of a rule that covers what was not allowed, or the whole call if it is allowed.
    pub fn rule_forms(&self) -> &[String] {
        &self.rule_forms
    }

    pub(super) fn of(
        layers: &[LayerEvaluation<'_>],
        hooks: &HookDecisions,
        verdict: &Verdict,
    ) -> Self {
        let (decision, reason, remedy) = match verdict {
            Verdict::Allow(grant) => (Decision::Allow, format!("by {}", grant.authorizer()), None),
            Verdict::Ask(question) => (
                Decision::Ask,
                question.reason.clone(),
                Some(question.remedy.clone()),
            ),
            Verdict::Deny(denial) => (Decision::Deny, denial.reason.clone(), denial.remedy.clone()),
        };
        let tool = layers.first().map_or_else(String::new, |layer| {
            let request = &layer.analysis.request;
            format!("{}/{}", request.plugin, request.name)
        });
        let rule = match verdict {
            Verdict::Allow(_) => None,
            Verdict::Ask(question) => question.rule.clone(),
            Verdict::Deny(denial) => denial.rule.clone(),
        };
        let rule_forms = layers.first().map_or_else(Vec::new, |layer| {
            let traces = layer.traces.iter().zip(&layer.analysis.accesses);
            let is_allowed = decision == Decision::Allow;
            let covered =
                traces.filter(|(trace, _)| is_allowed || trace.outcome() != Decision::Allow);
            suggest_forms(&layer.analysis, covered.map(|(_, part)| part))
        });
        let value = json!({
            "tool": tool,
            "decision": decision.as_str(),
            "reason": reason,
            "remedy": remedy,
            "hooks": {
                "allow": hooks.allow,
                "ask": hooks.ask.as_ref().map(|ask| json!({"reason": ask.reason, "meta": ask.meta})),
            },
            "layers": layers.iter().enumerate().map(|(at, layer)| layer_to_json(at, layer)).collect::<Vec<_>>(),
        });
        Self {
            tool,
            decision,
            reason,
            remedy,
            rule,
            rule_forms,
            value,
        }
    }
}

fn layer_to_json(at: usize, layer: &LayerEvaluation<'_>) -> Value {
    let rules = &layer.policy.inner.rules;
    let modes: Vec<&str> = layer
        .policy
        .modes(layer.analysis.request.mode)
        .iter()
        .map(|mode| mode.as_str())
        .collect();
    let parts: Vec<Value> = layer
        .traces
        .iter()
        .zip(&layer.analysis.accesses)
        .map(|(trace, part)| {
            let tiers: Vec<Value> = Tier::ALL
                .into_iter()
                .rev()
                .filter_map(|tier| {
                    let speaks = trace.deciding_by_tier[tier as usize]?;
                    let matched: Vec<Value> = trace
                        .matched
                        .iter()
                        .map(|at| &rules[*at])
                        .filter(|rule| rule.tier == tier)
                        .map(|rule| {
                            json!({
                                "id": rule.id, "decision": rule.decision.as_str(), "priority": rule.priority,
                                "tools": rule.tools_text, "source": rule.source.to_string(),
                            })
                        })
                        .collect();
                    Some(json!({"tier": tier.as_str(), "decides": rules[speaks].id, "matched": matched}))
                })
                .collect();
            let because = match &trace.reason {
                Reason::Rule(at) => json!({"rule": rules[*at].id}),
                Reason::HookAllow(reason) => json!({"hook_allows": reason}),
                Reason::HookAsk(reason) => json!({"hook_asks": reason}),
                Reason::Mode(mode, column) => json!({"mode": mode.as_str(), "class": column.as_str()}),
                Reason::UnknownAccess => json!({"unreadable_command": true}),
                Reason::UnnamedWrites(at) => json!({"unnamed_files": rules[*at].id}),
                Reason::TailCall => json!({"tail": true}),
                Reason::OutsideAllowedPaths(path) => json!({"outside_allowed_paths": path}),
            };
            let columns: Vec<&str> = part.classes.iter().map(|column| column.as_str()).collect();
            let approvals: Vec<Value> =
                trace.approvals.iter().map(|(id, outcome)| json!({"id": id, "outcome": outcome})).collect();
            json!({
                "access": trace.description, "classes": columns, "tiers": tiers,
                "decision": trace.decision.as_str(), "reason": because,
                "approvals": approvals, "outcome": trace.outcome().as_str(),
                "modifiers": layer.analysis.modifiers.reason().filter(|_| part.is_command()),
            })
        })
        .collect();
    let name = if at == 0 {
        "policy".to_owned()
    } else {
        format!("limit {at} of the sub-agent")
    };
    json!({"layer": name, "modes": modes, "accesses": parts})
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}, {}", self.tool, self.decision, self.reason)?;
        let hooks = &self.value["hooks"];
        if !hooks["allow"].is_null() {
            writeln!(
                f,
                "a hook allows it: {}",
                crate::text::escape_line(&text(hooks, "allow"), 200)
            )?;
        }
        if !hooks["ask"].is_null() {
            let reason = crate::text::escape_line(&text(&hooks["ask"], "reason"), 200);
            let colon = if reason.is_empty() { "" } else { ": " };
            writeln!(f, "a hook requires approval{colon}{reason}")?;
        }
        for layer in list(&self.value, "layers") {
            let modes: Vec<String> = list(&layer, "modes")
                .iter()
                .filter_map(|mode| mode.as_str().map(str::to_owned))
                .collect();
            writeln!(
                f,
                "{} in mode {}",
                text(&layer, "layer"),
                modes.join(", then ")
            )?;
            for part in list(&layer, "accesses") {
                write_access(f, &part)?;
            }
        }
        match &self.remedy {
            Some(remedy) => writeln!(f, "remedy: {remedy}"),
            None => Ok(()),
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value, key: &str) -> Vec<Value> {
    value[key].as_array().cloned().unwrap_or_default()
}

/// Writes the decision about one access, with the rules and approvals that match it.
fn write_access(f: &mut fmt::Formatter<'_>, part: &Value) -> fmt::Result {
    writeln!(f, "  {}: {}", text(part, "access"), text(part, "outcome"))?;
    for tier in list(part, "tiers") {
        let decides = text(&tier, "decides");
        for rule in list(&tier, "matched") {
            let id = text(&rule, "id");
            let mark = if id == decides {
                "decides for its tier"
            } else {
                "matches"
            };
            writeln!(
                f,
                "    {}: rule {id} {} `{}` (priority {}, {}) {mark}",
                text(&tier, "tier"),
                text(&rule, "decision"),
                text(&rule, "tools"),
                rule["priority"],
                text(&rule, "source"),
            )?;
        }
    }
    if let Some(why) = part["modifiers"].as_str() {
        writeln!(f, "    {why}")?;
    }
    write_reason(f, part)?;
    for approval in list(part, "approvals") {
        writeln!(
            f,
            "    approval {}: {}",
            text(&approval, "id"),
            text(&approval, "outcome")
        )?;
    }
    Ok(())
}

/// Writes why an access was decided without a rule.
fn write_reason(f: &mut fmt::Formatter<'_>, part: &Value) -> fmt::Result {
    let because = &part["reason"];
    if let Some(mode) = because["mode"].as_str() {
        writeln!(
            f,
            "    no rule matches; mode {mode}, {}: {}",
            text(because, "class"),
            text(part, "decision")
        )?;
    } else if because["unreadable_command"] == true {
        writeln!(
            f,
            "    the command cannot be analyzed, so approval is required"
        )?;
    } else if let Some(id) = because["unnamed_files"].as_str() {
        writeln!(
            f,
            "    it does not name the files it changes, and rule {id} protects some files, so approval is required"
        )?;
    } else if because["tail"] == true {
        writeln!(
            f,
            "    a tool's result requests it, so approval is required"
        )?;
    } else if because["outside_allowed_paths"].is_string() {
        writeln!(f, "    outside the allowed paths")?;
    }
    Ok(())
}
