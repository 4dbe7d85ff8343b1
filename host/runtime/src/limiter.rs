//! Limits what a store may allocate, as a total of all its memories, tables and instances.

use toolhost_contract::Limits;
use wasmtime::ResourceLimiter;

/// Ends the call with an error instead of returning -1 from `memory.grow`: most guests turn that into an
/// `unreachable` trap, which hides the cause.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("the tool needs more than {limit} bytes of memory")]
    Memory { limit: u64 },
}

pub struct Limiter {
    memory_used: u64,
    memory: u64,
    table_elements: usize,
    instances: usize,
    tables: usize,
    memories: usize,
}

impl Limiter {
    pub fn new(limits: &Limits) -> Self {
        Self {
            memory_used: 0,
            memory: limits.memory,
            table_elements: limits.table_elements,
            instances: limits.instances,
            tables: limits.tables,
            memories: limits.memories,
        }
    }

    /// Size of all memories in bytes.
    pub fn memory_used(&self) -> u64 {
        self.memory_used
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Growth beyond the memory's own maximum returns -1, as specified.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let grown = self
            .memory_used
            .saturating_add(desired.saturating_sub(current) as u64);
        if grown > self.memory {
            return Err(LimitExceeded::Memory { limit: self.memory }.into());
        }
        self.memory_used = grown;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        // Unlike memories, language runtimes do not need large tables, so -1 is sufficient.
        Ok(desired <= self.table_elements.min(maximum.unwrap_or(usize::MAX)))
    }

    fn instances(&self) -> usize {
        self.instances
    }

    fn tables(&self) -> usize {
        self.tables
    }

    fn memories(&self) -> usize {
        self.memories
    }
}
