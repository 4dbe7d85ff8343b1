//! Quota of bytes that a call may write to files.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use rustix::io::Errno;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{DynOutputStream, OutputStream, Pollable, StreamError, StreamResult};

/// Remaining bytes, shared by clones.
#[derive(Clone)]
pub struct WriteQuota(Arc<AtomicU64>);

impl WriteQuota {
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    /// Returns `false`, and takes nothing, if fewer bytes are left.
    pub fn take(&self, bytes: usize) -> bool {
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes as u64)
            })
            .is_ok()
    }
}

/// An output stream to a file that counts written bytes.
pub struct QuotaStream {
    pub inner: DynOutputStream,
    pub quota: WriteQuota,
}

#[async_trait]
impl OutputStream for QuotaStream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if !self.quota.take(bytes.len()) {
            // The error that a file system returns when a user's disk quota is exceeded.
            let error = std::io::Error::from(Errno::DQUOT);
            return Err(StreamError::LastOperationFailed(error.into()));
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.inner.flush()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.inner.check_write()
    }

    async fn cancel(&mut self) {
        self.inner.cancel().await;
    }
}

#[async_trait]
impl Pollable for QuotaStream {
    async fn ready(&mut self) {
        self.inner.ready().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_quota() {
        let quota = WriteQuota::new(10);
        let other = quota.clone();
        assert!(quota.take(6));
        assert!(!other.take(5));
        assert!(other.take(4));
        assert!(!quota.take(1));
        assert!(quota.take(0));
    }
}
