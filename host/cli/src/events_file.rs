//! `--events FILE`: writes the events of this process as JSON lines, for `host turns` also to standard output.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use clap::{Args, ValueHint};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use toolhost::front_end::FrontEndEvents;
use toolhost::turn::ProfileView;
use toolhost_contract::bus::BusEvent;
use toolhost_contract::text;
use toolhost_formats::events::FrontEnd;
use toolhost_kernel::{Kernel, MissedEvents, Subscription};

use crate::exit::{CliError, Exit, OrExit as _};
use crate::terminal::note;
use crate::value_parsers::front_end_parser;

#[derive(Debug, Clone, Default, Args)]
pub struct EventsArgs {
    /// Append events to this file as JSON lines
    #[arg(help_heading = "Event options", long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub events: Option<PathBuf>,

    /// Write the events of --events in the format of another agent system
    #[arg(help_heading = "Event options", long, value_name = "SYSTEM", requires = "events", value_parser = front_end_parser())]
    pub events_as: Option<FrontEnd>,
}

impl EventsArgs {
    /// Opens the file before anything runs, and adds it to what is hidden from tools. `carried` describes the content of standard output,
    /// for an error.
    pub fn open(
        &self,
        carried: &str,
        hidden: &mut Vec<PathBuf>,
    ) -> Result<Option<EventsFile>, CliError> {
        let Some(path) = &self.events else {
            return Ok(None);
        };
        if path.as_os_str() == "-" {
            let message = format!(
                "--events -: standard output carries {carried}; name a file, or /dev/stderr"
            );
            return Err(CliError::new(Exit::Usage, message));
        }
        self.open_file(path, hidden).map(Some)
    }

    /// Like [`EventsArgs::open`], except that `-` passes each event to `write_line`.
    pub fn open_or_lines(
        &self,
        write_line: fn(&Value),
        hidden: &mut Vec<PathBuf>,
    ) -> Result<Option<EventsFile>, CliError> {
        match &self.events {
            Some(path) if path.as_os_str() == "-" => Ok(Some(EventsFile {
                output: EventsOutput::Lines(write_line),
                front_end: self.events_as,
            })),
            Some(path) => self.open_file(path, hidden).map(Some),
            None => Ok(None),
        }
    }

    fn open_file(&self, path: &Path, hidden: &mut Vec<PathBuf>) -> Result<EventsFile, CliError> {
        // Appended, because a client that restarts the host must not lose the events of the last run. Mode 0600,
        // because even masked events reveal which files are in use. Symlinks are refused, because a tool with write
        // access to the directory could have created one; the standard streams are symlinks of the system. Opening
        // does not wait for the reader of a pipe.
        let is_stream = ["/dev/stderr", "/dev/stdout", "/dev/fd", "/proc/self/fd"]
            .iter()
            .any(|stream| path.starts_with(stream));
        let flags = if is_stream {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW | OFlags::NONBLOCK
        };
        let opened = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(path);
        let shown = text::escape_line(&path.to_string_lossy(), 400);
        let wrong =
            |problem: String| CliError::new(Exit::Usage, format!("--events {shown}: {problem}"));
        let file = opened.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => wrong("the pipe has no reader; start its reader first".to_owned()),
            _ => wrong(format!("cannot be opened for writing: {error}")),
        })?;
        // Opened without waiting, but written in blocking mode like a file.
        let flags = fcntl_getfl(&file).map(|flags| flags - OFlags::NONBLOCK);
        flags
            .and_then(|flags| fcntl_setfl(&file, flags))
            .map_err(|error| wrong(format!("cannot be opened for writing: {error}")))?;
        if file.metadata().is_ok_and(|found| found.is_file()) && !is_stream {
            let path = std::path::absolute(path).or_exit(Exit::Internal)?;
            hidden.push(path);
        }
        Ok(EventsFile {
            output: EventsOutput::File { file, shown },
            front_end: self.events_as,
        })
    }
}

/// An open events file, before the first event.
pub struct EventsFile {
    output: EventsOutput,
    /// `None` writes the native format.
    front_end: Option<FrontEnd>,
}

/// Writes the events of a subscription.
struct EventLines {
    output: EventsOutput,
    /// `None` for the native format.
    converter: Option<FrontEndEvents>,
}

enum EventsOutput {
    File {
        file: File,
        shown: String,
    },
    /// `{"event": …}` among the lines of a session.
    Lines(fn(&Value)),
    Failed,
}

/// Writes events until it is dropped; dropping it writes all pending events first.
pub struct EventsWriter {
    stop: Option<oneshot::Sender<()>>,
    writer: Option<JoinHandle<()>>,
}

