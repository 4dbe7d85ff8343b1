//! The supervisor of one program: a task that reads its output, enforces its timeouts and runs until the program has
//! ended.

use std::future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal as Number, kill_process_group};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::job::{News, Order, Process, State};
use crate::output::Output;
use crate::spawn::{Line, Reader};
use crate::wire::{Demand, Report};
use crate::{Exit, Leftovers, Signal, Stream};

/// How long to wait for the end after SIGKILL, because a process can hang in the kernel.
const CONFIRM: Duration = Duration::from_secs(10);
/// How long to read output after all processes have ended, because an unrelated process can hold the pipes open.
const DRAIN: Duration = Duration::from_secs(1);

pub type Live = mpsc::Sender<(Stream, Vec<u8>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ground {
    Front(Leftovers),
    Back,
}

pub struct Times {
    pub timeout: Option<Duration>,
    pub inactivity: Option<Duration>,
    pub grace: Duration,
    pub linger: Duration,
    pub max_output: u64,
    pub line_wait: Duration,
}

pub struct Minder {
    pub process: Arc<Process>,
    pub line: Line,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    /// `None` once all senders are dropped.
    pub orders: Option<mpsc::UnboundedReceiver<Order>>,
    pub live: Option<Live>,
    pub ground: Ground,
    pub times: Times,
}

/// Pending deadlines. `None` means not set.
#[derive(Default)]
struct Alarms {
    timeout: Option<Instant>,
    inactivity: Option<Instant>,
    linger: Option<Instant>,
    kill: Option<Instant>,
    confirm: Option<Instant>,
    drain: Option<Instant>,
    line: Option<Instant>,
}

impl Alarms {
    fn all(&mut self) -> [&mut Option<Instant>; 7] {
        [
            &mut self.timeout,
            &mut self.inactivity,
            &mut self.linger,
            &mut self.kill,
            &mut self.confirm,
            &mut self.drain,
            &mut self.line,
        ]
    }

    fn next(&mut self) -> Option<Instant> {
        self.all().into_iter().filter_map(|alarm| *alarm).min()
    }
}

/// Returns whether `alarm` is due, and clears it if so.
fn due(alarm: &mut Option<Instant>, now: Instant) -> bool {
    alarm.take_if(|at| *at <= now).is_some()
}

enum Event {
    Report(Option<Report>),
    Output(Stream, Option<Vec<u8>>),
    Order(Option<Order>),
    Alarm,
}

struct Life {
    alarms: Alarms,
    /// Why the program is being ended, unless it ends by itself.
    cause: Option<Exit>,
    /// How the program itself ended.
    exit: Option<Exit>,
    stopping: bool,
    killing: bool,
    confirmed: bool,
}

impl Minder {
    pub async fn mind(mut self) {
        let now = Instant::now();
        let mut life = Life {
            alarms: Alarms {
                timeout: self.times.timeout.map(|timeout| now + timeout),
                inactivity: self.times.inactivity.map(|inactivity| now + inactivity),
                ..Alarms::default()
            },
            cause: None,
            exit: None,
            stopping: false,
            killing: false,
            confirmed: false,
        };
        loop {
            let over = match self.event(&mut life).await {
                Event::Report(report) => {
                    self.hear(report, &mut life);
                    false
                }
                Event::Output(stream, bytes) => {
                    self.take(stream, bytes, &mut life).await;
                    false
                }
                Event::Order(order) => {
                    self.obey(order, &mut life).await;
                    false
                }
                Event::Alarm => self.alarm(&mut life).await,
            };
            let all_read = self.stdout.is_none() && self.stderr.is_none();
            if over || (all_read && life.alarms.drain.is_some()) {
                break;
            }
        }
        self.finish(&life).await;
    }

    async fn event(&mut self, life: &mut Life) -> Event {
        let gone = life.alarms.drain.is_some();
        let alarm = life.alarms.next();
        tokio::select! {
            report = self.line.next(), if !gone => Event::Report(report),
            (stream, bytes) = output(self.live.as_ref(), &mut self.stdout, &mut self.stderr) => {
                Event::Output(stream, bytes)
            }
            order = order(&mut self.orders) => Event::Order(order),
            () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => Event::Alarm,
        }
    }

    fn hear(&mut self, report: Option<Report>, life: &mut Life) {
        let now = Instant::now();
        match report {
            Some(Report::Ended { code, signal, left }) => {
                *self
                    .process
                    .left
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner) = left;
                let own = code.map(Exit::Code).or(signal.map(Exit::Signal));
                let exit = life.cause.or(own).unwrap_or(Exit::Lost);
                life.exit = Some(exit);
                life.alarms.timeout = None;
                life.alarms.inactivity = None;
                if matches!(self.ground, Ground::Front(_)) {
                    life.alarms.linger = Some(now + self.times.linger);
                } else {
                    self.tell(State::Left { exit });
                }
            }
            Some(Report::Crowded) => {
                life.cause = life.cause.or(Some(Exit::Crowded));
            }
            Some(Report::Gone) => {
                life.confirmed = true;
                life.alarms = Alarms {
                    drain: Some(now + DRAIN),
                    line: life.alarms.line,
                    ..Alarms::default()
                };
            }
            // The warden was killed, or sent a report that is invalid here. The program dies with it; the rest of its
            // process group is killed from here.
            None | Some(Report::Started { .. } | Report::Failed(_)) => {
                if life.exit.is_none()
                    && let Some(group) = Pid::from_raw(self.process.pid)
                {
                    let _ = kill_process_group(group, Number::KILL);
                }
                life.alarms = Alarms {
                    drain: Some(now + DRAIN),
                    line: life.alarms.line,
                    ..Alarms::default()
                };
            }
        }
    }

    async fn take(&mut self, stream: Stream, bytes: Option<Vec<u8>>, life: &mut Life) {
        let Some(bytes) = bytes else {
            match stream {
                Stream::Stdout => self.stdout = None,
                Stream::Stderr => self.stderr = None,
            }
            self.combine(life, |output| output.close(stream));
            return;
        };
        let now = Instant::now();
        if let Some(inactivity) = &mut life.alarms.inactivity {
            *inactivity = now + self.times.inactivity.unwrap_or_default();
        }
        let written = self.combine(life, |output| output.push(stream, &bytes));
        if let Some(live) = &self.live {
            // The channel has capacity: `output` waited for it, and this task is the only sender.
            let _ = live.try_send((stream, bytes));
        }
        if written > self.times.max_output && life.cause.is_none() {
            self.stop(life, Exit::Flooded).await;
        }
    }

    /// Applies `change` to the output, publishes how much of it can be read now, and updates the deadline for an
    /// unfinished line. Returns how many bytes were written in total.
    fn combine(&self, life: &mut Life, change: impl FnOnce(&mut Output)) -> u64 {
        let (total, written, waits) = {
            let mut output = self.process.output();
            change(&mut output);
            (output.total(), output.written(), output.waits())
        };
        self.process.news.send_modify(|news| news.bytes = total);
        let line = &mut life.alarms.line;
        *line = waits.then(|| line.unwrap_or_else(|| Instant::now() + self.times.line_wait));
        written
    }

    async fn obey(&mut self, order: Option<Order>, life: &mut Life) {
        match order {
            Some(Order::Signal(signal @ (Signal::Term | Signal::Kill))) => {
                // No cause is set, because the program reports which signal ended it.
                if signal == Signal::Term {
                    self.terminate(life).await;
                } else {
                    self.kill(life).await;
                }
            }
            // A warden that is killing does not process further commands.
            Some(Order::Signal(_)) if life.killing => {}
            Some(Order::Signal(signal)) => self.line.demand(Demand::Signal(signal.number())).await,
            Some(Order::End) => self.stop(life, Exit::Cancelled).await,
            Some(Order::Kill) | None => {
                if order.is_none() {
                    self.orders = None;
                }
                life.cause = life.cause.or(Some(Exit::Cancelled));
                self.live = None;
                self.kill(life).await;
            }
            Some(Order::Detach) => {
                self.live = None;
                self.ground = Ground::Back;
                life.alarms.timeout = None;
                life.alarms.inactivity = None;
                life.alarms.linger = None;
                if let Some(exit) = life.exit {
                    self.tell(State::Left { exit });
                }
            }
        }
    }

    /// Returns true if the supervisor gives up.
    async fn alarm(&mut self, life: &mut Life) -> bool {
        let now = Instant::now();
        if due(&mut life.alarms.timeout, now) {
            self.stop(life, Exit::TimedOut).await;
        }
        if due(&mut life.alarms.inactivity, now) {
            self.stop(life, Exit::Inactive).await;
        }
        if due(&mut life.alarms.linger, now) {
            match (self.ground, life.exit) {
                (Ground::Front(Leftovers::Keep), Some(exit)) => {
                    self.process.listed.store(true, Ordering::Relaxed);
                    self.tell(State::Left { exit });
                }
                _ => self.terminate(life).await,
            }
        }
        if due(&mut life.alarms.kill, now) {
            self.kill(life).await;
        }
        if due(&mut life.alarms.line, now) {
            self.combine(life, Output::release);
        }
        due(&mut life.alarms.confirm, now) || due(&mut life.alarms.drain, now)
    }

    async fn stop(&mut self, life: &mut Life, cause: Exit) {
        if life.exit.is_none() {
            life.cause = life.cause.or(Some(cause));
        }
        self.terminate(life).await;
    }

    async fn terminate(&mut self, life: &mut Life) {
        if !life.stopping {
            life.stopping = true;
            self.line
                .demand(Demand::Signal(Signal::Term.number()))
                .await;
            life.alarms.kill = Some(Instant::now() + self.times.grace);
        }
    }

    async fn kill(&mut self, life: &mut Life) {
        if !life.killing {
            life.stopping = true;
            life.killing = true;
            life.alarms.kill = None;
            self.line.demand(Demand::Kill).await;
            life.alarms.confirm = Some(Instant::now() + CONFIRM);
        }
    }

    fn tell(&self, state: State) {
        let bytes = self.released();
        self.process
            .news
            .send_modify(|news| *news = News { state, bytes });
    }

    /// Releases output that waits for the end of a line, and returns how many bytes can be read.
    fn released(&self) -> u64 {
        let mut output = self.process.output();
        output.release();
        output.total()
    }

    async fn finish(self, life: &Life) {
        let duration = self.process.began.elapsed();
        *self
            .process
            .ended
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(duration);
        let exit = life.exit.or(life.cause).unwrap_or(Exit::Lost);
        let bytes = self.released();
        let state = State::Ended {
            exit,
            confirmed: life.confirmed,
        };
        self.process.news.send_replace(News { state, bytes });
        // A writer holds this lock only briefly, because the program no longer reads.
        *self.process.stdin.lock().await = None;
        self.line.close().await;
    }
}

/// Returns the next chunk of output once the listener has capacity for it. A slow listener slows the program down
/// instead of filling memory.
async fn output(
    live: Option<&Live>,
    stdout: &mut Option<Reader>,
    stderr: &mut Option<Reader>,
) -> (Stream, Option<Vec<u8>>) {
    if let Some(live) = live {
        // A dropped listener never blocks.
        let _ = live.reserve().await;
    }
    let (stream, bytes) = tokio::select! {
        bytes = next(stdout) => (Stream::Stdout, bytes),
        bytes = next(stderr) => (Stream::Stderr, bytes),
    };
    (stream, (!bytes.is_empty()).then(|| bytes.to_vec()))
}

async fn order(orders: &mut Option<mpsc::UnboundedReceiver<Order>>) -> Option<Order> {
    match orders {
        Some(orders) => orders.recv().await,
        None => future::pending().await,
    }
}

async fn next(reader: &mut Option<Reader>) -> &[u8] {
    match reader {
        Some(reader) => reader.next().await,
        None => future::pending().await,
    }
}
