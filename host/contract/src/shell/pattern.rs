//! The right side of a rule such as `Bash(git *)`.

use super::{Simple, Word};
use crate::text;
use crate::variables::is_inert_name;

/// Where a system keeps its programs: `/usr/bin/git` is what `git` means, `./git` is not.
const SYSTEM: &[&str] = &[
    "/bin/",
    "/usr/bin/",
    "/usr/local/bin/",
    "/sbin/",
    "/usr/sbin/",
];

/// Whether setting these variables leaves a command what it is.
pub(super) fn are_harmless(assignments: &[String]) -> bool {
    assignments.iter().all(|name| is_inert_name(name))
}

/// Stands for a word that is not known; no pattern can spell it, so only a `*` covers it.
const UNKNOWN: &str = "\0";

/// A compiled rule for commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    /// The words before the end; a `*` in one stands for any text, blanks included.
    words: Vec<String>,
    /// More words may follow.
    open: bool,
}

impl Pattern {
    /// Reads `git *`, `git:*`, `npm run test` or `*`.
    pub fn parse(pattern: &str) -> Result<Self, String> {
        let pattern = pattern.trim();
        if pattern.is_empty() {
            return Err(
                "an empty command pattern matches nothing; write `*` for every command".to_owned(),
            );
        }
        if pattern.len() > 1024 || pattern.chars().any(text::is_hostile) {
            return Err(format!(
                "the command pattern `{}` is too long or holds control characters",
                text::inline(pattern, 60)
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
        let words = split(body)?;
        if words.is_empty() && pattern != "*" {
            return Err(format!(
                "the command pattern `{}` names no program",
                text::inline(pattern, 60)
            ));
        }
        Ok(Self { words, open })
    }

    /// Whether a rule that **allows** covers the command: every fixed part is certain, the program is the one that
    /// is named, and no variable is set that could change what it does.
    pub fn matches(&self, command: &Simple) -> bool {
        if !are_harmless(&command.assignments) {
            return false;
        }
        let Some(first) = command.words.first() else {
            return self.words.is_empty();
        };
        let Some(first) = first.literal() else {
            return self.words.is_empty();
        };
        let base = SYSTEM
            .iter()
            .find_map(|directory| first.strip_prefix(directory))
            .filter(|base| !base.contains('/'));
        [Some(first), base].into_iter().flatten().any(|program| {
            let rest = command
                .arguments()
                .iter()
                .map(|word| word.literal().unwrap_or(UNKNOWN));
            self.covers(&std::iter::once(program).chain(rest).collect::<Vec<_>>())
        })
    }

    /// Whether a rule that **asks or denies** covers the command: so it does when an unknown word, which may become
    /// any number of words, could make it match. Programs are compared without their directory and without case.
    pub fn could_match(&self, command: &Simple) -> bool {
        let Some(program) = command.program() else {
            return !command.words.is_empty() || self.words.is_empty();
        };
        let program = program.to_ascii_lowercase();
        let mut known = vec![program.as_str()];
        known.extend(command.arguments().iter().map_while(Word::literal));
        if known.len() == command.words.len() {
            return self.covers_loosely(&known);
        }
        // The unknown word may become the rest of the pattern.
        let Some(first) = self.words.first() else {
            return true;
        };
        if self.words.iter().any(|word| word.contains('*')) {
            return first.contains('*') || base_name(first) == program;
        }
        (known.len() <= self.words.len() || self.open)
            && base_name(first) == program
            && self
                .words
                .iter()
                .zip(&known)
                .skip(1)
                .all(|(pattern, word)| pattern == word)
    }

    fn covers_loosely(&self, words: &[&str]) -> bool {
        let mut lower = self.clone();
        if let Some(first) = lower.words.first_mut() {
            *first = base_name(first);
        }
        lower.covers(words)
    }

    fn covers(&self, words: &[&str]) -> bool {
        if self.words.iter().any(|word| word.contains('*')) {
            // A program whose name holds blanks is not the program that the pattern's words spell.
            return !words[0].contains(char::is_whitespace) && {
                let text = words.join(" ");
                let pattern = self.words.join(" ");
                glob(&pattern, &text) || self.open && glob(&format!("{pattern} *"), &text)
            };
        }
        let length = self.words.len();
        (words.len() == length || self.open && words.len() > length)
            && self
                .words
                .iter()
                .zip(words)
                .all(|(pattern, word)| pattern == word)
    }
}

fn base_name(program: &str) -> String {
    program
        .rsplit('/')
        .next()
        .unwrap_or(program)
        .to_ascii_lowercase()
}

/// The words of a pattern, without the quotes that a user may have copied from a command.
fn split(body: &str) -> Result<Vec<String>, String> {
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
            text::inline(body, 60)
        ));
    }
    words.extend(word);
    Ok(words)
}

/// `*` stands for any text; the work is bounded by the product of the lengths.
fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t, mut star) = (0, 0, None);
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == b'*')
}
