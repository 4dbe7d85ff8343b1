//! The jobs of promises, which run one by one, so that time limit and cancellation apply between them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use boa_engine::builtins::promise::{OperationType, Promise};
use boa_engine::context::HostHooks;
use boa_engine::job::{Job, JobExecutor};
use boa_engine::object::JsObject;
use boa_engine::realm::Realm;
use boa_engine::{Context, JsNativeError, JsResult, JsString};

/// Jobs that wait, in their order.
#[derive(Default)]
pub struct JobQueue {
    jobs: RefCell<VecDeque<Job>>,
}

impl JobQueue {
    /// Runs the next job; false if none waits.
    pub fn run_next(&self, context: &mut Context) -> JsResult<bool> {
        let Some(job) = self.jobs.borrow_mut().pop_front() else {
            return Ok(false);
        };
        match job {
            Job::PromiseJob(job) => job.call(context).map(|_| true),
            Job::GenericJob(job) => job.call(context).map(|_| true),
            // Only `enqueue_job` fills the queue.
            _ => Ok(true),
        }
    }
}

impl JobExecutor for JobQueue {
    fn enqueue_job(self: Rc<Self>, job: Job, _: &mut Context) {
        // Nothing that a script can call creates timers or waits for the host. A finalizer need not run.
        if matches!(job, Job::PromiseJob(_) | Job::GenericJob(_)) {
            self.jobs.borrow_mut().push_back(job);
        }
    }

    fn run_jobs(self: Rc<Self>, context: &mut Context) -> JsResult<()> {
        while self.run_next(context)? {}
        Ok(())
    }
}

/// Limits of the interpreter that are functions: no code from strings, bounded buffers. Also collects the rejected
/// promises that nothing handles.
#[derive(Debug, Default)]
pub struct Hooks {
    rejected: RefCell<Vec<JsObject>>,
}

/// Limit of an `ArrayBuffer` in bytes, below the memory limit of the call.
const MOST_BUFFER_BYTES: u64 = 64 << 20;
/// Rejected promises that are remembered; one is enough for an error.
const MOST_REJECTED: usize = 100;

impl Hooks {
    /// The first rejected promise without a handler.
    pub fn unhandled(&self) -> Option<JsObject> {
        self.rejected.borrow().first().cloned()
    }
}

impl HostHooks for Hooks {
    fn promise_rejection_tracker(
        &self,
        promise: &JsObject<Promise>,
        operation: OperationType,
        _: &mut Context,
    ) {
        let promise = promise.clone().upcast();
        let mut rejected = self.rejected.borrow_mut();
        match operation {
            OperationType::Reject if rejected.len() < MOST_REJECTED => rejected.push(promise),
            OperationType::Reject => {}
            OperationType::Handle => rejected.retain(|other| !JsObject::equals(other, &promise)),
        }
    }

    fn ensure_can_compile_strings(
        &self,
        _: Realm,
        _: &[JsString],
        _: &JsString,
        _: bool,
        _: &mut Context,
    ) -> JsResult<()> {
        // The guard against deep nesting reads the script only.
        Err(JsNativeError::eval()
            .with_message("eval and new Function are not available; write the code in the script")
            .into())
    }

    fn max_buffer_size(&self, _: &mut Context) -> u64 {
        MOST_BUFFER_BYTES
    }
}
