//! A patch as it was read, whichever way it was written.

/// What happens to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    pub path: String,
    pub action: Action,
    /// Permission bits that the patch asks for, where it does.
    pub mode: Option<FileMode>,
    /// The line of the patch where it begins.
    pub line: usize,
}

/// The two modes of a regular file that git knows.
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
    /// With hunks, only if the file is what they say.
    Delete {
        hunks: Vec<Hunk>,
    },
    Update {
        to: Option<String>,
        hunks: Vec<Hunk>,
    },
}

/// A piece of a file and what becomes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines to find first, one behind the other.
    pub contexts: Vec<String>,
    /// Where it should be, if the patch says so.
    pub hint: Option<Hint>,
    pub lines: Vec<(Sign, String)>,
    /// It ends where the file does.
    pub at_end: bool,
    /// The last line of the file had no line break.
    pub is_old_unbroken: bool,
    /// The last line of the file will have no line break.
    pub is_new_unbroken: bool,
    /// The line of the patch where it begins.
    pub line: usize,
}

/// From the head of a hunk of a unified difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hint {
    /// Lines of the file in front of the hunk.
    pub before: usize,
    /// Lines of the hunk in the old file and in the new one.
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
    /// The lines that the file has now.
    pub fn old(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().filter(|(sign, _)| *sign != Sign::Add);
        lines.map(|(_, line)| line.as_str())
    }

    pub fn added(&self) -> impl Iterator<Item = &str> {
        let lines = self.lines.iter().filter(|(sign, _)| *sign == Sign::Add);
        lines.map(|(_, line)| line.as_str())
    }

    /// Reads one line; says whether it can be one of a hunk.
    pub fn push(&mut self, line: &str) -> bool {
        let sign = match line.as_bytes().first() {
            // Editors and models drop the space of an empty line.
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

    /// Takes away so many empty lines from the end: they part it from what follows.
    pub fn drop_blank(&mut self, count: usize) {
        self.lines.truncate(self.lines.len().saturating_sub(count));
    }
}

/// `-12,3 +12,4 @@ heading`, what follows the first `@@`.
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
    // A hunk without old lines stands behind the line it names.
    let before = if old == 0 {
        start
    } else {
        start.saturating_sub(1)
    };
    Some(Hint { before, old, new })
}
