//! Pool capacity: each call has its full limits while all other calls use theirs.

use std::time::Duration;

use futures::TryStreamExt as _;
use futures::stream::FuturesUnordered;
use tokio::sync::Barrier;
use toolhost_contract::{CallError, Limits};
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre};

use crate::export::EXTRA_INSTANCES;
use crate::load::MAX_DESCRIBED;

use super::{CallEnvironment, Compiler, Runtime, RuntimeSettings, State, instance};

/// Slots of a runtime for one concurrent call.
const SLOTS: usize = 1 + MAX_DESCRIBED + EXTRA_INSTANCES;

/// A component with the maximum number of instances, memories and tables of one call.
fn largest() -> Vec<u8> {
    const OF_MODULE: usize = 4;
    let limits = Limits::default();
    let repeat = |item: &str, count: usize| item.repeat(count);
    let (memories, tables) = (limits.memories / OF_MODULE, limits.tables / OF_MODULE);
    let wat = format!(
        "(component (core module $memories {}) (core module $tables {}) (core module $empty) {} {} {})",
        repeat("(memory 1) ", OF_MODULE),
        repeat("(table 1 funcref) ", OF_MODULE),
        repeat("(core instance (instantiate $memories)) ", memories),
        repeat("(core instance (instantiate $tables)) ", tables),
        repeat(
            "(core instance (instantiate $empty)) ",
            limits.instances - memories - tables
        ),
    );
    wat::parse_str(wat).unwrap()
}

/// A call that creates its instances and waits until all calls have created theirs.
async fn hold(
    engine: &Engine,
    component: &InstancePre<State>,
    all_hold: &Barrier,
) -> Result<(), CallError> {
    let limits = Limits::default();
    let setting = CallEnvironment::without_grants(&limits, Duration::from_secs(120));
    instance::run(engine, setting, async |store| {
        component.instantiate_async(&mut *store).await?;
        all_hold.wait().await;
        Ok(())
    })
    .await
}

#[tokio::test]
async fn all_calls_can_use_their_full_limits_at_once() {
    let runtime = Runtime::new(RuntimeSettings {
        cache_dir: None,
        compiler: Compiler::InProcess,
        max_concurrent: 1,
        environment: Vec::new(),
    });
    let runtime = runtime.unwrap();
    let (engine, linker) = runtime.engine_and_linker();
    let component = Component::new(engine, largest()).unwrap();
    let component = linker.instantiate_pre(&component).unwrap();
    let all_hold = Barrier::new(SLOTS);
    let calls: FuturesUnordered<_> = (0..SLOTS)
        .map(|_| hold(engine, &component, &all_hold))
        .collect();
    calls.try_collect::<()>().await.unwrap();
    // No slot is free, so the pool was in full use.
    let all_hold = Barrier::new(SLOTS + 1);
    let calls: FuturesUnordered<_> = (0..=SLOTS)
        .map(|_| hold(engine, &component, &all_hold))
        .collect();
    let refused = calls.try_collect::<()>().await.unwrap_err();
    assert_eq!(refused.code, "too_many_calls");
}
