//! Risky options: options that make a program run other programs, write files or load other settings. A rule for
//! `git fetch *` is not meant to allow `git fetch --upload-pack=CMD`.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::LazyLock;

use super::SimpleCommand;
use toolhost_text as text;

const DATA: &str = include_str!("risky-options.txt");

static TABLE: LazyLock<HashMap<&'static str, Vec<RiskyRow>>> = LazyLock::new(|| {
    let mut table: HashMap<_, Vec<RiskyRow>> = HashMap::new();
    for line in DATA.lines() {
        // A test rejects invalid lines.
        if let Some((programs, row)) = RiskyRow::parse(line) {
            for program in programs.split(' ') {
                table.entry(program).or_default().push(row.clone());
            }
        }
    }
    table
});

/// The effect of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OptionEffect {
    Runs,
    Writes,
    Settings,
}

#[derive(Debug, Clone)]
pub(super) struct RiskyRow {
    pub position: OptionPosition,
    pub patterns: Vec<OptionPattern>,
    pub effect: OptionEffect,
    pub source: &'static str,
}

#[derive(Debug, Clone)]
pub(super) enum OptionPosition {
    Any,
    Before,
    After(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum OptionPattern {
    Long(&'static str),
    Short(char),
    /// One or two dashes and the beginning of a word.
    WordPrefix(&'static str),
    Operand(&'static str),
    /// The beginning of an operand.
    OperandPrefix(&'static str),
    Assignment,
    Operands(usize),
    /// The program uses files of its working directory, whatever its options are.
    Directory,
    EveryCall,
    Awk,
    Sed,
    /// The first word is a cluster without its dash.
    Bundle,
    /// A harmless option that would otherwise count as an abbreviation of another.
    Harmless(&'static str),
    /// Short options that take the rest of their word as a value.
    Values(&'static str),
}

/// The [`RiskyOption::option`] of operands such as the output of `uniq`. No command and no rule contains it.
pub(super) const FURTHER_OPERANDS: &str = "further operands";

/// An option that no wildcard rule and no saved approval covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskyOption {
    pub program: String,
    /// The option as listed in the table, or the word that may expand to one.
    pub option: String,
    pub(super) effect: Option<OptionEffect>,
    pub(super) source: &'static str,
    /// Every word of the command that is the option, by its index, and how many bytes at its start name the option.
    /// Empty if the words as a whole are the risk.
    pub(super) places: BTreeMap<usize, usize>,
}

impl RiskyOption {
    /// Whether a regular expression covers an occurrence of the option only with a wildcard: it still matches without
    /// the option.
    pub fn is_matched_by_wildcard(
        &self,
        command: &SimpleCommand,
        matches: impl Fn(&str) -> bool,
    ) -> bool {
        let without = |(at, length): (&usize, &usize)| {
            let words = command.words.iter().enumerate().map(|(index, word)| {
                let text = word.as_written();
                match text.get(*length..) {
                    Some(rest) if index == *at => format!("\u{fffd}{rest}"),
                    None if index == *at => "\u{fffd}".to_owned(),
                    _ => text.to_owned(),
                }
            });
            words.collect::<Vec<_>>().join(" ")
        };
        self.places.is_empty()
            || self.places.len() > MAX_OCCURRENCES
            || self.places.iter().any(|place| matches(&without(place)))
    }
}

/// Maximum number of occurrences of one option that a regular expression can cover; each requires matching it once.
const MAX_OCCURRENCES: usize = 32;

impl fmt::Display for RiskyOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let option = text::escape_line(&self.option, 60);
        let program = text::escape_line(&self.program, 40);
        let does = match self.effect {
            None => {
                return write!(
                    f,
                    "`{option}` may expand to an option of `{program}` that runs programs or writes files"
                );
            }
            Some(OptionEffect::Runs) => "can run other programs",
            Some(OptionEffect::Writes) => "can write files",
            Some(OptionEffect::Settings) => "takes settings that can run other programs",
        };
        let quote = if self.option == FURTHER_OPERANDS {
            ""
        } else {
            "`"
        };
        write!(
            f,
            "{quote}{option}{quote} of `{program}` {does} ({})",
            self.source
        )
    }
}

impl RiskyRow {
    fn parse(line: &'static str) -> Option<(&'static str, Self)> {
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let mut cells = line.split(" | ").map(str::trim);
        let programs = cells.next()?;
        let position = match cells.next()? {
            "any" => OptionPosition::Any,
            "before" => OptionPosition::Before,
            names => OptionPosition::After(names.split(' ').collect()),
        };
        let marks = cells.next()?.split(' ').map(OptionPattern::parse).collect();
        let effect = match cells.next()? {
            "runs" => OptionEffect::Runs,
            "writes" => OptionEffect::Writes,
            "settings" => OptionEffect::Settings,
            _ => return None,
        };
        let source = cells.next().filter(|source| !source.is_empty())?;
        let row = Self {
            position,
            patterns: marks,
            effect,
            source,
        };
        cells.next().is_none().then_some((programs, row))
    }
}

impl OptionPattern {
    fn parse(text: &'static str) -> Self {
        match text {
            "*" => Self::EveryCall,
            "*=" => Self::Assignment,
            "!awk" => Self::Awk,
            "!sed" => Self::Sed,
            "!bundle" => Self::Bundle,
            "./" => Self::Directory,
            _ => {
                if let Some(name) = text.strip_prefix("~--") {
                    Self::Harmless(name)
                } else if let Some(letters) = text.strip_prefix(':') {
                    Self::Values(letters)
                } else if let Some(number) = text.strip_prefix('#') {
                    Self::Operands(number.parse().unwrap_or(1))
                } else if let Some(name) = text.strip_prefix("--") {
                    Self::Long(name)
                } else if let Some(name) = text.strip_prefix('-') {
                    let mut letters = name.chars();
                    match (letters.next(), letters.next()) {
                        (Some(letter), None) => Self::Short(letter),
                        _ => Self::WordPrefix(name.trim_end_matches('*')),
                    }
                } else if matches!(text, "+" | "@") || text.ends_with(':') {
                    Self::OperandPrefix(text)
                } else {
                    Self::Operand(text)
                }
            }
        }
    }

    /// Whether it is an option, which an unknown word may expand to.
    pub(super) fn is_option(self) -> bool {
        self.starts_with_dash() || matches!(self, Self::OperandPrefix(_) | Self::Assignment)
    }

    /// Whether it is no option after `--`.
    pub(super) fn starts_with_dash(self) -> bool {
        matches!(self, Self::Long(_) | Self::Short(_) | Self::WordPrefix(_))
    }
}

/// Lists the risky options of a program, optionally for a subcommand. Used in warnings.
pub fn list_risky_options(program: &str, subcommand: Option<&str>) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for row in rows(program) {
        let meant = match (&row.position, subcommand) {
            (OptionPosition::After(names), Some(name)) => names.contains(&name),
            (OptionPosition::Before, Some(_)) => false,
            (OptionPosition::After(_) | OptionPosition::Before, None)
            | (OptionPosition::Any, _) => true,
        };
        if !meant {
            continue;
        }
        for mark in &row.patterns {
            let shown = match mark {
                OptionPattern::Long(name) => format!("--{name}"),
                OptionPattern::Short(letter) => format!("-{letter}"),
                OptionPattern::WordPrefix(name) => format!("-{name}"),
                OptionPattern::Operand(name) => (*name).to_owned(),
                OptionPattern::OperandPrefix(front) => format!("{front}…"),
                OptionPattern::Assignment => "NAME=".to_owned(),
                OptionPattern::Awk | OptionPattern::Sed => "program texts".to_owned(),
                OptionPattern::Operands(_) => FURTHER_OPERANDS.to_owned(),
                OptionPattern::EveryCall => match &row.position {
                    OptionPosition::After(names) if subcommand.is_none() => names.join(", "),
                    _ => "every call".to_owned(),
                },
                OptionPattern::Directory
                | OptionPattern::Bundle
                | OptionPattern::Harmless(_)
                | OptionPattern::Values(_) => continue,
            };
            if !found.contains(&shown) {
                found.push(shown);
            }
        }
    }
    found
}

/// Whether a program uses files of the directory in which it runs, as the table or its option for another directory
/// shows.
pub(super) fn uses_working_directory(program: &str) -> bool {
    let mut options = rows(program)
        .iter()
        .filter(|row| row.effect != OptionEffect::Writes)
        .flat_map(|row| &row.patterns);
    options.any(|option| match option {
        OptionPattern::Long(name) => {
            matches!(*name, "cwd" | "dir" | "directory" | "prefix" | "project")
        }
        OptionPattern::Short(letter) => *letter == 'C',
        OptionPattern::WordPrefix(name) => *name == "C",
        OptionPattern::Directory => true,
        _ => false,
    })
}

/// The rows of the table for a program.
pub(super) fn rows(program: &str) -> &'static [RiskyRow] {
    let lower = program.to_ascii_lowercase();
    let row = TABLE
        .get(lower.as_str())
        .or_else(|| TABLE.get(without_version(&lower)));
    row.map_or(&[], Vec::as_slice)
}

/// The name of a program without the version at its end: `python` for `python3.12`.
pub(super) fn without_version(program: &str) -> &str {
    program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// What a word that the shell expands can become.
pub(super) enum UnknownWord {
    /// Does not begin with a dash, and stays one word or expands to names with the same beginning.
    Operand,
    /// The option's name is known.
    LongOption(String),
    /// One word, which may be an option.
    Anything,
    /// Possibly several words, and options among them.
    SeveralWords,
}

impl UnknownWord {
    pub(super) fn classify(text: &str) -> Self {
        let mut known = String::new();
        let (mut quoted, mut expands) = (None, false);
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            match (quoted, c) {
                (Some(mark), c) if c == mark => quoted = None,
                (None, '"' | '\'') => quoted = Some(c),
                (Some('\''), c) if !expands => known.push(c),
                (Some('\''), _) => {}
                (_, '\\') => {
                    let next = chars.next().unwrap_or('\\');
                    if !expands {
                        known.push(next);
                    }
                }
                (None, '$' | '`' | '{' | '…') => return Self::SeveralWords,
                // A quoted value stays one word, and so does each name that a glob matches.
                (Some(_), '$' | '`') | (None, '*' | '?' | '[' | '~') => expands = true,
                (_, c) if !expands => known.push(c),
                _ => {}
            }
        }
        match known.chars().next() {
            None | Some('+' | '@') => Self::Anything,
            Some('-') => match known
                .strip_prefix("--")
                .and_then(|long| long.split_once('='))
            {
                Some((name, _)) => Self::LongOption(name.to_owned()),
                None => Self::Anything,
            },
            Some(_) => Self::Operand,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_has_a_source() {
        let lines = DATA.lines();
        let rows = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        for line in rows {
            assert!(RiskyRow::parse(line).is_some(), "{line}");
        }
        assert!(TABLE.len() > 150, "{}", TABLE.len());
    }
}
