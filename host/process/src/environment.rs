//! The environment variables of a program: a list of harmless names, never the host's whole environment.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

use regex::RegexSet;

use crate::ProcessError;

const MAX_VALUE: usize = 32 << 10;
const MAX_TOTAL: usize = 256 << 10;

/// Variables that are copied from the host if their value has the expected form, so that they cannot carry other data.
/// `PATH` and `TMPDIR` are set by the host instead.
const INHERITED_VARIABLES: &[(&str, ValueForm)] = &[
    ("HOME", ValueForm::Path),
    ("USER", ValueForm::Word),
    ("LOGNAME", ValueForm::Word),
    ("SHELL", ValueForm::Shell),
    ("LANG", ValueForm::Word),
    ("LANGUAGE", ValueForm::Words),
    ("LC_ADDRESS", ValueForm::Word),
    ("LC_ALL", ValueForm::Word),
    ("LC_COLLATE", ValueForm::Word),
    ("LC_CTYPE", ValueForm::Word),
    ("LC_IDENTIFICATION", ValueForm::Word),
    ("LC_MEASUREMENT", ValueForm::Word),
    ("LC_MESSAGES", ValueForm::Word),
    ("LC_MONETARY", ValueForm::Word),
    ("LC_NAME", ValueForm::Word),
    ("LC_NUMERIC", ValueForm::Word),
    ("LC_PAPER", ValueForm::Word),
    ("LC_TELEPHONE", ValueForm::Word),
    ("LC_TIME", ValueForm::Word),
    ("TERM", ValueForm::Word),
    ("COLORTERM", ValueForm::Word),
    ("TZ", ValueForm::Zone),
];

/// The expected form of a value.
#[derive(Debug, Clone, Copy)]
enum ValueForm {
    /// A locale, a terminal, a user.
    Word,
    /// Several words, separated by colons.
    Words,
    /// An absolute path.
    Path,
    /// A program in a system directory. Programs start what `SHELL` names, and a tool could have written a file
    /// elsewhere.
    Shell,
    /// A time zone name, or a rule such as `<+03>-3` or `CET-1CEST,M3.5.0,M10.5.0/3`.
    Zone,
}

impl ValueForm {
    fn accepts(self, value: &str) -> bool {
        const WORD: usize = 64;
        const SYSTEM: [&str; 5] = ["/bin", "/usr", "/opt", "/nix/store", "/run/current-system"];
        let of = |others: &str| {
            let known =
                |byte: u8| byte.is_ascii_alphanumeric() || others.as_bytes().contains(&byte);
            value.len() <= WORD && value.bytes().all(known)
        };
        let path = Path::new(value);
        let is_plain = path.is_absolute()
            && value.len() <= 255
            && !value.chars().any(char::is_control)
            && !path.components().any(|part| part == Component::ParentDir);
        match self {
            ValueForm::Word => of("_.@-+"),
            ValueForm::Words => of("_.@-+:"),
            ValueForm::Path => is_plain,
            ValueForm::Shell => is_plain && SYSTEM.iter().any(|dir| path.starts_with(dir)),
            ValueForm::Zone => of("_+-/:,.<>") && !value.contains(".."),
        }
    }
}

/// Variables that make a program run code it was not asked to run, which would bypass the list of allowed programs.
const CODE_LOADING_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_AUDIT",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "IFS",
];

/// Patterns of secrets, whatever the variable's name.
static SECRET_VALUES: LazyLock<RegexSet> = LazyLock::new(|| {
    RegexSet::new([
        r"-----BEGIN [A-Z0-9 ]+-----",
        r"(?i)\b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@",
        r"\bgh[pousr]_[A-Za-z0-9]{20,}",
        r"\bgithub_pat_[A-Za-z0-9_]{20,}",
        r"\bglpat-[A-Za-z0-9_-]{16,}",
        r"\bAIza[A-Za-z0-9_-]{30,}",
        r"\bya29\.[A-Za-z0-9_-]{16,}",
        r"\b(AKIA|ASIA)[A-Z0-9]{16}\b",
        r"\b[rs]k_(live|test)_[A-Za-z0-9]{10,}",
        r"\bsk-[A-Za-z0-9_-]{20,}",
        r"\bnpm_[A-Za-z0-9]{30,}",
        r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
        r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    ])
    .expect("the patterns are constant")
});

/// The source of a child's variables.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    /// The host's own variables.
    pub host: Vec<(String, String)>,
    /// Names that the operator adds to the list, including those of secrets.
    pub names: Vec<String>,
}

/// A variable that was requested but not passed to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedVariable {
    pub name: String,
    pub reason: DropReason,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    SecretValue,
    TooLong,
    /// The value does not have the form that this variable usually has.
    Malformed,
}

/// The parts of a child's environment that depend on the individual start.
pub struct EnvironmentContext<'a> {
    pub path: &'a [PathBuf],
    pub temporary: &'a Path,
    pub tty: bool,
    /// Whether the program cannot read the settings in the home directory.
    pub hidden_home: bool,
}

