//! What a shell command line would run, so that the permission rules can judge every part of it.
//!
//! A model writes the text and a shell will read it, so a reading that differs from the shell's is a hole. Hence the
//! two rules of this module: whatever `bash` and a plain `sh` might read differently is not read at all, and what is
//! not read is an [`Unparsed`], upon which the policy asks a person. Nothing here runs anything.
//!
//! The parser is our own. The crate `brush-parser` 0.4 reads `echo \$'\' ; rm x #'` as a single harmless word where
//! bash runs `rm`, panics on `~99999999999999999999` and overflows its stack on nested `$(`.

mod compound;
mod danger;
mod invocation;
mod parser;
mod pattern;
mod prefix;
mod program_text;
mod reads;
mod redirect;
mod risky_options;
mod shape;
mod simple;
#[cfg(test)]
mod tests;
mod word;
mod wrapper;

pub use danger::danger;
pub use pattern::Pattern;
pub use prefix::prefix;
pub use reads::reads_only;
pub use risky_options::{RiskyOption, risky_options, risky_options_of};

use crate::text;

/// A longer text than this is not read.
pub const MAX_BYTES: usize = 16 * 1024;
/// How deep groups, substitutions, wrappers and nested scripts may sit inside one another. A level costs some 10 kB of
/// stack in a debug build, so this many stay far below the 2 MiB of a worker thread.
pub const MAX_DEPTH: usize = 32;
/// How many commands one text may hold, counting the ones inside wrappers.
pub const MAX_COMMANDS: usize = 500;
/// How often a text may hand a text to another shell: `bash -c "bash -c …"`.
pub const MAX_SCRIPTS: usize = 4;

/// Reads a command line; every command that it could run is in the answer.
pub fn parse(command: &str) -> Result<Script, Unparsed> {
    if command.len() > MAX_BYTES {
        return Err(Unparsed::new(format!(
            "it is {} bytes long (at most {MAX_BYTES})",
            command.len()
        )));
    }
    if command.contains('\0') {
        return Err(Unparsed::new("it contains a NUL character"));
    }
    let mut sink = Sink::default();
    parser::script(command, &mut sink)?;
    if sink.script.commands.is_empty()
        && sink.script.writes.is_empty()
        && sink.script.reads.is_empty()
    {
        return Err(Unparsed::new("it contains no command"));
    }
    Ok(sink.script)
}

/// The text cannot be told apart well enough to judge; a person should be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell what this command runs: {reason}")]
pub struct Unparsed {
    /// What was in the way, in words fit for a prompt: whatever came from the text is escaped and cut.
    pub reason: String,
}

impl Unparsed {
    fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
        }
    }

    /// `what` with the offending text in it.
    fn at(what: &str, shown: &str) -> Self {
        Self::new(format!("{what} `{}`", text::inline(shown, 60)))
    }
}

type Parsed<T = ()> = Result<T, Unparsed>;

/// Everything that one command line runs, writes and reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Every command, wrappers and what they wrap alike, in order of appearance.
    pub commands: Vec<Simple>,
    /// Files that redirections write; `/dev/null` and the standard streams are left out.
    pub writes: Vec<Target>,
    /// Files that redirections read.
    pub reads: Vec<Target>,
    /// Names of the functions that the text defines.
    functions: Vec<String>,
}

impl Script {
    /// One command and nothing around it: no operator, no wrapper, no substitution.
    pub fn is_single(&self) -> bool {
        self.commands.len() == 1 && self.functions.is_empty()
    }
}

/// One command with its words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    /// The program and its arguments. Empty when the command only sets variables.
    pub words: Vec<Word>,
    /// What it was found in, outermost first: `bash -c`, `xargs`, `$(…)`.
    pub via: Vec<String>,
    /// Names of the variables that are set for it.
    pub assignments: Vec<String>,
    /// Its input comes through a pipe from the command before.
    pub piped: bool,
}

impl Simple {
    /// The program's name without its directory; none when only the shell will know it.
    pub fn program(&self) -> Option<&str> {
        let name = self.words.first()?.literal()?;
        let base = name.rsplit('/').next().unwrap_or(name);
        (!base.is_empty()).then_some(base)
    }

