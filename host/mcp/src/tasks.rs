//! Calls that take long and whose client rather asks again later than wait: the tasks extension.
//!
//! A call becomes a task when it has taken a while and the client said that it knows tasks. It goes on as it is, and
//! what it asks is asked through the task. A task belongs to the user who called.

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

/// A task that takes longer is ended, and its result is kept as long.
const TIME: Duration = Duration::from_mins(30);
/// How often a client should look.
const LOOK: Duration = Duration::from_secs(1);
/// Tasks that are kept, ended ones included; of all principals, and of one.
const TASKS: usize = 256;
const TASKS_OF_ONE: usize = 32;
/// Bytes of a value besides its text.
const VALUE: usize = 32;

/// Room for results, which are kept apart from what rmcp knows of a task: it can neither let one go nor look at one
/// without copying it.
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

/// Whose tasks there are, and what came of them.
struct Book {
    /// By the ids of tasks.
    owners: Mutex<HashMap<String, Owner>>,
    results: Mutex<Shelf<JsonObject>>,
}

struct Owner {
    user: UserId,
    /// rmcp does not know the task any more then.
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
    /// Makes the call a task. Err: there are too many, and the client has to wait for it.
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
        // It has at most its time to run and as much to be looked at. Whatever it does first waits for this entry.
        let until = now + 2 * TIME;
        owners.insert(task.task_id.clone(), Owner { user, until });
        Ok(CreateTaskResult::new(task))
    }

    pub(crate) fn get(&self, id: &str, owner: &UserId) -> Result<DetailedTask, ErrorData> {
        self.known(id, owner)?;
        let mut task = self.manager.get_task(id).map_err(|_| unknown(id))?;
        if let TaskPayload::Completed { result } = &mut task.payload {
            let mut results = self.book.results();
            // It may have made room for others.
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

    /// Lets go what was kept long enough, and ends what took too long.
    pub(crate) fn sweep(&self) {
        // To be asked for anything is when rmcp sweeps, and this is the cheapest question.
        let _ = self.manager.running_task_count();
        let now = Instant::now();
        self.book.owners().retain(|_, owner| owner.until > now);
        self.book.results().sweep();
    }

    /// Nobody asks any more.
    pub(crate) fn end(&self) {
        self.manager.shutdown();
        self.book.owners().clear();
        self.book.results().clear();
    }

    /// Another principal's task is as unknown as one that never was.
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

/// However a task ends, its entry goes when its time to be looked at is over.
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
        let note = "the call has ended, and its result is too large to be kept; ask for a part";
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

/// About the bytes that it takes here.
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
    ErrorData::invalid_params(format!("there is no task {shown}, or not any more"), None)
}

/// Awaits the end of the call and passes on what it asks. Dropped, the call ends. It is one of those that run, except
/// while it waits for an answer: a host that stops waits for work and not for people.
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
            // A name is used once in the life of a task.
            let answer = context.request_input(format!("{name}_{asked}"), request);
            tokio::select! {
                biased;
                answer = answer => answers.push(answer?),
                // Answered elsewhere, and the call goes on.
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
        assert!(!has("first"), "the oldest made room");
        assert!(has("second") && has("large"));
        kept(book, "huge", &"x".repeat(RESULTS.of_one.bytes + 1));
        let said = json!(book.results().get("huge", &UserId::token("me"))).to_string();
        assert!(said.contains("too large to be kept"), "{said}");
        // An entry is kept from its end on and not from its beginning.
        assert_eq!(book.owners().len(), 4);
        tokio::time::advance(TIME).await;
        tasks.sweep();
        assert_eq!(book.owners().len(), 0);
        assert!(!has("large"));
    }
}
