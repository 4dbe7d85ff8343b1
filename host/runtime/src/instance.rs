//! Runs one call in a new store and instance, which are dropped when it ends.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::{CallError, ErrorClass, Limits, NoSink, Sink};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::backtrace;
use crate::capabilities::CallCapabilities;
use crate::deadline::{Deadline, Expired};
use crate::engine;
use crate::files::Files;
use crate::limiter::LimitExceeded;
use crate::state::State;

/// Size of the records and names of a result in addition to its content, in bytes.
const OUTPUT_OVERHEAD: u64 = 1 << 20;

/// The environment of one call.
pub struct CallEnvironment<'a> {
    pub limits: &'a Limits,
    pub files: Files,
    pub env: &'a [(String, String)],
    pub timeout: Duration,
    /// How long the guest may report nothing.
    pub inactivity: Option<Duration>,
    /// Limit of the time that the guest computes; waiting for a processor does not count. `None`: no limit.
    pub processor_time: Option<Duration>,
    pub allowed: CallCapabilities,
    pub sink: Arc<dyn Sink>,
}

/// Why the host stopped a running guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Stop {
    #[error("out of time")]
    OutOfTime,
    #[error("cancelled")]
    Cancelled,
}

/// The time limits of one call.
pub(crate) struct TimeLimits {
    timeout: Duration,
    processor_time: Option<Duration>,
}

impl<'a> CallEnvironment<'a> {
    /// An environment without grants. Its output and events are dropped.
    pub(crate) fn without_grants(limits: &'a Limits, timeout: Duration) -> Self {
        Self {
            limits,
            files: Files::none(),
            env: &[],
            timeout,
            inactivity: None,
            processor_time: None,
            allowed: CallCapabilities::default(),
            sink: Arc::new(NoSink),
        }
    }

    /// Starts the deadline of the next function of a call in a state that has the same grants.
    pub(crate) fn restart(self, state: &mut State) -> TimeLimits {
        let (time, deadline) = self.time_limits();
        state.deadline = deadline;
        time
    }

    fn time_limits(&self) -> (TimeLimits, Arc<Deadline>) {
        let time = TimeLimits {
            timeout: self.timeout,
            processor_time: self.processor_time,
        };
        let deadline = Deadline::after(self.timeout, self.inactivity);
        (time, Arc::new(deadline))
    }

    /// Starts the deadline, so that time spent waiting for the user does not count.
    pub(crate) fn start(self) -> (State, TimeLimits) {
        let (time, deadline) = self.time_limits();
        let state = State::new(
            self.limits,
            self.files,
            self.env,
            deadline,
            self.allowed,
            self.sink,
        );
        (state, time)
    }
}

/// Runs `work` in a new store, with deadline, cancellation and all limits.
pub async fn run<R>(
    engine: &Engine,
    environment: CallEnvironment<'_>,
    work: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<R>,
) -> Result<R, CallError> {
    let limits = environment.limits;
    let (state, time) = environment.start();
    let mut store = new_store(engine, state, limits);
    run_in(&mut store, time, work).await
}

