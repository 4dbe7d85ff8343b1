//! One engine for the whole process, and the thread that moves its epoch.

use std::num::NonZeroUsize;
use std::time::Duration;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails,
};

use crate::RuntimeError;
use toolhost_contract::Limits;

/// A spinning guest notices its deadline, and gives way to others, at most this late.
const TICK: Duration = Duration::from_millis(5);

const MAX_WASM_STACK: usize = 512 << 10;
/// At least 1.5 MiB are left for host functions called at the deepest point of a guest's stack.
const ASYNC_STACK: usize = 2 << 20;

/// So much of a memory is overwritten when its call has ended, and stays for the next one. What lies behind it goes back
/// to the kernel, and each of its pages then costs a fault, and an interrupt of the other processors, in each call. It
/// is the stack that Rust gives a guest (1 MiB) and what a small plugin has behind it.
pub(crate) const RESIDENT: usize = 1280 << 10;

/// Everything that compiled code depends on. The compiling child and the running host share it.
pub fn config() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_WASM_STACK)
        .async_stack_size(ASYNC_STACK)
        .async_stack_zeroing(true)
        .wasm_component_model(true)
        // Half of the year's advisories live in proposals that no plugin of ours needs. The cargo features `gc` and
        // `threads` stay in all the same: builds without them can abort.
        .concurrency_support(false)
        .wasm_component_model_error_context(false)
        .wasm_component_model_gc(false)
        .wasm_component_model_map(false)
        .wasm_component_model_memory64(false)
        .wasm_component_model_fixed_length_lists(false)
        .wasm_gc(false)
        .wasm_function_references(false)
        .wasm_exceptions(false)
        .gc_support(false)
        .wasm_threads(false)
        // The limiter is not asked about shared memories.
        .shared_memory(false)
        .wasm_memory64(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false)
        .wasm_stack_switching(false)
        .wasm_shared_everything_threads(false)
        .wasm_relaxed_simd(false)
        .wasm_tail_call(true)
        .wasm_multi_memory(true)
        .memory_reservation(Limits::MAX_MEMORY)
        .memory_guard_size(32 << 20)
        .memory_init_cow(true)
        .generate_address_map(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(crate::trace::FRAMES))
        .native_unwind_info(true)
        .signals_based_traps(true)
        .guard_before_linear_memory(true);
    config
}

/// The engine that runs calls: as [`config`], with a pool for `slots` calls at once.
pub fn running(slots: u32) -> Result<Engine, RuntimeError> {
    let limits = Limits::default();
    // Each call may have as much as its limits say, however much the others have. Of what is not used, only addresses
    // are reserved.
    let of_all = |of_one: usize| {
        u32::try_from(of_one).map_or(u32::MAX, |of_one| slots.saturating_mul(of_one))
    };
    let mut pool = PoolingAllocationConfig::default();
    pool.total_component_instances(slots)
        .total_core_instances(of_all(limits.instances))
        .total_memories(of_all(limits.memories))
        .total_tables(of_all(limits.tables))
        .total_stacks(slots)
        .max_memory_size(usize::try_from(Limits::MAX_MEMORY).unwrap_or(usize::MAX))
        .table_elements(limits.table_elements)
        .max_tables_per_module(4)
        .max_memories_per_module(4)
        .max_core_instances_per_component(64)
        .max_memories_per_component(8)
        .max_tables_per_component(64)
        .max_core_instance_size(1 << 20)
        .max_component_instance_size(1 << 20)
        // Nothing of one call may be seen by another: what is kept is overwritten, all of it. Not only what was written,
        // with the help of PAGEMAP_SCAN: it does not report a page that was swapped out, so what was on it would stay.
        .linear_memory_keep_resident(RESIDENT)
        .table_keep_resident(4 << 10)
        .async_stack_keep_resident(16 << 10)
        .max_unused_warm_slots(8);
    let mut config = config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    let engine =
        Engine::new(&config).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
    tick(&engine)?;
    Ok(engine)
}

/// The engine that only compiles.
pub fn compiling() -> Result<Engine, RuntimeError> {
    Engine::new(&config()).map_err(|error| RuntimeError::Engine(format!("{error:#}")))
}

/// Moves the epoch from a thread of its own, so that a busy executor cannot starve it. It ends when the engine does.
fn tick(engine: &Engine) -> Result<(), RuntimeError> {
    let engine = engine.weak();
    std::thread::Builder::new()
        .name("toolhost-epoch".to_owned())
        .spawn(move || {
            while let Some(engine) = engine.upgrade() {
                engine.increment_epoch();
                drop(engine);
                std::thread::sleep(TICK);
            }
        })
        .map(drop)
        .map_err(|error| RuntimeError::Engine(format!("cannot start the epoch thread: {error}")))
}
