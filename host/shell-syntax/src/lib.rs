//! Shell parser for permission rules: finds every command, redirection and nested script of a command line.
//!
//! A model writes the text and a shell executes it, so any difference between this parser and the shell is a security
//! hole. Therefore syntax that `bash` and a POSIX `sh` may parse differently is rejected with [`UnparsedCommand`], for
//! which the policy requires approval. Nothing here runs anything.
//!
//! `brush-parser` 0.4 is not used: it parses `echo \$'\' ; rm x #'` as one harmless word where bash runs `rm`, panics
//! on `~99999999999999999999` and overflows its stack on nested `$(`.

mod approval_prefix;
mod compound;
mod danger;
mod directory;
#[cfg(test)]
mod fuzz;
mod invocation;
mod option_search;
mod parser;
mod pattern;
mod program_text;
mod read_only;
mod redirection;
mod risky_options;
mod simple_command;
#[cfg(test)]
mod tests;
pub mod variables;
mod word;
mod wrapper;
mod wrapper_options;

pub use approval_prefix::approval_prefix;
pub use danger::describe_danger;
pub use option_search::find_risky_options;
pub use pattern::CommandPattern;
pub use read_only::is_read_only;
pub use risky_options::{RiskyOption, list_risky_options};

use toolhost_text as text;

/// Maximum length of a command line in bytes.
pub const MAX_BYTES: usize = 16 * 1024;
/// Maximum nesting of groups, substitutions, wrappers and nested scripts. A level takes about 10 kB of stack in a debug
/// build, so this stays far below the 2 MiB of a worker thread.
pub const MAX_DEPTH: usize = 32;
/// Maximum number of commands in a text, including those inside wrappers.
pub const MAX_COMMANDS: usize = 500;
/// Maximum nesting of shells that run a shell: `bash -c "bash -c …"`.
pub const MAX_SCRIPTS: usize = 4;

/// Parses a command line. The result contains every command that it could run.
pub fn parse(command: &str) -> Result<Script, UnparsedCommand> {
    if command.len() > MAX_BYTES {
        return Err(UnparsedCommand::new(format!(
            "it is {} bytes long (at most {MAX_BYTES})",
            command.len()
        )));
    }
    if command.contains('\0') {
        return Err(UnparsedCommand::new("it contains a NUL character"));
    }
    let mut sink = ScriptBuilder::default();
    parser::parse_script(command, &mut sink)?;
    if sink.script.commands.is_empty()
        && sink.script.writes.is_empty()
        && sink.script.reads.is_empty()
    {
        return Err(UnparsedCommand::new("it contains no command"));
    }
    Ok(sink.script)
}

/// A command line that cannot be parsed reliably; it requires approval.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell what this command runs: {reason}")]
pub struct UnparsedCommand {
    /// The reason for a prompt. Fragments of the text are escaped and truncated.
    pub reason: String,
}

impl UnparsedCommand {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// `problem` followed by the offending text.
    fn at(problem: &str, shown: &str) -> Self {
        Self::new(format!("{problem} `{}`", text::escape_line(shown, 60)))
    }
}

type ParseResult<T = ()> = Result<T, UnparsedCommand>;

/// Everything that a command line runs, writes and reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Every command in order of appearance, including wrappers and the commands they run.
    pub commands: Vec<SimpleCommand>,
    /// Files written by redirections, except `/dev/null` and the standard streams.
    pub writes: Vec<RedirectTarget>,
    /// Files read by redirections.
    pub reads: Vec<RedirectTarget>,
    /// Names of functions that the text defines.
    functions: Vec<String>,
}

impl Script {
    /// Whether it is a single command without operators, wrappers or substitutions.
    pub fn is_single(&self) -> bool {
        self.commands.len() == 1 && self.functions.is_empty()
    }
}

/// A simple command: its words and the context it was found in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The program and its arguments. Empty when the command only sets variables.
    pub words: Vec<Word>,
    /// Enclosing constructs, outermost first: `bash -c`, `xargs`, `$(…)`.
    pub via: Vec<String>,
    /// Names of variables that are set for it.
    pub assignments: Vec<String>,
    /// Its standard input is a pipe from the previous command.
    pub piped: bool,
}

