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
use toolhost_contract::{Event, Level, Sink};

/// Maximum number of queued events of each kind. The oldest is dropped first.
const WAITING: usize = 64;
/// Maximum number of progress notifications per second.
const UPDATES: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

pub(crate) struct Events {
    tool: String,
    queue: Mutex<Queue>,
    changed: Notify,
}

#[derive(Default)]
struct Queue {
    wants: Wants,
    logs: VecDeque<(Level, String)>,
    updates: VecDeque<Update>,
    ended: bool,
}

/// What the client of the request subscribed to.
#[derive(Default)]
struct Wants {
    /// The client's progress token for this call.
    token: Option<ProgressToken>,
    /// Minimum level of log messages.
    level: Option<Level>,
}

struct Update {
    message: Option<String>,
    progress: Option<f64>,
    total: Option<f64>,
}

enum Next {
    Send(Box<ServerNotification>),
    WaitUntil(Instant),
    Wait,
    End,
}

impl Events {
    pub(crate) fn new(tool: &str, meta: &RequestMetaObject, level: Option<Level>) -> Self {
        let events = Self {
            tool: tool.to_owned(),
            queue: Mutex::default(),
            changed: Notify::new(),
        };
        events.listen(meta, level);
        events
    }

    /// Subscribes the client of a request, which may be the second one of the call.
    pub(crate) fn listen(&self, meta: &RequestMetaObject, level: Option<Level>) {
        let token = meta.get_progress_token();
        let mut queue = self.queue();
        queue.wants = Wants { token, level };
        queue.ended = false;
    }

    /// Stops sending and drops queued events, because the request has ended.
    pub(crate) fn mute(&self) {
        *self.queue() = Queue::default();
    }

    /// Awaits the call and sends its events to the client. Nothing is sent after this returns.
    pub(crate) async fn relay<F: Future>(&self, peer: &Peer<RoleServer>, call: F) -> F::Output {
        if self.queue().wants.is_nothing() {
            return call.await;
        }
        let call = async {
            let output = call.await;
            self.queue().ended = true;
            self.changed.notify_one();
            output
        };
        tokio::join!(call, self.send(peer)).0
    }

