//! What a decision depends on, worked out once per call: the call cut into the parts that rules speak of.

use std::cell::OnceCell;

use serde_json::Value;

use super::command::Steering;
use super::names::{Names, is_foreign};
use super::place::Spot;
use super::protected::Protected;
use super::{Column, Places, Request};
use crate::shell::{self, Word};
use crate::{Effect, text};

/// One thing that a call touches. Each part needs its own yes, and one no is a no to the call.
#[derive(Debug)]
pub(super) struct Part {
    pub what: What,
    /// What the table of modes is asked about; the strictest answer counts.
    pub columns: Vec<Column>,
    /// Paths that stand among the words of a command. What it does with them nobody knows.
    pub mentions: Vec<Spot>,
    /// A file that a command's output goes to or its input comes from.
    pub redirected: bool,
    /// Why a write to this path is asked about where other writes are not.
    pub protected: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum What {
    Path {
        spot: Spot,
        shown: String,
        write: bool,
    },
    Command(shell::Simple),
    /// A command that could not be read, and why.
    Unknown(String),
    /// `named`: the input holds an address, readable or not.
    Address {
        host: Option<String>,
        named: bool,
    },
    /// A variable for the programs of the session. `named`: the input holds its name and its value.
    Variable {
        name: String,
        named: bool,
    },
    /// The call as such, when there is nothing finer.
    Whole,
}

impl Part {
    pub(super) fn is_command(&self) -> bool {
        matches!(self.what, What::Command(_) | What::Unknown(_))
    }

