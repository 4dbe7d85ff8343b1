//! Runs one script: limits, time, jobs of promises, and the conversion of its result.

use std::pin::pin;
use std::rc::Rc;
use std::task::{self, Poll, Waker};
use std::time::{Duration, Instant};

use boa_engine::ast::operations::{ContainsSymbol, contains};
use boa_engine::builtins::promise::PromiseState;
use boa_engine::module::IdleModuleLoader;
use boa_engine::object::builtins::JsPromise;
use boa_engine::property::Attribute;
use boa_engine::{Context as Engine, JsError, JsResult, JsValue, Script, Source, js_string};
use toolhost_sdk::prelude::*;

use crate::builtins;
use crate::console::{self, SharedConsole};
use crate::failure;
use crate::files;
use crate::jobs::{Hooks, JobQueue};
use crate::json::{self, Refusal};
use crate::source::{Code, Guarded, parse_async_body};

/// Iterations of one loop.
pub const MOST_LOOPS: u64 = 100_000_000;
/// Calls within each other. The engine counts a call that a built-in function makes twice: it recurses on the stack of
/// the component.
pub const MOST_RECURSION: usize = 400;
/// Values on the interpreter's own stack.
const MOST_STACK_VALUES: usize = 100_000;
/// Callers in the engine's backtrace of an error.
const MOST_FRAMES: usize = 10;
/// Limit of the result as JSON in bytes.
pub const MOST_RESULT_BYTES: usize = 1 << 20;
/// Cost of instructions between two checks of the time: a few milliseconds.
const BUDGET: u32 = 100_000;
/// Time that is left to report a timeout before the host ends the call, which would discard the output.
const REPORT_TIME: Duration = Duration::from_millis(500);

/// The interpreter of one script.
pub struct Interpreter<'call> {
    cx: &'call Context,
    engine: Engine,
    jobs: Rc<JobQueue>,
    hooks: Rc<Hooks>,
    started: Instant,
    timeout: Duration,
}

impl<'call> Interpreter<'call> {
    /// An interpreter with the functions for scripts, and `input` as a variable.
    pub fn new(cx: &'call Context, input: &Value, timeout: Duration) -> Result<Self> {
        let jobs = Rc::<JobQueue>::default();
        let hooks = Rc::<Hooks>::default();
        let engine = Engine::builder()
            .job_executor(Rc::clone(&jobs))
            .host_hooks(Rc::clone(&hooks))
            .module_loader(Rc::new(IdleModuleLoader))
            .can_block(false)
            .build();
        let mut engine = engine.map_err(cannot_start)?;
        let limits = engine.runtime_limits_mut();
        limits.set_loop_iteration_limit(MOST_LOOPS);
        limits.set_recursion_limit(MOST_RECURSION);
        limits.set_stack_size_limit(MOST_STACK_VALUES);
        limits.set_backtrace_limit(MOST_FRAMES);
        install(&mut engine, cx, input).map_err(cannot_start)?;
        Ok(Self {
            cx,
            engine,
            jobs,
            hooks,
            started: Instant::now(),
            timeout: timeout.min(cx.remaining().saturating_sub(REPORT_TIME)),
        })
    }

    pub fn console(&self) -> SharedConsole {
        console::of(&self.engine)
    }

    /// Runs a script and returns its result as JSON: the value of its last expression, or what it returns.
    pub fn run(&mut self, code: &str) -> Result<Value> {
        let (code, script) = self.parse(code)?;
        let value = self.evaluate(&script);
        let value = value.and_then(|value| self.settle(value));
        let value = value.map_err(|stopped| self.stopped(stopped, &code))?;
        match json::strict(&value, MOST_RESULT_BYTES, &mut self.engine) {
            Ok(result) => Ok(result),
            Err(Refusal::Thrown(error)) => {
                Err(failure::runtime_error(error, &code, &mut self.engine))
            }
            Err(Refusal::Value(reason)) => Err(Error::failed(reason).code("result_not_json")),
        }
    }

