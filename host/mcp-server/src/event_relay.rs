//! Progress and log notifications of a running call.
//!
//! Emitting an event blocks the guest, so it only appends to a bounded queue. The task that awaits the call sends the
//! queued events. Without a subscription, nothing is queued or sent.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[expect(
    deprecated,
    reason = "2026-07-28 keeps logging for a year, older clients know nothing else"
)]
use rmcp::model::{LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam};
use rmcp::model::{
    ProgressNotification, ProgressNotificationParam, ProgressToken, RequestMetaObject,
    ServerNotification,
};
use rmcp::{Peer, RoleServer};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::Instant;
use toolhost_contract::{CallEvent, LogLevel, Sink, text};

/// Maximum number of queued events of each kind. The oldest is dropped first.
const MAX_QUEUED: usize = 64;
/// Maximum number of progress notifications per second.
const MAX_UPDATES_PER_SECOND: usize = 10;
const SECOND: Duration = Duration::from_secs(1);
/// Maximum size of output in one message, in bytes; the end is kept.
const MAX_OUTPUT: usize = 1_000;

pub(crate) struct EventRelay {
    tool: String,
    /// Whether output of the tool is sent.
    streams: bool,
    queue: Mutex<EventQueue>,
    changed: Notify,
}

#[derive(Default)]
struct EventQueue {
    subscription: EventSubscription,
    logs: VecDeque<(LogLevel, String)>,
    updates: VecDeque<Update>,
    ended: bool,
}

/// What the client of the request subscribed to.
#[derive(Default)]
struct EventSubscription {
    /// The client's progress token for this call.
    token: Option<ProgressToken>,
    /// Minimum level of log messages.
    level: Option<LogLevel>,
}

struct Update {
    message: Option<String>,
    progress: Option<f64>,
    total: Option<f64>,
}

enum RelayStep {
    Send(Box<ServerNotification>),
    WaitUntil(Instant),
    Wait,
    End,
}

impl EventRelay {
    /// With `streams` output of the tool is sent as messages of progress.
    pub(crate) fn new(
        tool: &str,
        streams: bool,
        meta: &RequestMetaObject,
        level: Option<LogLevel>,
    ) -> Self {
        let events = Self {
            tool: tool.to_owned(),
            streams,
            queue: Mutex::default(),
            changed: Notify::new(),
        };
        events.subscribe(meta, level);
        events
    }

    /// Subscribes the client of a request, which may be the second one of the call.
    pub(crate) fn subscribe(&self, meta: &RequestMetaObject, level: Option<LogLevel>) {
        let token = meta.get_progress_token();
        let mut queue = self.lock_queue();
        queue.subscription = EventSubscription { token, level };
        queue.ended = false;
    }

    /// Stops sending and drops queued events, because the request has ended.
    pub(crate) fn unsubscribe(&self) {
        *self.lock_queue() = EventQueue::default();
    }

    /// Awaits the call and sends its events to the client. Nothing is sent after this returns.
    ///
    /// Callers pin the call, because this future contains it several times.
    pub(crate) async fn relay<F: Future + Unpin>(
        &self,
        peer: &Peer<RoleServer>,
        call: F,
    ) -> F::Output {
        if self.lock_queue().subscription.is_empty() {
            return call.await;
        }
        let call = async {
            let output = call.await;
            self.lock_queue().ended = true;
            self.changed.notify_one();
            output
        };
        tokio::join!(call, self.send(peer)).0
    }

