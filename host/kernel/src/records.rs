//! Reads stored records: what happened in each call, and statistics about many of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::lifecycle::CallState;
use toolhost_contract::path_members::is_path_member;
use toolhost_contract::policy::Rule;
use toolhost_contract::text;
use toolhost_store::CallRow;

/// Maximum length of the names and codes in a summary, in characters. A plugin or a caller can choose them.
const MAX_NAME: usize = 200;

/// The tool of a call, or the requested name if no such tool was found.
pub fn tool_name(row: &CallRow) -> &str {
    let called = row.record.get("name").and_then(Value::as_str);
    row.tool.as_deref().or(called).unwrap_or("?")
}

/// How long the tool ran, without waiting.
pub fn duration(row: &CallRow) -> Option<Duration> {
    let millis = row.record.get("durationMs")?.as_f64()?;
    Duration::try_from_secs_f64(millis / 1_000.0).ok()
}

/// The user or rule that decided the call.
pub fn decided_by(row: &CallRow) -> Option<&str> {
    let decided = row.record.pointer("/approval/decidedBy");
    let decided = decided.and_then(Value::as_str);
    decided.or_else(|| row.record.get("policyRuleId")?.as_str())
}

/// Members of an input that say what a call is about, in the order in which they are looked for.
const TARGET_MEMBERS: [&str; 5] = ["command", "url", "pattern", "query", "name"];

/// What a call is about: its command, path, address or pattern, from the recorded input. Unescaped.
pub fn target(row: &CallRow) -> Option<String> {
    let argv = row
        .record
        .pointer("/command/argv")
        .and_then(Value::as_array);
    if let Some(argv) = argv {
        let words: Vec<&str> = argv.iter().filter_map(Value::as_str).collect();
        return Some(words.join(" "));
    }
    let input = row.record.get("inputPreview")?.as_object()?;
    let paths = input.iter().filter(|(name, _)| is_path_member(name));
    let named = TARGET_MEMBERS.iter().filter_map(|name| input.get(*name));
    let values = input.get("command").into_iter();
    let mut values = values.chain(paths.map(|(_, value)| value)).chain(named);
    values.find_map(|value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => items.first()?.as_str().map(str::to_owned),
        _ => None,
    })
}

/// An ended call, for statistics. Texts that many calls share are stored once.
#[derive(Debug, Clone, PartialEq)]
pub struct CallSummary {
    pub created_ms: i64,
    pub ended_ms: i64,
    pub tool: Arc<str>,
    pub plugin: Arc<str>,
    pub version: Arc<str>,
    pub state: CallState,
    /// The tool ran. `false` if the call was refused before, or its result came from elsewhere.
    pub ran: bool,
    pub is_failure: bool,
    pub duration: Option<Duration>,
    /// Bytes of memory of the sandbox, and of the result.
    pub memory: Option<u64>,
    pub output: Option<u64>,
    pub error_code: Option<Arc<str>>,
    /// What allowed the call: rules, a mode, an approval or a user.
    pub authorizer: Option<Arc<str>>,
    /// What denied the call.
    pub denied_by: Option<Arc<str>>,
    /// The rule that required an approval.
    pub asking_rule: Option<Arc<str>>,
}

/// Texts that summaries share.
#[derive(Debug, Default)]
pub struct TextPool(HashSet<Arc<str>>);

impl TextPool {
    fn shared(&mut self, text: &str) -> Arc<str> {
        let text = text::head(text, MAX_NAME);
        if let Some(known) = self.0.get(text) {
            return Arc::clone(known);
        }
        let new: Arc<str> = text.into();
        self.0.insert(Arc::clone(&new));
        new
    }

    /// Removes the texts that no summary uses.
    pub fn shrink(&mut self) {
        self.0.retain(|text| Arc::strong_count(text) > 1);
    }
}

impl CallSummary {
    /// Summarizes a call that has ended; `None` for others.
    pub fn of(row: &CallRow, texts: &mut TextPool) -> Option<Self> {
        let state = CallState::parse(&row.state).filter(|state| state.is_terminal())?;
        let record = &row.record;
        let mut shared = |pointer: &str| {
            let text = record.pointer(pointer).and_then(Value::as_str);
            text.map(|text| texts.shared(text))
        };
        let denied = state == CallState::Denied;
        let denied_by = shared("/approval/decidedBy").filter(|_| denied);
        let (error_code, authorizer) = (shared("/error/code"), shared("/policyRuleId"));
        let asking_rule = shared("/approval/rule");
        let version = shared("/toolVersion");
        let is_error = record.get("isError") == Some(&Value::Bool(true));
        let number = |name: &str| record.get(name).and_then(Value::as_u64);
        Some(Self {
            created_ms: row.created_ms,
            ended_ms: row.updated_ms,
            tool: texts.shared(tool_name(row)),
            plugin: texts.shared(row.plugin.as_deref().unwrap_or("?")),
            version: version.unwrap_or_else(|| texts.shared("?")),
            state,
            ran: record.get("startedAt").is_some() && record.get("suppliedBy").is_none(),
            // Denied after it ran on its stage: the tool did not fail.
            is_failure: !denied && (is_error || state != CallState::Completed),
            duration: duration(row),
            memory: number("memoryBytes"),
            output: number("outputBytes"),
            error_code,
            authorizer,
            denied_by,
            asking_rule,
        })
    }
}

