//! Shows at the terminal what takes long: one row with the elapsed time, and below it the last rows of output.
//!
//! Nothing is shown if standard error is not a terminal. With plain prompts a line is printed every few seconds instead.

use std::io::IsTerminal as _;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use toolhost_contract::units::format_size;
use toolhost_contract::{CallEvent, PluginName, text};

use super::events;
use super::options;
use super::prompter::untrusted_text::fit;
use super::screen::SCREEN;
use super::style::{Paint, Style};

/// What ends earlier is not shown.
const DELAY: Duration = Duration::from_millis(300);
const REDRAW_INTERVAL: Duration = Duration::from_millis(100);
/// Interval of lines with plain prompts.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// How long something runs before the time that is left is estimated.
const MIN_ESTIMATED: Duration = Duration::from_secs(2);
/// Maximum number of rows of output below the first row.
const MAX_OUTPUT_ROWS: usize = 5;
/// Bytes of output that are kept; earlier ones are dropped.
const MAX_OUTPUT: usize = 64 << 10;
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// How progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgressMode {
    /// Rows that are redrawn.
    Live,
    /// A line every few seconds.
    Lines,
    Hidden,
}

impl ProgressMode {
    pub fn of_terminal() -> Self {
        match (std::io::stderr().is_terminal(), options::is_plain()) {
            (false, _) => Self::Hidden,
            (true, true) => Self::Lines,
            (true, false) => Self::Live,
        }
    }
}

/// Shown until it is dropped.
pub struct Progress {
    mode: ProgressMode,
    shared: Arc<Shared>,
    painter: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    /// Escaped.
    title: String,
    /// Escaped.
    message: String,
    /// The part that is done, as the tool says.
    fraction: Option<f64>,
    output: Vec<u8>,
    /// The plugin of a call, and whether it is being compiled.
    preparing: Option<(PluginName, Box<dyn Fn() -> bool + Send>)>,
    /// How many bytes were received, and how many there are, or 0.
    transfer: Option<Box<dyn Fn() -> (u64, u64) + Send>>,
    has_ended: bool,
}

impl Progress {
    /// `title` must be escaped.
    pub fn start(title: &str, mode: ProgressMode) -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                title: title.to_owned(),
                message: String::new(),
                fraction: None,
                output: Vec::new(),
                preparing: None,
                transfer: None,
                has_ended: false,
            }),
            ended: Condvar::new(),
        });
        let painter = (mode != ProgressMode::Hidden).then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.paint(mode))
        });
        Self {
            mode,
            shared,
            painter,
        }
    }

    /// `title` must be escaped.
    pub fn set_title(&self, title: &str) {
        title.clone_into(&mut self.shared.lock().title);
    }

    /// Shows the event as progress. Returns false if it has to be printed.
    pub fn add(&self, event: &CallEvent) -> bool {
        match event {
            CallEvent::Progress {
                message,
                progress,
                total,
            } if self.mode != ProgressMode::Hidden => {
                let step = events::step(*progress, *total);
                let message = message.as_deref().unwrap_or_default();
                let message = text::escape_line(format!("{step} {message}").trim(), 200);
                let mut state = self.shared.lock();
                state.message = message;
                state.fraction = progress
                    .zip(*total)
                    .map(|(progress, total)| progress / total);
                true
            }
            CallEvent::Output { bytes, .. } if self.mode == ProgressMode::Live => {
                self.add_output(bytes);
                true
            }
            _ => false,
        }
    }

    /// Says that the plugin is compiled while `check` says so.
    pub fn show_preparation(&self, plugin: PluginName, check: impl Fn() -> bool + Send + 'static) {
        self.shared.lock().preparing = Some((plugin, Box::new(check)));
    }

    /// Shows how many bytes were received, and how many there are, or 0.
    pub fn show_transfer(&self, transfer: impl Fn() -> (u64, u64) + Send + 'static) {
        self.shared.lock().transfer = Some(Box::new(transfer));
    }

    fn add_output(&self, bytes: &[u8]) {
        let output = &mut self.shared.lock().output;
        output.extend_from_slice(bytes);
        if output.len() > MAX_OUTPUT {
            output.drain(..output.len() - MAX_OUTPUT);
        }
    }

    /// Stops and returns the output, or its end.
    pub fn finish(self) -> Vec<u8> {
        std::mem::take(&mut self.shared.lock().output)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.ended.notify_all();
        if let Some(painter) = self.painter.take() {
            let _ = painter.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paint(&self, mode: ProgressMode) {
        let mut before = Instant::now();
        // Without the time in which the user was asked.
        let mut elapsed = Duration::ZERO;
        let style = Style::of(&std::io::stderr());
        let (delay, interval) = match mode {
            ProgressMode::Live => (DELAY, REDRAW_INTERVAL),
            ProgressMode::Lines | ProgressMode::Hidden => (LINE_INTERVAL, LINE_INTERVAL),
        };
        let mut wait = delay;
        let mut frame = 0;
        loop {
            let state = self.lock();
            let (state, _) = self
                .ended
                .wait_timeout_while(state, wait, |state| !state.has_ended)
                .unwrap_or_else(PoisonError::into_inner);
            if state.has_ended {
                break;
            }
            wait = interval;
            let since = std::mem::replace(&mut before, Instant::now());
            if SCREEN.has_question() {
                continue;
            }
            elapsed += since.elapsed();
            if mode == ProgressMode::Lines {
                let line = format!("{}\n", status(&state, elapsed));
                drop(state);
                SCREEN.note(&line);
                continue;
            }
            let width = width();
            let rows = rows(&state, frame, elapsed, width, style);
            drop(state);
            SCREEN.set_pane(rows);
            frame += 1;
        }
        if mode == ProgressMode::Live {
            SCREEN.set_pane(Vec::new());
        }
    }
}

/// `bash  3 s  message`
fn status(state: &State, elapsed: Duration) -> String {
    let is_preparing = state.preparing.as_ref().is_some_and(|(_, check)| check());
    let transfer = state.transfer.as_ref().map(|transfer| transfer());
    let (received, total) = transfer.unwrap_or_default();
    let message = match (&state.preparing, state.message.as_str()) {
        _ if received > 0 && total > 0 => {
            format!("  {} of {}", format_size(received), format_size(total))
        }
        _ if received > 0 => format!("  {}", format_size(received)),
        (Some((plugin, _)), _) if is_preparing => {
            format!("  compiling {plugin} for its first call")
        }
        (_, "") => String::new(),
        (_, message) => format!("  {message}"),
    };
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let transferred = (total > 0).then(|| received as f64 / total as f64);
    let left = time_left(state.fraction.or(transferred), elapsed)
        .map(|left| format!("  about {} s left", left.as_secs()));
    let left = left.unwrap_or_default();
    format!("{}  {} s{message}{left}", state.title, elapsed.as_secs())
}

/// `None` if the tool does not say how much is done, or not enough is done for an estimate.
fn time_left(fraction: Option<f64>, elapsed: Duration) -> Option<Duration> {
    // The fraction is untrusted: it can be no number.
    let fraction = fraction.filter(|fraction| (0.05..1.0).contains(fraction))?;
    (elapsed >= MIN_ESTIMATED).then(|| elapsed.mul_f64((1.0 - fraction) / fraction))
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stderr().as_fd());
    let columns = size.map_or(0, |size| size.ws_col);
    if columns == 0 { 80 } else { columns.into() }
}

