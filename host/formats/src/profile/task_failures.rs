//! The failures of a task, which Pegasus' reflector evaluates.

use std::collections::VecDeque;

use serde_json::{Value, json};

use crate::events::pegasus::ReflectorAction;

/// Maximum number of failures that are kept for a task.
const MAX_FAILURES: usize = 256;

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFailure {
    /// The name with which the model called the tool.
    pub tool: String,
    /// The result that the model reads, up to 2000 bytes.
    pub error: String,
    pub suggestion: Option<&'static str>,
    pub verdict: ReflectorAction,
}

impl ToolFailure {
    /// Returns `{toolName, error, suggestion}`.
    fn to_json(&self) -> Value {
        let mut failure = json!({"toolName": self.tool, "error": self.error});
        if let Some(suggestion) = self.suggestion {
            failure["suggestion"] = suggestion.into();
        }
        failure
    }

    /// Returns `{verdict, toolFailures: [{toolName, error, suggestion}]}` for this failure alone.
    pub fn reflection(&self) -> Value {
        json!({"verdict": self.verdict.as_str(), "toolFailures": [self.to_json()]})
    }
}

/// The newest 256 failures of a task.
#[derive(Debug, Clone, Default)]
pub struct TaskFailures(VecDeque<ToolFailure>);

impl TaskFailures {
    pub fn append(&mut self, failure: ToolFailure) {
        if self.0.len() == MAX_FAILURES {
            self.0.pop_front();
        }
        self.0.push_back(failure);
    }

    /// Returns the verdict of the last failure, and all failures: `{verdict, toolFailures: [{toolName, error,
    /// suggestion}]}`. `None` if no call failed.
    pub fn reflection(&self) -> Option<Value> {
        let verdict = self.0.back()?.verdict;
        let failures: Vec<Value> = self.0.iter().map(ToolFailure::to_json).collect();
        Some(json!({"verdict": verdict.as_str(), "toolFailures": failures}))
    }
}