impl EventsFile {
    /// Writes on a separate thread, so that a slow disk does not delay calls. Must be called within a Tokio runtime.
    /// `view` has the tool names for another format; native events have canonical names.
    pub fn follow(self, kernel: &Kernel, view: ProfileView) -> EventsWriter {
        let subscription = kernel.subscribe(None, None);
        let front_end = self.front_end;
        let lines = EventLines {
            output: self.output,
            converter: front_end.map(|front_end| FrontEndEvents::new(kernel, front_end, view)),
        };
        let (stop, stopped) = oneshot::channel();
        let runtime = Handle::current();
        let writer = std::thread::spawn(move || lines.run(subscription, stopped, &runtime));
        EventsWriter {
            stop: Some(stop),
            writer: Some(writer),
        }
    }
}

impl EventLines {
    fn run(
        mut self,
        mut subscription: Subscription,
        mut stopped: oneshot::Receiver<()>,
        runtime: &Handle,
    ) {
        loop {
            while let Some(received) = subscription.try_next() {
                self.write(received);
            }
            let received = runtime.block_on(async {
                tokio::select! {
                    biased;
                    received = subscription.next() => Some(received),
                    _ = &mut stopped => None,
                }
            });
            match received {
                Some(received) => self.write(received),
                None => return,
            }
        }
    }

    fn write(&mut self, received: Result<Arc<BusEvent>, MissedEvents>) {
        let values = format_event(received, self.converter.as_mut());
        match &mut self.output {
            EventsOutput::Failed => {}
            EventsOutput::Lines(write_line) => {
                for value in values {
                    write_line(&json!({"event": value}));
                }
            }
            EventsOutput::File { file, shown } => {
                let mut lines = String::new();
                for value in values {
                    lines.push_str(&value.to_string());
                    lines.push('\n');
                }
                if let Err(error) = file.write_all(lines.as_bytes()) {
                    note(&format!(
                        "error: --events {shown}: {error}; no more events are written"
                    ));
                    self.output = EventsOutput::Failed;
                }
            }
        }
    }
}

fn format_event(
    received: Result<Arc<BusEvent>, MissedEvents>,
    converter: Option<&mut FrontEndEvents>,
) -> Vec<Value> {
    match (received, converter) {
        (Ok(event), Some(converter)) => converter.convert(&event),
        (Ok(event), None) => vec![event.to_json()],
        // The same in every format, because readers must be able to detect gaps.
        (Err(missed), _) => {
            vec![json!({"type": "events.missed", "from": missed.from, "to": missed.to})]
        }
    }
}

impl Drop for EventsWriter {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(writer) = self.writer.take() {
            // A panic of the writer has been printed; the result of the call still matters.
            let _ = writer.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use toolhost_contract::Principal;
    use toolhost_contract::bus::EventKind;
    use toolhost_contract::lifecycle::Timestamp;
    use toolhost_formats::profile::{Profile, UnmappedTools};
    use toolhost_kernel::KernelSettings;

    use super::*;

    fn open(path: &str) -> Result<Option<EventsFile>, String> {
        let args = EventsArgs {
            events: Some(path.into()),
            events_as: None,
        };
        args.open("the result", &mut Vec::new())
            .map_err(|failure| format!("{} {failure}", failure.exit.code()))
    }

    #[test]
    fn an_unwritable_file_is_an_error_before_anything_runs() {
        for (path, shown) in [
            (
                "-",
                "2 --events -: standard output carries the result; name a file, or /dev/stderr",
            ),
            (
                "/nonexistent/e.jsonl",
                "2 --events /nonexistent/e.jsonl: cannot be opened for writing: No such file or directory (os error 2)",
            ),
        ] {
            assert_eq!(open(path).map(|_| ()).unwrap_err(), shown);
        }
    }

    #[test]
    fn missed_events_are_reported_in_every_format() {
        let missed = || Err(MissedEvents { from: 3, to: 9 });
        let lines = [json!({"type": "events.missed", "from": 3, "to": 9})];
        let kernel = Kernel::builder(KernelSettings::default()).build().unwrap();
        let view = (Profile::Native, UnmappedTools::default());
        let mut kode = FrontEndEvents::new(&kernel, FrontEnd::Kode, view);
        assert_eq!(format_event(missed(), None), lines);
        assert_eq!(format_event(missed(), Some(&mut kode)), lines);
    }

    #[test]
    fn a_line_is_the_event_as_json() {
        let event = BusEvent {
            seq: 1,
            at: Timestamp(5),
            caller: Arc::new(Principal {
                session: "s".into(),
                ..Principal::default()
            }),
            call: None,
            kind: EventKind::RegistryChanged,
            snapshot: None,
        };
        let lines = format_event(Ok(Arc::new(event)), None);
        let shown = r#"{"seq":1,"ts":5,"type":"registry.changed","channel":"monitor","session":"s","agent":"main"}"#;
        assert_eq!(lines[0].to_string(), shown);
    }
}
