//! One call = one store = one instance. Whatever its end, everything of it is dropped here.

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::{CallError, ErrorClass, Limits, Sink};
use wasmtime::{Engine, PoolConcurrencyLimitError, Store, Trap, UpdateDeadline};

use crate::capabilities::Allowed;
use crate::deadline::Deadline;
use crate::files::Files;
use crate::limiter::LimitHit;
use crate::state::State;
use crate::trace;

/// What surrounds one call.
pub struct Setting<'a> {
    pub limits: &'a Limits,
    pub files: Files,
    pub env: &'a [(String, String)],
    pub timeout: Duration,
    pub allowed: Allowed,
    pub sink: Arc<dyn Sink>,
}

/// Why a running guest was stopped from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum Stop {
    #[error("out of time")]
    OutOfTime,
    #[error("cancelled")]
    Cancelled,
}

/// Lets `work` make an instance and call it, under both clocks and every limit, and takes all of it away.
pub async fn run<R>(
    engine: &Engine,
    setting: Setting<'_>,
    work: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<R>,
) -> Result<R, CallError> {
    let Setting {
        limits,
        files,
        env,
        timeout,
        allowed,
        sink,
    } = setting;
    // The clock starts here and not earlier: time spent waiting for a person must not eat the tool's time. It runs
    // before the instance is made, because a start function can loop as well as any other.
    let deadline = Arc::new(Deadline::after(timeout));
    let state = State::new(limits, files, env, Arc::clone(&deadline), allowed, sink);
    let mut store = Store::new(engine, state);
    store.limiter(|state| &mut state.limiter);
    store.set_hostcall_fuel(usize::try_from(limits.hostcall).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles as usize);
    // The first of two clocks: for guests that spin. Every tick looks at the wall clock, because ticks drift when
    // the machine is busy, and gives way to other tasks.
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        let state = context.data();
        if state.deadline.is_over() {
            Err(Stop::OutOfTime.into())
        } else if state.sink.cancelled() {
            Err(Stop::Cancelled.into())
        } else {
            Ok(UpdateDeadline::Yield(1))
        }
    });
    // The second clock: for guests that wait inside the host, where no epoch reaches.
    let result = tokio::select! {
        biased;
        result = work(&mut store) => Some(result),
        () = deadline.passed() => None,
    };
    store.data().report_dropped();
    match result {
        // A host function that slept past the deadline must not end in success.
        Some(Ok(value)) if !deadline.is_over() => Ok(value),
        Some(Ok(_)) | None => Err(with_stderr(CallError::timed_out(timeout), store.data())),
        Some(Err(error)) => Err(with_stderr(
            classify(&error, timeout, store.data()),
            store.data(),
        )),
    }
}

fn classify(error: &wasmtime::Error, timeout: Duration, state: &State) -> CallError {
    let text = trace::describe(error);
    let out_of_output = || {
        CallError::new(
            ErrorClass::OutputLimit,
            "the tool produced more output than its limit allows",
        )
        .recommend("ask for less: a narrower path or pattern, or a range")
    };
    if let Some(stop) = error.downcast_ref::<Stop>() {
        return match stop {
            Stop::OutOfTime => CallError::timed_out(timeout),
            Stop::Cancelled => CallError::new(ErrorClass::Cancelled, "the call was cancelled"),
        };
    }
    if error.is::<PoolConcurrencyLimitError>() {
        let mut error = CallError::new(
            ErrorClass::Unavailable,
            "every sandbox of this host is in use",
        )
        .code("too_many_calls")
        .recommend("wait until other calls have ended, and call again");
        error.retryable = true;
        return error;
    }
    if let Some(limit) = error.downcast_ref::<LimitHit>() {
        return CallError::new(ErrorClass::LimitExceeded, limit.to_string())
            .code("out_of_memory")
            .recommend("ask for less at once, or raise the plugin's limits in the configuration");
    }
    if state.stdout.overflowed() || state.stderr.overflowed() {
        return out_of_output();
    }
    if let Some(exit) = error.downcast_ref::<wasmtime_wasi::I32Exit>() {
        return CallError::new(
            ErrorClass::Trapped,
            format!("the tool ended itself with exit code {}", exit.0),
        )
        .code("guest_exit");
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::StackOverflow) => out_of_stack(),
        // Compilers of guests keep most of the stack in linear memory, where nothing else tells its end.
        Some(Trap::MemoryOutOfBounds) if trace::is_deep_recursion(error) => {
            out_of_stack().cause(text)
        }
        Some(trap) => {
            CallError::new(ErrorClass::Trapped, format!("the tool crashed: {trap}")).cause(text)
        }
        None if text.contains("fuel allocated for hostcalls") => out_of_output(),
        None if [
            "resource table has no free keys",
            "handles",
            "resource limit exceeded",
            "limit of",
        ]
        .iter()
        .any(|hint| text.contains(hint)) =>
        {
            CallError::new(
                ErrorClass::LimitExceeded,
                "the tool used more handles, instances or tables than it may",
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
        .recommend("ask for something less deep")
}

fn with_stderr(mut error: CallError, state: &State) -> CallError {
    error.stderr = state.last_words();
    error
}
