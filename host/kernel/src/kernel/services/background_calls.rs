//! Background calls, which continue when the call that started them has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolhost_contract::lifecycle::CallOrigin;
use toolhost_contract::{
    BackgroundCall, CallError, CallId, ErrorClass, Failure, NoSink, Outcome, Sink, text,
};

use super::CallServices;
use crate::hooks::result_size;
use crate::kernel::sessions::Session;
use crate::kernel::{CallRequest, Kernel};
use crate::quota::QuotaReservation;

/// Maximum number of background calls per session, including ended ones that are kept.
const MAX_CALLS_KEPT: usize = 32;
/// Maximum size of the kept results per session, in bytes. The last result is kept whatever its size.
const MAX_RESULT_BYTES: usize = 16 << 20;

/// The background calls of one session.
#[derive(Default)]
pub(in crate::kernel) struct BackgroundCalls(Mutex<BTreeMap<String, BackgroundJob>>);

struct BackgroundJob {
    tool: String,
    started_ms: f64,
    cancel: CancellationToken,
    /// The result, once the call has ended.
    end: watch::Receiver<Option<Result<Outcome, CallError>>>,
    /// The quota that its result takes.
    held: Option<QuotaReservation>,
}

impl BackgroundJob {
    fn shown(&self, id: &str) -> BackgroundCall {
        BackgroundCall {
            id: id.to_owned(),
            tool: self.tool.clone(),
            ended: self.end.borrow().is_some(),
            started_ms: self.started_ms,
        }
    }
}

impl BackgroundCalls {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, BackgroundJob>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn list(&self) -> Vec<BackgroundCall> {
        self.all().iter().map(|(id, job)| job.shown(id)).collect()
    }

    pub(super) async fn wait(
        &self,
        id: &str,
        wait_ms: u32,
    ) -> Result<Option<Result<Outcome, CallError>>, Failure> {
        let mut end = self.all().get(id).ok_or_else(|| unknown(id))?.end.clone();
        let wait = Duration::from_millis(wait_ms.into());
        // The channel closes without a result if the host stops.
        let ended = tokio::time::timeout(wait, end.wait_for(Option::is_some)).await;
        Ok(match ended {
            Ok(Ok(end)) => end.clone(),
            Ok(Err(_)) => Some(Err(CallError::new(
                ErrorClass::Cancelled,
                "the call was cancelled",
            ))),
            Err(_) => None,
        })
    }

    pub(super) fn stop(&self, id: &str) -> Result<BackgroundCall, Failure> {
        let all = self.all();
        let job = all.get(id).ok_or_else(|| unknown(id))?;
        job.cancel.cancel();
        Ok(job.shown(id))
    }

    pub(in crate::kernel) fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Cancels and drops all calls. A running call keeps its session alive, so nothing may wait for the session to end.
    pub(in crate::kernel) fn end(&self) {
        for job in std::mem::take(&mut *self.all()).into_values() {
            job.cancel.cancel();
        }
    }

    /// Makes room for one more call by dropping the oldest ended one.
    fn make_room(all: &mut BTreeMap<String, BackgroundJob>) -> Result<(), Failure> {
        if all.len() < MAX_CALLS_KEPT {
            return Ok(());
        }
        let oldest = all
            .iter()
            .filter(|(_, job)| job.end.borrow().is_some())
            .min_by(|(_, a), (_, b)| a.started_ms.total_cmp(&b.started_ms))
            .map(|(id, _)| id.clone());
        match oldest {
            Some(id) => {
                all.remove(&id);
                Ok(())
            }
            None => Err(Failure::new(
                "too_many_background_calls",
                format!(
                    "{MAX_CALLS_KEPT} calls are already running in the background; stop one first"
                ),
            )),
        }
    }
}

impl BackgroundCalls {
    /// Reserves quota for a result. Without quota left, the result is replaced by an error.
    fn reserve(
        &self,
        id: &str,
        session: &Session,
        result: Result<Outcome, CallError>,
    ) -> Result<Outcome, CallError> {
        match session.take_bytes(result_size(&result) as u64) {
            Ok(held) => {
                if let Some(job) = self.all().get_mut(id) {
                    job.held = Some(held);
                }
                result
            }
            Err(full) => {
                let mut error = CallError::from(full);
                error.message = format!(
                    "the call has ended and its result was not kept: {}",
                    error.message
                );
                error.retryable = false;
                Err(error)
            }
        }
    }

