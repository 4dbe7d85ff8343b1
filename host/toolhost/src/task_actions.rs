//! The ended calls of a task as Pegasus keeps them: results of actions, and failures for the evaluation of the task.

use std::collections::VecDeque;

use serde_json::Value;
use toolhost_formats::profile::{Profile, ProfiledRegistry, TaskFailures, UnmappedTools};
use toolhost_kernel::{Kernel, RegistryHandle, Report};

use crate::load::Host;
use crate::turn::ProfiledResult;

/// Maximum number of actions that are kept for a task.
const MAX_ACTIONS: usize = 1000;
/// Maximum length of all of them together, as JSON text.
const MAX_BYTES: usize = 16 << 20;

/// The newest calls of a task: 1000, or those whose results have 16 MiB together, and 256 failures.
pub struct TaskActions {
    registry: RegistryHandle,
    unmapped: UnmappedTools,
    /// Each with the length of its text.
    done: VecDeque<(Value, usize)>,
    bytes: usize,
    failures: TaskFailures,
}

impl TaskActions {
    pub fn new(kernel: &Kernel, unmapped: UnmappedTools) -> Self {
        Self {
            registry: kernel.registry_handle(),
            unmapped,
            done: VecDeque::new(),
            bytes: 0,
            failures: TaskFailures::default(),
        }
    }

    /// Appends an ended call. `tool` and `input` are the canonical name and input with which it was made.
    pub fn append(&mut self, tool: &str, input: &Value, report: &Report) {
        let registry = self.registry.get();
        let profiled =
            ProfiledRegistry::new(Profile::Pegasus, self.unmapped, registry.descriptors());
        let result = ProfiledResult::new(&profiled, tool, input, report);
        if let Some(failure) = result.failure {
            self.failures.append(failure);
        }
        let action = profiled.envelope(result.tool, input, &result.rendered, report.times());
        if let Some(action) = action {
            self.keep(action);
        }
    }

    fn keep(&mut self, action: Value) {
        let length = action.to_string().len();
        self.done.push_back((action, length));
        self.bytes += length;
        // The last action is kept whatever its length, which the limit of results bounds.
        while self.done.len() > 1 && (self.done.len() > MAX_ACTIONS || self.bytes > MAX_BYTES) {
            let dropped = self.done.pop_front();
            self.bytes -= dropped.map_or(0, |(_, length)| length);
        }
    }

    /// The ended calls, oldest first: `{toolName, success, result | error, startedAt, completedAt, durationMs}`.
    pub fn actions_done(&self) -> impl Iterator<Item = &Value> {
        self.done.iter().map(|(action, _)| action)
    }

    /// The failed calls, and the verdict of the last one: `{verdict, toolFailures: [{toolName, error, suggestion}]}`.
    /// `None` if no call failed.
    pub fn reflection(&self) -> Option<Value> {
        self.failures.reflection()
    }
}

impl Host {
    /// Starts to keep the calls of a task in the form of Pegasus.
    pub fn task_actions(&self) -> TaskActions {
        TaskActions::new(&self.kernel, self.settings.profile_view.1)
    }
}