    async fn send(&self, peer: &Peer<RoleServer>) {
        let mut pace = Pace::default();
        loop {
            match self.next(&mut pace) {
                Next::Send(notification) => {
                    if peer.send_notification(*notification).await.is_err() {
                        return;
                    }
                }
                Next::WaitUntil(time) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(time) => {}
                        () = self.changed.notified() => {}
                    }
                }
                Next::Wait => self.changed.notified().await,
                Next::End => return,
            }
        }
    }

    fn next(&self, pace: &mut Pace) -> Next {
        let mut queue = self.queue();
        if let Some((level, message)) = queue.logs.pop_front() {
            return Next::Send(Box::new(log(&self.tool, level, message)));
        }
        let now = Instant::now();
        match pace.opens(now) {
            _ if queue.updates.is_empty() => {}
            // At the rate limit, send the newest update only.
            Some(time) => {
                let old = queue.updates.len() - 1;
                queue.updates.drain(..old);
                if !queue.ended {
                    return Next::WaitUntil(time);
                }
            }
            None => {
                while let Some(update) = queue.updates.pop_front() {
                    let token = queue.wants.token.as_ref();
                    if let Some(notification) =
                        token.and_then(|token| pace.step(now, token, update))
                    {
                        return Next::Send(Box::new(notification));
                    }
                }
            }
        }
        if queue.ended { Next::End } else { Next::Wait }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wants {
    fn is_nothing(&self) -> bool {
        self.token.is_none() && self.level.is_none()
    }
}

impl Sink for Events {
    fn event(&self, event: Event) {
        match event {
            Event::Progress {
                message,
                progress,
                total,
            } => {
                let mut queue = self.queue();
                if queue.wants.token.is_none() {
                    return;
                }
                let update = Update {
                    message,
                    progress,
                    total,
                };
                push(&mut queue.updates, update);
                self.changed.notify_one();
            }
            Event::Log { level, message } => {
                let mut queue = self.queue();
                if queue.wants.level.is_some_and(|least| level >= least) {
                    push(&mut queue.logs, (level, message));
                    self.changed.notify_one();
                    return;
                }
                tracing::debug!(tool = self.tool, level = level.as_str(), message);
            }
            Event::Dropped { count } => {
                tracing::debug!(tool = self.tool, count, "messages dropped");
            }
            // Output of a guest must never reach stdout of the host, which carries the protocol.
            Event::Output { .. } | Event::Custom { .. } => {}
        }
    }
}

fn push<T>(queue: &mut VecDeque<T>, item: T) {
    if queue.len() == WAITING {
        queue.pop_front();
    }
    queue.push_back(item);
}

#[expect(deprecated, reason = "see LoggingLevel")]
fn log(tool: &str, level: Level, message: String) -> ServerNotification {
    let level = match level {
        Level::Trace | Level::Debug => LoggingLevel::Debug,
        Level::Info => LoggingLevel::Info,
        Level::Warn => LoggingLevel::Warning,
        Level::Error => LoggingLevel::Error,
    };
    let params =
        LoggingMessageNotificationParam::new(level, Value::String(message)).with_logger(tool);
    ServerNotification::LoggingMessageNotification(LoggingMessageNotification::new(params))
}

/// Limits the rate of updates and keeps progress increasing, as the protocol requires.
#[derive(Default)]
struct Pace {
    sent: VecDeque<Instant>,
    last: Option<f64>,
}

impl Pace {
    /// Returns when the next update may be sent, or `None` if it may be sent now.
    fn opens(&self, now: Instant) -> Option<Instant> {
        let oldest = *self.sent.front().filter(|_| self.sent.len() == UPDATES)?;
        Some(oldest + SECOND).filter(|time| *time > now)
    }

    fn step(
        &mut self,
        now: Instant,
        token: &ProgressToken,
        update: Update,
    ) -> Option<ServerNotification> {
        let progress = self.upwards(update.progress, update.message.is_some())?;
        if self.sent.len() == UPDATES {
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
    fn upwards(&self, progress: Option<f64>, has_message: bool) -> Option<f64> {
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

    fn update(progress: Option<f64>, message: Option<&str>) -> Event {
        Event::Progress {
            message: message.map(str::to_owned),
            progress,
            total: Some(100.0),
        }
    }

    fn events() -> Events {
        let token = ProgressToken(NumberOrString::Number(7));
        Events::new(
            "t",
            &RequestMetaObject::with_progress_token(token),
            Some(Level::Info),
        )
    }

    /// Returns the parameters of all notifications that may be sent now.
    fn sent(events: &Events, pace: &mut Pace) -> Vec<Value> {
        let mut sent = Vec::new();
        while let Next::Send(notification) = events.next(pace) {
            sent.push(serde_json::to_value(notification).unwrap()["params"].take());
        }
        sent
    }

    fn check(said: &[Event], expected: &[Value]) {
        let events = events();
        for event in said {
            events.event(event.clone());
        }
        let sent: Vec<_> = sent(&events, &mut Pace::default())
            .iter()
            .map(|params| params.get("progress").unwrap_or(&params["data"]).clone())
            .collect();
        assert_eq!(sent, expected, "{said:?}");
    }

    #[test]
    fn progress_only_goes_up() {
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
    fn logs_below_the_wanted_level_and_standard_output_stay_here() {
        let log = |level| Event::Log {
            level,
            message: "m".to_owned(),
        };
        check(&[log(Level::Debug)], &[]);
        check(&[log(Level::Warn)], &[json!("m")]);
        check(
            &[Event::Output {
                stream: "stdout".to_owned(),
                bytes: b"x".to_vec(),
            }],
            &[],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_chatty_call_sends_ten_updates_a_second_and_then_the_newest() {
        let (events, mut pace) = (events(), Pace::default());
        (0..200).for_each(|step| events.event(update(Some(f64::from(step)), None)));
        let first = sent(&events, &mut pace);
        assert_eq!(first.len(), UPDATES);
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