/// What a set of calls used.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// Calls that ran, and how many of them failed. Calls that were denied do not characterize a tool.
    pub calls: u32,
    pub failures: u32,
    pub total: Duration,
    pub denied: u32,
    /// Numbers of failed and denied calls by error code.
    pub errors: BTreeMap<Arc<str>, u32>,
    durations: Vec<Duration>,
    memory: Vec<u64>,
    output: Vec<u64>,
}

impl Usage {
    pub fn of<'a>(calls: impl IntoIterator<Item = &'a CallSummary>) -> Self {
        let mut usage = Self::default();
        for call in calls {
            usage.add(call);
        }
        usage.durations.sort_unstable();
        usage.memory.sort_unstable();
        usage.output.sort_unstable();
        usage
    }

    fn add(&mut self, call: &CallSummary) {
        self.denied += u32::from(call.state == CallState::Denied);
        if let Some(code) = &call.error_code {
            *self.errors.entry(Arc::clone(code)).or_default() += 1;
        }
        if !call.ran {
            return;
        }
        self.calls += 1;
        self.failures += u32::from(call.is_failure);
        if let Some(duration) = call.duration {
            self.total = self.total.saturating_add(duration);
            self.durations.push(duration);
        }
        self.memory.extend(call.memory);
        self.output.extend(call.output);
    }

    /// The duration that `percent` of the calls did not exceed.
    pub fn duration(&self, percent: u32) -> Option<Duration> {
        percentile(&self.durations, percent)
    }

    /// Bytes of memory.
    pub fn memory(&self, percent: u32) -> Option<u64> {
        percentile(&self.memory, percent)
    }

    /// Bytes of results.
    pub fn output(&self, percent: u32) -> Option<u64> {
        percentile(&self.output, percent)
    }
}

/// How often a rule decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuleMatches {
    pub allowed: u32,
    pub asked: u32,
    pub denied: u32,
    /// When the newest of these calls was made.
    pub latest_ms: Option<i64>,
}

impl RuleMatches {
    pub fn total(&self) -> u32 {
        self.allowed + self.asked + self.denied
    }

    fn count(&mut self, field: impl FnOnce(&mut Self) -> &mut u32, at_ms: i64) {
        *field(self) += 1;
        self.latest_ms = self.latest_ms.max(Some(at_ms));
    }
}

/// Counts the calls that each rule decided, in the order of the rules. The record of an allowed call names at most
/// three rules.
pub fn rule_matches<'a>(
    calls: impl IntoIterator<Item = &'a CallSummary>,
    rules: &[Rule],
) -> Vec<RuleMatches> {
    let mut matches = vec![RuleMatches::default(); rules.len()];
    let by_id: HashMap<&str, usize> = rules
        .iter()
        .enumerate()
        .map(|(at, rule)| (rule.id(), at))
        .collect();
    // Few different texts, each of many calls.
    let mut allowing: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
    for call in calls {
        if let Some(authorizer) = &call.authorizer {
            let named = allowing
                .entry(Arc::clone(authorizer))
                .or_insert_with(|| rules_in(authorizer, rules));
            for at in named.iter() {
                matches[*at].count(|one| &mut one.allowed, call.created_ms);
            }
        }
        if let Some(at) = call.asking_rule.as_deref().and_then(|id| by_id.get(id)) {
            matches[*at].count(|one| &mut one.asked, call.created_ms);
        }
        if let Some(at) = call.denied_by.as_deref().and_then(|id| by_id.get(id)) {
            matches[*at].count(|one| &mut one.denied, call.created_ms);
        }
    }
    matches
}

/// The rules that a record names as what allowed a call.
fn rules_in(authorizer: &str, rules: &[Rule]) -> Vec<usize> {
    let named = |rule: &Rule| {
        let label = format!("rule {} {} `", rule.id(), rule.decision());
        authorizer.starts_with(&label) || authorizer.contains(&format!(", {label}"))
    };
    let rules = rules.iter().enumerate();
    rules
        .filter(|(_, rule)| named(rule))
        .map(|(at, _)| at)
        .collect()
}

