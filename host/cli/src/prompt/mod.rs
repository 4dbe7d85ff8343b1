//! The interactive prompt of `host run`.

mod commands;
mod completion;
mod history;
mod line;

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use toolhost_contract::units::format_duration;
use toolhost_contract::{CallId, Principal, SessionKey, Sink, text};
use toolhost_kernel::{CallRequest, Report, ToolEntry};

use self::completion::LineHelper;
use self::line::PromptLine;
use crate::commands::call::{call_events, kept_after_cancel};
use crate::commands::plugins::plugin_table;
use crate::commands::tools::tool_table;
use crate::commands::undo::Direction;
use crate::exit::{CliError, Exit, OrExit};
use crate::load::RunningHost;
use crate::terminal::events::print_output;
use crate::terminal::progress::ProgressMode;
use crate::terminal::render::{self, TextForm};
use crate::terminal::screen::SCREEN;
use crate::terminal::style::{Paint, Style, terminal_width};
use crate::terminal::{count, note, print};
use crate::{input, json, tool_description};

/// Name of this client in the records.
const CLIENT_NAME: &str = "host run";

const HELP: &str = "\
TOOL key=value …     call a tool; key:=JSON passes a JSON value; quoting as in a shell
TOOL value           the only required parameter needs no name: read_file README.md
TOOL {…}             call a tool with the whole input as JSON, on one or more lines
/undo [CALL|PATH]    show and undo the last change of this session, or another one; /redo reverses it
/diff [CALL|PATH]    show the difference that the last change made, or another one
/calls [CALL]        list the calls of this session, or explain one
/mode [MODE]         show or set what happens to calls that no rule covers
/allow RULE          allow matching calls until the host exits: /allow write_file
/plugins [NAME]      list plugins and their grants, or show what one can access
/tools, /help TOOL   list tools, describe a tool; /inspect TOOL shows all its details as JSON
/exit                exit (or Ctrl-D)

Tab completes names, values and paths; Ctrl-R searches the history. Ctrl-C cancels a running call, Ctrl-\\ moves its
command to the background.";

pub fn run(runtime: &Runtime, host: &RunningHost) -> Result<Exit, CliError> {
    let config = Config::builder()
        .completion_type(CompletionType::List)
        .history_ignore_space(true)
        .build();
    let mut editor: Editor<LineHelper, FileHistory> =
        Editor::with_config(config).or_exit(Exit::Internal)?;
    editor.set_helper(Some(LineHelper::new(
        Arc::clone(&host.kernel),
        &host.settings.core.paths,
    )));
    let history = host
        .settings
        .core
        .host_paths
        .state
        .as_deref()
        .and_then(history::create);
    if let Some(file) = &history {
        // An unreadable history is treated as empty.
        let _ = editor.load_history(file);
    }
    print_greeting(host);
    // Installs the handler, so that Ctrl-C at the question of a command does not end the host.
    let _interrupt = runtime.block_on(async { signal(SignalKind::interrupt()) });
    let mut session = PromptSession {
        runtime,
        host,
        key: SessionKey::local(format!("s-{}", toolhost_kernel::id::random())),
        calls: 0,
        quit: runtime.block_on(async { signal(SignalKind::quit()).ok() }),
        style: Style::of(&std::io::stdout()),
    };
    host.kernel.open_session(&session.key, CLIENT_NAME);
    let exit = session.run_loop(&mut editor, history.as_deref());
    host.kernel.close_session(&session.key, CLIENT_NAME);
    exit
}

/// Prints what is loaded and how to get help.
fn print_greeting(host: &RunningHost) {
    let tools = count(host.kernel.registry().list().count(), "tool");
    let plugins = count(host.loaded.loaded().plugins.len(), "plugin");
    let folders: Vec<String> = host
        .settings
        .core
        .paths
        .iter()
        .map(|path| {
            format!(
                "{} = {} ({})",
                path.guest,
                path.host.display(),
                path.access.as_str()
            )
        })
        .collect();
    let folders = if folders.is_empty() {
        "no directory granted".to_owned()
    } else {
        folders.join(", ")
    };
    note(&format!("{tools} from {plugins}; {folders}"));
    note("type /help for commands, Tab to complete, Ctrl-R to search the history, Ctrl-D to exit");
}

