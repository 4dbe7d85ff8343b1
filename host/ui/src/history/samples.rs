//! Samples of what a host is doing, for the charts of its health.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use toolhost_contract::lifecycle::Timestamp;
use toolhost_kernel::{Clock, Kernel, KernelLoad};
use toolhost_store::Store;

/// Maximum number of samples: one hour.
const MAX_SAMPLES: usize = 720;

/// The newest samples.
#[derive(Default)]
pub struct Samples(Mutex<VecDeque<Sample>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub at: Timestamp,
    pub load: KernelLoad,
    /// Bytes that the records use, if they can be read.
    pub store_bytes: Option<u64>,
}

impl Samples {
    pub fn take(&self, kernel: Option<&Kernel>, store: Option<&Store>) -> Sample {
        let sample = Sample {
            at: Clock::system().now(),
            load: kernel.map(Kernel::load).unwrap_or_default(),
            store_bytes: store.and_then(|store| store.used_bytes().ok()),
        };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
        sample
    }

    pub fn all(&self) -> Vec<Sample> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().copied().collect()
    }
}
