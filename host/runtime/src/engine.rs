//! The wasmtime engine of the process, and the thread that increments its epoch.

use std::num::NonZeroUsize;
use std::time::Duration;

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy,
    WasmBacktraceDetails,
};

use crate::RuntimeError;
use toolhost_contract::Limits;

/// Epoch interval: the maximum delay before a spinning guest checks its deadline and yields.
const TICK: Duration = Duration::from_millis(5);

const MAX_WASM_STACK: usize = 512 << 10;
/// Leaves at least 1.5 MiB for host functions called at the maximum depth of the guest's stack.
const ASYNC_STACK: usize = 2 << 20;

/// Size of a linear memory that is reset by overwriting after a call, and stays resident for the next. Pages beyond
/// it are returned to the kernel, and each costs a page fault and a TLB shootdown in each call. The size covers
/// Rust's default guest stack (1 MiB) and the data of a small plugin.
pub(crate) const RESIDENT: usize = 1280 << 10;

/// All settings that compiled code depends on, shared by the compiling child and the host.
pub fn config() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .epoch_interruption(true)
        .max_wasm_stack(MAX_WASM_STACK)
        .async_stack_size(ASYNC_STACK)
        .async_stack_zeroing(true)
        .wasm_component_model(true)
        // Half of the last year's advisories concern proposals that plugins don't need. The cargo features `gc` and
        // `threads` stay enabled, because builds without them can abort.
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
        // The limiter is not called for shared memories.
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
        .wasm_backtrace_max_frames(NonZeroUsize::new(crate::backtrace::FRAMES))
        .native_unwind_info(true)
        .signals_based_traps(true)
        .guard_before_linear_memory(true);
    config
}

/// The engine that runs calls: [`config`] with a pool for `slots` concurrent calls.
pub fn running(slots: u32) -> Result<Engine, RuntimeError> {
    let limits = Limits::default();
    // Each call can use its full limits regardless of other calls. Unused memory only reserves address space.
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
        // No call may see memory of another, so resident pages are overwritten completely. PAGEMAP_SCAN, which
        // finds only the written pages, is not used: it does not report pages that were swapped out, which would
        // keep their content.
        .linear_memory_keep_resident(RESIDENT)
        // The tables of the shipped plugins have up to 2,200 elements of 8 bytes. A page that is returned to the kernel
        // costs two page faults in the next call.
        .table_keep_resident(32 << 10)
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

/// The number of epoch intervals in `time`, rounded up.
pub fn ticks(time: Duration) -> u32 {
    u32::try_from(time.as_millis().div_ceil(TICK.as_millis())).unwrap_or(u32::MAX)
}

/// Increments the epoch on a dedicated thread, so that a busy executor cannot delay it. The thread ends with the
/// engine.
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
