//! Analysis of a call: the accesses that rules are matched against, computed once per call.

use std::cell::OnceCell;

use serde_json::Value;

use super::command::Steering;
use super::names::{Names, is_foreign};
use super::place::Spot;
use super::protected::Protected;
use super::{Column, Places, Request};
use crate::shell::{self, Word};
use crate::{Effect, text};

/// One access of a call: a path, a command, an address, a variable or the call as a whole. Each must be allowed.
#[derive(Debug)]
pub(super) struct Part {
    pub what: What,
    /// Columns of the mode table that apply; the strictest decision counts.
    pub columns: Vec<Column>,
    /// Paths among the words of a command. How the command uses them is unknown.
    pub mentions: Vec<Spot>,
    /// A redirection target or source of a command.
    pub redirected: bool,
    /// Why a write to this path requires approval where other writes do not.
    pub protected: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum What {
    Path {
        path_ref: Spot,
        shown: String,
        write: bool,
    },
    Command(shell::Simple),
    /// A command that cannot be parsed or a redirection to an unknown path, with the reason.
    Unknown(String),
    /// `named`: the input contains an address, valid or not.
    Address {
        host: Option<String>,
        named: bool,
    },
    /// A variable set for programs of the session. `named`: the input contains its name and its value.
    Variable {
        name: String,
        named: bool,
    },
    /// The call as a whole, when it has no other access.
    Whole,
}

impl Part {
    pub(super) fn is_command(&self) -> bool {
        matches!(self.what, What::Command(_) | What::Unknown(_))
    }

