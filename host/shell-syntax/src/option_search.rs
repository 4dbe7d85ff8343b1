//! Search for risky options among the words of a command.

use std::collections::BTreeMap;

use super::invocation::Invocation;
use super::program_text::{AWK, SED};
use super::risky_options::{
    FURTHER_OPERANDS, OptionPattern, OptionPosition, RiskyOption, RiskyRow, UnknownWord, rows,
};
use super::{SimpleCommand, Word};

/// The words that one row of the table applies to.
#[derive(Clone, Copy)]
struct OptionScope<'a> {
    words: &'a [Word],
    /// Index of the first word in the command.
    first: usize,
    /// The program or its subcommand.
    named: &'a str,
    named_at: usize,
}

/// An option that is found among the words of a scope.
struct FoundOption {
    option: String,
    /// `false` for a word that may expand to an option.
    is_known: bool,
    /// The word in the command, and how many bytes at its start name the option.
    place: Option<(usize, usize)>,
}

impl FoundOption {
    /// An option that is the whole word.
    fn of_word(option: String, is_known: bool, at: usize) -> Self {
        Self {
            option,
            is_known,
            place: Some((at, usize::MAX)),
        }
    }
}

/// Finds the risky options of a command; empty for programs that are not in the table.
pub fn find_risky_options(command: &SimpleCommand) -> Vec<RiskyOption> {
    Invocation::interpretations(command)
        .iter()
        .flat_map(find_in_invocation)
        .collect()
}

impl RiskyRow {
    /// The words that the row applies to, for one candidate position of the subcommand.
    fn scope<'a>(
        &self,
        invocation: &'a Invocation,
        subcommand: Option<usize>,
    ) -> Option<OptionScope<'a>> {
        let words = invocation.words.as_slice();
        let all = OptionScope {
            words,
            first: invocation.first,
            named: &invocation.program,
            named_at: invocation.first.saturating_sub(1),
        };
        match (&self.position, subcommand) {
            (OptionPosition::Any, _) => Some(all),
            (OptionPosition::Before, at) => Some(OptionScope {
                words: &words[..at.unwrap_or(words.len())],
                ..all
            }),
            (OptionPosition::After(names), Some(at)) => {
                let is_named = words[at].literal().is_none_or(|name| names.contains(&name));
                is_named.then(|| OptionScope {
                    words: &words[at + 1..],
                    first: all.first + at + 1,
                    named: words[at].as_written(),
                    named_at: all.first + at,
                })
            }
            (OptionPosition::After(_), None) => None,
        }
    }
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
            places: BTreeMap::new(),
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
            let Some(scope) = row.scope(invocation, *position) else {
                continue;
            };
            for one in options_in(row, scope, &exceptions) {
                let at = found.iter().position(|known| known.option == one.option);
                let at = at.unwrap_or_else(|| {
                    found.push(RiskyOption {
                        program: invocation.program.clone(),
                        option: one.option,
                        effect: one.is_known.then_some(row.effect),
                        source: row.source,
                        places: BTreeMap::new(),
                    });
                    found.len() - 1
                });
                if let Some((word, length)) = one.place {
                    let known = found[at].places.entry(word).or_default();
                    *known = length.max(*known);
                }
            }
        }
    }
    found
}

/// Finds options of the row among the words.
fn options_in(
    row: &RiskyRow,
    scope: OptionScope<'_>,
    exceptions: &[OptionPattern],
) -> Vec<FoundOption> {
    let (words, first) = (scope.words, scope.first);
    let mut found = Vec::new();
    // A leading `--` cannot be the value of an option. `ssh` reads options again after the host.
    let ended = words.first().and_then(Word::literal) == Some("--") && scope.named != "ssh";
    let marks = || {
        let marks = row.patterns.iter();
        marks.filter(|mark| !ended || !mark.starts_with_dash())
    };
    let is_bundled = exceptions
        .iter()
        .any(|mark| matches!(mark, OptionPattern::Bundle));
    for (at, word) in words.iter().enumerate() {
        match word {
            Word::Literal(text) => {
                let bundled = is_bundled && at == 0 && !text.starts_with('-');
                let text = if bundled { &format!("-{text}") } else { text };
                let options = marks().filter_map(|mark| mark.find_in_word(text, exceptions));
                found.extend(options.map(|(option, length)| FoundOption {
                    option,
                    is_known: true,
                    place: Some((first + at, length - usize::from(bundled))),
                }));
            }
            Word::Dynamic(text) => match UnknownWord::classify(text) {
                UnknownWord::Operand => {}
                UnknownWord::LongOption(name) => found.extend(
                    marks()
                        .filter_map(|mark| mark.find_in_word(&format!("--{name}="), exceptions))
                        .map(|(option, _)| FoundOption::of_word(option, true, first + at)),
                ),
                UnknownWord::Anything | UnknownWord::SeveralWords => {
                    let has_options = marks().any(|mark| mark.is_option());
                    let one = || FoundOption::of_word(text.clone(), false, first + at);
                    found.extend(has_options.then(one));
                }
            },
        }
    }
    for mark in &row.patterns {
        match mark {
            OptionPattern::EveryCall => {
                let named = scope.named.to_owned();
                found.push(FoundOption::of_word(named, true, scope.named_at));
            }
            OptionPattern::Operands(number) => {
                found.extend(
                    further_operands(words, *number, exceptions).map(|at| FoundOption {
                        option: FURTHER_OPERANDS.to_owned(),
                        is_known: true,
                        place: at.map(|at| (first + at, usize::MAX)),
                    }),
                );
            }
            OptionPattern::Awk | OptionPattern::Sed => {
                let script = if matches!(mark, OptionPattern::Awk) {
                    AWK.find_unsafe(words)
                } else {
                    SED.find_unsafe(words)
                };
                found.extend(script.map(|(at, script, is_known)| {
                    FoundOption::of_word(script, is_known, first + at)
                }));
            }
            _ => {}
        }
    }
    found
}

