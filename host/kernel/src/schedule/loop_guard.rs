//! Detection of a model that repeats the same failing call.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use toolhost_contract::{ToolName, text};

use super::CallStatus;

/// Number of failures from which the model is advised to do something else.
const ADVISE_AFTER: u32 = 3;

/// Number of failures after which the call is refused.
const REFUSE_AFTER: u32 = 4;

/// Maximum number of tracked tools. Beyond that, the tool that failed least recently is dropped.
const MAX_TOOLS: usize = 256;

/// Tracks repeated failures in one session.
///
/// A success of the tool or a call with other arguments resets its count. A success of a tool that changes something
/// resets all counts, because failed calls may work now. Successes of read-only tools do not: a model that is stuck on
/// an edit reads the file in between.
#[derive(Debug, Default)]
pub struct LoopGuard {
    rows: Mutex<FailureCounts>,
}

#[derive(Debug, Default)]
struct FailureCounts {
    of: HashMap<ToolName, FailureCount>,
    clock: u64,
}

#[derive(Debug)]
struct FailureCount {
    arguments: blake3::Hash,
    failures: u32,
    last: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` failed {failures} times in a row with the same arguments and was not run again; change the arguments or \
     try another approach",
    text::escape_line(.tool.as_str(), 64)
)]
pub struct RepeatedFailure {
    pub tool: ToolName,
    pub failures: u32,
}

impl LoopGuard {
    /// Fails if the call must not run because it has failed too often.
    pub fn check(&self, tool: &ToolName, input: &Value) -> Result<(), RepeatedFailure> {
        let rows = self.rows();
        match rows.of.get(tool) {
            Some(row) if row.failures >= REFUSE_AFTER && row.arguments == hash(input) => {
                Err(RepeatedFailure {
                    tool: tool.clone(),
                    failures: row.failures,
                })
            }
            _ => Ok(()),
        }
    }

    /// Records how a call ended. Returns a recommendation for the model after repeated failures.
    pub fn record(&self, tool: &ToolName, input: &Value, fate: CallStatus) -> Option<String> {
        if fate == CallStatus::Completed {
            self.rows().of.remove(tool);
            return None;
        }
        let arguments = hash(input);
        let mut rows = self.rows();
        let same = rows.of.get(tool).filter(|row| row.arguments == arguments);
        let before = same.map_or(0, |row| row.failures);
        let failures = match fate {
            CallStatus::Failed => before.saturating_add(1),
            // The call did not run to its end, so it is no evidence about these arguments.
            CallStatus::Completed | CallStatus::Denied | CallStatus::Cancelled => before,
        };
        rows.set(tool, arguments, failures);
        (fate == CallStatus::Failed && failures >= ADVISE_AFTER).then(|| {
            format!(
                "this call has failed {failures} times in a row; do not repeat it: change the arguments or try \
                 another approach"
            )
        })
    }

    /// Resets all counts, after a user message or a change that may have fixed the cause of the failures.
    pub fn clear(&self) {
        *self.rows() = FailureCounts::default();
    }

    fn rows(&self) -> MutexGuard<'_, FailureCounts> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FailureCounts {
    fn set(&mut self, tool: &ToolName, arguments: blake3::Hash, failures: u32) {
        if failures == 0 {
            self.of.remove(tool);
            return;
        }
        if self.of.len() >= MAX_TOOLS && !self.of.contains_key(tool) {
            let oldest = self.of.iter().min_by_key(|(_, row)| row.last);
            if let Some(oldest) = oldest.map(|(tool, _)| tool.clone()) {
                self.of.remove(&oldest);
            }
        }
        self.clock += 1;
        let row = FailureCount {
            arguments,
            failures,
            last: self.clock,
        };
        self.of.insert(tool.clone(), row);
    }
}

/// Hashes the meaning of an input: the order of keys and the difference between `1` and `1.0` are ignored.
fn hash(input: &Value) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    feed(&mut hasher, input);
    hasher.finalize()
}

/// Each part is preceded by its kind and length, so that different inputs have different encodings.
fn feed(hasher: &mut blake3::Hasher, value: &Value) {
    match value {
        Value::Null => part(hasher, b'n', b""),
        Value::Bool(truth) => part(hasher, b'b', &[u8::from(*truth)]),
        Value::Number(number) => {
            let digits = number.to_string();
            part(
                hasher,
                b'd',
                digits.strip_suffix(".0").unwrap_or(&digits).as_bytes(),
            );
        }
        Value::String(text) => part(hasher, b's', text.as_bytes()),
        Value::Array(items) => {
            part(hasher, b'a', &items.len().to_le_bytes());
            for item in items {
                feed(hasher, item);
            }
        }
        Value::Object(members) => {
            part(hasher, b'o', &members.len().to_le_bytes());
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            for (key, value) in members {
                part(hasher, b'k', key.as_bytes());
                feed(hasher, value);
            }
        }
    }
}

fn part(hasher: &mut blake3::Hasher, kind: u8, bytes: &[u8]) {
    hasher.update(&[kind]);
    hasher.update(&bytes.len().to_le_bytes());
    hasher.update(bytes);
}

#[cfg(test)]
mod tests;
