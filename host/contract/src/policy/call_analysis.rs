//! Analysis of a call: the accesses that rules are matched against, computed once per call.

use std::cell::OnceCell;

use serde_json::Value;

use super::authorized_command::CommandModifiers;
use super::path_pattern::PathRef;
use super::protected::ProtectedPaths;
use super::tool_names::{ToolNames, is_foreign};
use super::{AccessClass, PathContext, PolicyRequest};
use crate::path_members::DIRECTORY_MEMBERS;
use crate::{Effect, text};
use toolhost_shell_syntax::{self as shell, Word};

/// Directories from which the arguments of one command line are looked at.
const MAX_DIRECTORIES: usize = 8;

/// Maximum number of options in a cluster, and of values after `=`, that are looked at in one word.
const MAX_PARTS: usize = 8;

/// One access of a call: a path, a command, an address, a variable or the call as a whole. Each must be allowed.
#[derive(Debug)]
pub(super) struct AccessRequest {
    pub kind: AccessKind,
    /// Columns of the mode table that apply; the strictest decision counts.
    pub classes: Vec<AccessClass>,
    /// Paths among the words of a command. How the command uses them is unknown.
    pub mentioned_paths: Vec<PathRef>,
    /// The command may run in another directory than that of the rules, and what it runs depends on the directory.
    /// Patterns and approvals of commands do not cover it, as they do not cover the program's option for another
    /// directory.
    pub depends_on_other_directory: bool,
    /// A redirection target or source of a command.
    pub is_redirection: bool,
    /// Why a write to this path requires approval where other writes do not.
    pub protection: Option<&'static str>,
}

#[derive(Debug)]
pub(super) enum AccessKind {
    Path {
        path_ref: PathRef,
        shown: String,
        write: bool,
    },
    Command(shell::SimpleCommand),
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
    Call,
}

impl AccessRequest {
    pub(super) fn is_command(&self) -> bool {
        matches!(self.kind, AccessKind::Command(_) | AccessKind::Unknown(_))
    }

    /// Text for prompts and messages: "write `src/a.rs`", "run `git status`".
    pub(super) fn describe(&self) -> String {
        match &self.kind {
            AccessKind::Path { shown, write, .. } => {
                let verb = if *write { "write" } else { "read" };
                format!("{verb} `{shown}`")
            }
            AccessKind::Command(command) => {
                format!("run `{}`", text::escape_line(&command.text(), 200))
            }
            AccessKind::Unknown(reason) => {
                format!("run a command that cannot be analyzed ({reason})")
            }
            AccessKind::Address {
                host: Some(host), ..
            } => format!("reach `{host}`"),
            AccessKind::Address { .. } => "access the network".to_owned(),
            AccessKind::Variable { name, .. } => format!(
                "set the variable `{}` for the programs of this session",
                text::escape_line(name, 80)
            ),
            AccessKind::Call => "the call".to_owned(),
        }
    }
}

pub(super) struct CallAnalysis<'a> {
    pub request: PolicyRequest<'a>,
    /// The directories to which the paths in the input are relative.
    pub path_context: &'a PathContext,
    pub names: ToolNames,
    /// A tool of an MCP server, which runs outside the sandbox; its annotations are only hints.
    pub is_foreign: bool,
    /// The input contains a command, or the tool declares that it runs commands.
    pub runs_command: bool,
    /// The host runs the command and nothing modifies it, so its words determine what happens.
    pub host_runs_command: bool,
    /// Variables and options that change what the command does.
    pub modifiers: CommandModifiers,
    /// The tool may change files but its input names none that it writes.
    pub writes_unnamed: bool,
    /// `writes_unnamed` for a tool of an editing kind: any file may be affected.
    pub may_write_any_file: bool,
    /// The tool may have effects besides the files and commands that its input names.
    pub has_other_effects: bool,
    pub accesses: Vec<AccessRequest>,
    /// The command is read-only according to its words.
    pub is_read_only: bool,
    pub danger: Option<&'static str>,
    sorted: OnceCell<String>,
}

