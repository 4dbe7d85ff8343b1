//! Tasks extension: slow calls whose result the client polls.
//!
//! A call becomes a task if it runs longer than a configured time and the client supports tasks. It continues
//! unchanged, and its prompts are sent through the task. A task belongs to the user who made the call.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{
    CallToolResult, ContentBlock, CreateTaskResult, DetailedTask, ErrorData, InputResponses,
    JsonObject, TaskPayload,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::{Value, json};
use tokio::time::Instant;
use toolhost_contract::{UserId, text};

use crate::answer::Answering;
use crate::ask::{Ended, Going, Wish};
use crate::running::Running;
use crate::shelf::{Load, Room, Shelf};

/// Maximum run time of a task, and how long its result is stored.
const TIME: Duration = Duration::from_mins(30);
/// Poll interval suggested to clients.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum number of tasks, including finished ones, in total and per user.
const TASKS: usize = 256;
const TASKS_OF_ONE: usize = 32;
/// Estimated overhead of a JSON value, in bytes.
const VALUE: usize = 32;

/// Limits for results. They are stored outside of rmcp's task manager, which can neither evict a result nor return
/// one without a copy.
const RESULTS: Room = Room {
    time: TIME,
    of_one: Load {
        things: TASKS_OF_ONE,
        bytes: 32 << 20,
    },
    of_all: Load {
        things: TASKS,
        bytes: 64 << 20,
    },
};

pub(crate) struct Tasks {
    manager: TaskManager,
    book: Arc<Book>,
}

/// Owners and results of tasks.
struct Book {
    /// By task id.
    owners: Mutex<HashMap<String, Owner>>,
    results: Mutex<Shelf<JsonObject>>,
}

struct Owner {
    user: UserId,
    /// When rmcp has forgotten the task.
    until: Instant,
}

impl Default for Tasks {
    fn default() -> Self {
        let book = Book {
            owners: Mutex::default(),
            results: Mutex::new(Shelf::new(RESULTS)),
        };
        Self {
            manager: TaskManager::default(),
            book: Arc::new(book),
        }
    }
}

impl Tasks {
    /// Turns a call into a task. `Err` if there are too many tasks; the client then waits for the result.
    pub(crate) fn take(
        &self,
        going: Going,
        answering: Answering,
    ) -> Result<CreateTaskResult, Box<(Going, Answering)>> {
        let user = answering.owner.clone();
        let now = Instant::now();
        let mut owners = self.book.owners();
        owners.retain(|_, owner| owner.until > now);
        let own = owners.values().filter(|other| other.user == user).count();
        if owners.len() >= TASKS || own >= TASKS_OF_ONE {
            return Err(Box::new((going, answering)));
        }
        going.events.mute();
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let options = TaskOptions::new()
            .with_ttl_ms(millis(TIME))
            .with_poll_interval_ms(millis(LOOK));
        let going = going.apart();
        let running = Running::begin(&answering.shared.running);
        let book = Arc::clone(&self.book);
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                let ending = Ending {
                    id: context.task_id(),
                    book: &book,
                };
                let ended = follow(going, &context, running).await?;
                let result = answering.answer(ended).map_err(TaskExit::Error)?;
                ending.keep(&result, &answering.owner);
                Ok(CallToolResult::default())
            })
        });
        // A task runs for at most `TASK_TTL`, as does the storage of its result. The task waits for this lock.
        let until = now + 2 * TIME;
        owners.insert(task.task_id.clone(), Owner { user, until });
        Ok(CreateTaskResult::new(task))
    }

    pub(crate) fn get(&self, id: &str, owner: &UserId) -> Result<DetailedTask, ErrorData> {
        self.known(id, owner)?;
        let mut task = self.manager.get_task(id).map_err(|_| unknown(id))?;
        if let TaskPayload::Completed { result } = &mut task.payload {
            let mut results = self.book.results();
            // The result may have been evicted.
            let kept = results.get(id, owner).ok_or_else(|| unknown(id))?;
            result.clone_from(kept);
        }
        Ok(task)
    }

    pub(crate) fn update(
        &self,
        id: &str,
        owner: &UserId,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        self.known(id, owner)?;
        let updated = self.manager.update_task(id, responses);
        updated.map_err(|_| unknown(id))
    }

    pub(crate) fn cancel(&self, id: &str, owner: &UserId) -> Result<(), ErrorData> {
        self.known(id, owner)?;
        self.manager.cancel_task(id).map_err(|_| unknown(id))
    }

    /// Removes expired results and ends tasks that run too long.
    pub(crate) fn sweep(&self) {
        // rmcp sweeps on every access, of which this is the cheapest.
        let _ = self.manager.running_task_count();
        let now = Instant::now();
        self.book.owners().retain(|_, owner| owner.until > now);
        self.book.results().sweep();
    }

    /// Ends all tasks and drops their results.
    pub(crate) fn end(&self) {
        self.manager.shutdown();
        self.book.owners().clear();
        self.book.results().clear();
    }

    /// Fails unless the task exists and belongs to this user. Tasks of other users are reported as unknown.
    fn known(&self, id: &str, owner: &UserId) -> Result<(), ErrorData> {
        let owners = self.book.owners();
        let known = owners.get(id).is_some_and(|other| other.user == *owner);
        known.then_some(()).ok_or_else(|| unknown(id))
    }
}