/// The rows, each narrower than the terminal.
fn rows(state: &State, frame: usize, elapsed: Duration, width: usize, style: Style) -> Vec<String> {
    let frame = FRAMES[frame % FRAMES.len()];
    let first = fit(&status(state, elapsed), width.saturating_sub(5));
    let mut rows = vec![format!("  {} {first}", style.paint(Paint::Cyan, frame))];
    let output = String::from_utf8_lossy(&state.output);
    let mut last: Vec<&str> = output
        .trim_end()
        .rsplit('\n')
        .take(MAX_OUTPUT_ROWS)
        .map(events::last_drawn)
        .collect();
    last.reverse();
    if !output.trim_end().is_empty() {
        rows.extend(last.into_iter().map(|line| {
            let line = text::escape_line(line, 500);
            let line = fit(&line, width.saturating_sub(7));
            format!("    {} {line}", style.paint(Paint::Dim, "│"))
        }));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_and_show_the_end_of_the_output() {
        let state = State {
            title: "bash".to_owned(),
            message: "2/5 reading".to_owned(),
            fraction: None,
            output: b"one\ntwo\x1b[2J\nthree\nfour\n10%\r20%\nsix is a long line of output\n\n"
                .to_vec(),
            preparing: None,
            transfer: None,
            has_ended: false,
        };
        let rows = rows(&state, 1, Duration::from_millis(3_900), 24, Style::PLAIN);
        assert_eq!(
            rows,
            [
                "  ⠙ bash  3 s  2/5 re…",
                "    │ two\\u{1b}[2J",
                "    │ three",
                "    │ four",
                "    │ 20%",
                "    │ six is a long l…",
            ]
        );
    }

    #[test]
    fn the_time_that_is_left_is_estimated() {
        let left = |progress: f64, total: f64, elapsed| {
            let left = time_left(Some(progress / total), Duration::from_secs(elapsed));
            left.map(|left| left.as_secs())
        };
        assert_eq!(left(2.0, 5.0, 4), Some(6));
        assert_eq!(left(2.0, 5.0, 1), None);
        for (progress, total) in [
            (0.0, 0.0),
            (f64::NAN, 1.0),
            (-1.0, 5.0),
            (0.1, 5.0),
            (5.0, 5.0),
        ] {
            assert_eq!(left(progress, total, 4), None, "{progress}/{total}");
        }
        assert_eq!(time_left(None, Duration::from_secs(4)), None);
    }

    #[test]
    fn only_the_end_of_long_output_is_kept() {
        let progress = Progress::start("bash", ProgressMode::Hidden);
        progress.add_output(&vec![b'x'; MAX_OUTPUT]);
        progress.add_output(b"end");
        let output = progress.finish();
        assert_eq!(output.len(), MAX_OUTPUT);
        assert!(output.ends_with(b"xend"));
    }
}
