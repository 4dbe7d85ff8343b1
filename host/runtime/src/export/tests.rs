//! When an instance is created before its call, and when it is not.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use toolhost_contract::{BackendState, CallError, CallEvent, ErrorClass, Limits, Sink};
use wasmtime::ResourceLimiter as _;

use super::{Export, MAX_FAILURES, MAX_KEPT, MAX_READY};
use crate::instance::CallEnvironment;
use crate::tests::{Tools, call_tool, component, request, wrap};
use crate::{Compiler, Runtime, RuntimeSettings};

/// Returns an empty outcome.
const SUCCEED: &str = "(i32.const 0)";

const TIMEOUT: Duration = Duration::from_secs(10);

/// Each test creates a runtime, because all components of a runtime share its limit of ready instances.
fn runtime() -> Runtime {
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir: None,
        compiler: Compiler::InProcess,
        max_concurrent: 1,
        environment: Vec::new(),
    });
    runtime.unwrap()
}

async fn tools(runtime: &Runtime, component: &[u8]) -> Tools {
    let path = Path::new("test.wasm");
    runtime.link(path, component).await.unwrap()
}

async fn call(tools: &Tools, limits: &Limits) -> Result<(), CallError> {
    let outcome = call_tool(tools, limits, TIMEOUT, &request()).await?;
    outcome.unwrap();
    Ok(())
}

/// Calls the tool and waits for what follows the call.
async fn call_and_settle(tools: &Tools) {
    call(tools, &Limits::default()).await.unwrap();
    tools.settle().await;
}

#[tokio::test]
async fn a_call_uses_the_instance_that_was_created_after_the_one_before() {
    let tools = tools(&runtime(), &component(SUCCEED, "")).await;
    assert!(!tools.is_ready());
    for _ in 0..3 {
        call(&tools, &Limits::default()).await.unwrap();
        // The next one is not created before another task can run.
        assert!(!tools.is_ready());
        tools.settle().await;
        assert!(tools.is_ready());
    }
}

#[tokio::test]
async fn an_instance_that_calls_the_host_while_it_is_created_belongs_to_its_call() {
    let wat = r#"(module
        (import "toolhost:plugin/host@0.1.0" "cancelled" (func $cancelled (result i32)))
        (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
        (func (export "toolhost:plugin/tool@0.1.0#describe") (param i32 i32) (result i32) (i32.const 0))
        (func (export "toolhost:plugin/tool@0.1.0#call") (param i32) (result i32) (i32.const 0))
        (func $start (drop (call $cancelled)))
        (start $start))"#;
    let tools = tools(&runtime(), &wrap("plugin", wat)).await;
    for _ in 0..2 {
        call_and_settle(&tools).await;
        assert!(!tools.is_ready());
    }
}

#[tokio::test]
async fn no_instance_is_created_after_a_failure() {
    let tools = tools(&runtime(), &component("(unreachable)", "")).await;
    let error = call(&tools, &Limits::default()).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Trapped);
    tools.settle().await;
    assert!(!tools.is_ready());
}

#[tokio::test]
async fn an_instance_that_needs_much_time_or_memory_is_created_in_its_call() {
    let spin = "(func $spin (local i32)
        (loop $l (br_if $l (i32.lt_u (local.tee 0 (i32.add (local.get 0) (i32.const 1))) (i32.const 300000000)))))
        (start $spin)";
    for extra in [spin, "(memory 260)"] {
        let tools = tools(&runtime(), &component(SUCCEED, extra)).await;
        call_and_settle(&tools).await;
        assert!(!tools.is_ready(), "{extra}");
        // On a busy machine an instance can take long once.
        assert_eq!(tools.is_unsuitable(), extra != spin);
        while !tools.is_unsuitable() {
            assert!(tools.0.failures.load(Relaxed) <= MAX_FAILURES);
            tools.0.create_next(&Limits::default());
            tools.settle().await;
        }
    }
}

#[tokio::test]
async fn limits_of_a_call_apply_to_the_creation_of_its_instance() {
    let tools = tools(&runtime(), &component(SUCCEED, "(memory 20)")).await;
    call_and_settle(&tools).await;
    assert!(tools.is_ready());
    let less = Limits {
        memory: 1 << 20,
        ..Limits::default()
    };
    let error = call(&tools, &less).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::LimitExceeded);
}