impl Book {
    fn owners(&self) -> MutexGuard<'_, HashMap<String, Owner>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn results(&self) -> MutexGuard<'_, Shelf<JsonObject>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the expiry of a task's entry when the task ends, for whatever reason.
struct Ending<'a> {
    id: &'a str,
    book: &'a Book,
}

impl Ending<'_> {
    fn keep(&self, result: &CallToolResult, owner: &UserId) {
        let object = |result: &CallToolResult| match json!(result) {
            Value::Object(result) => result,
            _ => JsonObject::new(),
        };
        let mut results = self.book.results();
        let whole = object(result);
        if results.put(self.id.to_owned(), owner, weight(&whole), whole) {
            return;
        }
        let note = "the call has ended, but its result is too large to store; request a part of it";
        let instead = object(&CallToolResult::error(vec![ContentBlock::text(note)]));
        results.put(self.id.to_owned(), owner, weight(&instead), instead);
    }
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        if let Some(owner) = self.book.owners().get_mut(self.id) {
            owner.until = Instant::now() + TIME;
        }
    }
}

/// Estimates the memory use of a result, in bytes.
fn weight(result: &JsonObject) -> usize {
    fn of(value: &Value) -> usize {
        VALUE
            + match value {
                Value::String(text) => text.len(),
                Value::Array(items) => items.iter().map(of).sum(),
                Value::Object(members) => weight(members),
                Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            }
    }
    let members = result.iter();
    members
        .map(|(name, value)| VALUE + name.len() + of(value))
        .sum()
}

fn unknown(id: &str) -> ErrorData {
    let shown = text::inline(id, 80);
    ErrorData::invalid_params(format!("task {shown} does not exist or has expired"), None)
}

/// Drives a call to its end and forwards its prompts. Dropping the future ends the call. The call counts as running
/// except while it waits for an answer, so that a stopping host does not wait for user input.
async fn follow(
    mut going: Going,
    context: &TaskContext,
    mut running: Running,
) -> Result<Ended, TaskExit> {
    let mut asked = 0;
    loop {
        let wish = tokio::select! {
            biased;
            () = context.cancelled() => return Err(TaskExit::Cancelled),
            step = going.next() => match step {
                Ok(wish) => wish,
                Err(ended) => return Ok(ended),
            },
        };
        let Some(wish) = going.answer_known(wish) else {
            continue;
        };
        let pause = running.pause();
        let Wish {
            requests,
            mut reply,
            ..
        } = wish;
        let mut answers: Vec<Value> = Vec::with_capacity(requests.len());
        for (name, request) in requests {
            asked += 1;
            // Request names must be unique within a task.
            let answer = context.request_input(format!("{name}_{asked}"), request);
            tokio::select! {
                biased;
                answer = answer => answers.push(answer?),
                // The question was answered elsewhere and the call continues.
                () = reply.closed() => break,
            }
        }
        running = pause.end();
        let _ = reply.send(answers);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(book: &Book, id: &str, text: &str) {
        let until = Instant::now() + 2 * TIME;
        let user = UserId::token("me");
        book.owners().insert(
            id.to_owned(),
            Owner {
                user: user.clone(),
                until,
            },
        );
        let ending = Ending { id, book };
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        ending.keep(&result, &user);
    }

    #[tokio::test(start_paused = true)]
    async fn results_are_bounded_and_go_when_nobody_comes() {
        let tasks = Tasks::default();
        let book = &tasks.book;
        let has = |id: &str| book.results().get(id, &UserId::token("me")).is_some();
        kept(book, "first", "x");
        kept(book, "second", "x");
        let large = "x".repeat(RESULTS.of_one.bytes - 1_000);
        kept(book, "large", &large);
        assert!(!has("first"), "the oldest was evicted");
        assert!(has("second") && has("large"));
        kept(book, "huge", &"x".repeat(RESULTS.of_one.bytes + 1));
        let said = json!(book.results().get("huge", &UserId::token("me"))).to_string();
        assert!(said.contains("too large to store"), "{said}");
        // Entries expire relative to the end of the task, not its start.
        assert_eq!(book.owners().len(), 4);
        tokio::time::advance(TIME).await;
        tasks.sweep();
        assert_eq!(book.owners().len(), 0);
        assert!(!has("large"));
    }
}
