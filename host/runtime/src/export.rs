//! Calls of an interface that a component exports. When a call has ended, the instance of the next one is created, so
//! that this call does not wait for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Semaphore;
use toolhost_contract::{CallError, Limits, NoSink};
use wasmtime::{Engine, Store};

use crate::capabilities::CallCapabilities;
use crate::files::Files;
use crate::instance::{self, CallEnvironment};
use crate::state::State;

/// Maximum number of instances of all components that wait for a call.
const MAX_READY: usize = 16;
/// Maximum size of the memories of a ready instance, in bytes.
const MAX_MEMORY: u64 = 16 << 20;
/// Processor time in which an instance must be created.
const PROCESSOR_TIME: Duration = Duration::from_millis(10);
/// Maximum number of exports whose next instance is being created.
const MAX_PREPARING: usize = 16;
/// Instances that exist in addition to those of the running calls.
pub(crate) const EXTRA_INSTANCES: usize = MAX_READY + MAX_PREPARING;

/// The generated bindings of an interface, before and after instantiation.
pub(crate) trait Bindings: Send + Sync + 'static {
    type Instance: Send + Sync + 'static;

    fn engine(&self) -> &Engine;

    fn instantiate(
        &self,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Self::Instance>> + Send;
}

/// An interface that a component exports.
pub(crate) struct Export<B: Bindings>(Arc<Shared<B>>);

struct Shared<B: Bindings> {
    bindings: B,
    /// The instance of the next call.
    ready: Mutex<Option<Ready<B::Instance>>>,
    is_preparing: AtomicBool,
    /// Instances are created in their call, because they call the host, fail, or need much time or memory.
    is_unsuitable: AtomicBool,
    instances: Arc<ReadyInstances>,
}

/// An instance that no call has used. It has called no function of the host, so it depends on the component only.
struct Ready<I> {
    store: Store<State>,
    instance: I,
    limits: Limits,
}

impl<B: Bindings> Export<B> {
    pub fn new(bindings: B, instances: Arc<ReadyInstances>) -> Self {
        Self(Arc::new(Shared {
            bindings,
            ready: Mutex::default(),
            is_preparing: AtomicBool::new(false),
            is_unsuitable: AtomicBool::new(false),
            instances,
        }))
    }

    #[cfg(test)]
    fn is_ready(&self) -> bool {
        lock(&self.0.ready).is_some()
    }

    /// Waits until no instance is being created.
    #[cfg(test)]
    pub async fn settle(&self) {
        let preparing = &self.0.instances.preparing;
        let all = u32::try_from(MAX_PREPARING).unwrap();
        drop(preparing.acquire_many(all).await.unwrap());
    }

    pub fn bindings(&self) -> &B {
        &self.0.bindings
    }

    /// Runs `work` with an instance that no other call has used or will use.
    pub async fn run<R>(
        &self,
        environment: CallEnvironment<'_>,
        work: impl AsyncFnOnce(&mut Store<State>, &B::Instance) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        let shared = &self.0;
        let limits = environment.limits;
        let (mut state, time) = environment.start();
        let (mut store, ready) = if let Some(mut ready) = shared.take(limits) {
            let unused = ready.store.data_mut();
            std::mem::swap(&mut state.limiter, &mut unused.limiter);
            *unused = state;
            (ready.store, Some(ready.instance))
        } else {
            let engine = shared.bindings.engine();
            (instance::new_store(engine, state, limits), None)
        };
        let result = instance::run_in(&mut store, time, async |store| {
            let instance = match ready {
                Some(instance) => instance,
                None => shared.bindings.instantiate(store).await?,
            };
            work(store, &instance).await
        })
        .await;
        drop(store);
        // The next call may fail too.
        if result.is_ok() {
            shared.prepare(limits);
        }
        result
    }
}

impl<B: Bindings> Shared<B> {
    fn take(&self, limits: &Limits) -> Option<Ready<B::Instance>> {
        let ready = lock(&self.ready).take();
        ready.filter(|ready| ready.limits == *limits)
    }

    /// Creates the instance of the next call in another task.
    fn prepare(self: &Arc<Self>, limits: &Limits) {
        let is_unsuitable = self.is_unsuitable.load(Ordering::Relaxed);
        if is_unsuitable || self.is_preparing.swap(true, Ordering::Relaxed) {
            return;
        }
        let permit = Arc::clone(&self.instances.preparing).try_acquire_owned();
        if permit.is_err() || lock(&self.ready).is_some() {
            self.is_preparing.store(false, Ordering::Relaxed);
            return;
        }
        let (shared, limits) = (Arc::clone(self), limits.clone());
        tokio::spawn(async move {
            if let Some(ready) = shared.create(limits).await {
                *lock(&shared.ready) = Some(ready);
                shared.instances.add(&shared);
            } else {
                shared.is_unsuitable.store(true, Ordering::Relaxed);
            }
            shared.is_preparing.store(false, Ordering::Relaxed);
            drop(permit);
        });
    }

    /// Returns `None` if instances have to be created in their calls.
    async fn create(&self, limits: Limits) -> Option<Ready<B::Instance>> {
        let (state, time) = self.instances.unused_environment(&limits).start();
        let mut store = instance::new_store(self.bindings.engine(), state, &limits);
        let instance = instance::run_in(&mut store, time, async |store| {
            self.bindings.instantiate(store).await
        });
        let instance = instance.await.ok()?;
        let state = store.data();
        let is_suitable = !state.has_called_host() && state.limiter.memory_used() <= MAX_MEMORY;
        is_suitable.then_some(Ready {
            store,
            instance,
            limits,
        })
    }
}

/// The exports of all components that have a ready instance.
pub(crate) struct ReadyInstances {
    /// The first one has waited longest.
    exports: Mutex<VecDeque<Weak<dyn HasReady>>>,
    preparing: Arc<Semaphore>,
    no_files: Files,
}

trait HasReady: Send + Sync {
    fn drop_ready(&self);
}

impl<B: Bindings> HasReady for Shared<B> {
    fn drop_ready(&self) {
        let dropped = lock(&self.ready).take();
        drop(dropped);
    }
}

impl ReadyInstances {
    pub fn new(no_files: Files) -> Self {
        Self {
            exports: Mutex::default(),
            preparing: Arc::new(Semaphore::new(MAX_PREPARING)),
            no_files,
        }
    }

    /// Adds an export. If there are too many, the instance that has waited longest is dropped.
    fn add<B: Bindings>(&self, export: &Arc<Shared<B>>) {
        let added: Weak<dyn HasReady> = Arc::<Shared<B>>::downgrade(export);
        let mut exports = lock(&self.exports);
        exports.retain(|other| other.strong_count() > 0 && !Weak::ptr_eq(other, &added));
        exports.push_back(added);
        let removed = (exports.len() > MAX_READY)
            .then(|| exports.pop_front())
            .flatten();
        drop(exports);
        if let Some(removed) = removed.and_then(|removed| removed.upgrade()) {
            removed.drop_ready();
        }
    }

    /// The environment of an instance without a call.
    fn unused_environment<'a>(&self, limits: &'a Limits) -> CallEnvironment<'a> {
        CallEnvironment {
            limits,
            files: self.no_files.clone(),
            env: &[],
            timeout: Limits::DESCRIBE_TIMEOUT,
            inactivity: None,
            processor_time: Some(PROCESSOR_TIME),
            allowed: CallCapabilities::default(),
            sink: Arc::new(NoSink),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
