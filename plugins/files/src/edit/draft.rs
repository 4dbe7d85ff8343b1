//! A file with edits applied in memory. The file is written only after all edits succeed.

use std::fs;

use toolhost_sdk::prelude::*;

use super::commit::FileStep;
use super::find::{self, Leniency, MAX_MATCHES, MatchResult};
use super::freshness::{Freshness, REQUIRE_READ, freshness, observed_sha256};
use super::line_breaks::LineBreaks;
use super::{errors, lines, pasted_prefixes, snippet};
use crate::file_writer::load;
use crate::media;
use crate::notebook::{Notebook, is_notebook};
use crate::pasted_output::{self, SuspectLines};
use crate::path::{Target, resolve};
use crate::read::sha256;
use crate::text::{self, Encoding, Format};

/// Size limit of edited files, before and after, in bytes.
pub const MOST_BYTES: u64 = 20_000_000;
/// Lines shown of replaced text.
const MOST_LINES: usize = 15;
/// In a longer old text, repeated text is not looked up.
const MOST_KNOWN: usize = 64 << 10;
/// Limit of warnings per file.
const MOST_WARNINGS: usize = 20;
/// The decoded byte order mark.
const MARK: char = '\u{feff}';

/// One requested replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    pub old: String,
    pub new: String,
    /// Replace every match instead of the only one.
    pub all: bool,
    /// The required number of matches.
    pub expected: Option<usize>,
}

/// The result of an edit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppliedEdit {
    pub strategy: String,
    pub replacements: usize,
    /// Line of the first replacement.
    pub line: usize,
    /// The replaced text, if it differs from `old_string`.
    pub before: Option<String>,
}

#[derive(Debug)]
pub struct Draft {
    pub target: Target,
    /// The current content of the file; `None` if it does not exist.
    bytes: Option<Vec<u8>>,
    format: Format,
    is_guessed: bool,
    /// The current text of the file.
    pub original: Option<String>,
    /// The text after the edits.
    pub text: String,
    is_there: bool,
    is_exact_once: bool,
    first_line: Option<usize>,
    /// Text that looks like output of `read_file`, with the name of its parameter; checked after all edits applied.
    suspects: Vec<(&'static str, SuspectLines)>,
}

impl Draft {
    pub fn open(cx: &Context, path: &str, encoding: Encoding) -> Result<Self> {
        Self::from_target(writable(cx, path)?, encoding)
    }

    pub fn from_target(target: Target, encoding: Encoding) -> Result<Self> {
        if is_notebook(&target.path) {
            return Err(errors::is_notebook(&target.shown));
        }
        Self::from_any_target(target, encoding)
    }

