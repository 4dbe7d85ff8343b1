//! Tasks extension: slow calls whose result the client polls.
//!
//! A call becomes a task if it runs longer than a configured time and the client supports tasks. It continues
//! unchanged, and its prompts are sent through the task. A task belongs to the user who made the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, ErrorData, InputRequest,
    InputResponses, JsonObject, TaskPayload,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use toolhost_contract::{UserId, text};

use crate::call_result::ResultBuilder;
use crate::prompts::{CallEnd, InputRequestBatch, OngoingCall, is_refusal};
use crate::running_count::RunningGuard;
use crate::ttl_cache::{CacheQuota, CacheUsage, TtlCache};

/// Maximum run time of a task, and how long its result is stored.
const TASK_TTL: Duration = Duration::from_mins(30);
/// Poll interval suggested to clients.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of tasks, including finished ones, in total and per user.
const MAX_TASKS: usize = 256;
const MAX_TASKS_PER_USER: usize = 32;
/// Estimated overhead of a JSON value, in bytes.
const VALUE_OVERHEAD: usize = 32;

/// Limits for results. They are stored outside of rmcp's task manager, which can neither evict a result nor return
/// one without a copy.
const RESULT_QUOTA: CacheQuota = CacheQuota {
    ttl: TASK_TTL,
    per_owner: CacheUsage {
        entries: MAX_TASKS_PER_USER,
        bytes: 32 << 20,
    },
    total: CacheUsage {
        entries: MAX_TASKS,
        bytes: 64 << 20,
    },
};

pub(crate) struct TaskStore {
    manager: TaskManager,
    registry: Arc<TaskRegistry>,
}

/// Owners and results of tasks.
struct TaskRegistry {
    /// By task id.
    owners: Mutex<HashMap<String, TaskOwner>>,
    results: Mutex<TtlCache<JsonObject>>,
}

struct TaskOwner {
    user: UserId,
    /// When rmcp has forgotten the task.
    expires_at: Instant,
}

impl Default for TaskStore {
    fn default() -> Self {
        let registry = TaskRegistry {
            owners: Mutex::default(),
            results: Mutex::new(TtlCache::new(RESULT_QUOTA)),
        };
        Self {
            manager: TaskManager::default(),
            registry: Arc::new(registry),
        }
    }
}