impl SimpleCommand {
    /// The program's name without its directory; `None` if it is known only when the shell runs.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.literal()?;
        let base = name.rsplit('/').next().unwrap_or(name);
        (!base.is_empty()).then_some(base)
    }

    /// The words joined by single spaces, as rules match them.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(Word::as_written).collect();
        words.join(" ")
    }

    /// Whether it only sets shell variables: nothing runs, and no later program sees them.
    pub fn sets_only_shell_variables(&self) -> bool {
        self.words.is_empty()
            && self.assignments.iter().all(|name| {
                !name.ends_with("_proxy")
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
            })
    }

    /// Texts to compare with a deny rule: as written, without the program's directory, and without options before a
    /// subcommand.
    pub fn match_texts(&self) -> Vec<String> {
        let readings = invocation::Invocation::interpretations(self);
        std::iter::once(self.text())
            .chain(
                readings
                    .iter()
                    .flat_map(invocation::Invocation::match_texts),
            )
            .collect()
    }

    /// The words after the program.
    pub fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    fn has_unknown_word(&self) -> bool {
        self.words.iter().any(|word| word.literal().is_none())
    }

    /// Whether an argument equals this text.
    fn has_argument(&self, argument: &str) -> bool {
        self.arguments()
            .iter()
            .any(|word| word.literal() == Some(argument))
    }

    /// Whether a cluster of short flags such as `-rf` contains `flag`.
    fn has_short_flag(&self, flag: char) -> bool {
        self.arguments()
            .iter()
            .filter_map(Word::literal)
            .any(|word| {
                word.strip_prefix('-')
                    .is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(flag))
            })
    }

    /// The first argument that is not a flag.
    fn first_operand(&self) -> Option<&str> {
        self.arguments()
            .iter()
            .filter_map(Word::literal)
            .find(|word| !word.starts_with('-'))
    }
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// The exact argument of the program, with quotes removed. An unquoted `~` at the start is kept.
    Literal(String),
    /// Determined by the shell or by the input of `xargs`; the text as written.
    Dynamic(String),
}

impl Word {
    /// The text, if it is known.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic(_) => None,
        }
    }

    fn as_written(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Dynamic(text) => text,
        }
    }
}

/// The file of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RedirectTarget {
    /// The path as the shell opens it.
    pub path: Word,
    /// The output is appended.
    pub append: bool,
}

/// The result shared by the parsers of a text and of the scripts nested in it; enforces the limits.
#[derive(Default)]
struct ScriptBuilder {
    script: Script,
    via: Vec<String>,
    depth: usize,
    scripts: usize,
    piped: bool,
}

impl ScriptBuilder {
    fn enter(&mut self) -> ParseResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(UnparsedCommand::new(format!(
                "it is nested more than {MAX_DEPTH} levels deep"
            )));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Inserts a command at `index`, the position recorded before its first word.
    fn insert(
        &mut self,
        index: usize,
        words: Vec<Word>,
        assignments: Vec<String>,
    ) -> ParseResult<SimpleCommand> {
        if self.script.commands.len() >= MAX_COMMANDS {
            return Err(UnparsedCommand::new(format!(
                "it contains more than {MAX_COMMANDS} commands"
            )));
        }
        let simple = SimpleCommand {
            words,
            via: self.via.clone(),
            assignments,
            piped: self.piped,
        };
        self.script.commands.insert(index, simple.clone());
        Ok(simple)
    }

    /// Parses a text that another shell runs.
    fn parse_nested(&mut self, text: &str, via: &str) -> ParseResult {
        self.scripts += 1;
        if self.scripts > MAX_SCRIPTS {
            return Err(UnparsedCommand::new(format!(
                "a shell starts a shell more than {MAX_SCRIPTS} times"
            )));
        }
        let result = self.with_context(via, |sink| parser::parse_script(text, sink));
        self.scripts -= 1;
        result
    }

    /// Calls `read` one nesting level deeper, inside the construct `via`.
    fn with_context<T>(
        &mut self,
        via: &str,
        read: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        self.enter()?;
        self.via.push(via.to_owned());
        let result = read(self);
        self.via.pop();
        self.leave();
        result
    }
}
