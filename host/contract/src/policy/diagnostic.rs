//! Errors and warnings about rules, with source positions.

use std::fmt;

/// Source position of a rule. Line and column start at 1; 0 means that only the file is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RuleSource {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl RuleSource {
    pub fn file(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: 0,
            column: 0,
        }
    }

    /// The position of a byte offset in a text.
    pub fn at_offset(file: &str, text: &str, offset: usize) -> Self {
        let before = &text[..text.floor_char_boundary(offset)];
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        Self {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for RuleSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.file.is_empty() {
            "policy"
        } else {
            &self.file
        };
        match self.line {
            0 => f.write_str(file),
            line => write!(f, "{file}:{line}:{}", self.column),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Warning,
    /// The policy is rejected.
    Error,
}

/// An error or warning, displayed as `file:line:column: severity: message`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    pub severity: Severity,
    pub position: RuleSource,
    pub message: String,
}

impl Diagnostic {
    pub fn error(source: &RuleSource, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            position: source.clone(),
            message: message.into(),
        }
    }

    pub fn warning(source: &RuleSource, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            position: source.clone(),
            message: message.into(),
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{}: {label}: {}", self.position, self.message)
    }
}