impl TaskStore {
    /// Turns a call into a task. `Err` if there are too many tasks; the client then waits for the result.
    pub(crate) fn spawn(
        &self,
        going: OngoingCall,
        answering: ResultBuilder,
    ) -> Result<CreateTaskResult, Box<(OngoingCall, ResultBuilder)>> {
        let user = answering.owner.clone();
        let now = Instant::now();
        let mut owners = self.registry.owners();
        owners.retain(|_, owner| owner.expires_at > now);
        let own = owners.values().filter(|other| other.user == user).count();
        if owners.len() >= MAX_TASKS || own >= MAX_TASKS_PER_USER {
            return Err(Box::new((going, answering)));
        }
        going.events.unsubscribe();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let options = TaskOptions::new()
            .with_ttl_ms(millis(TASK_TTL))
            .with_poll_interval_ms(millis(POLL_INTERVAL));
        let going = going.into_spawned();
        let running = RunningGuard::begin(&answering.shared.running);
        let registry = Arc::clone(&self.registry);
        let manager = self.manager.clone();
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                let ending = TaskCompletion {
                    id: context.task_id(),
                    registry: &registry,
                };
                let prompts = TaskPrompts {
                    manager: &manager,
                    context: &context,
                    count: 0,
                };
                let ended = drive(going, prompts, running).await?;
                let result = answering.build(ended).map_err(TaskExit::Error)?;
                ending.store(&result, &answering.owner);
                Ok(CallToolResult::default())
            })
        });
        // A task runs for at most `TASK_TTL`, as does the storage of its result. The task waits for this lock.
        let until = now + 2 * TASK_TTL;
        owners.insert(
            task.task_id.clone(),
            TaskOwner {
                user,
                expires_at: until,
            },
        );
        Ok(CreateTaskResult::new(task))
    }

    pub(crate) fn get(&self, id: &str, owner: &UserId) -> Result<DetailedTask, ErrorData> {
        self.check_owner(id, owner)?;
        let mut task = self.manager.get_task(id).map_err(|_| unknown_task(id))?;
        if let TaskPayload::Completed { result } = &mut task.payload {
            let mut results = self.registry.results();
            // The result may have been evicted.
            let stored = results.get(id, owner).ok_or_else(|| unknown_task(id))?;
            result.clone_from(stored);
        }
        Ok(task)
    }

    pub(crate) fn update(
        &self,
        id: &str,
        owner: &UserId,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        self.check_owner(id, owner)?;
        let updated = self.manager.update_task(id, responses);
        updated.map_err(|_| unknown_task(id))
    }

    pub(crate) fn cancel(&self, id: &str, owner: &UserId) -> Result<(), ErrorData> {
        self.check_owner(id, owner)?;
        self.manager.cancel_task(id).map_err(|_| unknown_task(id))
    }

    /// Removes expired results and ends tasks that run too long.
    pub(crate) fn sweep(&self) {
        // rmcp sweeps on every access, of which this is the cheapest.
        let _ = self.manager.running_task_count();
        let now = Instant::now();
        self.registry
            .owners()
            .retain(|_, owner| owner.expires_at > now);
        self.registry.results().remove_expired();
    }

    /// Ends all tasks and drops their results.
    pub(crate) fn shutdown(&self) {
        self.manager.shutdown();
        self.registry.owners().clear();
        self.registry.results().clear();
    }

    /// Fails unless the task exists and belongs to this user. Tasks of other users are reported as unknown.
    fn check_owner(&self, id: &str, owner: &UserId) -> Result<(), ErrorData> {
        let owners = self.registry.owners();
        let known = owners.get(id).is_some_and(|other| other.user == *owner);
        known.then_some(()).ok_or_else(|| unknown_task(id))
    }
}

impl TaskRegistry {
    fn owners(&self) -> MutexGuard<'_, HashMap<String, TaskOwner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn results(&self) -> MutexGuard<'_, TtlCache<JsonObject>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the expiry of a task's entry when the task ends, for whatever reason.
struct TaskCompletion<'a> {
    id: &'a str,
    registry: &'a TaskRegistry,
}

impl TaskCompletion<'_> {
    fn store(&self, result: &CallToolResult, owner: &UserId) {
        let object = |result: &CallToolResult| match json!(result) {
            Value::Object(result) => result,
            _ => JsonObject::new(),
        };
        let mut results = self.registry.results();
        let whole = object(result);
        if results.insert(self.id.to_owned(), owner, estimated_size(&whole), whole) {
            return;
        }
        let note = "the call has ended, but its result is too large to store; request a part of it";
        let instead = object(&CallToolResult::error(vec![ContentBlock::text(note)]));
        results.insert(self.id.to_owned(), owner, estimated_size(&instead), instead);
    }
}

impl Drop for TaskCompletion<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.registry.owners().get_mut(self.id) {
            owner.expires_at = Instant::now() + TASK_TTL;
        }
    }
}

/// Estimates the memory use of a result, in bytes.
fn estimated_size(result: &JsonObject) -> usize {
    fn of(value: &Value) -> usize {
        VALUE_OVERHEAD
            + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(of).sum(),
                Value::Object(members) => estimated_size(members),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
    }
    let members = result.iter();
    members
        .map(|(name, value)| VALUE_OVERHEAD + name.len() + of(value))
        .sum()
}

fn unknown_task(id: &str) -> ErrorData {
    let shown = text::escape_line(id, 80);
    ErrorData::invalid_params(format!("task {shown} does not exist or has expired"), None)
}

