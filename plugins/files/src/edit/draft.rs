//! A file with its edits made in memory. Nothing is written before all of them have succeeded.

use std::fs;

use toolhost_sdk::prelude::*;

use super::breaks::Breaks;
use super::commit::Step;
use super::find::{self, Found, Leniency, MOST_PLACES};
use super::fresh::{Freshness, REQUIRE_READ, freshness, seen};
use super::{failure, lines, pasted, snippet};
use crate::artefacts::{self, Suspects};
use crate::media;
use crate::notebook::{Notebook, is_notebook};
use crate::path::{Target, resolve};
use crate::read::sha256;
use crate::store::load;
use crate::text::{self, Encoding, Format};

/// Larger files are not edited, and no edit makes one.
pub const MOST_BYTES: u64 = 20_000_000;
/// Lines that are shown of what was replaced.
const MOST_LINES: usize = 15;
/// In a longer old text nobody looks for what the new one may repeat.
const MOST_KNOWN: usize = 64 << 10;
/// Warnings about the new text of one file.
const MOST_WARNINGS: usize = 20;
/// A byte order mark, decoded.
const MARK: char = '\u{feff}';

/// One replacement that a model asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub old: String,
    pub new: String,
    /// Every place, and not the only one.
    pub all: bool,
    /// Exactly so many places.
    pub expected: Option<usize>,
}

/// What became of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub strategy: String,
    pub replacements: usize,
    /// Line of the first replacement.
    pub line: usize,
    /// What was there, if it is not what the model wrote.
    pub before: Option<String>,
}

#[derive(Debug)]
pub struct Draft {
    pub target: Target,
    /// The file as it is; nothing if there is none.
    bytes: Option<Vec<u8>>,
    format: Format,
    is_guessed: bool,
    /// The text of the file as it is.
    pub original: Option<String>,
    /// The text as it will be.
    pub text: String,
    is_there: bool,
    is_exact_once: bool,
    first_line: Option<usize>,
    /// What looks like output of `read_file`, with the name of the parameter; judged once it is known that all fits.
    suspects: Vec<(&'static str, Suspects)>,
}

impl Draft {
    pub fn open(cx: &Context, path: &str, encoding: Encoding) -> Result<Self> {
        Self::of(writable(cx, path)?, encoding)
    }

    pub fn of(target: Target, encoding: Encoding) -> Result<Self> {
        if is_notebook(&target.path) {
            return Err(failure::is_notebook(&target.shown));
        }
        Self::of_any(target, encoding)
    }

    /// Also of a notebook. [`check_notebook`](Self::check_notebook) is due when its text has changed.
    pub fn of_any(target: Target, encoding: Encoding) -> Result<Self> {
        crate::ignored::check_readable(&target)?;
        let shown = &target.shown;
        if fs::metadata(&target.path).is_ok_and(|metadata| metadata.len() > MOST_BYTES) {
            return Err(failure::too_large(shown, MOST_BYTES));
        }
        let bytes = load(&target)?;
        let old = bytes.as_deref().unwrap_or_default();
        if encoding == Encoding::Auto && media::is_binary(old) {
            let message = format!("{shown} is not text, and only text is edited");
            return Err(Error::invalid_input(message)
                .code("binary_file")
                .recommend("if it is text, say its `encoding` to edit_file"));
        }
        let decoded = text::decode(old.to_vec(), encoding, shown)?;
        Ok(Self {
            format: decoded.format,
            is_guessed: decoded.guessed,
            original: bytes.is_some().then(|| decoded.text.clone()),
            text: decoded.text,
            is_there: bytes.is_some(),
            bytes,
            target,
            is_exact_once: true,
            first_line: None,
            suspects: Vec::new(),
        })
    }

    pub fn is_new(&self) -> bool {
        self.bytes.is_none()
    }

    pub fn encoding(&self) -> &'static str {
        self.format.charset.as_str()
    }

    /// Refuses a file that is not the one with this hash.
    pub fn expect(&self, sha: &str) -> Result<()> {
        match &self.bytes {
            None => Err(self.target.not_found()),
            Some(bytes) if sha256(bytes).eq_ignore_ascii_case(sha) => Ok(()),
            Some(_) => Err(failure::stale(&self.target.shown, &self.text, None)),
        }
    }

    /// Makes one edit, on top of those before. After an error everything is as it was.
    pub fn apply(&mut self, edit: &Edit) -> Result<Applied> {
        let known = self.suspects.len();
        let applied = self.make(edit);
        if applied.is_err() {
            self.suspects.truncate(known);
        }
        applied
    }

