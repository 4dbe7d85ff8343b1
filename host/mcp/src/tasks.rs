//! Calls that take long and whose client rather asks again later than wait: the tasks extension.
//!
//! A call becomes a task when it has taken a while and the client said that it knows tasks. It goes on as it is, and
//! what it asks is asked through the task. A task belongs to the principal that called.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rmcp::model::{CreateTaskResult, DetailedTask, ErrorData, InputResponses};
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use serde_json::Value;
use toolhost_contract::text;

use crate::answer::Answering;
use crate::ask::{Ended, Going, Wish};
use crate::running::Running;

/// A task that takes longer is ended, and its result is kept as long.
const TIME: Duration = Duration::from_mins(30);
/// How often a client should look.
const LOOK: Duration = Duration::from_secs(1);
/// Tasks that are kept, ended ones included; of all principals, and of one.
const TASKS: usize = 256;
const TASKS_OF_ONE: usize = 32;

#[derive(Default)]
pub(crate) struct Tasks {
    manager: TaskManager,
    /// By the ids of tasks.
    owners: Mutex<HashMap<String, String>>,
}

impl Tasks {
    /// Makes the call a task. Err: there are too many, and the client has to wait for it.
    pub(crate) fn take(
        &self,
        going: Going,
        answering: Answering,
    ) -> Result<CreateTaskResult, Box<(Going, Answering)>> {
        let owner = answering.owner.clone();
        let mut owners = self.owners();
        owners.retain(|id, _| self.manager.get_task(id).is_ok());
        let own = owners.values().filter(|other| **other == owner).count();
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
        let task = self.manager.spawn(options, |context| {
            Box::pin(async move {
                let ended = follow(going, &context, running).await?;
                answering.answer(ended).map_err(TaskExit::Error)
            })
        });
        owners.insert(task.task_id.clone(), owner);
        Ok(CreateTaskResult::new(task))
    }

    pub(crate) fn get(&self, id: &str, owner: &str) -> Result<DetailedTask, ErrorData> {
        self.known(id, owner)?;
        self.manager.get_task(id).map_err(|_| unknown(id))
    }

    pub(crate) fn update(
        &self,
        id: &str,
        owner: &str,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        self.known(id, owner)?;
        let updated = self.manager.update_task(id, responses);
        updated.map_err(|_| unknown(id))
    }

    pub(crate) fn cancel(&self, id: &str, owner: &str) -> Result<(), ErrorData> {
        self.known(id, owner)?;
        self.manager.cancel_task(id).map_err(|_| unknown(id))
    }

    /// Nobody asks any more.
    pub(crate) fn end(&self) {
        self.manager.shutdown();
        self.owners().clear();
    }

    /// Another principal's task is as unknown as one that never was.
    fn known(&self, id: &str, owner: &str) -> Result<(), ErrorData> {
        let owners = self.owners();
        let known = owners.get(id).is_some_and(|other| other == owner);
        known.then_some(()).ok_or_else(|| unknown(id))
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