#[tokio::test]
async fn memory_of_a_ready_instance_counts_for_its_call() {
    // With the memory that every component has, two pages.
    let tools = tools(&runtime(), &component(SUCCEED, "(memory 1)")).await;
    let limits = Limits {
        memory: 3 << 16,
        ..Limits::default()
    };
    for is_ready in [false, true] {
        assert_eq!(tools.is_ready(), is_ready);
        let environment = CallEnvironment::without_grants(&limits, TIMEOUT);
        let grown = tools.run(environment, async |store, _| {
            let limiter = &mut store.data_mut().limiter;
            let fits = limiter.memory_growing(0, 1 << 16, None)?;
            Ok((fits, limiter.memory_growing(0, 1 << 16, None).is_err()))
        });
        assert_eq!(grown.await.unwrap(), (true, true));
        tools.settle().await;
    }
}

/// Keeps the memory of the last call.
#[derive(Default)]
struct MemorySink(AtomicU64);

impl Sink for MemorySink {
    fn event(&self, _: CallEvent) {}

    fn record_memory(&self, bytes: u64) {
        self.0.store(bytes, Relaxed);
    }
}

#[tokio::test]
async fn the_memory_of_a_call_is_reported_also_if_the_call_fails() {
    let limits = Limits::default();
    for (result, is_ok) in [(SUCCEED, true), ("(unreachable)", false)] {
        let tools = tools(&runtime(), &component(result, "(memory 3)")).await;
        // Created in its call, and before it if the first one succeeded.
        for _ in 0..2 {
            let sink = Arc::new(MemorySink::default());
            let environment = CallEnvironment {
                sink: Arc::<MemorySink>::clone(&sink),
                ..CallEnvironment::without_grants(&limits, TIMEOUT)
            };
            let ran = tools.run(environment, async |store, _| {
                store.data_mut().limiter.memory_growing(0, 1 << 16, None)?;
                if is_ok {
                    Ok(())
                } else {
                    Err(wasmtime::Error::msg("failed"))
                }
            });
            assert_eq!(ran.await.is_ok(), is_ok);
            assert_eq!(sink.0.load(Relaxed), 5 << 16);
            tools.settle().await;
        }
    }
}

#[tokio::test]
async fn the_instance_that_has_waited_longest_is_dropped() {
    let runtime = runtime();
    let component = component(SUCCEED, "");
    let mut all = Vec::new();
    for _ in 0..=MAX_READY {
        let tools = tools(&runtime, &component).await;
        call_and_settle(&tools).await;
        all.push(tools);
    }
    assert!(!all[0].is_ready());
    assert!(all[1..].iter().all(Export::is_ready));
    // The first is used again, so the second has waited longest.
    call_and_settle(&all[0]).await;
    assert!(all[0].is_ready() && !all[1].is_ready());
}

#[tokio::test]
async fn an_instance_that_a_call_kept_is_dropped_when_the_call_ends() {
    let runtime = runtime();
    let tools = tools(&runtime, &component(SUCCEED, "")).await;
    let instances = &tools.0.instances;
    for is_busy in [false, true] {
        let running = if is_busy { instances.processors } else { 0 };
        let running: Vec<_> = (0..running).map(|_| instances.count_running()).collect();
        assert_eq!(instances.has_idle_processors(), !is_busy);
        let (state, limits) = (BackendState::default(), Limits::default());
        let environment = CallEnvironment::without_grants(&limits, TIMEOUT);
        let ended = tools.run_shared(environment, &state, async |_, _| Ok(()));
        ended.await.unwrap();
        assert_eq!(instances.kept.available_permits(), MAX_KEPT - 1);
        state.clear();
        // The tests have one thread, so the task has not run yet.
        let kept = usize::from(!is_busy);
        assert_eq!(instances.kept.available_permits(), MAX_KEPT - kept);
        drop(running);
        tools.settle().await;
        // On a busy machine the next call creates its instance.
        assert_eq!(tools.is_ready(), !is_busy);
        assert_eq!(instances.kept.available_permits(), MAX_KEPT);
    }
}

#[test]
fn the_next_call_creates_its_instance_after_a_runtime_has_ended() {
    let new = || {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    };
    let host = runtime();
    let tools = new().block_on(async {
        let tools = tools(&host, &component(SUCCEED, "")).await;
        // The runtime ends before the task runs.
        call(&tools, &Limits::default()).await.unwrap();
        tools
    });
    assert!(!tools.is_ready());
    new().block_on(call_and_settle(&tools));
    assert!(tools.is_ready());
}