impl<'a> CallAnalysis<'a> {
    pub(super) fn analyze(
        request: PolicyRequest<'a>,
        path_context: &'a PathContext,
        protected: &ProtectedPaths,
    ) -> Self {
        let (tool, subject) = (request.tool, request.subject);
        let effect = tool.effect();
        let foreign = is_foreign(request.name.as_str(), tool);
        let runner = tool.kind == "execute";
        let runs_command =
            runner || subject.command.is_some() && (effect > Effect::Reads || foreign);
        let steering = CommandModifiers::of(&request);
        let executes = runs_command && request.runs_commands && !steering.has_any();
        let mut analysis = Self {
            names: ToolNames::of(&request),
            request,
            path_context,
            is_foreign: foreign,
            runs_command,
            host_runs_command: executes,
            modifiers: steering,
            writes_unnamed: false,
            may_write_any_file: false,
            has_other_effects: false,
            accesses: Vec::new(),
            is_read_only: false,
            danger: None,
            sorted: OnceCell::new(),
        };
        match &subject.command {
            Some(command) if runs_command => analysis.add_command(command, path_context, protected),
            // For example a tool that stops a running command.
            None if runner => analysis.push(AccessKind::Call, AccessClass::Exec),
            Some(_) | None => {}
        }
        analysis.add_paths(path_context, protected);
        analysis.add_addresses();
        for (name, value) in &subject.variables {
            let named =
                has_member_text(request.input, name) && has_member_text(request.input, value);
            let name = name.clone();
            analysis.push(AccessKind::Variable { name, named }, AccessClass::Other);
        }
        analysis.add_unnamed_effects();
        if analysis.accesses.is_empty() {
            analysis.push(AccessKind::Call, analysis.class_without_accesses());
        }
        // Every access also gets the classes of the worst unnamed effect. A tool declares its own kind and hints, and
        // must not be able to avoid a prompt with them.
        let besides = [
            (analysis.may_write_any_file, AccessClass::Protected),
            (analysis.has_other_effects, AccessClass::Other),
        ];
        for (_, column) in besides.into_iter().filter(|(holds, _)| *holds) {
            for part in &mut analysis.accesses {
                if !part.classes.contains(&column) {
                    part.classes.push(column);
                }
            }
        }
        analysis
    }

    /// Adds an access for each path that the call names or changes.
    fn add_paths(&mut self, path_context: &PathContext, protected: &ProtectedPaths) {
        // Paths next to a command state where it runs; what it writes follows from the command.
        let is_runner = self.request.tool.kind == "execute";
        let is_command = is_runner && self.host_runs_command;
        let (subject, delegates) = (self.request.subject, self.request.delegates);
        let mut changed: Vec<(PathRef, bool)> = subject
            .paths
            .iter()
            .filter(|one| one.on_host)
            .map(|one| (PathRef::from_host(&one.path, path_context), one.executable))
            .collect();
        for one in subject.paths.iter().filter(|one| !one.on_host) {
            let path_ref = PathRef::parse(&one.path, path_context);
            // A path that was both named and changed is one access, shown by the name in the input.
            let same = |changed: &PathRef| {
                path_ref.exact().is_some() && changed.exact() == path_ref.exact()
            };
            let before = changed.len();
            let executable = changed.iter().any(|(one, runs)| *runs && same(one));
            changed.retain(|(changed, _)| !same(changed));
            let write = (one.write || changed.len() < before) && !is_command && !delegates;
            self.add_path(path_ref, &one.path, write, protected);
            self.mark_executable(executable && write);
        }
        for (path_ref, executable) in changed {
            let shown = path_ref.exact().unwrap_or("a path").to_owned();
            self.add_path(path_ref, &shown, true, protected);
            self.mark_executable(executable);
        }
        // Inputs of delegated calls are analyzed when those calls are made.
        if subject.has_unknown_paths && !delegates {
            let write = self.request.tool.effect() > Effect::Reads && !is_command;
            self.add_path(
                PathRef::unknown(),
                "paths that were not examined",
                write,
                protected,
            );
        }
    }