    async fn send(&self, peer: &Peer<RoleServer>) {
        let mut pace = ProgressLimiter::default();
        loop {
            match self.next(&mut pace) {
                RelayStep::Send(notification) => {
                    if peer.send_notification(*notification).await.is_err() {
                        return;
                    }
                }
                RelayStep::WaitUntil(time) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = self.changed.notified() => {}
                    }
                }
                RelayStep::Wait => self.changed.notified().await,
                RelayStep::End => return,
            }
        }
    }

    fn next(&self, pace: &mut ProgressLimiter) -> RelayStep {
        let mut queue = self.lock_queue();
        if let Some((level, message)) = queue.logs.pop_front() {
            return RelayStep::Send(Box::new(log_notification(&self.tool, level, message)));
        }
        let now = Instant::now();
        match pace.next_allowed(now) {
            _ if queue.updates.is_empty() => {}
            // At the rate limit, send the newest update only.
            Some(time) => {
                let old = queue.updates.len() - 1;
                queue.updates.drain(..old);
                if !queue.ended {
                    return RelayStep::WaitUntil(time);
                }
            }
            None => {
                while let Some(update) = queue.updates.pop_front() {
                    let token = queue.subscription.token.as_ref();
                    if let Some(notification) =
                        token.and_then(|token| pace.notification(now, token, update))
                    {
                        return RelayStep::Send(Box::new(notification));
                    }
                }
            }
        }
        if queue.ended {
            RelayStep::End
        } else {
            RelayStep::Wait
        }
    }

    fn update(&self, update: Update) {
        let mut queue = self.lock_queue();
        if queue.subscription.token.is_some() {
            push_bounded(&mut queue.updates, update);
            self.changed.notify_one();
        }
    }

    fn lock_queue(&self) -> MutexGuard<'_, EventQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventSubscription {
    fn is_empty(&self) -> bool {
        self.token.is_none() && self.level.is_none()
    }
}

impl Sink for EventRelay {
    fn event(&self, event: CallEvent) {
        match event {
            CallEvent::Progress {
                message,
                progress,
                total,
            } => {
                self.update(Update {
                    message,
                    progress,
                    total,
                });
            }
            CallEvent::Log { level, message } => {
                let mut queue = self.lock_queue();
                if queue.subscription.level.is_some_and(|least| level >= least) {
                    push_bounded(&mut queue.logs, (level, message));
                    self.changed.notify_one();
                    return;
                }
                tracing::debug!(tool = self.tool, level = level.as_str(), message);
            }
            CallEvent::Dropped { count } => {
                tracing::debug!(tool = self.tool, count, "messages dropped");
            }
            CallEvent::Output { bytes, .. } if self.streams => {
                let output = String::from_utf8_lossy(&bytes);
                let output = text::tail(output.trim_end(), MAX_OUTPUT);
                self.update(Update {
                    message: Some(text::escape_lines(output, MAX_OUTPUT)),
                    progress: None,
                    total: None,
                });
            }
            // Output of a guest must never reach stdout of the host, which carries the protocol.
            CallEvent::Output { .. } | CallEvent::Custom { .. } => {}
        }
    }
}

fn push_bounded<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == MAX_QUEUED {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[expect(deprecated, reason = "see LoggingLevel")]
fn log_notification(tool: &str, level: LogLevel, message: String) -> ServerNotification {
    let level = match level {
        LogLevel::Trace | LogLevel::Debug => LoggingLevel::Debug,
        LogLevel::Info => LoggingLevel::Info,
        LogLevel::Warn => LoggingLevel::Warning,
        LogLevel::Error => LoggingLevel::Error,
    };
    let params =
        LoggingMessageNotificationParam::new(level, Value::String(message)).with_logger(tool);
    ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(params))
}

/// Limits the rate of updates and keeps progress increasing, as the protocol requires.
#[derive(Default)]
struct ProgressLimiter {
    sent: VecDeque<Instant>,
    last: Option<f64>,
}

impl ProgressLimiter {
    /// Returns when the next update may be sent, or `None` if it may be sent now.
    fn next_allowed(&self, now: Instant) -> Option<Instant> {
        let oldest = *self
            .sent
            .front()
            .filter(|_| self.sent.len() == MAX_UPDATES_PER_SECOND)?;
        Some(oldest + SECOND).filter(|time| *time > now)
    }

    fn notification(
        &mut self,
        now: Instant,
        token: &ProgressToken,
        update: Update,
    ) -> Option<ServerNotification> {
        let progress = self.increasing(update.progress, update.message.is_some())?;
        if self.sent.len() == MAX_UPDATES_PER_SECOND {
            self.sent.pop_front();
        }
        self.sent.push_back(now);
        self.last = Some(progress);
        let mut params = ProgressNotificationParam::new(token.clone(), progress);
        params.total = update.total.filter(|total| total.is_finite());
        params.message = update.message;
        Some(ServerNotification::ProgressNotification(
            ProgressNotification::new(params),
        ))
    }

