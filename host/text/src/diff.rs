//! Unified diffs. The algorithms are compiled once, here.

use std::time::Instant;

use similar::TextDiff;

/// How a diff is made and formatted.
#[derive(Debug, Clone, Copy)]
pub struct UnifiedDiff<'a> {
    /// Names of the old and the new text.
    pub header: Option<(&'a str, &'a str)>,
    /// Number of unchanged lines around a change.
    pub context_lines: usize,
    /// Whether a line says that a text does not end with a newline.
    pub marks_missing_newline: bool,
    /// Common lines that have not been found until then are removed and added.
    pub deadline: Option<Instant>,
}

impl Default for UnifiedDiff<'_> {
    fn default() -> Self {
        Self {
            header: None,
            context_lines: 3,
            marks_missing_newline: true,
            deadline: None,
        }
    }
}

impl UnifiedDiff<'_> {
    /// Returns the diff of two texts line by line, or an empty text if they are equal.
    pub fn of(self, old: &str, new: &str) -> String {
        let mut config = TextDiff::configure();
        if let Some(deadline) = self.deadline {
            config.deadline(deadline);
        }
        let diff = config.diff_lines(old, new);
        let mut unified = diff.unified_diff();
        unified
            .context_radius(self.context_lines)
            .missing_newline_hint(self.marks_missing_newline);
        if let Some((old, new)) = self.header {
            unified.header(old, new);
        }
        unified.to_string()
    }
}