/// Waits for the signal. Waits forever if it cannot be received.
async fn received(signal: &mut Option<Signal>) {
    let received = match signal {
        Some(signal) => signal.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Moves the command of the call to the background.
fn detach(host: &RunningHost, call: &CallId, session: &SessionKey) {
    if let Err(error) = host.kernel.detach(call, &session.user) {
        note(&format!("\nerror: {error}; Ctrl-C cancels the call"));
    }
}

struct PromptSession<'a> {
    runtime: &'a Runtime,
    host: &'a RunningHost,
    /// The session's id.
    key: SessionKey,
    calls: usize,
    /// Ctrl-\\. Received from the start, so that it never quits the host; it has no effect while no call runs.
    quit: Option<Signal>,
    style: Style,
}

impl PromptSession<'_> {
    fn run_loop(
        &mut self,
        editor: &mut Editor<LineHelper, FileHistory>,
        history: Option<&Path>,
    ) -> Result<Exit, CliError> {
        loop {
            match editor.readline("host> ") {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => {
                    let _ = editor.add_history_entry(line.as_str());
                    if let Some(file) = history {
                        let _ = editor.append_history(file);
                    }
                    match line::parse(&line) {
                        Ok(PromptLine::Quit) => return Ok(Exit::Ok),
                        Ok(line) => self.execute(line).or_else(note_error)?,
                        Err(error) => note(&format!("error: {error}")),
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => return Ok(Exit::Ok),
                Err(error) => return Err(error).or_exit(Exit::Internal),
            }
        }
    }

    fn execute(&mut self, line: PromptLine) -> Result<(), CliError> {
        let shown = match line {
            PromptLine::Quit => return Ok(()),
            PromptLine::Call { tool, arguments } => return self.call(tool, &arguments),
            PromptLine::Help { tool: None } => Some(HELP.to_owned()),
            PromptLine::Help { tool: Some(tool) } => self.show_tool(&tool, |entry| {
                Ok(tool_description::describe_tool(
                    entry.name.as_str(),
                    &entry.tool,
                    self.style,
                    terminal_width(),
                ))
            })?,
            PromptLine::Tools => {
                let registry = self.host.kernel.registry();
                Some(tool_table(&registry, registry.list_all()))
            }
            PromptLine::Plugins { name: None } => Some(plugin_table(self.host)),
            PromptLine::Plugins { name: Some(name) } => Some(self.plugin(&name)?),
            PromptLine::Undo { what } => return self.revert(what.as_deref(), Direction::Undo),
            PromptLine::Redo { what } => return self.revert(what.as_deref(), Direction::Redo),
            PromptLine::Diff { what } => Some(self.diff(what.as_deref())?),
            PromptLine::Calls { call } => Some(self.calls(call.as_deref())?),
            PromptLine::Mode { name } => Some(self.mode(name.as_deref())?),
            PromptLine::Allow { rule } => Some(self.allow(&rule)?),
            PromptLine::Inspect { tool } => self.show_tool(&tool, |entry| {
                json::pretty(&json::entry(entry)).or_exit(Exit::Internal)
            })?,
        };
        shown
            .map_or(Ok(()), |shown| print(&shown))
            .or_exit(Exit::Internal)
    }

    /// Shows a tool. Prints an error and returns `None` if it does not exist.
    fn show_tool(
        &self,
        tool: &str,
        show: impl FnOnce(&ToolEntry) -> Result<String, CliError>,
    ) -> Result<Option<String>, CliError> {
        let registry = self.host.kernel.registry();
        if let Some(entry) = registry.get(tool) {
            return show(entry).map(Some);
        }
        let near = registry.nearest(tool);
        let near = if near.is_empty() {
            String::new()
        } else {
            format!("; did you mean {}?", near.join(", "))
        };
        note(&format!(
            "error: no tool `{}`{near}",
            text::escape_line(tool, 80)
        ));
        Ok(None)
    }

    fn call(&mut self, tool: String, arguments: &[String]) -> Result<(), CliError> {
        let registry = self.host.kernel.registry();
        let schema = registry.get(&tool).map(|entry| &entry.tool.input_schema);
        let limit = self.host.kernel.settings().max_input_bytes;
        let input = match input::parse(arguments, schema, std::io::empty(), limit) {
            Ok(input) => input,
            Err(error) => {
                note(&format!("error: {error}"));
                return Ok(());
            }
        };
        self.calls += 1;
        let id = CallId(format!("{}-{}", self.key.session, self.calls));
        let caller = Principal::in_session(&self.key);
        let request = CallRequest::new(id.clone(), tool, input, caller);
        let verbose = self.host.settings.verbose;
        let kept = kept_after_cancel(registry.get(&request.tool));
        let mode = ProgressMode::of_terminal();
        let events = call_events(self.host, verbose, &request.tool, mode);
        let events = self.runtime.block_on(events);
        let (host, key, quit) = (self.host, &self.key, &mut self.quit);
        let start = Instant::now();
        let report = self.runtime.block_on(async {
            // Discards a signal that arrived before the call.
            tokio::select! {
                biased;
                () = received(quit) => {}
                () = std::future::ready(()) => {}
            }
            let sink = Arc::clone(&events) as Arc<dyn Sink>;
            // Dropping the future cancels the call in any phase.
            let mut call = pin!(host.kernel.call(request, sink));
            loop {
                tokio::select! {
                    report = &mut call => return Some(report),
                    _ = tokio::signal::ctrl_c() => return None,
                    () = received(quit) => detach(host, &id, key),
                }
            }
        });
        let output = events.finish();
        // The thread of a cancelled question may still have to restore the terminal settings.
        SCREEN.wait_until_free();
        if let Some(report) = report {
            self.show(&report, &output)
        } else {
            let after = format_duration(start.elapsed());
            print_output(&output, "");
            note(&format!("\ncancelled after {after}; {kept}"));
            Ok(())
        }
    }

    fn show(&self, report: &Report, output: &[u8]) -> Result<(), CliError> {
        let stderr = Style::of(&std::io::stderr());
        for repair in &report.repairs {
            note(&format!("note: {repair}"));
        }
        let outcome = match &report.result {
            Ok(outcome) => outcome,
            Err(error) => {
                print_output(output, "");
                note(&stderr.paint(Paint::Red, &render::error_after_output(error)));
                return Ok(());
            }
        };
        print_output(output, &outcome.model_text());
        if !report.rendering.is_empty() {
            print(&render::rendering(&report.rendering, self.style)).or_exit(Exit::Internal)?;
        } else if render::has_content(outcome) {
            let form = TextForm::of(&self.host.kernel.registry(), report);
            print(&render::for_terminal(outcome, form, self.style)).or_exit(Exit::Internal)?;
        }
        for remark in render::notes(outcome)
            .into_iter()
            .chain([format_duration(report.duration)])
        {
            note(&stderr.paint(Paint::Dim, &remark));
        }
        if let Some(failure) = render::failure(outcome) {
            note(&stderr.paint(Paint::Red, &failure));
        }
        self.note_changes(&report.commits);
        Ok(())
    }
}

/// Reports an error of a command, after which the prompt continues. Failures of the terminal end it.
fn note_error(error: CliError) -> Result<(), CliError> {
    if error.exit == Exit::Internal {
        return Err(error);
    }
    let shown = text::escape_lines(&error.to_string(), 8_000);
    note(&format!("error: {shown}"));
    Ok(())
}