    /// Drops the oldest results until the limit is met.
    fn trim(&self) {
        let mut all = self.all();
        let mut ended: Vec<(f64, usize, String)> = all
            .iter()
            .filter_map(|(id, job)| {
                let bytes = job.end.borrow().as_ref().map(result_size)?;
                Some((job.started_ms, bytes, id.clone()))
            })
            .collect();
        ended.sort_by(|(a, ..), (b, ..)| b.total_cmp(a));
        let mut total = 0;
        for (index, (_, bytes, id)) in ended.iter().enumerate() {
            total += bytes;
            if index > 0 && total > MAX_RESULT_BYTES {
                all.remove(id);
            }
        }
    }
}

impl Drop for BackgroundCalls {
    fn drop(&mut self) {
        self.end();
    }
}

fn unknown(id: &str) -> Failure {
    let shown = text::escape_line(id, 80);
    Failure::new(
        "task_not_found",
        format!(
            "no background call `{shown}` in this session; only the most recently ended calls are kept"
        ),
    )
}

impl CallServices {
    pub(super) fn start(
        &self,
        tool: String,
        input: Value,
        timeout_ms: Option<u32>,
    ) -> Result<BackgroundCall, Failure> {
        let kernel = self.kernel()?;
        let registry = kernel.registry();
        let Some(entry) = registry.find(&tool) else {
            return Err(Failure::new(
                "tool_not_registered",
                registry.unknown(&tool).to_string(),
            ));
        };
        if !entry.tool.can_background {
            return Err(Failure::new(
                "invalid_tool",
                format!("`{}` cannot run in the background", entry.name),
            ));
        }
        let name = entry.name.to_string();
        let jobs = self.session.jobs();
        let mut all = jobs.all();
        BackgroundCalls::make_room(&mut all)?;
        let id = format!("tool-{}", crate::id::random());
        let request = CallRequest {
            id: CallId(format!("{}/{id}", self.id)),
            ..self.nested_request(tool, input, CallOrigin::Background)?
        };
        let cancel = CancellationToken::new();
        let (end, receiver) = watch::channel(None);
        let stop = cancel.clone();
        let session = Arc::downgrade(&self.session);
        let begun = id.clone();
        let limit = timeout_ms.map_or(Duration::MAX, |ms| Duration::from_millis(ms.into()));
        tokio::spawn(async move {
            let mut result = run(&kernel, request, stop, limit).await;
            let session = session.upgrade();
            if let Some(session) = &session {
                result = session.jobs().reserve(&begun, session, result);
            }
            // Fails if the receiver was dropped.
            let _ = end.send(Some(result));
            if let Some(session) = session {
                session.jobs().trim();
            }
        });
        let job = BackgroundJob {
            tool: name,
            started_ms: self.started_ms(),
            cancel,
            end: receiver,
            held: None,
        };
        let shown = job.shown(&id);
        all.insert(id, job);
        Ok(shown)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 are exact in f64 for long enough"
    )]
    fn started_ms(&self) -> f64 {
        self.kernel()
            .map_or(0.0, |kernel| kernel.journal.clock.now().0 as f64)
    }
}

async fn run(
    kernel: &Arc<Kernel>,
    request: CallRequest,
    stop: CancellationToken,
    limit: Duration,
) -> Result<Outcome, CallError> {
    if stop.is_cancelled() {
        // The call would recreate its session.
        return Err(CallError::new(
            ErrorClass::Cancelled,
            "the call was cancelled",
        ));
    }
    let id = request.id.clone();
    let sink: Arc<dyn Sink> = Arc::new(NoSink);
    let mut call = std::pin::pin!(kernel.call(request, sink));
    let limit = limit.min(Duration::from_hours(24));
    tokio::select! {
        biased;
        report = &mut call => return report.result,
        () = stop.cancelled() => {
            kernel.cancel(&id);
        }
        () = tokio::time::sleep(limit) => kernel.time_out(&id, limit),
    }
    call.await.result
}
