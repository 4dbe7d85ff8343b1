//! Calls of an interface that a component exports. When a call has ended, the instance of the next one is created, so
//! that this call does not wait for it.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolhost_contract::{BackendState, CallError, ErrorClass, Limits};
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::instance::{self, CallEnvironment, TimeLimits};
use crate::state::State;

/// Maximum number of instances of all components that wait for a call.
const MAX_READY: usize = 16;
/// Maximum size of the memories of a ready instance, in bytes.
const MAX_MEMORY: u64 = 16 << 20;
/// Processor time in which an instance must be created.
const PROCESSOR_TIME: Duration = Duration::from_millis(10);
/// Maximum number of instances in a row that are not created in time, before the calls create theirs.
const MAX_FAILURES: u32 = 8;
/// Maximum number of instances that are being created.
const MAX_CREATING: usize = 16;
/// Maximum number of instances that are kept for the next function of their call.
const MAX_KEPT: usize = 16;
/// Instances that exist in addition to those of the running calls.
pub(crate) const EXTRA_INSTANCES: usize = MAX_READY + MAX_CREATING + MAX_KEPT;

/// The generated bindings of an interface, before and after instantiation.
pub(crate) trait Bindings: Sized + Send + Sync + 'static {
    type Instance: Send + Sync + 'static;

    fn new(linked: InstancePre<State>) -> wasmtime::Result<Self>;

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
    next: Mutex<NextInstance<B::Instance>>,
    /// Number of instances in a row that were not created in time.
    failures: AtomicU32,
    instances: Arc<ReadyInstances>,
}

/// The instance of the next call.
enum NextInstance<I> {
    Missing,
    /// A task creates it.
    InCreation,
    Ready(Ready<I>),
    /// It is created in its call, because its creation calls the host, fails, or needs too much memory or, several times in
    /// a row, too much time.
    Unsuitable,
}

/// An instance that one call has used and may use again.
struct Kept<B: Bindings> {
    /// `None` only while it is dropped or taken.
    used: Option<Used<B>>,
    export: Arc<Shared<B>>,
    limits: Limits,
}

struct Used<B: Bindings> {
    store: Store<State>,
    instance: B::Instance,
    permit: OwnedSemaphorePermit,
}

/// An instance that no call has used. It has called no function of the host, so it depends on the component only.
struct Ready<I> {
    store: Store<State>,
    instance: I,
    limits: Limits,
}

impl<B: Bindings> Export<B> {
    pub fn new(
        linked: InstancePre<State>,
        instances: Arc<ReadyInstances>,
    ) -> wasmtime::Result<Self> {
        Ok(Self(Arc::new(Shared {
            bindings: B::new(linked)?,
            next: Mutex::new(NextInstance::Missing),
            failures: AtomicU32::new(0),
            instances,
        })))
    }

    #[cfg(test)]
    fn is_ready(&self) -> bool {
        matches!(*lock(&self.0.next), NextInstance::Ready(_))
    }

    #[cfg(test)]
    fn is_unsuitable(&self) -> bool {
        matches!(*lock(&self.0.next), NextInstance::Unsuitable)
    }

    /// Waits until no instance is being created.
    #[cfg(test)]
    pub async fn settle(&self) {
        let creating = &self.0.instances.creating;
        let all = u32::try_from(MAX_CREATING).unwrap();
        drop(creating.acquire_many(all).await.unwrap());
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
        let limits = environment.limits;
        let (mut store, ready, time) = self.0.start(environment);
        let running = self.0.instances.count_running();
        let (result, _) = self.0.run_in(&mut store, ready, time, work).await;
        let state = store.data();
        state.sink.record_memory(state.limiter.memory_used());
        drop(store);
        drop(running);
        // The next call may fail too.
        if result.is_ok() {
            self.0.create_next(limits);
        }
        result
    }