/// Drives a call to its end and forwards its prompts. Dropping the future ends the call. The call counts as running
/// except while it waits for an answer, so that a stopping host does not wait for user input.
async fn drive(
    mut going: OngoingCall,
    mut prompts: TaskPrompts<'_>,
    mut running: RunningGuard,
) -> Result<CallEnd, TaskExit> {
    loop {
        let wanted = tokio::select! {
            biased;
            () = prompts.context.cancelled() => return Err(TaskExit::Cancelled),
            step = going.next_requests() => match step {
                Ok(wanted) => wanted,
                Err(ended) => return Ok(ended),
            },
        };
        let Some(wanted) = going.answer_from_replay(wanted) else {
            continue;
        };
        let pause = running.pause();
        let InputRequestBatch {
            requests,
            mut reply,
            ..
        } = wanted;
        let answers = prompts.send(requests, &mut reply).await?;
        running = pause.resume();
        let _ = reply.send(answers);
    }
}

/// Sends the prompts of a task.
struct TaskPrompts<'a> {
    manager: &'a TaskManager,
    context: &'a TaskContext,
    /// Number of requests so far.
    count: usize,
}

impl TaskPrompts<'_> {
    /// Sends the requests one at a time, until one is refused or no answer is needed any more.
    async fn send(
        &mut self,
        requests: Vec<(String, InputRequest)>,
        reply: &mut oneshot::Sender<Vec<Value>>,
    ) -> Result<Vec<Value>, TaskExit> {
        let mut answers = Vec::with_capacity(requests.len());
        for (name, request) in requests {
            self.count += 1;
            // Request names must be unique within a task.
            let key = format!("{name}_{}", self.count);
            let answer = tokio::select! {
                biased;
                answer = self.context.request_input(key.clone(), request) => answer?,
                () = reply.closed() => {
                    // The question was answered elsewhere. rmcp shows a request until it is answered.
                    let _ = self.manager.update_task(self.context.task_id(), [(key, Value::Null)]);
                    break;
                }
            };
            let is_last = is_refusal(&answer);
            answers.push(answer);
            if is_last {
                break;
            }
        }
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::{RequestNoParam, TaskStatus};

    use super::*;

    fn store_result(registry: &TaskRegistry, id: &str, text: &str) {
        let until = Instant::now() + 2 * TASK_TTL;
        let user = UserId::token("me");
        registry.owners().insert(
            id.to_owned(),
            TaskOwner {
                user: user.clone(),
                expires_at: until,
            },
        );
        let ending = TaskCompletion { id, registry };
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        ending.store(&result, &user);
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_shows_no_request_that_was_answered_elsewhere() {
        let manager = TaskManager::default();
        let (mut reply, answers) = oneshot::channel();
        let own = manager.clone();
        let task = manager.spawn(TaskOptions::new(), |context| {
            Box::pin(async move {
                let mut prompts = TaskPrompts {
                    manager: &own,
                    context: &context,
                    count: 0,
                };
                let request = || InputRequest::ListRoots(RequestNoParam::default());
                let requests = vec![("a".to_owned(), request()), ("b".to_owned(), request())];
                prompts.send(requests, &mut reply).await?;
                std::future::pending().await
            })
        });
        let status = || manager.get_task(&task.task_id).unwrap().status();
        tokio::time::sleep(POLL_INTERVAL).await;
        assert_eq!(status(), TaskStatus::InputRequired);
        drop(answers);
        tokio::time::sleep(POLL_INTERVAL).await;
        assert_eq!(status(), TaskStatus::Working);
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_bounded_and_expire() {
        let tasks = TaskStore::default();
        let registry = &tasks.registry;
        let has = |id: &str| registry.results().get(id, &UserId::token("me")).is_some();
        store_result(registry, "first", "x");
        store_result(registry, "second", "x");
        let large = "x".repeat(RESULT_QUOTA.per_owner.bytes - 1_000);
        store_result(registry, "large", &large);
        assert!(!has("first"), "the oldest was evicted");
        assert!(has("second") && has("large"));
        store_result(
            registry,
            "huge",
            &"x".repeat(RESULT_QUOTA.per_owner.bytes + 1),
        );
        let stored = json!(registry.results().get("huge", &UserId::token("me"))).to_string();
        assert!(stored.contains("too large to store"), "{stored}");
        // Entries expire relative to the end of the task, not its start.
        assert_eq!(registry.owners().len(), 4);
        tokio::time::advance(TASK_TTL).await;
        tasks.sweep();
        assert_eq!(registry.owners().len(), 0);
        assert!(!has("large"));
    }
}