    /// Also opens notebooks. Call [`check_notebook`](Self::check_notebook) after changing the text of one.
    pub fn from_any_target(target: Target, encoding: Encoding) -> Result<Self> {
        crate::ignore_rules::check_readable(&target)?;
        let shown = &target.shown;
        if fs::metadata(&target.path).is_ok_and(|metadata| metadata.len() > MOST_BYTES) {
            return Err(errors::too_large(shown, MOST_BYTES));
        }
        let bytes = load(&target)?;
        let old = bytes.as_deref().unwrap_or_default();
        if encoding == Encoding::Auto && media::is_binary(old) {
            let message = format!("{shown} is not text, and only text can be edited");
            return Err(Error::invalid_input(message)
                .code("binary_file")
                .recommend("if it is text, set `encoding` of edit_file"));
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

    /// Fails if the file does not have this hash.
    pub fn expect(&self, sha: &str) -> Result<()> {
        match &self.bytes {
            None => Err(self.target.not_found()),
            Some(bytes) if sha256(bytes).eq_ignore_ascii_case(sha) => Ok(()),
            Some(_) => Err(errors::stale(&self.target.shown, &self.text, None)),
        }
    }

    /// Applies one edit on top of the earlier ones. After an error the draft is unchanged.
    pub fn apply(&mut self, edit: &Edit) -> Result<AppliedEdit> {
        let known = self.suspects.len();
        let applied = self.make(edit);
        if applied.is_err() {
            self.suspects.truncate(known);
        }
        applied
    }

    fn make(&mut self, edit: &Edit) -> Result<AppliedEdit> {
        if edit.old == edit.new {
            let shown = &self.target.shown;
            let message =
                format!("old_string and new_string are the same, so {shown} would not change");
            return Err(errors::no_change(message));
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
        let leniency = Leniency::for_path(&self.target.path);
        // The byte order mark of a file is not part of its text.
        let (old, new) = match edit.old.strip_prefix(MARK) {
            Some(old) => (old, edit.new.strip_prefix(MARK).unwrap_or(&edit.new)),
            None => (edit.old.as_str(), edit.new.as_str()),
        };
        let mut found = find::find(&self.text, old, new, leniency);
        self.check_count(edit, &found)?;
        if new.is_empty() {
            find::delete_lines(&self.text, old, &mut found.replacements);
        }
        let new = self.replaced(&found)?;
        if new == self.text {
            let message =
                format!("{shown} already contains this text; continue with the next step");
            return Err(errors::no_change(message));
        }
        let (replacements, first) = (
            found.replacements.len(),
            found.replacements[0].range.clone(),
        );
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
        Ok(AppliedEdit {
            strategy: found.strategy,
            replacements,
            line,
            before,
        })
    }

    /// Refuses likely mistakes in `new`.
    fn check_new(&mut self, old: &str, new: &str) -> Result<()> {
        // Line numbers in both texts are removed later.
        let without = pasted_prefixes::without_numbers(old, new);
        let new = without.as_ref().map_or(new, |(_, new)| new.as_str());
        let known = if old.len() > MOST_KNOWN { "" } else { old };
        self.check_placeholders(new, known, "`new_string`")
    }

    /// Refuses a placeholder in `new`, and records text that looks like output of `read_file` for
    /// [`warnings`](Self::warnings).
    pub fn check_placeholders(
        &mut self,
        new: &str,
        known: &str,
        parameter: &'static str,
    ) -> Result<()> {
        let file = self.original.as_deref().unwrap_or_default();
        let suspects =
            pasted_output::check(new, known, file, &self.target.path).map_err(|mut error| {
                error.message = error.message.replace("`content`", parameter);
                error
            })?;
        self.suspects.push((parameter, suspects));
        Ok(())
    }

    /// Refuses text that `read_file` showed to this session; returns warnings for text that only looks like it.
    pub fn warnings(&self, cx: &Context) -> Result<Vec<String>> {
        let mut warnings = Vec::new();
        for (parameter, suspects) in &self.suspects {
            warnings.extend(pasted_output::reject_pasted(
                cx,
                &self.target,
                suspects,
                parameter,
            )?);
        }
        warnings.truncate(MOST_WARNINGS);
        Ok(warnings)
    }

    /// Makes the byte order mark part of the text, for a patch that includes it.
    pub fn show_mark(&mut self) {
        if self.format.mark {
            self.format.mark = false;
            self.text.insert(0, MARK);
            if let Some(original) = &mut self.original {
                original.insert(0, MARK);
            }
        }
    }

    fn create(&mut self, new: &str) -> Result<AppliedEdit> {
        if !self.text.is_empty() {
            return Err(errors::exists(&self.target.shown));
        }
        self.check_new("", new)?;
        new.strip_prefix('\u{feff}')
            .unwrap_or(new)
            .clone_into(&mut self.text);
        self.is_there = true;
        Ok(AppliedEdit {
            strategy: "create".to_owned(),
            replacements: 1,
            line: 1,
            before: None,
        })
    }

    fn check_count(&self, edit: &Edit, found: &MatchResult) -> Result<()> {
        let shown = &self.target.shown;
        if !edit.all
            && edit.expected.is_none_or(|expected| expected == 1)
            && let Some(overlapping) = find::with_overlap(&self.text, found)
        {
            let wrong = errors::wrong_count(shown, &self.text, &overlapping, edit.expected);
            return Err(wrong);
        }
        match (found.replacements.len(), edit.expected) {
            (0, _) => Err(errors::no_match(shown, &self.text, &edit.old, "old_string")),
            (count, _) if count > MAX_MATCHES => Err(errors::too_many(shown)),
            (count, Some(expected)) if count == expected => Ok(()),
            (_, expected @ Some(_)) => Err(errors::wrong_count(shown, &self.text, found, expected)),
            (1, None) => Ok(()),
            (_, None) if edit.all => Ok(()),
            (_, None) => Err(errors::wrong_count(shown, &self.text, found, None)),
        }
    }

    fn replaced(&self, found: &MatchResult) -> Result<String> {
        let length = found
            .replacements
            .iter()
            .map(|replacement| replacement.new.len())
            .fold(self.text.len(), usize::saturating_add);
        if length as u64 > MOST_BYTES + self.text.len() as u64 {
            return Err(errors::too_large(&self.target.shown, MOST_BYTES));
        }
        let mut new = String::with_capacity(length);
        let mut at = 0;
        for replacement in &found.replacements {
            new.push_str(&self.text[at..replacement.range.start]);
            new.push_str(&replacement.new);
            at = replacement.range.end;
        }
        new.push_str(&self.text[at..]);
        Ok(new)
    }

    /// With a guessed encoding, only characters that are the same in all candidates may change.
    fn check_letters(&self, text: &str) -> Result<()> {
        if !self.is_guessed || text.is_ascii() {
            return Ok(());
        }
        let shown = &self.target.shown;
        let bytes = self.bytes.as_deref().unwrap_or_default();
        let message = match text::damaged_utf8(bytes) {
            Some(line) => format!(
                "{}; change only ASCII text in it, or remove these bytes first",
                text::damage(shown, line)
            ),
            None => format!(
                "{shown} is not UTF-8; set `encoding` of edit_file, for example to \"latin1\""
            ),
        };
        Err(Error::invalid_input(message).code("encoding_unknown"))
    }

    /// Compares the file with the version that the model read. Returns whether it changed since.
    pub fn check_fresh(&self, cx: &Context) -> Result<bool> {
        self.compare(observed_sha256(cx, &self.target).as_deref(), REQUIRE_READ)
    }

    /// Missing text in a file that changed since it was read is reported as a stale file, not as a mistake of the
    /// model.
    pub fn explain(&self, cx: &Context, error: Error) -> Error {
        let (Some(bytes), Some("edit_no_occurrence_found")) = (&self.bytes, error.code.as_deref())
        else {
            return error;
        };
        match observed_sha256(cx, &self.target) {
            Some(observed) if !observed.eq_ignore_ascii_case(&sha256(bytes)) => {
                errors::stale_without(&self.target.shown, &error.message)
            }
            Some(_) | None => error,
        }
    }

    fn compare(&self, observed: Option<&str>, require: bool) -> Result<bool> {
        let Some(bytes) = &self.bytes else {
            return Ok(false);
        };
        // Without a hash to compare with, none is computed.
        let now = observed.map(|_| sha256(bytes)).unwrap_or_default();
        let shown = &self.target.shown;
        match freshness(observed, &now, self.is_exact_once, require) {
            Freshness::Fresh => Ok(false),
            Freshness::Changed => Ok(true),
            Freshness::Stale => {
                let text = self.original.as_deref().unwrap_or_default();
                Err(errors::stale(shown, text, self.first_line))
            }
            Freshness::NotRead => Err(errors::not_read(shown)),
        }
    }

    /// Fails if the text is no longer a valid notebook.
    pub fn check_notebook(&self) -> Result<()> {
        let shown = &self.target.shown;
        if is_notebook(&self.target.path) && Notebook::parse(&self.text, shown).is_err() {
            return Err(errors::is_notebook(shown));
        }
        Ok(())
    }

    /// The new content of the file.
    pub fn new_bytes(&self) -> Result<Vec<u8>> {
        if self.text.len() as u64 > MOST_BYTES {
            return Err(errors::too_large(&self.target.shown, MOST_BYTES));
        }
        text::encode(&self.text, self.format)
    }

    pub fn line_ending(&self) -> &'static str {
        LineBreaks::of(&self.text).as_str()
    }

    pub fn is_changed(&self) -> bool {
        self.is_there && self.original.as_ref() != Some(&self.text)
    }

    /// Sets a new text, of which `added` is new and starts at `line`.
    pub fn rewrite(&mut self, new: String, added: &str, line: usize, is_exact: bool) -> Result<()> {
        self.check_letters(added)?;
        if new.len() as u64 > MOST_BYTES {
            return Err(errors::too_large(&self.target.shown, MOST_BYTES));
        }
        self.text = new;
        self.is_exact_once &= is_exact;
        self.first_line.get_or_insert(line);
        Ok(())
    }

    /// Discards all edits.
    pub fn reset(&mut self) {
        self.text = self.original.clone().unwrap_or_default();
    }

    /// The step that writes the new content.
    pub fn step(&self, new: Vec<u8>) -> FileStep<'_> {
        FileStep::Put {
            target: &self.target,
            old: self.bytes.as_deref(),
            new,
        }
    }

    /// The current content of the file.
    pub fn old_bytes(&self) -> Option<&[u8]> {
        self.bytes.as_deref()
    }
}

/// Resolves `path` to a writable file.
pub fn writable(cx: &Context, path: &str) -> Result<Target> {
    let target = resolve(cx, path)?;
    target.check_writable()?;
    Ok(target)
}

#[cfg(test)]
mod tests;