    /// Runs `work` without grants, with an instance for such functions of one call.
    pub async fn run_shared<R>(
        &self,
        environment: CallEnvironment<'_>,
        call: &BackendState,
        work: impl AsyncFnOnce(&mut Store<State>, &B::Instance) -> wasmtime::Result<R>,
    ) -> Result<R, CallError> {
        let shared = &self.0;
        let limits = environment.limits;
        let kept = call.take::<Kept<B>>();
        let kept = kept.filter(|kept| Arc::ptr_eq(&kept.export, shared));
        let kept = kept.and_then(|mut kept| kept.used.take());
        let (kept, permit) = kept
            .map(|used| ((used.store, used.instance), used.permit))
            .unzip();
        let unused = || {
            let ready = shared.take().filter(|ready| ready.limits == *limits)?;
            Some((ready.store, ready.instance))
        };
        let (mut store, instance, time) = match kept.or_else(unused) {
            Some((mut store, instance)) => {
                // The rest of the state has the handles of the guest, and no grants either.
                let time = environment.restart(store.data_mut());
                (store, Some(instance), time)
            }
            None => shared.start(environment),
        };
        let (result, instance) = shared.run_in(&mut store, instance, time, work).await;
        if let (Ok(_), Some(instance)) = (&result, instance) {
            // The limits apply to the functions together, and one that uses much must not stop the next.
            let state = store.data();
            let is_usable = state.limiter.memory_used() <= MAX_MEMORY.min(limits.memory / 2)
                && state.stdout.is_at_most_half_full()
                && state.stderr.is_at_most_half_full();
            let new = || Arc::clone(&shared.instances.kept).try_acquire_owned().ok();
            if let Some(permit) = permit.or_else(new).filter(|_| is_usable) {
                call.keep(Kept {
                    used: Some(Used {
                        store,
                        instance,
                        permit,
                    }),
                    export: Arc::clone(shared),
                    limits: limits.clone(),
                });
            } else {
                drop(store);
                shared.create_next(limits);
            }
        }
        result
    }
}

/// The creation of the next instance. A runtime that ends drops its tasks; the next call then starts another one.
struct Creation<B: Bindings> {
    export: Arc<Shared<B>>,
    has_ended: bool,
}

impl<B: Bindings> Creation<B> {
    fn end(mut self, created: NextInstance<B::Instance>) {
        let is_ready = matches!(created, NextInstance::Ready(_));
        *lock(&self.export.next) = created;
        self.has_ended = true;
        if is_ready {
            self.export.instances.add(&self.export);
        }
    }
}

impl<B: Bindings> Drop for Creation<B> {
    fn drop(&mut self) {
        if !self.has_ended {
            *lock(&self.export.next) = NextInstance::Missing;
        }
    }
}

impl<B: Bindings> Drop for Kept<B> {
    /// Clearing the memory of an instance takes longer than most functions that used it.
    fn drop(&mut self) {
        let Some(used) = self.used.take() else {
            return;
        };
        let is_later = self.export.instances.has_idle_processors();
        // Otherwise it is dropped here.
        let used = is_later.then_some(used);
        self.export.create_next_and_drop(&self.limits, used);
    }
}

impl<B: Bindings> Shared<B> {
    /// Returns a store for a call, with its instance if one is ready.
    fn start(
        &self,
        environment: CallEnvironment<'_>,
    ) -> (Store<State>, Option<B::Instance>, TimeLimits) {
        let limits = environment.limits;
        let (mut state, time) = environment.start();
        if let Some(mut ready) = self.take().filter(|ready| ready.limits == *limits) {
            let unused = ready.store.data_mut();
            std::mem::swap(&mut state.limiter, &mut unused.limiter);
            *unused = state;
            return (ready.store, Some(ready.instance), time);
        }
        let store = instance::new_store(self.bindings.engine(), state, limits);
        (store, None, time)
    }

    /// Runs `work`, and returns the instance if there is one.
    async fn run_in<R>(
        &self,
        store: &mut Store<State>,
        mut instance: Option<B::Instance>,
        time: TimeLimits,
        work: impl AsyncFnOnce(&mut Store<State>, &B::Instance) -> wasmtime::Result<R>,
    ) -> (Result<R, CallError>, Option<B::Instance>) {
        let result = instance::run_in(store, time, async |store| {
            let instance = match &mut instance {
                Some(instance) => instance,
                none => none.insert(self.bindings.instantiate(store).await?),
            };
            work(store, instance).await
        });
        (result.await, instance)
    }