pub(crate) fn new_store(engine: &Engine, state: State, limits: &Limits) -> Store<State> {
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    // A result is data that wasmtime copies out of the guest, like the arguments of a host call.
    let copied = limits
        .hostcall_bytes
        .max(limits.output.saturating_add(OUTPUT_OVERHEAD));
    store.set_hostcall_fuel(usize::try_from(copied).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    store
}

/// Runs `work` in a store until the deadline of its state. This covers instantiation, because a start function can
/// loop.
pub(crate) async fn run_in<R>(
    store: &mut Store<State>,
    time: TimeLimits,
    work: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<R>,
) -> Result<R, CallError> {
    let TimeLimits {
        timeout,
        processor_time,
    } = time;
    let deadline = Arc::clone(&store.data().deadline);
    // First timer, for spinning guests. Each epoch tick checks the wall clock, because ticks drift on a busy
    // machine, and yields to other tasks.
    store.set_epoch_deadline(1);
    // A guest that does not run misses ticks but is called back only once, so the calls measure its processor time.
    // The first tick can come at once.
    let mut ticks = processor_time.map(|time| engine::ticks(time).saturating_add(1));
    store.epoch_deadline_callback(move |context| {
        let state = context.data();
        let is_used_up = ticks.as_mut().is_some_and(|ticks| {
            *ticks = ticks.saturating_sub(1);
            *ticks == 0
        });
        if is_used_up || state.deadline.is_over() {
            Err(Stop::OutOfTime.into())
        } else if state.sink.is_cancelled() {
            Err(Stop::Cancelled.into())
        } else {
            Ok(UpdateDeadline::Yield(1))
        }
    });
    // Second timer, for guests that wait in a host function, where epochs have no effect.
    let result = tokio::select! {
        biased;
        result = work(&mut *store) => Some(result),
        () = deadline.expired() => None,
    };
    store.data().finish_events();
    match result {
        // A host function that exceeded the deadline must not succeed.
        Some(Ok(value)) if !deadline.is_over() => Ok(value),
        Some(Ok(_)) | None => Err(with_stderr(out_of_time(timeout, &deadline), store.data())),
        Some(Err(error)) => Err(with_stderr(
            classify(&error, timeout, store.data()),
            store.data(),
        )),
    }
}

fn out_of_time(timeout: Duration, deadline: &Deadline) -> CallError {
    match deadline.expiring() {
        Expired::Deadline => CallError::timed_out(timeout),
        Expired::Inactivity(limit) => CallError::inactive(limit),
    }
}

fn classify(error: &wasmtime::Error, timeout: Duration, state: &State) -> CallError {
    let text = backtrace::describe(error);
    let out_of_output = || {
        CallError::new(
            ErrorClass::OutputLimit,
            "the tool produced more output than its limit allows",
        )
        .recommend("ask for less: a narrower path or pattern, or a range")
    };
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop {
            Stop::OutOfTime => out_of_time(timeout, &state.deadline),
            Stop::Cancelled => CallError::new(ErrorClass::Cancelled, "the call was cancelled"),
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        let mut error = CallError::new(
            ErrorClass::Unavailable,
            "all sandboxes of this host are in use",
        )
        .code("too_many_calls")
        .recommend("wait until other calls have ended, then try again");
        error.retryable = true;
        return error;
    }
    if let Some(limit) = error.downcast_ref::<LimitExceeded>() {
        return CallError::new(ErrorClass::LimitExceeded, limit.to_string())
            .code("out_of_memory")
            .recommend("ask for less at once, or raise the plugin's limits in the configuration");
    }
    if state.output_overflowed() {
        return out_of_output();
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return CallError::new(
            ErrorClass::Trapped,
            format!("the tool exited with code {}", exit.0),
        )
        .code("guest_exit");
    }
    // Without the backtrace, which contains names that the guest chose.
    let reason = error.root_cause().to_string();
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => out_of_stack(),
        // Guest compilers put most of the stack in linear memory, where an overflow is an out-of-bounds access.
        Some(Trap::MemoryOutOfBounds) if backtrace::is_deep_recursion(error) => {
            out_of_stack().cause(text)
        }
        Some(trap) => {
            CallError::new(ErrorClass::Trapped, format!("the tool crashed: {trap}")).cause(text)
        }
        None if reason.contains("fuel allocated for hostcalls") => out_of_output(),
        None if [
            "resource table has no free keys",
            "handles",
            "resource limit exceeded",
            "limit of",
        ]
        .iter()
        .any(|hint| reason.contains(hint)) =>
        {
            CallError::new(
                ErrorClass::LimitExceeded,
                "the tool exceeded its limit of handles, instances or tables",
            )
            .cause(text)
        }
        None => CallError::new(
            ErrorClass::Trapped,
            "the tool crashed in a call to the host",
        )
        .cause(text),
    }
}

fn out_of_stack() -> CallError {
    CallError::new(ErrorClass::StackOverflow, "the tool ran out of stack")
        .recommend("ask for less deeply nested data")
}

fn with_stderr(mut error: CallError, state: &State) -> CallError {
    error.stderr = state.stderr_tail();
    error
}