    /// Adds an access for each host that the call reaches.
    fn add_addresses(&mut self) {
        let (tool, subject) = (self.request.tool, self.request.subject);
        let reaches_out = match tool.annotations.open_world {
            Some(open_world) => open_world,
            None => !subject.urls.is_empty() && tool.effect() > Effect::Pure,
        };
        // A command or a foreign tool requires approval anyway, at least as strictly as network access does in every
        // mode, so only an address that is named is a separate access. A delegated call is evaluated when it is made.
        let is_covered_otherwise =
            (self.runs_command || self.is_foreign) && !self.accesses.is_empty();
        let covered = subject.urls.is_empty() && (self.request.delegates || is_covered_otherwise);
        if (reaches_out || tool.kind == "fetch") && !covered {
            let mut hosts = Vec::new();
            for url in &subject.urls {
                let host = super::domain_pattern::host_of(url);
                if !hosts.contains(&host) {
                    hosts.push(host);
                }
            }
            let named = !hosts.is_empty();
            if !named {
                hosts.push(None);
            }
            for host in hosts {
                self.push(AccessKind::Address { host, named }, AccessClass::Network);
            }
        }
    }

    /// Returns the class of a call without any other access.
    fn class_without_accesses(&self) -> AccessClass {
        let (request, tool) = (&self.request, self.request.tool);
        match tool.effect() {
            Effect::Pure | Effect::Reads if tool.annotations.interactive == Some(true) => {
                AccessClass::Interactive
            }
            Effect::Pure | Effect::Reads => AccessClass::Read,
            Effect::Writes | Effect::Destroys if request.delegates || request.effects_known => {
                AccessClass::Read
            }
            Effect::Writes | Effect::Destroys if self.may_write_any_file => AccessClass::Protected,
            Effect::Writes | Effect::Destroys => AccessClass::Other,
        }
    }

    /// Computes the effects that the accesses do not name.
    fn add_unnamed_effects(&mut self) {
        if self.request.effects_known || self.request.delegates {
            return;
        }
        let tool = self.request.tool;
        let edits = matches!(tool.kind.as_str(), "edit" | "delete" | "move");
        // If the host does not run the command, its redirections write nothing.
        let names_a_file = self.accesses.iter().any(|part| {
            matches!(part.kind, AccessKind::Path { write: true, .. })
                && (!part.is_redirection || self.host_runs_command)
        });
        self.writes_unnamed =
            tool.effect() > Effect::Reads && !self.host_runs_command && !names_a_file;
        self.may_write_any_file = self.writes_unnamed && edits;
        self.has_other_effects = self.is_foreign
            || self.runs_command && !self.host_runs_command
            || !self.host_runs_command
                && match tool.effect() {
                    Effect::Pure | Effect::Reads => false,
                    Effect::Writes => !edits && !names_a_file,
                    Effect::Destroys => !edits,
                };
    }