    /// Takes the ready instance, if there is one.
    fn take(&self) -> Option<Ready<B::Instance>> {
        let mut next = lock(&self.next);
        match std::mem::replace(&mut *next, NextInstance::Missing) {
            NextInstance::Ready(ready) => Some(ready),
            other => {
                *next = other;
                None
            }
        }
    }

    fn create_next(self: &Arc<Self>, limits: &Limits) {
        self.create_next_and_drop(limits, None);
    }

    /// Creates the instance of the next call in another task, which then drops one that was used. If no task is needed, drops
    /// it at once. On a busy machine the next call creates its instance, which takes less time than another task.
    fn create_next_and_drop(self: &Arc<Self>, limits: &Limits, used: Option<Used<B>>) {
        if !self.instances.has_idle_processors() {
            return;
        }
        // Without a runtime, the next call creates its instance.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut next = lock(&self.next);
        if !matches!(*next, NextInstance::Missing) {
            return;
        }
        let Ok(permit) = Arc::clone(&self.instances.creating).try_acquire_owned() else {
            return;
        };
        *next = NextInstance::InCreation;
        drop(next);
        let limits = limits.clone();
        let creation = Creation {
            export: Arc::clone(self),
            has_ended: false,
        };
        runtime.spawn(async move {
            let created = creation.export.create(limits).await;
            creation.end(created);
            drop(used);
            drop(permit);
        });
    }

    async fn create(&self, limits: Limits) -> NextInstance<B::Instance> {
        let environment = CallEnvironment {
            processor_time: Some(PROCESSOR_TIME),
            ..CallEnvironment::without_grants(&limits, Limits::DESCRIBE_TIMEOUT)
        };
        let (state, time) = environment.start();
        let mut store = instance::new_store(self.bindings.engine(), state, &limits);
        let instance = instance::run_in(&mut store, time, async |store| {
            self.bindings.instantiate(store).await
        });
        let instance = match instance.await {
            Ok(instance) => instance,
            // The machine may be busy, and other calls may have all sandboxes.
            Err(error)
                if matches!(error.class, ErrorClass::TimedOut | ErrorClass::Unavailable)
                    && self.failures.fetch_add(1, Ordering::Relaxed) < MAX_FAILURES =>
            {
                return NextInstance::Missing;
            }
            Err(_) => return NextInstance::Unsuitable,
        };
        let state = store.data();
        if state.has_called_host() || state.limiter.memory_used() > MAX_MEMORY {
            return NextInstance::Unsuitable;
        }
        self.failures.store(0, Ordering::Relaxed);
        NextInstance::Ready(Ready {
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
    creating: Arc<Semaphore>,
    kept: Arc<Semaphore>,
    /// Number of tools and configured hooks that run in an instance, or wait in a function of the host.
    running: AtomicUsize,
    processors: usize,
}

/// An instance that [`ReadyInstances::running`] counts.
struct Running<'a>(&'a AtomicUsize);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

trait HasReady: Send + Sync {
    fn drop_ready(&self);
}

impl<B: Bindings> HasReady for Shared<B> {
    fn drop_ready(&self) {
        drop(self.take());
    }
}

impl Default for ReadyInstances {
    fn default() -> Self {
        Self {
            exports: Mutex::default(),
            creating: Arc::new(Semaphore::new(MAX_CREATING)),
            kept: Arc::new(Semaphore::new(MAX_KEPT)),
            running: AtomicUsize::new(0),
            processors: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
        }
    }
}

impl ReadyInstances {
    fn count_running(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(&self.running)
    }

    /// Whether fewer calls run than half of the processors. On a busy machine, another thread would not clear memory sooner, and
    /// would not have it in its cache.
    fn has_idle_processors(&self) -> bool {
        self.running.load(Ordering::Relaxed) * 2 < self.processors
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
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
