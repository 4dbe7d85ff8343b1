//! Risky options: options that make a program run other programs, write files or load other settings. A rule for
//! `git fetch *` is not meant to allow `git fetch --upload-pack=CMD`.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::invocation::Invocation;
use super::program_text::{AWK, SED};
use super::{SimpleCommand, Word};
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
enum OptionEffect {
    Runs,
    Writes,
    Settings,
}

#[derive(Debug, Clone)]
struct RiskyRow {
    position: OptionPosition,
    patterns: Vec<OptionPattern>,
    effect: OptionEffect,
    source: &'static str,
}

#[derive(Debug, Clone)]
enum OptionPosition {
    Any,
    Before,
    After(Vec<&'static str>),
}

#[derive(Debug, Clone, Copy)]
enum OptionPattern {
    Long(&'static str),
    Short(char),
    /// One or two dashes and the beginning of a word.
    WordPrefix(&'static str),
    Operand(&'static str),
    /// The beginning of an operand.
    OperandPrefix(&'static str),
    Assignment,
    Operands(usize),
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

/// An option that no wildcard rule and no saved approval covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RiskyOption {
    pub program: String,
    /// The option as listed in the table, or the word that may expand to one.
    pub option: String,
    effect: Option<OptionEffect>,
    source: &'static str,
}

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
        write!(f, "`{option}` of `{program}` {does} ({})", self.source)
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

    /// The words that the row applies to, for one candidate position of the subcommand.
    fn scope<'a>(&self, words: &'a [Word], subcommand: Option<usize>) -> Option<&'a [Word]> {
        match (&self.position, subcommand) {
            (OptionPosition::Any, _) => Some(words),
            (OptionPosition::Before, at) => Some(&words[..at.unwrap_or(words.len())]),
            (OptionPosition::After(names), Some(at)) => {
                let named = words[at].literal().is_none_or(|name| names.contains(&name));
                named.then(|| &words[at + 1..])
            }
            (OptionPosition::After(_), None) => None,
        }
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
    fn is_option(self) -> bool {
        matches!(
            self,
            Self::Long(_)
                | Self::Short(_)
                | Self::WordPrefix(_)
                | Self::OperandPrefix(_)
                | Self::Assignment
        )
    }
}

/// Finds the risky options of a command; empty for programs that are not in the table.
pub fn find_risky_options(command: &SimpleCommand) -> Vec<RiskyOption> {
    Invocation::interpretations(command)
        .iter()
        .flat_map(find_in_invocation)
        .collect()
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
                OptionPattern::Operands(_) => "further operands".to_owned(),
                OptionPattern::EveryCall => match &row.position {
                    OptionPosition::After(names) if subcommand.is_none() => names.join(", "),
                    _ => "every call".to_owned(),
                },
                OptionPattern::Bundle | OptionPattern::Harmless(_) | OptionPattern::Values(_) => {
                    continue;
                }
            };
            if !found.contains(&shown) {
                found.push(shown);
            }
        }
    }
    found
}

/// Whether a program reads settings of the directory in which it runs, as its option for another directory shows.
pub fn reads_directory_settings(program: &str) -> bool {
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
        _ => false,
    })
}

fn rows(program: &str) -> &'static [RiskyRow] {
    let lower = program.to_ascii_lowercase();
    let stem = lower.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let row = TABLE.get(lower.as_str()).or_else(|| TABLE.get(stem));
    row.map_or(&[], Vec::as_slice)
}

fn find_in_invocation(invocation: &Invocation) -> Vec<RiskyOption> {
    let rows = rows(&invocation.program);
    let mut found: Vec<RiskyOption> = Vec::new();
    if rows.is_empty() {
        return found;
    }
    let Some(subcommands) = invocation.subcommands() else {
        return vec![RiskyOption {
            program: invocation.program.clone(),
            option: "one of many options".to_owned(),
            effect: None,
            source: "",
        }];
    };
    let mut positions: Vec<Option<usize>> = subcommands.into_iter().map(Some).collect();
    if positions.is_empty() {
        positions.push(None);
    }
    let exceptions: Vec<OptionPattern> = rows
        .iter()
        .flat_map(|row| &row.patterns)
        .filter(|mark| {
            matches!(
                mark,
                OptionPattern::Bundle | OptionPattern::Harmless(_) | OptionPattern::Values(_)
            )
        })
        .copied()
        .collect();
    for row in rows {
        for position in &positions {
            let Some(words) = row.scope(&invocation.words, *position) else {
                continue;
            };
            let named = match (position, &row.position) {
                (Some(at), OptionPosition::After(_)) => invocation.words[*at].as_written(),
                _ => &invocation.program,
            };
            for (option, is_known) in options_in(row, words, named, &exceptions) {
                let one = RiskyOption {
                    program: invocation.program.clone(),
                    option,
                    effect: is_known.then_some(row.effect),
                    source: row.source,
                };
                if !found.iter().any(|known| known.option == one.option) {
                    found.push(one);
                }
            }
        }
    }
    found
}