    fn make(&mut self, edit: &Edit) -> Result<Applied> {
        if edit.old == edit.new {
            let shown = &self.target.shown;
            let message =
                format!("old_string and new_string are the same, so {shown} would not change");
            return Err(failure::no_change(message));
        }
        self.check_letters(&edit.old)?;
        self.check_letters(&edit.new)?;
        if edit.old.trim_start_matches(MARK).is_empty() {
            return self.create(&edit.new);
        }
        if !self.is_there {
            return Err(self
                .target
                .not_found()
                .recommend("to create it, leave `old_string` empty"));
        }
        self.check_new(&edit.old, &edit.new)?;
        let shown = &self.target.shown;
        let leniency = Leniency::of(&self.target.path);
        // The mark of a file is not in its text.
        let (old, new) = match edit.old.strip_prefix(MARK) {
            Some(old) => (old, edit.new.strip_prefix(MARK).unwrap_or(&edit.new)),
            None => (edit.old.as_str(), edit.new.as_str()),
        };
        let mut found = find::find(&self.text, old, new, leniency);
        self.check_count(edit, &found)?;
        if new.is_empty() {
            find::delete_lines(&self.text, old, &mut found.places);
        }
        let new = self.replaced(&found)?;
        if new == self.text {
            let message = format!("{shown} has this text already; go on to the next step");
            return Err(failure::no_change(message));
        }
        let (replacements, first) = (found.places.len(), found.places[0].range.clone());
        let line = lines::number(&self.text, first.start);
        let is_plain = matches!(found.strategy.as_str(), "exact" | "line_endings");
        let before = (!is_plain).then(|| {
            let last = lines::number(&self.text, first.end.saturating_sub(1).max(first.start));
            let all = lines::split(&self.text);
            snippet::region(
                &self.text,
                &all,
                &(line - 1..last.min(all.len())),
                MOST_LINES,
            )
        });
        self.text = new;
        self.is_exact_once &= replacements == 1 && found.strategy == "exact";
        self.first_line.get_or_insert(line);
        Ok(Applied {
            strategy: found.strategy,
            replacements,
            line,
            before,
        })
    }

    /// Refuses what is in `new` only by mistake.
    fn check_new(&mut self, old: &str, new: &str) -> Result<()> {
        // Line numbers that are in both are taken away later.
        let without = pasted::without_numbers(old, new);
        let new = without.as_ref().map_or(new, |(_, new)| new.as_str());
        let known = if old.len() > MOST_KNOWN { "" } else { old };
        self.suspect(new, known, "`new_string`")
    }

    /// Refuses a placeholder in `new`, and keeps what looks like output of `read_file` for [`warnings`](Self::warnings).
    pub fn suspect(&mut self, new: &str, known: &str, what: &'static str) -> Result<()> {
        let file = self.original.as_deref().unwrap_or_default();
        let suspects =
            artefacts::check(new, known, file, &self.target.path).map_err(|mut error| {
                error.message = error.message.replace("`content`", what);
                error
            })?;
        self.suspects.push((what, suspects));
        Ok(())
    }