/// The smallest of the sorted values that is not exceeded by at least `percent` of them.
fn percentile<T: Copy>(sorted: &[T], percent: u32) -> Option<T> {
    let rank = (sorted.len() * percent.min(100) as usize).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::policy::{Decision, Policy, PolicySpec, RuleSpec};

    use super::*;

    fn summary(state: &str, record: Value) -> Option<CallSummary> {
        let row = CallRow {
            id: "c".to_owned(),
            session: "s".to_owned(),
            batch: None,
            parent: None,
            tool: Some("grep".to_owned()),
            plugin: Some("search".to_owned()),
            state: state.to_owned(),
            finished: true,
            deferred: false,
            effectful: false,
            created_ms: 1,
            updated_ms: 2,
            record,
        };
        CallSummary::of(&row, &mut TextPool::default())
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let all: Vec<u64> = (1..=200).collect();
        for (values, percent, expected) in [
            (&all[..], 95, Some(190)),
            (&all[..], 50, Some(100)),
            (&all[..], 100, Some(200)),
            (&all[..1], 95, Some(1)),
            (&all[..0], 95, None),
            (&all[..], 0, Some(1)),
        ] {
            assert_eq!(percentile(values, percent), expected);
        }
    }

    #[test]
    fn usage_counts_calls_that_ran_and_all_errors() {
        let ran = |millis: u32| json!({"startedAt": 1, "durationMs": millis, "memoryBytes": 1_000 * millis, "outputBytes": 7});
        let calls: Vec<CallSummary> = [
            ("completed", ran(10)),
            (
                "failed",
                json!({"startedAt": 1, "durationMs": 30, "error": {"code": "timeout"}}),
            ),
            (
                "denied",
                json!({"error": {"code": "policy_violation"}, "approval": {"decidedBy": "user:1"}}),
            ),
            ("denied", ran(20)),
            ("completed", json!({"startedAt": 1, "suppliedBy": "cache"})),
            ("executing", ran(99)),
        ]
        .into_iter()
        .filter_map(|(state, record)| summary(state, record))
        .collect();
        let usage = Usage::of(&calls);
        assert_eq!((usage.calls, usage.failures, usage.denied), (3, 1, 2));
        assert_eq!(usage.duration(95), Some(Duration::from_millis(30)));
        assert_eq!(usage.memory(95), Some(20_000));
        assert_eq!(usage.output(95), Some(7));
        let errors: Vec<_> = usage
            .errors
            .iter()
            .map(|(code, count)| format!("{code} {count}"))
            .collect();
        assert_eq!(errors, ["policy_violation 1", "timeout 1"]);
        assert_eq!(calls[2].denied_by.as_deref(), Some("user:1"));
    }

    #[test]
    fn rules_are_counted_by_what_they_decided() {
        let spec = |decision, tool: &str| RuleSpec::new(decision, tool);
        let policy = Policy::new(PolicySpec {
            rules: vec![
                spec(Decision::Allow, "grep"),
                spec(Decision::Ask, "write"),
                spec(Decision::Deny, "rm"),
                spec(Decision::Allow, "never"),
            ],
            ..PolicySpec::default()
        });
        let policy = policy.unwrap();
        let allowed = |by: &str| json!({"policyRuleId": by});
        let calls: Vec<CallSummary> = [
            ("completed", allowed("rule user:1 allow `grep`")),
            ("completed", allowed("mode default: reads, rule user:1 allow `grep`")),
            // Text of a hook must not count for a rule.
            ("completed", allowed("a hook: see rule user:4 allow `never`")),
            ("completed", json!({"policyRuleId": "the user, once", "approval": {"rule": "user:2", "decidedBy": "terminal"}})),
            ("denied", json!({"approval": {"decidedBy": "user:3"}})),
            ("completed", json!({"approval": {"decidedBy": "user:3"}})),
        ]
        .into_iter()
        .filter_map(|(state, record)| summary(state, record))
        .collect();
        let matches = rule_matches(&calls, policy.rules());
        let counts: Vec<_> = matches
            .iter()
            .map(|one| (one.allowed, one.asked, one.denied))
            .collect();
        assert_eq!(counts, [(2, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)]);
        assert_eq!(
            (matches[0].latest_ms, matches[3].latest_ms),
            (Some(1), None)
        );
    }

    #[test]
    fn texts_are_shared_bounded_and_released() {
        let mut texts = TextPool::default();
        let long = texts.shared(&"ä".repeat(500));
        assert_eq!(long.len(), MAX_NAME);
        assert!(Arc::ptr_eq(&texts.shared("a"), &texts.shared("a")));
        texts.shrink();
        assert_eq!(texts.0.len(), 1);
    }
}