/// Finds options of the row among the words; `false` marks a word that may expand to one. `named`: the program or its
/// subcommand.
fn options_in(
    row: &RiskyRow,
    words: &[Word],
    named: &str,
    exceptions: &[OptionPattern],
) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    // A leading `--` cannot be the value of an option.
    let ended = words.first().and_then(Word::literal) == Some("--");
    let is_bundled = exceptions
        .iter()
        .any(|mark| matches!(mark, OptionPattern::Bundle));
    for (at, word) in words.iter().enumerate() {
        match word {
            Word::Literal(text) => {
                let bundled = is_bundled && at == 0 && !text.starts_with('-');
                let text = if bundled { &format!("-{text}") } else { text };
                let marks = row
                    .patterns
                    .iter()
                    .filter(|mark| !ended || !mark.is_option());
                found.extend(
                    marks
                        .filter_map(|mark| mark.find_in_word(text, exceptions))
                        .map(|option| (option, true)),
                );
            }
            Word::Dynamic(text) if !ended => match UnknownWord::classify(text) {
                UnknownWord::Operand => {}
                UnknownWord::LongOption(name) => found.extend(
                    row.patterns
                        .iter()
                        .filter_map(|mark| mark.find_in_word(&format!("--{name}="), exceptions))
                        .map(|option| (option, true)),
                ),
                UnknownWord::Anything | UnknownWord::SeveralWords => {
                    let has_options = row.patterns.iter().any(|mark| mark.is_option());
                    found.extend(has_options.then(|| (text.clone(), false)));
                }
            },
            Word::Dynamic(_) => {}
        }
    }
    for mark in &row.patterns {
        match mark {
            OptionPattern::EveryCall => found.push((named.to_owned(), true)),
            OptionPattern::Operands(number) if count_operands(words) >= *number => {
                found.push((named.to_owned(), true));
            }
            OptionPattern::Awk => found.extend(AWK.find_unsafe(words)),
            OptionPattern::Sed => found.extend(SED.find_unsafe(words)),
            _ => {}
        }
    }
    found
}

fn count_operands(words: &[Word]) -> usize {
    let is_operand = |word: &&Word| word.literal().is_none_or(|text| !text.starts_with('-'));
    let more = words.iter().any(|word| word.literal().is_none());
    words.iter().filter(is_operand).count() + usize::from(more) * 10
}

impl OptionPattern {
    /// The option that the word is, as listed in the table.
    fn find_in_word(self, word: &str, exceptions: &[OptionPattern]) -> Option<String> {
        let cluster = || word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        match self {
            Self::Long(long) => {
                let name = word.strip_prefix("--")?;
                let name = name.split('=').next().unwrap_or(name);
                let harmless = exceptions
                    .iter()
                    .any(|mark| matches!(mark, OptionPattern::Harmless(other) if *other == name));
                (!name.is_empty() && long.starts_with(name) && !harmless)
                    .then(|| format!("--{long}"))
            }
            Self::Short(letter) => {
                let values = exceptions.iter().find_map(|mark| match mark {
                    OptionPattern::Values(letters) => Some(*letters),
                    _ => None,
                });
                let mut flags = cluster()?
                    .chars()
                    .take_while(|c| !values.is_some_and(|values| values.contains(*c)));
                flags.any(|c| c == letter).then(|| format!("-{letter}"))
            }
            Self::WordPrefix(name) => {
                let rest = cluster().or_else(|| word.strip_prefix("--"))?;
                rest.starts_with(name).then(|| format!("-{name}"))
            }
            Self::Operand(name) => (word == name).then(|| name.to_owned()),
            Self::OperandPrefix(front) => {
                let begins = word
                    .get(..front.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(front));
                begins.then(|| front.to_owned())
            }
            Self::Assignment => {
                let (name, _) = word.split_once('=')?;
                let is_name = !name.is_empty() && !name.starts_with('-');
                is_name.then(|| format!("{name}="))
            }
            Self::Operands(_)
            | Self::EveryCall
            | Self::Awk
            | Self::Sed
            | Self::Bundle
            | Self::Harmless(_)
            | Self::Values(_) => None,
        }
    }
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