pub type Variables = Vec<(String, String)>;

impl Environment {
    /// The host's current variables.
    pub fn from_process(names: Vec<String>) -> Environment {
        let host = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect();
        Environment { host, names }
    }

    /// Composes a child's variables: the host's harmless variables, the defaults, and `overlay` on top.
    pub(crate) fn compose(
        &self,
        overlay: &[(String, String)],
        around: &EnvironmentContext,
    ) -> Result<(Variables, Vec<DroppedVariable>), ProcessError> {
        let mut dropped = Vec::new();
        let mut variables: BTreeMap<&str, String> = BTreeMap::new();
        for (name, value) in &self.host {
            match self.evaluate(name, value) {
                VariableDecision::Pass => drop(variables.insert(name, value.clone())),
                VariableDecision::Drop(reason) => dropped.push(DroppedVariable {
                    name: name.clone(),
                    reason,
                }),
                VariableDecision::NotListed => {}
            }
        }
        for (name, value) in default_variables(around.tty) {
            variables.insert(name, value.to_owned());
        }
        if around.hidden_home {
            // Git fails if its settings exist but cannot be opened.
            variables.insert("GIT_CONFIG_GLOBAL", "/dev/null".to_owned());
        }
        if !variables.contains_key("GIT_CONFIG_COUNT") {
            for (name, value) in NO_BARE_REPOSITORY {
                variables.insert(name, (*value).to_owned());
            }
        }
        let path: Vec<_> = around
            .path
            .iter()
            .map(|dir| dir.to_string_lossy())
            .collect();
        variables.insert("PATH", path.join(":"));
        variables.insert("TMPDIR", around.temporary.to_string_lossy().into_owned());
        for (name, value) in overlay {
            validate(name, value)?;
            if loads_code(name) {
                return Err(ProcessError::LoadsCode { name: name.clone() });
            }
            variables.insert(name, value.clone());
        }
        let size = variables
            .iter()
            .map(|(name, value)| name.len() + value.len() + 2)
            .sum();
        if size > MAX_TOTAL {
            return Err(ProcessError::TooLarge {
                subject: "the environment",
                size,
                most: MAX_TOTAL,
            });
        }
        let variables = variables.into_iter();
        Ok((
            variables
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            dropped,
        ))
    }

    fn evaluate(&self, name: &str, value: &str) -> VariableDecision {
        if self.names.iter().any(|wanted| wanted == name) {
            return if value.len() > MAX_VALUE {
                VariableDecision::Drop(DropReason::TooLong)
            } else {
                VariableDecision::Pass
            };
        }
        let listed = INHERITED_VARIABLES
            .iter()
            .find(|(listed, _)| *listed == name);
        let Some((_, form)) = listed else {
            return VariableDecision::NotListed;
        };
        if value.len() > MAX_VALUE {
            VariableDecision::Drop(DropReason::TooLong)
        } else if SECRET_VALUES.is_match(value) {
            VariableDecision::Drop(DropReason::SecretValue)
        } else if !form.accepts(value) {
            VariableDecision::Drop(DropReason::Malformed)
        } else {
            VariableDecision::Pass
        }
    }
}

enum VariableDecision {
    Pass,
    Drop(DropReason),
    NotListed,
}

/// Git reads its configuration from a working directory that looks like a bare repository, and that configuration can
/// run programs (git-config(1), `safe.bareRepository`).
const NO_BARE_REPOSITORY: &[(&str, &str)] = &[
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "safe.bareRepository"),
    ("GIT_CONFIG_VALUE_0", "explicit"),
];

/// Non-interactive defaults: no pager, no colors, no prompts.
fn default_variables(tty: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = if tty {
        &[("TERM", "xterm")][..]
    } else {
        &[("TERM", "dumb"), ("NO_COLOR", "1")]
    };
    let all = [
        ("PAGER", "cat"),
        ("GIT_PAGER", "cat"),
        ("MANPAGER", "cat"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("DEBIAN_FRONTEND", "noninteractive"),
    ];
    all.into_iter().chain(plain.iter().copied())
}

/// Whether this variable makes a program run code that it was not asked to run.
pub fn loads_code(name: &str) -> bool {
    CODE_LOADING_VARIABLES.contains(&name) || name.starts_with("BASH_FUNC_")
}

fn validate(name: &str, value: &str) -> Result<(), ProcessError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(ProcessError::Malformed {
            subject: "the name of a variable",
            value: name.to_owned(),
        });
    }
    if value.contains('\0') {
        return Err(ProcessError::Malformed {
            subject: "the value of a variable",
            value: value.to_owned(),
        });
    }
    if name.len() + value.len() > MAX_VALUE {
        return Err(ProcessError::TooLarge {
            subject: "a variable",
            size: name.len() + value.len(),
            most: MAX_VALUE,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