    /// The words joined by one space, as rules match them.
    pub fn text(&self) -> String {
        let words: Vec<&str> = self.words.iter().map(Word::shown).collect();
        words.join(" ")
    }

    /// Only sets variables that live in the shell itself: nothing runs, and no later program sees them.
    pub fn sets_only_locals(&self) -> bool {
        self.words.is_empty()
            && self.assignments.iter().all(|name| {
                !name.ends_with("_proxy")
                    && name
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit())
            })
    }

    /// The texts that a rule which denies may be compared with: as it is written, without the program's directory, and
    /// without the options before a subcommand.
    pub fn texts(&self) -> Vec<String> {
        let readings = invocation::Invocation::readings(self);
        std::iter::once(self.text())
            .chain(readings.iter().flat_map(invocation::Invocation::texts))
            .collect()
    }

    /// The words after the program.
    fn arguments(&self) -> &[Word] {
        self.words.get(1..).unwrap_or_default()
    }

    fn has_dynamic(&self) -> bool {
        self.words.iter().any(|word| word.literal().is_none())
    }

    /// Whether an argument reads exactly so.
    fn has(&self, argument: &str) -> bool {
        self.arguments()
            .iter()
            .any(|word| word.literal() == Some(argument))
    }

    /// Whether a cluster of short flags such as `-rf` holds `flag`.
    fn has_short(&self, flag: char) -> bool {
        self.arguments()
            .iter()
            .filter_map(Word::literal)
            .any(|word| {
                word.strip_prefix('-')
                    .is_some_and(|cluster| !cluster.starts_with('-') && cluster.contains(flag))
            })
    }

    /// The first argument that is no flag.
    fn operand(&self) -> Option<&str> {
        self.arguments()
            .iter()
            .filter_map(Word::literal)
            .find(|word| !word.starts_with('-'))
    }
}

/// One word of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// The program will get exactly this; quotes are removed. A plain `~` at the start stays as it is.
    Literal(String),
    /// The shell, or the input of `xargs`, will decide; the text as written.
    Dynamic(String),
}

impl Word {
    /// The text, when it is certain.
    pub fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Dynamic(_) => None,
        }
    }

    fn shown(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Dynamic(text) => text,
        }
    }
}

/// A file that a redirection touches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The path as the shell would open it.
    pub path: Word,
    /// It is added to, not replaced.
    pub append: bool,
}

/// What the parsers of one text and of the texts inside it fill together; the bounds are counted here.
#[derive(Default)]
struct Sink {
    script: Script,
    via: Vec<String>,
    depth: usize,
    scripts: usize,
    piped: bool,
}

impl Sink {
    fn enter(&mut self) -> Parsed {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Unparsed::new(format!(
                "it is nested more than {MAX_DEPTH} levels deep"
            )));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    /// Puts a command at `index`, which was noted where its first word began.
    fn insert(
        &mut self,
        index: usize,
        words: Vec<Word>,
        assignments: Vec<String>,
    ) -> Parsed<Simple> {
        if self.script.commands.len() >= MAX_COMMANDS {
            return Err(Unparsed::new(format!(
                "it contains more than {MAX_COMMANDS} commands"
            )));
        }
        let simple = Simple {
            words,
            via: self.via.clone(),
            assignments,
            piped: self.piped,
        };
        self.script.commands.insert(index, simple.clone());
        Ok(simple)
    }

    /// Reads a text that another shell will get.
    fn nested(&mut self, text: &str, via: &str) -> Parsed {
        self.scripts += 1;
        if self.scripts > MAX_SCRIPTS {
            return Err(Unparsed::new(format!(
                "a shell starts a shell more than {MAX_SCRIPTS} times"
            )));
        }
        let result = self.inside(via, |sink| parser::script(text, sink));
        self.scripts -= 1;
        result
    }

    /// Runs `read` one level deeper, with `via` on the way there.
    fn inside<T>(&mut self, via: &str, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.enter()?;
        self.via.push(via.to_owned());
        let result = read(self);
        self.via.pop();
        self.leave();
        result
    }
}
