//! Command patterns of rules such as `Bash(git *)`.

use super::invocation::Invocation;
use super::option_search::find_risky_options;
use super::risky_options::RiskyOption;
use super::{SimpleCommand, Word};
use crate::variables::is_inert_name;
use toolhost_text as text;

/// System directories for programs: `/usr/bin/git` matches `git`, `./git` does not.
const SYSTEM_DIRS: &[&str] = &[
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
];

/// Whether none of these variables changes what a command does.
pub(super) fn are_inert(assignments: &[String]) -> bool {
    assignments.iter().all(|name| is_inert_name(name))
}

/// Placeholder for an unknown word. No pattern can contain it, so only a `*` matches it.
const UNKNOWN_WORD: &str = "\u{1}";

/// Separates the words of a command and of a pattern. No word can contain it, so a blank in a word is no separator.
const SEPARATOR: &str = "\0";

/// A compiled command pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandPattern {
    /// The words of the pattern; a `*` in a word stands for any text, including blanks.
    words: Vec<String>,
    /// More words may follow.
    open: bool,
    /// The words joined by [`SEPARATOR`], as patterns of a whole command.
    globs: Vec<String>,
}

impl CommandPattern {
    /// Parses `git *`, `git:*`, `npm run test` or `*`.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let pattern = pattern.trim();
        if pattern.is_empty() {
            return Err(
                "an empty command pattern matches nothing; write `*` for every command".to_owned(),
            );
        }
        if pattern.len() > 1024 || pattern.chars().any(text::needs_escape) {
            return Err(format!(
                "the command pattern `{}` is too long or contains control characters",
                text::escape_line(pattern, 60)
            ));
        }
        let (body, open) = match pattern.strip_suffix(":*") {
            Some(body) => (body, true),
            None if pattern == "*" => ("", true),
            None => match pattern.strip_suffix(" *") {
                Some(body) => (body, true),
                None => (pattern, false),
            },
        };
        let words = split_pattern(body)?;
        if words.is_empty() && pattern != "*" {
            return Err(format!(
                "the command pattern `{}` names no program",
                text::escape_line(pattern, 60)
            ));
        }
        let fixed = words.join(SEPARATOR);
        let with_more = open.then(|| format!("{fixed}{SEPARATOR}*"));
        let globs = with_more.into_iter().chain([fixed]).collect();
        Ok(Self { words, open, globs })
    }

    /// Whether an **allow** rule covers the command: every fixed word is known, the program is the named one, no
    /// variable is set that could change what it does, and every occurrence of an option that runs programs or writes
    /// files is written in the pattern.
    pub fn matches(&self, command: &SimpleCommand) -> bool {
        self.covers_words(command, &[])
            && (self.words.is_empty() || self.covers_words(command, &find_risky_options(command)))
    }

    /// The first risky option because of which the pattern does not cover the command; `None` if it covers the command
    /// or does not match the words.
    pub fn find_uncovered_option(&self, command: &SimpleCommand) -> Option<RiskyOption> {
        if self.words.is_empty() || !self.covers_words(command, &[]) {
            return None;
        }
        let is_uncovered =
            |one: &RiskyOption| !self.covers_words(command, std::slice::from_ref(one));
        find_risky_options(command).into_iter().find(is_uncovered)
    }

    /// Whether it is `*`.
    pub fn is_everything(&self) -> bool {
        self.words.is_empty()
    }

    /// The program and subcommand of the pattern, if a wildcard follows.
    pub fn wildcard_command(&self) -> Option<(&str, Option<&str>)> {
        let is_plain = |word: &&String| !word.contains('*') && !word.starts_with('-');
        let program = self.words.first().filter(is_plain)?;
        let subcommand = self.words.get(1).filter(is_plain).map(String::as_str);
        self.has_wildcard()
            .then_some((program.rsplit('/').next().unwrap_or(program), subcommand))
    }

    fn has_wildcard(&self) -> bool {
        self.open || self.words.iter().any(|word| word.contains('*'))
    }

    /// Whether the pattern covers the words of the command, these options without a wildcard.
    fn covers_words(&self, command: &SimpleCommand, options: &[RiskyOption]) -> bool {
        let is_unplaced = |one: &RiskyOption| one.places.is_empty();
        if !are_inert(&command.assignments)
            || self.has_wildcard() && options.iter().any(is_unplaced)
        {
            return false;
        }
        let Some(first) = command.words.first() else {
            return self.words.is_empty();
        };
        let Some(first) = first.literal() else {
            return self.words.is_empty();
        };
        let base = SYSTEM_DIRS
            .iter()
            .find_map(|directory| first.strip_prefix(directory))
            .filter(|base| !base.contains('/'));
        [Some(first), base].into_iter().flatten().any(|program| {
            let rest = command.arguments().iter().map(Word::literal);
            let rest = rest.map(|word| word.unwrap_or(UNKNOWN_WORD));
            let words: Vec<&str> = std::iter::once(program).chain(rest).collect();
            self.covers(&words, options)
        })
    }

    /// Whether an **ask or deny** rule covers the command: program and subcommand are found past any options, and
    /// options in any position. An unknown word may expand to any number of words. Programs are compared without
    /// directory, ignoring case.
    pub fn may_match(&self, command: &SimpleCommand) -> bool {
        if command.program().is_none() {
            return !command.words.is_empty() || self.words.is_empty();
        }
        let Some(first) = self.words.first() else {
            return true;
        };
        let readings = Invocation::interpretations(command);
        if self.words.iter().any(|word| word.contains('*')) {
            let unknown = command.has_unknown_word();
            return readings.iter().any(|reading| {
                unknown && (first.contains('*') || base_name(first) == reading.program)
                    || reading
                        .match_texts()
                        .iter()
                        .any(|text| self.covers_text(text))
            });
        }
        let program = base_name(first);
        let (program, rule) = match program.strip_prefix("git-") {
            Some(name) => ("git", [&[name.to_owned()], &self.words[1..]].concat()),
            None => (program.as_str(), self.words[1..].to_vec()),
        };
        readings
            .iter()
            .any(|reading| reading.program == program && reading.may_match(&rule, self.open))
    }

    fn covers_text(&self, text: &str) -> bool {
        let mut words = self.words.clone();
        words[0] = base_name(&words[0]);
        let pattern = words.join(" ");
        glob_matches(&pattern, text, &[])
            || self.open && glob_matches(&format!("{pattern} *"), text, &[])
    }

    fn covers(&self, words: &[&str], options: &[RiskyOption]) -> bool {
        if self.words.is_empty() {
            return true;
        }
        // A program whose name contains blanks is not the program that the pattern's words name.
        let has_star = self.words.iter().any(|word| word.contains('*'));
        if has_star && words[0].contains(char::is_whitespace) {
            return false;
        }
        let (text, named) = (words.join(SEPARATOR), named_bytes(words, options));
        let mut globs = self.globs.iter();
        globs.any(|glob| glob_matches(glob, &text, &named))
    }
}

/// Whether each byte of the joined words names one of the options. Shorter if the rest does not.
fn named_bytes(words: &[&str], options: &[RiskyOption]) -> Vec<bool> {
    let mut named = Vec::new();
    if options.is_empty() {
        return named;
    }
    for (at, word) in words.iter().enumerate() {
        let places = options.iter().filter_map(|one| one.places.get(&at));
        let length = places.max().map_or(0, |length| word.len().min(*length));
        named.resize(named.len() + length, true);
        named.resize(named.len() + word.len() - length + SEPARATOR.len(), false);
    }
    named
}

fn base_name(program: &str) -> String {
    program
        .rsplit('/')
        .next()
        .unwrap_or(program)
        .to_ascii_lowercase()
}

/// Splits a pattern into words and removes quotes, which users copy from commands.
fn split_pattern(body: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in body.chars() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(format!(
            "a quote in the command pattern `{}` is never closed",
            text::escape_line(body, 60)
        ));
    }
    words.extend(word);
    Ok(words)
}

/// Matches a pattern with `*` for any text without the bytes that are `named`, which the pattern has to contain. The work
/// is bounded by the product of the lengths.
fn glob_matches(pattern: &str, text: &str, named: &[bool]) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star
            && named.get(from) != Some(&true)
        {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}