    /// Text for prompts and messages: "write `src/a.rs`", "run `git status`".
    pub(super) fn shown(&self) -> String {
        match &self.what {
            What::Path { shown, write, .. } => {
                let verb = if *write { "write" } else { "read" };
                format!("{verb} `{shown}`")
            }
            What::Command(command) => format!("run `{}`", text::inline(&command.text(), 200)),
            What::Unknown(reason) => format!("run a command that cannot be analyzed ({reason})"),
            What::Address {
                host: Some(host), ..
            } => format!("reach `{host}`"),
            What::Address { .. } => "access the network".to_owned(),
            What::Variable { name, .. } => format!(
                "set the variable `{}` for the programs of this session",
                text::inline(name, 80)
            ),
            What::Whole => "the call".to_owned(),
        }
    }
}

pub(super) struct Facts<'a> {
    pub request: Request<'a>,
    pub names: Names,
    /// A tool of an MCP server, which runs outside the sandbox; its annotations are only hints.
    pub foreign: bool,
    /// The input contains a command, or the tool declares that it runs commands.
    pub runs_command: bool,
    /// The host runs the command and nothing modifies it, so its words determine what happens.
    pub executes: bool,
    /// Variables and options that change what the command does.
    pub steering: Steering,
    /// The tool may change files but its input names none that it writes.
    pub writes_unnamed: bool,
    /// `writes_unnamed` for a tool of an editing kind: any file may be affected.
    pub hides_writes: bool,
    /// The tool may have effects besides the files and commands that its input names.
    pub other_effects: bool,
    pub parts: Vec<Part>,
    /// The command is read-only according to its words.
    pub reads_only: bool,
    pub danger: Option<&'static str>,
    sorted: OnceCell<String>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(request: Request<'a>, places: &Places, protected: &Protected) -> Self {
        let (tool, subject) = (request.tool, request.subject);
        let effect = tool.effect();
        let foreign = is_foreign(request.name.as_str(), tool);
        let runner = tool.kind == "execute";
        let runs_command =
            runner || subject.command.is_some() && (effect > Effect::Reads || foreign);
        let steering = Steering::of(&request);
        let executes = runs_command && request.executes && !steering.is_some();
        let mut analysis = Self {
            names: Names::of(&request),
            request,
            foreign,
            runs_command,
            executes,
            steering,
            writes_unnamed: false,
            hides_writes: false,
            other_effects: false,
            parts: Vec::new(),
            reads_only: false,
            danger: None,
            sorted: OnceCell::new(),
        };
        match &subject.command {
            Some(command) if runs_command => analysis.command(command, places, protected),
            // For example a tool that stops a running command.
            None if runner => analysis.push(What::Whole, Column::Exec),
            Some(_) | None => {}
        }
        // Paths next to a command state where it runs; what it writes follows from the command.
        let beside = runner && executes;
        let mut changed: Vec<(Spot, bool)> = subject
            .paths
            .iter()
            .filter(|one| one.on_host)
            .map(|one| (Spot::on_host(&one.path, places), one.executable))
            .collect();
        for one in subject.paths.iter().filter(|one| !one.on_host) {
            let path_ref = Spot::of(&one.path, places);
            // A path that was both named and changed is one access, shown by the name in the input.
            let same =
                |changed: &Spot| path_ref.exact().is_some() && changed.exact() == path_ref.exact();
            let before = changed.len();
            let executable = changed.iter().any(|(one, runs)| *runs && same(one));
            changed.retain(|(changed, _)| !same(changed));
            let write = (one.write || changed.len() < before) && !beside && !request.delegates;
            analysis.path(path_ref, &one.path, write, protected);
            analysis.is_executable(executable && write);
        }
        for (path_ref, executable) in changed {
            let shown = path_ref.exact().unwrap_or("a path").to_owned();
            analysis.path(path_ref, &shown, true, protected);
            analysis.is_executable(executable);
        }
        // Inputs of delegated calls are analyzed when those calls are made.
        if subject.unclear && !request.delegates {
            let write = effect > Effect::Reads && !beside;
            analysis.path(
                Spot::anywhere(),
                "paths that were not examined",
                write,
                protected,
            );
        }
        let reaches_out = match tool.annotations.open_world {
            Some(said) => said,
            None => !subject.urls.is_empty() && effect > Effect::Pure,
        };
        // A command or a foreign tool requires approval anyway, at least as strictly as network access does in every
        // mode, so only an address that is named is a separate access.
        let covered =
            (runs_command || foreign) && subject.urls.is_empty() && !analysis.parts.is_empty();
        if (reaches_out || tool.kind == "fetch") && !covered {
            let mut hosts = Vec::new();
            for url in &subject.urls {
                let host = super::address::host_of(url);
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
            let named = !hosts.is_empty();
            if !named {
                hosts.push(None);
            }
            for host in hosts {
                analysis.push(What::Address { host, named }, Column::Network);
            }
        }
        for (name, value) in &subject.variables {
            let named = mentions_text(request.input, name) && mentions_text(request.input, value);
            let name = name.clone();
            analysis.push(What::Variable { name, named }, Column::Other);
        }
        analysis.effects();
        if analysis.parts.is_empty() {
            let column = match effect {
                Effect::Pure | Effect::Reads if tool.annotations.interactive == Some(true) => {
                    Column::Interactive
                }
                Effect::Pure | Effect::Reads => Column::Read,
                Effect::Writes | Effect::Destroys if request.delegates => Column::Read,
                Effect::Writes | Effect::Destroys if request.known => Column::Read,
                Effect::Writes | Effect::Destroys if analysis.hides_writes => Column::Protected,
                Effect::Writes | Effect::Destroys => Column::Other,
            };
            analysis.push(What::Whole, column);
        }
        // Every access also gets the classes of the worst unnamed effect. A tool declares its own kind and hints, and
        // must not be able to avoid a prompt with them.
        let besides = [
            (analysis.hides_writes, Column::Protected),
            (analysis.other_effects, Column::Other),
        ];
        for (_, column) in besides.into_iter().filter(|(holds, _)| *holds) {
            for part in &mut analysis.parts {
                if !part.columns.contains(&column) {
                    part.columns.push(column);
                }
            }
        }
        analysis
    }

    /// Computes the effects that the accesses do not name.
    fn effects(&mut self) {
        if self.request.known || self.request.delegates {
            return;
        }
        let tool = self.request.tool;
        let edits = matches!(tool.kind.as_str(), "edit" | "delete" | "move");
        // If the host does not run the command, its redirections write nothing.
        let names_a_file = self.parts.iter().any(|part| {
            matches!(part.what, What::Path { write: true, .. })
                && (!part.redirected || self.executes)
        });
        self.writes_unnamed = tool.effect() > Effect::Reads && !self.executes && !names_a_file;
        self.hides_writes = self.writes_unnamed && edits;
        self.other_effects = self.foreign
            || self.runs_command && !self.executes
            || !self.executes
                && match tool.effect() {
                    Effect::Pure | Effect::Reads => false,
                    Effect::Writes => !edits && !names_a_file,
                    Effect::Destroys => !edits,
                };
    }

    fn command(&mut self, command: &str, places: &Places, protected: &Protected) {
        let script = match shell::parse(command) {
            Ok(script) => script,
            Err(unparsed) => {
                self.push(What::Unknown(unparsed.reason), Column::Exec);
                return;
            }
        };
        self.reads_only = self.executes && shell::reads_only(&script);
        self.danger = shell::danger(&script);
        let moves = script
            .commands
            .iter()
            .any(|command| matches!(command.program(), None | Some("cd" | "pushd" | "popd")))
            || self.runs_elsewhere();
        let mut commands = script.commands;
        if commands.iter().any(|command| !command.sets_only_locals()) {
            commands.retain(|command| !command.sets_only_locals());
        }
        for command in commands {
            let mentions = mentions(&command, places);
            self.push(What::Command(command), Column::Exec);
            if let Some(part) = self.parts.last_mut() {
                part.mentions = mentions;
            }
        }
        let targets = [(&script.reads, false), (&script.writes, true)];
        for (target, write) in targets
            .into_iter()
            .flat_map(|(list, write)| list.iter().map(move |one| (one, write)))
        {
            match &target.path {
                Word::Literal(path) if !moves || path.starts_with('/') => {
                    self.path(Spot::of(path, places), path, write, protected);
                }
                // An unknown path requires approval; the user may know it.
                Word::Literal(shown) | Word::Dynamic(shown) => {
                    let shown = text::inline(shown, 80);
                    let reason =
                        format!("only the running shell determines which file `{shown}` is");
                    let column = if write {
                        Column::Protected
                    } else {
                        Column::Read
                    };
                    self.push(What::Unknown(reason), column);
                }
            }
            if let Some(part) = self.parts.last_mut() {
                part.redirected = true;
            }
        }
    }

    /// Whether the input names the directory to run in, to which a redirection's relative path would then refer.
    fn runs_elsewhere(&self) -> bool {
        let named = |member: &str| self.request.input.get(member).is_some();
        !self.request.subject.paths.is_empty()
            || ["cwd", "workdir", "working_directory"]
                .into_iter()
                .any(named)
    }

    fn path(&mut self, path_ref: Spot, shown: &str, write: bool, protected: &Protected) {
        let why = if write {
            protected.why(&path_ref)
        } else {
            None
        };
        let column = match (write, why) {
            (true, Some(_)) => Column::Protected,
            (true, None) => Column::Write,
            (false, _) => Column::Read,
        };
        let shown = text::inline(shown, 200);
        self.push(
            What::Path {
                path_ref,
                shown,
                write,
            },
            column,
        );
        if let Some(part) = self.parts.last_mut() {
            part.protected = why;
        }
    }

    /// Marks the path added last as that of an executable file.
    fn is_executable(&mut self, executable: bool) {
        if let Some(part) = self.parts.last_mut().filter(|_| executable)
            && part.protected.is_none()
        {
            part.protected = Some(super::protected::EXECUTABLE);
            part.columns = vec![Column::Protected];
        }
    }

    fn push(&mut self, what: What, column: Column) {
        self.parts.push(Part {
            what,
            columns: vec![column],
            mentions: Vec::new(),
            redirected: false,
            protected: None,
        });
    }

    /// Whether the access names less than an approval of it would permit.
    pub(super) fn says_too_little(&self, part: &Part) -> bool {
        match part.what {
            What::Command(_) => !self.executes,
            What::Path { .. } | What::Address { .. } => self.hides_writes,
            What::Whole | What::Unknown(_) | What::Variable { .. } => false,
        }
    }

    /// Describes the program that the call types into; `None` if it types nothing.
    pub(super) fn types_into(&self) -> Option<String> {
        let task = self.request.subject.task.as_ref();
        task.filter(|task| self.request.executes && !task.text.is_empty())?;
        Some(match self.request.job {
            Some(job) => format!(
                "it types into `{}` ({})",
                text::inline(&job.command, 200),
                text::inline(&job.id, 40)
            ),
            None => "it types into a program that is not running".to_owned(),
        })
    }

    /// The input as JSON with sorted members, for imported rules that match it with a regular expression.
    pub(super) fn sorted_input(&self) -> &str {
        self.sorted
            .get_or_init(|| sorted(self.request.input).to_string())
    }
}

/// Whether a member of the input equals this text.
fn mentions_text(input: &Value, text: &str) -> bool {
    let members = input.as_object();
    members.is_some_and(|members| members.values().any(|value| value == text))
}

/// Every word that may be a path, up to its first wildcard, including the value after `=` in an option.
fn mentions(command: &shell::Simple, places: &Places) -> Vec<Spot> {
    let words = command.words.iter().filter_map(|word| {
        let (text, known) = match word {
            Word::Literal(text) => (text.as_str(), text.len()),
            Word::Dynamic(text) => (text.as_str(), text.find(['*', '?', '[', '{', '$', '`'])?),
        };
        let known = &text[..known];
        let known = if known.len() < text.len() {
            &known[..known.rfind('/')?]
        } else {
            known
        };
        match known.strip_prefix('-') {
            Some(option) => option.split_once('=').map(|(_, value)| value),
            None => Some(known),
        }
    });
    words
        .filter(|word| !word.is_empty())
        .map(|word| Spot::of(word, places))
        .collect()
}

/// Sorts members at every depth. Recursion is bounded by the parser of the input.
pub(super) fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut pairs: Vec<_> = members.iter().collect();
            pairs.sort_unstable_by_key(|(name, _)| *name);
            Value::Object(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name.clone(), sorted(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