    /// Returns a value above the last one. A message without such a value gets one slightly above the last; an update
    /// without message and progress is dropped.
    fn increasing(&self, progress: Option<f64>, has_message: bool) -> Option<f64> {
        let progress = progress.filter(|progress| progress.is_finite());
        match (self.last, progress) {
            (None, Some(progress)) => Some(progress),
            (Some(last), Some(progress)) if progress > last => Some(progress),
            (None, None) if has_message => Some(0.0),
            (Some(last), _) if has_message => Some(last + last.abs().max(1.0) * 1e-6),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use rmcp::model::NumberOrString;
    use serde_json::json;

    use super::*;

    fn update(progress: Option<f64>, message: Option<&str>) -> CallEvent {
        CallEvent::Progress {
            message: message.map(str::to_owned),
            progress,
            total: Some(100.0),
        }
    }

    fn events() -> EventRelay {
        relay(false)
    }

    fn relay(streams: bool) -> EventRelay {
        let token = ProgressToken(NumberOrString::Number(7));
        EventRelay::new(
            "t",
            streams,
            &RequestMetaObject::with_progress_token(token),
            Some(LogLevel::Info),
        )
    }

    /// Returns the parameters of all notifications that may be sent now.
    fn sent(events: &EventRelay, pace: &mut ProgressLimiter) -> Vec<Value> {
        let mut sent = Vec::new();
        while let RelayStep::Send(notification) = events.next(pace) {
            sent.push(serde_json::to_value(notification).unwrap()["params"].take());
        }
        sent
    }

    fn check(input: &[CallEvent], expected: &[Value]) {
        let events = events();
        for event in input {
            events.event(event.clone());
        }
        let sent: Vec<_> = sent(&events, &mut ProgressLimiter::default())
            .iter()
            .map(|params| params.get("progress").unwrap_or(&params["data"]).clone())
            .collect();
        assert_eq!(sent, expected, "{input:?}");
    }

    #[test]
    fn progress_only_increases() {
        check(
            &[update(Some(1.0), None), update(Some(2.0), None)],
            &[json!(1.0), json!(2.0)],
        );
        check(
            &[update(Some(2.0), None), update(Some(1.0), None)],
            &[json!(2.0)],
        );
        check(&[update(Some(f64::NAN), None), update(None, None)], &[]);
        check(
            &[update(None, Some("a")), update(None, Some("b"))],
            &[json!(0.0), json!(1e-6)],
        );
        check(
            &[update(Some(2.0), None), update(Some(1.0), Some("back"))],
            &[json!(2.0), json!(2.000_002)],
        );
    }

    #[test]
    fn logs_below_the_level_and_stdout_are_not_sent() {
        let log = |level| CallEvent::Log {
            level,
            message: "m".to_owned(),
        };
        check(&[log(LogLevel::Debug)], &[]);
        check(&[log(LogLevel::Warn)], &[json!("m")]);
        check(
            &[CallEvent::Output {
                stream: "stdout".to_owned(),
                bytes: b"x".to_vec(),
            }],
            &[],
        );
    }

    #[test]
    fn output_of_a_tool_that_streams_is_progress() {
        let events = relay(true);
        events.event(CallEvent::Output {
            stream: "stdout".to_owned(),
            bytes: b"step 1\x1b[2J\n".to_vec(),
        });
        let sent = sent(&events, &mut ProgressLimiter::default());
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0]["message"], r"step 1\u{1b}[2J");
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_limited_to_ten_updates_per_second_and_the_newest() {
        let (events, mut pace) = (events(), ProgressLimiter::default());
        (0..200).for_each(|step| events.event(update(Some(f64::from(step)), None)));
        let first = sent(&events, &mut pace);
        assert_eq!(first.len(), MAX_UPDATES_PER_SECOND);
        assert_eq!(
            first[0]["progress"],
            json!(136.0),
            "of 200 the last 64 were kept"
        );
        assert_eq!(first[0]["progressToken"], json!(7));
        tokio::time::advance(SECOND).await;
        let second = sent(&events, &mut pace);
        assert_eq!(slice::from_ref(&second[0]["progress"]), [json!(199.0)]);
        assert_eq!(second.len(), 1);
    }
}
