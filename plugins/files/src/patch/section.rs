//! A parsed patch, independent of its format.

/// The change to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub path: String,
    pub action: Action,
    /// Permission bits set by the patch.
    pub mode: Option<FileMode>,
    /// The line of the patch where it starts.
    pub line: usize,
}

/// The two modes of regular files in git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileMode {
    /// 100644
    Plain,
    /// 100755
    Executable,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Add {
        content: String,
    },
    /// With hunks, only if the file has that content.
    Delete {
        hunks: Vec<Hunk>,
    },
    Update {
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// A part of a file and its changes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines to find first, in order.
    pub contexts: Vec<String>,
    /// The expected position, if stated.
    pub hint: Option<Hint>,
    pub lines: Vec<(Sign, String)>,
    /// The hunk ends at the end of the file.
    pub at_end: bool,
    /// The last line of the old file has no line break.
    pub is_old_unbroken: bool,
    /// The last line of the new file has no line break.
    pub is_new_unbroken: bool,
    /// The line of the patch where it starts.
    pub line: usize,
}

/// From the hunk header of a unified diff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// Lines of the file before the hunk.
    pub before: usize,
    /// Number of lines in the old and new file.
    pub old: usize,
    pub new: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Keep,
    Remove,
    Add,
}

impl Hunk {
    /// The current lines of the file.
    pub fn old(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().filter(|(sign, _)| *sign != Sign::Add);
        lines.map(|(_, line)| line.as_str())
    }

    pub fn added(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().filter(|(sign, _)| *sign == Sign::Add);
        lines.map(|(_, line)| line.as_str())
    }

    /// Adds one line; returns whether it can be part of a hunk.
    pub fn push(&mut self, line: &str) -> bool {
        let sign = match line.as_bytes().first() {
            // Editors and models drop the leading space of an empty line.
            None | Some(b' ' | b'\r') => Sign::Keep,
            Some(b'-') => Sign::Remove,
            Some(b'+') => Sign::Add,
            Some(b'\\') => {
                let last = self.lines.last().map(|(sign, _)| *sign);
                self.is_old_unbroken |= last != Some(Sign::Add);
                self.is_new_unbroken |= last != Some(Sign::Remove);
                return true;
            }
            Some(_) => return false,
        };
        self.lines
            .push((sign, line.get(1..).unwrap_or_default().to_owned()));
        true
    }

    /// Removes `count` empty lines from the end, which separate the hunk from what follows.
    pub fn drop_blank(&mut self, count: usize) {
        self.lines.truncate(self.lines.len().saturating_sub(count));
    }
}

/// Parses `-12,3 +12,4 @@ heading`, the text after the first `@@`.
pub fn hint(text: &str) -> Option<Hint> {
    let (old, rest) = text.trim_start().strip_prefix('-')?.split_once(" +")?;
    let new = rest.split_whitespace().next()?;
    let range = |text: &str| -> Option<(usize, usize)> {
        match text.split_once(',') {
            Some((start, count)) => Some((start.parse().ok()?, count.trim().parse().ok()?)),
            None => Some((text.trim().parse().ok()?, 1)),
        }
    };
    let ((start, old), (_, new)) = (range(old)?, range(new)?);
    // A hunk without old lines comes after the line it names.
    let before = if old == 0 {
        start
    } else {
        start.saturating_sub(1)
    };
    Some(Hint { before, old, new })
}