    fn add_command(
        &mut self,
        command: &str,
        path_context: &PathContext,
        protected: &ProtectedPaths,
    ) {
        let script = match shell::parse(command) {
            Ok(script) => script,
            Err(unparsed) => {
                self.push(AccessKind::Unknown(unparsed.reason), AccessClass::Exec);
                return;
            }
        };
        let directories = self.directories(&script, path_context);
        let stays = |to: &str| PathRef::parse(to, path_context).exact() == Some(&path_context.cwd);
        let mut moves = script
            .commands
            .iter()
            .filter(|command| command.changes_directory());
        let runs_elsewhere = !self.named_directories().all(stays)
            || !moves
                .clone()
                .all(|command| matches!(command.arguments(), [Word::Literal(to)] if stays(to)));
        let depends_on_other_directory =
            |command: &shell::SimpleCommand| runs_elsewhere && command.depends_on_directory();
        self.is_read_only = self.host_runs_command
            && shell::is_read_only(&script)
            && !script.commands.iter().any(depends_on_other_directory);
        self.danger = shell::describe_danger(&script);
        let moves = moves.next().is_some() || self.sets_directory();
        let mut commands = script.commands;
        if commands
            .iter()
            .any(|command| !command.sets_only_shell_variables())
        {
            commands.retain(|command| !command.sets_only_shell_variables());
        }
        for command in commands {
            let mentions = directories
                .iter()
                .flat_map(|directory| mentioned_paths(&command, directory))
                .collect();
            let elsewhere = depends_on_other_directory(&command);
            self.push(AccessKind::Command(command), AccessClass::Exec);
            if let Some(part) = self.accesses.last_mut() {
                part.mentioned_paths = mentions;
                part.depends_on_other_directory = elsewhere;
            }
        }
        let targets = [(&script.reads, false), (&script.writes, true)];
        for (target, write) in targets
            .into_iter()
            .flat_map(|(list, write)| list.iter().map(move |one| (one, write)))
        {
            match &target.path {
                Word::Literal(path) if !moves || path.starts_with('/') => {
                    self.add_path(PathRef::parse(path, path_context), path, write, protected);
                }
                // An unknown path requires approval; the user may know it.
                Word::Literal(shown) | Word::Dynamic(shown) => {
                    let shown = text::escape_line(shown, 80);
                    let reason =
                        format!("only the running shell determines which file `{shown}` is");
                    let column = if write {
                        AccessClass::Protected
                    } else {
                        AccessClass::Read
                    };
                    self.push(AccessKind::Unknown(reason), column);
                }
            }
            if let Some(part) = self.accesses.last_mut() {
                part.is_redirection = true;
            }
        }
    }

    /// The directories in which the input lets the command run.
    fn named_directories(&self) -> impl Iterator<Item = &'a str> {
        let input = self.request.input;
        DIRECTORY_MEMBERS
            .into_iter()
            .filter_map(|member| input.get(member)?.as_str())
    }

    /// The directory in which the command starts, as far as it is known, and those that it changes to: a relative path
    /// can refer to each of them.
    fn directories(&self, script: &shell::Script, path_context: &PathContext) -> Vec<PathContext> {
        let below = |directory: &str, base: &PathContext| {
            let cwd = PathRef::parse(directory, base).exact()?.to_owned();
            Some(PathContext {
                cwd,
                ..path_context.clone()
            })
        };
        let first = self
            .named_directories()
            .find_map(|cwd| below(cwd, path_context));
        let mut directories = vec![first.unwrap_or_else(|| path_context.clone())];
        let mut last = directories[0].clone();
        let moves = script.commands.iter();
        let moves =
            moves.filter(|command| matches!(command.program(), Some("cd" | "chdir" | "pushd")));
        let targets =
            moves.flat_map(|command| command.arguments().iter().filter_map(Word::literal));
        for to in targets.filter(|to| !to.starts_with('-')) {
            // After the last one, or instead of it.
            let instead = below(to, &directories[0]);
            last = below(to, &last).unwrap_or(last);
            for directory in instead.into_iter().chain([last.clone()]) {
                let is_new = directories.iter().all(|known| known.cwd != directory.cwd);
                if is_new && directories.len() < MAX_DIRECTORIES {
                    directories.push(directory);
                }
            }
        }
        directories
    }

    /// Whether the input names the directory to run in, to which a redirection's relative path would then refer.
    fn sets_directory(&self) -> bool {
        let named = |member: &str| self.request.input.get(member).is_some();
        !self.request.subject.paths.is_empty() || DIRECTORY_MEMBERS.into_iter().any(named)
    }

    fn add_path(
        &mut self,
        path_ref: PathRef,
        shown: &str,
        write: bool,
        protected: &ProtectedPaths,
    ) {
        let why = if write {
            protected.reason(&path_ref)
        } else {
            None
        };
        let column = match (write, why) {
            (true, Some(_)) => AccessClass::Protected,
            (true, None) => AccessClass::Write,
            (false, _) => AccessClass::Read,
        };
        let shown = text::escape_line(shown, 200);
        self.push(
            AccessKind::Path {
                path_ref,
                shown,
                write,
            },
            column,
        );
        if let Some(part) = self.accesses.last_mut() {
            part.protection = why;
        }
    }

    /// Marks the path added last as that of an executable file.
    fn mark_executable(&mut self, executable: bool) {
        if let Some(part) = self.accesses.last_mut().filter(|_| executable)
            && part.protection.is_none()
        {
            part.protection = Some(super::protected::EXECUTABLE);
            part.classes = vec![AccessClass::Protected];
        }
    }

    fn push(&mut self, kind: AccessKind, class: AccessClass) {
        self.accesses.push(AccessRequest {
            kind,
            classes: vec![class],
            mentioned_paths: Vec::new(),
            depends_on_other_directory: false,
            is_redirection: false,
            protection: None,
        });
    }

    /// Whether the access names less than an approval of it would permit.
    pub(super) fn is_understated(&self, part: &AccessRequest) -> bool {
        match part.kind {
            AccessKind::Command(_) => !self.host_runs_command,
            AccessKind::Path { .. } | AccessKind::Address { .. } => self.may_write_any_file,
            AccessKind::Call | AccessKind::Unknown(_) | AccessKind::Variable { .. } => false,
        }
    }

    /// Describes the program that the call types into; `None` if it types nothing.
    pub(super) fn typing_target(&self) -> Option<String> {
        let task = self.request.subject.task.as_ref();
        task.filter(|task| self.request.runs_commands && !task.text.is_empty())?;
        Some(match self.request.background_job {
            Some(job) => format!(
                "it types into `{}` ({})",
                text::escape_line(&job.command, 200),
                text::escape_line(&job.id, 40)
            ),
            None => "it types into a program that is not running".to_owned(),
        })
    }

    /// The input as JSON with sorted members, for imported rules that match it with a regular expression.
    pub(super) fn sorted_input(&self) -> &str {
        self.sorted
            .get_or_init(|| sort_members(self.request.input).to_string())
    }
}