    /// For people: `write src/a.rs`, `git status`.
    pub(super) fn shown(&self) -> String {
        match &self.what {
            What::Path { shown, write, .. } => {
                let verb = if *write { "write" } else { "read" };
                format!("{verb} `{shown}`")
            }
            What::Command(command) => format!("run `{}`", text::inline(&command.text(), 200)),
            What::Unknown(reason) => format!("run a command that cannot be parsed ({reason})"),
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
    /// A tool of a server that runs outside the sandbox: what it says of itself is a hint.
    pub foreign: bool,
    /// It has a command, or says of itself that it runs some.
    pub runs_command: bool,
    /// The host runs the command, and nothing but its words says what it does, so that what they say is what happens.
    pub executes: bool,
    /// What besides its words says what the command does.
    pub steering: Steering,
    /// The tool may change files, and its input names none that it writes.
    pub writes_unnamed: bool,
    /// The same of a tool whose business it is to change files: any file may be meant.
    pub hides_writes: bool,
    /// The tool may change more than the files and commands that its input names.
    pub other_effects: bool,
    pub parts: Vec<Part>,
    /// The command only reads, as far as its words tell.
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
        let mut facts = Self {
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
            Some(command) if runs_command => facts.command(command, places, protected),
            // Such as one that stops a running command.
            None if runner => facts.push(What::Whole, Column::Exec),
            Some(_) | None => {}
        }
        // The paths beside a command say where it runs; what it writes stands in the command.
        let beside = runner && executes;
        let mut changed: Vec<(Spot, bool)> = subject
            .paths
            .iter()
            .filter(|one| one.on_host)
            .map(|one| (Spot::on_host(&one.path, places), one.executable))
            .collect();
        for one in subject.paths.iter().filter(|one| !one.on_host) {
            let spot = Spot::of(&one.path, places);
            // What it named and changed is one part: what was changed, by the name it was given.
            let same = |changed: &Spot| spot.exact().is_some() && changed.exact() == spot.exact();
            let before = changed.len();
            let executable = changed.iter().any(|(one, runs)| *runs && same(one));
            changed.retain(|(changed, _)| !same(changed));
            let write = (one.write || changed.len() < before) && !beside && !request.delegates;
            facts.path(spot, &one.path, write, protected);
            facts.is_executable(executable && write);
        }
        for (spot, executable) in changed {
            let shown = spot.exact().unwrap_or("a path").to_owned();
            facts.path(spot, &shown, true, protected);
            facts.is_executable(executable);
        }
        // What is in the inputs of others is looked at when they are called.
        if subject.unclear && !request.delegates {
            let write = effect > Effect::Reads && !beside;
            facts.path(
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
        // Where a command runs, or a foreign tool, that it may reach out is part of what is asked about anyway, and every
        // mode is at least as strict about it. Only an address that is named is a thing of its own.
        let covered =
            (runs_command || foreign) && subject.urls.is_empty() && !facts.parts.is_empty();
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
                facts.push(What::Address { host, named }, Column::Network);
            }
        }
        for (name, value) in &subject.variables {
            let named = mentions_text(request.input, name) && mentions_text(request.input, value);
            let name = name.clone();
            facts.push(What::Variable { name, named }, Column::Other);
        }
        facts.effects();
        if facts.parts.is_empty() {
            let column = match effect {
                Effect::Pure | Effect::Reads if tool.annotations.interactive == Some(true) => {
                    Column::Interactive
                }
                Effect::Pure | Effect::Reads => Column::Read,
                Effect::Writes | Effect::Destroys if request.delegates => Column::Read,
                Effect::Writes | Effect::Destroys if request.known => Column::Read,
                Effect::Writes | Effect::Destroys if facts.hides_writes => Column::Protected,
                Effect::Writes | Effect::Destroys => Column::Other,
            };
            facts.push(What::Whole, column);
        }
        // Whatever else a part is, it is asked about as the worst that the call may do besides: a tool chooses its kind
        // and hints itself, and must not talk itself out of a question with them.
        let besides = [
            (facts.hides_writes, Column::Protected),
            (facts.other_effects, Column::Other),
        ];
        for (_, column) in besides.into_iter().filter(|(holds, _)| *holds) {
            for part in &mut facts.parts {
                if !part.columns.contains(&column) {
                    part.columns.push(column);
                }
            }
        }
        facts
    }

    /// What the call may do besides that which its parts name.
    fn effects(&mut self) {
        if self.request.known || self.request.delegates {
            return;
        }
        let tool = self.request.tool;
        let edits = matches!(tool.kind.as_str(), "edit" | "delete" | "move");
        // Where nobody runs the command, its redirections write nothing.
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
                // Not knowing is a reason to ask a person, who may know.
                Word::Literal(shown) | Word::Dynamic(shown) => {
                    let shown = text::inline(shown, 80);
                    let reason = format!("only the running shell determines which file `{shown}` is");
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

    /// Does the input name the directory to run in? Then a redirection's relative path hangs on that one.
    fn runs_elsewhere(&self) -> bool {
        let named = |member: &str| self.request.input.get(member).is_some();
        !self.request.subject.paths.is_empty()
            || ["cwd", "workdir", "working_directory"]
                .into_iter()
                .any(named)
    }

    fn path(&mut self, spot: Spot, shown: &str, write: bool, protected: &Protected) {
        let why = if write { protected.why(&spot) } else { None };
        let column = match (write, why) {
            (true, Some(_)) => Column::Protected,
            (true, None) => Column::Write,
            (false, _) => Column::Read,
        };
        let shown = text::inline(shown, 200);
        self.push(What::Path { spot, shown, write }, column);
        if let Some(part) = self.parts.last_mut() {
            part.protected = why;
        }
    }

    /// The path that was added last is that of a file which can be run.
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

    /// Does the part, by its own name, say less than what a yes to it would allow?
    pub(super) fn says_too_little(&self, part: &Part) -> bool {
        match part.what {
            What::Command(_) => !self.executes,
            What::Path { .. } | What::Address { .. } => self.hides_writes,
            What::Whole | What::Unknown(_) | What::Variable { .. } => false,
        }
    }

    /// Which program it types into. None: it types nothing.
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

    /// The input as JSON with sorted members, for rules that were imported as expressions over it.
    pub(super) fn sorted_input(&self) -> &str {
        self.sorted
            .get_or_init(|| sorted(self.request.input).to_string())
    }
}

/// Does a member of the input hold exactly this text?
fn mentions_text(input: &Value, text: &str) -> bool {
    let members = input.as_object();
    members.is_some_and(|members| members.values().any(|value| value == text))
}

/// Every word that may be a path, up to its first wildcard, and what follows the `=` of an option.
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

/// Members in order, at every depth. The depth is that of a parsed input, which its parser has bounded.
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