/// The words from the operand with this number on, if the command has so many operands; `None` stands for a command
/// without any. A word that may expand to several ones counts as enough.
fn further_operands(
    words: &[Word],
    number: usize,
    exceptions: &[OptionPattern],
) -> impl Iterator<Item = Option<usize>> {
    // `-f 1`, but not `-cf 1`, because some programs have no clusters.
    let takes_value = |text: &str| {
        let mut letters = text.chars().skip(1);
        let letter = letters.next().filter(|_| letters.next().is_none());
        exceptions.iter().any(|mark| match mark {
            OptionPattern::Values(values) => letter.is_some_and(|letter| values.contains(letter)),
            _ => false,
        })
    };
    let (mut operands, mut unknown) = (Vec::new(), Vec::new());
    let mut has_ended = false;
    let mut left = words.iter().enumerate().peekable();
    while let Some((at, word)) = left.next() {
        match word.literal() {
            None => unknown.push(Some(at)),
            Some("--") if !has_ended => has_ended = true,
            Some(text) if has_ended || text == "-" || !text.starts_with('-') => {
                operands.push(Some(at));
            }
            Some(text) if takes_value(text) => {
                left.next_if(|(_, value)| value.literal().is_some());
            }
            Some(_) => {}
        }
    }
    let is_enough = operands.len() >= number || !unknown.is_empty();
    let mut further = operands.split_off(number.saturating_sub(1).min(operands.len()));
    further.append(&mut unknown);
    if further.is_empty() {
        further.push(None);
    }
    further.into_iter().filter(move |_| is_enough)
}

impl OptionPattern {
    /// The option that the word is, as listed in the table, and how many bytes at the start of the word name it.
    fn find_in_word(self, word: &str, exceptions: &[OptionPattern]) -> Option<(String, usize)> {
        let cluster = || word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        match self {
            Self::Long(long) => {
                let name = word.strip_prefix("--")?;
                let name = name.split('=').next().unwrap_or(name);
                let harmless = exceptions
                    .iter()
                    .any(|mark| matches!(mark, OptionPattern::Harmless(other) if *other == name));
                (!name.is_empty() && long.starts_with(name) && !harmless)
                    .then(|| (format!("--{long}"), 2 + name.len()))
            }
            Self::Short(letter) => {
                let values = exceptions.iter().find_map(|mark| match mark {
                    OptionPattern::Values(letters) => Some(*letters),
                    _ => None,
                });
                let mut flags = cluster()?
                    .char_indices()
                    .take_while(|(_, c)| !values.is_some_and(|values| values.contains(*c)));
                let (at, _) = flags.find(|(_, c)| *c == letter)?;
                Some((format!("-{letter}"), 1 + at + letter.len_utf8()))
            }
            Self::WordPrefix(name) => {
                let rest = cluster().or_else(|| word.strip_prefix("--"))?;
                let length = word.len() - rest.len() + name.len();
                rest.starts_with(name).then(|| (format!("-{name}"), length))
            }
            Self::Operand(name) => (word == name).then(|| (name.to_owned(), word.len())),
            Self::OperandPrefix(front) => {
                let begins = word
                    .get(..front.len())
                    .is_some_and(|start| start.eq_ignore_ascii_case(front));
                begins.then(|| (front.to_owned(), front.len()))
            }
            Self::Assignment => {
                let (name, _) = word.split_once('=')?;
                let is_name = !name.is_empty() && !name.starts_with('-');
                is_name.then(|| (format!("{name}="), name.len() + 1))
            }
            Self::Operands(_)
            | Self::Directory
            | Self::EveryCall
            | Self::Awk
            | Self::Sed
            | Self::Bundle
            | Self::Harmless(_)
            | Self::Values(_) => None,
        }
    }
}