/// Whether a member of the input equals this text.
fn has_member_text(input: &Value, text: &str) -> bool {
    let members = input.as_object();
    members.is_some_and(|members| members.values().any(|value| value == text))
}

/// Every path that the words of a command may name, up to the first wildcard of each word.
fn mentioned_paths(command: &shell::SimpleCommand, path_context: &PathContext) -> Vec<PathRef> {
    let words = command.words.iter().filter_map(|word| match word {
        Word::Literal(text) => Some(text.clone()),
        Word::Dynamic(text) => {
            let known = &text[..text.find(['*', '?', '[', '{', '$', '`'])?];
            let known = &known[..known.rfind('/')?];
            Some(known.replace(['"', '\'', '\\'], ""))
        }
    });
    words
        .flat_map(|word| {
            let paths = possible_paths(&word);
            let paths = paths.filter(|path| !path.is_empty());
            paths
                .map(|path| PathRef::parse(path, path_context))
                .collect::<Vec<_>>()
        })
        .collect()
}

/// The parts of a word that may be a path: an operand, the text after a `=`, and the text after an option of a cluster,
/// as in `-xfsrc/a`.
fn possible_paths(word: &str) -> impl Iterator<Item = &str> {
    let values = word
        .match_indices('=')
        .take(MAX_PARTS)
        .map(|(at, _)| &word[at + 1..]);
    let options = word.strip_prefix('-').unwrap_or_default();
    let attached = options
        .char_indices()
        .take_while(|(_, c)| !matches!(c, '/' | '-'))
        .take(MAX_PARTS)
        .map(|(at, c)| &options[at + c.len_utf8()..]);
    let operand = (!word.starts_with('-')).then_some(word);
    values.chain(attached).chain(operand)
}

/// Sorts members at every depth. Recursion is bounded by the parser of the input.
pub(super) fn sort_members(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut pairs: Vec<_> = members.iter().collect();
            pairs.sort_unstable_by_key(|(name, _)| *name);
            Value::Object(
                pairs
                    .into_iter()
                    .map(|(name, value)| (name.clone(), sort_members(value)))
                    .collect(),
            )
        }
        Value::Array(items) => Value::Array(items.iter().map(sort_members).collect()),
        other => other.clone(),
    }
}
