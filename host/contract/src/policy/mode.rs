//! Session modes: the decision for each class of access when no rule matched, and the order of the modes.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text;

/// A decision of a rule, a mode or the user. Ordered by strictness, so that `max` returns the stricter one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    Allow,
    Ask,
    Deny,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Decision::Allow => "allow",
            Decision::Ask => "ask",
            Decision::Deny => "deny",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Decision {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "allow" => Ok(Decision::Allow),
            "ask" | "ask_user" => Ok(Decision::Ask),
            "deny" => Ok(Decision::Deny),
            _ => Err(format!(
                "`{}` is not a decision; write allow, ask or deny",
                text::escape_line(name, 40)
            )),
        }
    }
}

/// The mode of a session, from strict to permissive. `Ask` and `Custom` are not ordered: `Ask` is stricter than
/// `Default` and permits more than `DontAsk`, but asks about what `ReadOnly` denies and about what it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    DontAsk,
    Plan,
    ReadOnly,
    /// Asks about every call, also about those that read.
    Ask,
    #[default]
    Default,
    AcceptEdits,
    Auto,
    Yolo,
    /// Hooks decide; a call that no hook denies or asks about is decided as in `Auto`.
    Custom,
}

/// The class of an access; a column of the mode table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessClass {
    Read,
    Write,
    /// A write to a path that can execute code later or grant access: version control hooks, startup files, keys.
    Protected,
    Exec,
    Network,
    Interactive,
    Other,
}

impl AccessClass {
    pub const ALL: [AccessClass; 7] = [
        AccessClass::Read,
        AccessClass::Write,
        AccessClass::Protected,
        AccessClass::Exec,
        AccessClass::Network,
        AccessClass::Interactive,
        AccessClass::Other,
    ];

    /// Reason shown in a prompt or denial.
    pub fn reason(self) -> &'static str {
        match self {
            AccessClass::Read => "it reads",
            AccessClass::Write => "it changes files",
            AccessClass::Protected => "it changes a protected path",
            AccessClass::Exec => "it runs a command",
            AccessClass::Network => "it accesses the network",
            AccessClass::Interactive => "it interacts with the user",
            AccessClass::Other => "it may have side effects",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            AccessClass::Read => "read",
            AccessClass::Write => "write",
            AccessClass::Protected => "protected path",
            AccessClass::Exec => "exec",
            AccessClass::Network => "network",
            AccessClass::Interactive => "interactive",
            AccessClass::Other => "other side effects",
        }
    }
}

impl Mode {
    pub const ALL: [Mode; 9] = [
        Mode::DontAsk,
        Mode::Plan,
        Mode::ReadOnly,
        Mode::Ask,
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Auto,
        Mode::Yolo,
        Mode::Custom,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Mode::DontAsk => "dont_ask",
            Mode::Plan => "plan",
            Mode::ReadOnly => "readonly",
            Mode::Ask => "ask",
            Mode::Default => "default",
            Mode::AcceptEdits => "accept_edits",
            Mode::Auto => "auto",
            Mode::Yolo => "yolo",
            Mode::Custom => "custom",
        }
    }

    /// The mode table. The exceptions of mode plan depend on the call and are applied by the evaluation.
    pub fn decision(self, column: AccessClass) -> Decision {
        use Decision::{Allow, Ask, Deny};
        let row = match self {
            //                   read   write  protect exec   net    inter  other
            Mode::DontAsk => [Deny, Deny, Deny, Deny, Deny, Deny, Deny],
            Mode::Plan | Mode::ReadOnly => [Allow, Deny, Deny, Deny, Ask, Allow, Deny],
            Mode::Ask => [Ask; 7],
            Mode::Default => [Allow, Ask, Ask, Ask, Ask, Allow, Ask],
            Mode::AcceptEdits => [Allow, Allow, Ask, Ask, Ask, Allow, Ask],
            Mode::Auto | Mode::Custom => [Allow, Allow, Ask, Allow, Allow, Allow, Allow],
            Mode::Yolo => [Allow; 7],
        };
        row[column as usize]
    }

    /// Whether an approval given in mode `other` is valid in this mode.
    pub fn is_at_least(self, other: Mode) -> bool {
        self.partial_cmp(&other).is_some_and(Ordering::is_ge)
    }

    fn rank(self) -> Option<u8> {
        match self {
            Mode::DontAsk => Some(0),
            Mode::ReadOnly => Some(1),
            // Unlike `readonly`, it allows writes below `plan_dir` and asks about read-only commands.
            Mode::Plan => Some(2),
            Mode::Default => Some(3),
            Mode::AcceptEdits => Some(4),
            Mode::Auto => Some(5),
            Mode::Yolo => Some(6),
            Mode::Ask | Mode::Custom => None,
        }
    }
}

impl PartialOrd for Mode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let default = Mode::Default.rank();
        match (self, other, self.rank(), other.rank()) {
            (_, _, Some(a), Some(b)) => Some(a.cmp(&b)),
            _ if self == other => Some(Ordering::Equal),
            (Mode::Ask, _, _, rank) if rank >= default => Some(Ordering::Less),
            (_, Mode::Ask, rank, _) if rank >= default => Some(Ordering::Greater),
            (Mode::Ask, Mode::DontAsk, ..) => Some(Ordering::Greater),
            (Mode::DontAsk, Mode::Ask, ..) => Some(Ordering::Less),
            _ => None,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{name}` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom"
)]
pub struct UnknownMode {
    /// Escaped and truncated.
    name: String,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    /// Accepts the mode names of all supported systems. An unknown name is an error, so that a typing mistake cannot
    /// select a more permissive mode.
    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let plain: String = name
            .chars()
            .filter(|c| !matches!(c, '-' | '_'))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Ok(match plain.as_str() {
            "dontask" | "deny" => Mode::DontAsk,
            "plan" => Mode::Plan,
            "readonly" => Mode::ReadOnly,
            "ask" | "approval" => Mode::Ask,
            "default" => Mode::Default,
            "acceptedits" | "autoedit" | "skipfileedit" => Mode::AcceptEdits,
            "auto" => Mode::Auto,
            "yolo" | "bypasspermissions" => Mode::Yolo,
            "custom" => Mode::Custom,
            _ => {
                return Err(UnknownMode {
                    name: text::escape_line(name, 40),
                });
            }
        })
    }
}