    /// Refuses what this session was shown by `read_file`, and returns warnings for what only looks like it.
    pub fn warnings(&self, cx: &Context) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for (what, suspects) in &self.suspects {
            warnings.extend(artefacts::judge(cx, &self.target, suspects, what)?);
        }
        warnings.truncate(MOST_WARNINGS);
        Ok(warnings)
    }

    /// Lets the byte order mark be a part of the text, for a patch that shows it.
    pub fn show_mark(&mut self) {
        if self.format.mark {
            self.format.mark = false;
            self.text.insert(0, MARK);
            if let Some(original) = &mut self.original {
                original.insert(0, MARK);
            }
        }
    }

    fn create(&mut self, new: &str) -> Result<Applied> {
        if !self.text.is_empty() {
            return Err(failure::exists(&self.target.shown));
        }
        self.check_new("", new)?;
        new.strip_prefix('\u{feff}')
            .unwrap_or(new)
            .clone_into(&mut self.text);
        self.is_there = true;
        Ok(Applied {
            strategy: "create".to_owned(),
            replacements: 1,
            line: 1,
            before: None,
        })
    }

    fn check_count(&self, edit: &Edit, found: &Found) -> Result<()> {
        let shown = &self.target.shown;
        if !edit.all
            && edit.expected.is_none_or(|expected| expected == 1)
            && let Some(overlapping) = find::with_overlap(&self.text, found)
        {
            let wrong = failure::wrong_count(shown, &self.text, &overlapping, edit.expected);
            return Err(wrong);
        }
        match (found.places.len(), edit.expected) {
            (0, _) => Err(failure::no_match(
                shown,
                &self.text,
                &edit.old,
                "old_string",
            )),
            (count, _) if count > MOST_PLACES => Err(failure::too_many(shown)),
            (count, Some(expected)) if count == expected => Ok(()),
            (_, expected @ Some(_)) => {
                Err(failure::wrong_count(shown, &self.text, found, expected))
            }
            (1, None) => Ok(()),
            (_, None) if edit.all => Ok(()),
            (_, None) => Err(failure::wrong_count(shown, &self.text, found, None)),
        }
    }

    fn replaced(&self, found: &Found) -> Result<String> {
        let length = found
            .places
            .iter()
            .map(|place| place.new.len())
            .fold(self.text.len(), usize::saturating_add);
        if length as u64 > MOST_BYTES + self.text.len() as u64 {
            return Err(failure::too_large(&self.target.shown, MOST_BYTES));
        }
        let mut new = String::with_capacity(length);
        let mut at = 0;
        for place in &found.places {
            new.push_str(&self.text[at..place.range.start]);
            new.push_str(&place.new);
            at = place.range.end;
        }
        new.push_str(&self.text[at..]);
        Ok(new)
    }

    /// Where the encoding is a guess, only what is the same in all of them may be touched.
    fn check_letters(&self, text: &str) -> Result<()> {
        if !self.is_guessed || text.is_ascii() {
            return Ok(());
        }
        let shown = &self.target.shown;
        Err(Error::invalid_input(format!(
            "{shown} is not UTF-8; say its `encoding` to edit_file, for example \"latin1\""
        ))
        .code("encoding_unknown"))
    }

    /// Compares the file with the one that the model has seen. Says whether it has changed since.
    pub fn check_fresh(&self, cx: &Context) -> Result<bool> {
        self.compare(seen(cx, &self.target).as_deref(), REQUIRE_READ)
    }

    /// Text that is not there, in a file that is not the one the model has read, is news of the file and no slip of the
    /// model.
    pub fn explain(&self, cx: &Context, error: Error) -> Error {
        let (Some(bytes), Some("edit_no_occurrence_found")) = (&self.bytes, error.code.as_deref())
        else {
            return error;
        };
        match seen(cx, &self.target) {
            Some(seen) if !seen.eq_ignore_ascii_case(&sha256(bytes)) => {
                failure::stale_without(&self.target.shown, &error.message)
            }
            Some(_) | None => error,
        }
    }

    fn compare(&self, seen: Option<&str>, require: bool) -> Result<bool> {
        let Some(bytes) = &self.bytes else {
            return Ok(false);
        };
        // Without anything to compare it with, the hash is not worth its time.
        let now = seen.map(|_| sha256(bytes)).unwrap_or_default();
        let shown = &self.target.shown;
        match freshness(seen, &now, self.is_exact_once, require) {
            Freshness::Fresh => Ok(false),
            Freshness::Changed => Ok(true),
            Freshness::Stale => {
                let text = self.original.as_deref().unwrap_or_default();
                Err(failure::stale(shown, text, self.first_line))
            }
            Freshness::NotRead => Err(failure::not_read(shown)),
        }
    }

    /// Refuses a notebook that is none any more.
    pub fn check_notebook(&self) -> Result<()> {
        let shown = &self.target.shown;
        if is_notebook(&self.target.path) && Notebook::parse(&self.text, shown).is_err() {
            return Err(failure::is_notebook(shown));
        }
        Ok(())
    }

    /// The file as it will be.
    pub fn new_bytes(&self) -> Result<Vec<u8>> {
        if self.text.len() as u64 > MOST_BYTES {
            return Err(failure::too_large(&self.target.shown, MOST_BYTES));
        }
        text::encode(&self.text, self.format)
    }

    pub fn line_ending(&self) -> &'static str {
        Breaks::of(&self.text).as_str()
    }

    pub fn is_changed(&self) -> bool {
        self.is_there && self.original.as_ref() != Some(&self.text)
    }

    /// Gives the file another text, `added` of which is new, at the line `line` first.
    pub fn rewrite(&mut self, new: String, added: &str, line: usize, is_exact: bool) -> Result<()> {
        self.check_letters(added)?;
        if new.len() as u64 > MOST_BYTES {
            return Err(failure::too_large(&self.target.shown, MOST_BYTES));
        }
        self.text = new;
        self.is_exact_once &= is_exact;
        self.first_line.get_or_insert(line);
        Ok(())
    }

    /// Takes all edits back.
    pub fn forget(&mut self) {
        self.text = self.original.clone().unwrap_or_default();
    }

    /// What it takes to make the file be so.
    pub fn step(&self, new: Vec<u8>) -> Step<'_> {
        Step::Put {
            target: &self.target,
            old: self.bytes.as_deref(),
            new,
        }
    }

    /// The file as it is.
    pub fn old_bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}

/// The place that `path` means, if something may be written there.
pub fn writable(cx: &Context, path: &str) -> Result<Target> {
    let target = resolve(cx, path)?;
    target.check_writable()?;
    Ok(target)
}

#[cfg(test)]
mod tests;