    fn parse<'code>(&mut self, given: &'code str) -> Result<(Code<'code>, Script)> {
        let mut code = Code::new(given);
        let mut compiled = self.compile(&code);
        match parse_async_body(given) {
            // In a script, `await (x)` calls a function of the name `await`.
            Some(Ok(body))
                if compiled.is_err() || contains(&body, ContainsSymbol::AwaitExpression) =>
            {
                code = Code::async_body(given, &body);
                compiled = self.compile(&code);
            }
            Some(Err(error)) if compiled.is_err() => compiled = Err(error),
            _ => {}
        }
        match compiled {
            Ok(script) => Ok((code, script)),
            Err(error) => Err(failure::syntax_error(&error, &code)),
        }
    }

    fn compile(&mut self, code: &Code) -> JsResult<Script> {
        let text = code.text();
        let source = Source::from_reader(Guarded::new(&text), Some(Code::NAME.as_ref()));
        let script = Script::parse(source, None, &mut self.engine)?;
        script.codeblock(&mut self.engine)?;
        Ok(script)
    }

    /// Runs the script up to its end, with checks of the time. Its promises wait.
    fn evaluate(&mut self, script: &Script) -> Result<JsValue, Stopped> {
        let clock = Clock::of(self);
        let mut running = pin!(script.evaluate_async_with_budget(&mut self.engine, BUDGET));
        let mut task = task::Context::from_waker(Waker::noop());
        loop {
            match running.as_mut().poll(&mut task) {
                Poll::Ready(ended) => return Ok(ended?),
                Poll::Pending => clock.check()?,
            }
        }
    }

    /// Runs the jobs of promises, and waits for `value` if it is a promise.
    fn settle(&mut self, value: JsValue) -> Result<JsValue, Stopped> {
        while self.jobs.run_next(&mut self.engine)? {
            Clock::of(self).check()?;
        }
        let promise = value.as_object().map(JsPromise::from_object);
        let value = match promise {
            Some(Ok(promise)) => match promise.state() {
                PromiseState::Fulfilled(value) => value,
                PromiseState::Rejected(reason) => return Err(JsError::from_opaque(reason).into()),
                PromiseState::Pending => {
                    return Err(
                        Error::failed("the promise that the script returns never settles")
                            .code("promise_pending")
                            .recommend(
                                "there are no timers and no network; resolve it in the script",
                            )
                            .recommend(
                                "if it should settle, code after an `await` reached a limit of loops or recursion; move \
                                 that code before the first `await`",
                            )
                            .into(),
                    );
                }
            },
            _ => value,
        };
        let unhandled = self.hooks.unhandled().map(JsPromise::from_object);
        if let Some(Ok(promise)) = unhandled
            && let PromiseState::Rejected(reason) = promise.state()
        {
            return Err(JsError::from_opaque(reason).into());
        }
        Ok(value)
    }

    fn stopped(&mut self, stopped: Stopped, code: &Code) -> Error {
        match stopped {
            Stopped::Script(error) => failure::runtime_error(error, code, &mut self.engine),
            Stopped::Call(error) => error,
        }
    }
}

fn install(engine: &mut Engine, cx: &Context, input: &Value) -> JsResult<()> {
    builtins::install(engine)?;
    console::install(engine)?;
    files::install(cx.roots(), engine)?;
    let input = JsValue::from_json(input, engine)?;
    engine.register_global_property(js_string!("input"), input, Attribute::all())
}

fn cannot_start(error: JsError) -> Error {
    Error::failed("the interpreter cannot start")
        .code("interpreter_error")
        .cause(error)
}

/// Why a script did not reach its end.
enum Stopped {
    /// It threw, or reached a limit of the interpreter.
    Script(JsError),
    /// The call was cancelled or ran out of time, or waits for nothing.
    Call(Error),
}

impl From<JsError> for Stopped {
    fn from(error: JsError) -> Self {
        Self::Script(error)
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

/// The time of a script.
struct Clock<'call> {
    cx: &'call Context,
    started: Instant,
    timeout: Duration,
}

impl<'call> Clock<'call> {
    fn of(interpreter: &Interpreter<'call>) -> Self {
        Self {
            cx: interpreter.cx,
            started: interpreter.started,
            timeout: interpreter.timeout,
        }
    }

    /// Fails if the script has to stop.
    fn check(&self) -> Result<()> {
        self.cx.check()?;
        if self.started.elapsed() < self.timeout {
            return Ok(());
        }
        let limit = self.timeout.as_millis();
        Err(Error::interrupted(format!(
            "the script ran longer than its limit of {limit} ms"
        ))
        .code("timeout")
        .recommend("raise `timeout_ms`, up to the operator's limit, or do less at once"))
    }
}
