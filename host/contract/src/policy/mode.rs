//! How much a session allows where no rule has spoken: one table, and the order of its rows.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use crate::text;

/// What one rule, one mode or one person says. The order is the order of strictness, so that `max` is the stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
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

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "allow" => Ok(Decision::Allow),
            "ask" | "ask_user" => Ok(Decision::Ask),
            "deny" => Ok(Decision::Deny),
            _ => Err(format!(
                "`{}` is not a decision; write allow, ask or deny",
                text::inline(word, 40)
            )),
        }
    }
}

/// The mode of a session, from strict to free. `Custom` stands beside the others: a callback or a hook decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    DontAsk,
    Plan,
    ReadOnly,
    #[default]
    Default,
    AcceptEdits,
    Auto,
    Yolo,
    Custom,
}

/// What a part of a call does, as the table of modes tells things apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Column {
    Read,
    Write,
    /// A write to a path that decides what runs later: hooks of a version control system, start-up files, keys.
    Protected,
    Exec,
    Network,
    Interactive,
    Other,
}

impl Column {
    pub const ALL: [Column; 7] = [
        Column::Read,
        Column::Write,
        Column::Protected,
        Column::Exec,
        Column::Network,
        Column::Interactive,
        Column::Other,
    ];

    /// Why a person is asked, or refused, in the words of a prompt.
    pub fn words(self) -> &'static str {
        match self {
            Column::Read => "it reads",
            Column::Write => "it changes files",
            Column::Protected => "it changes a protected path",
            Column::Exec => "it runs a command",
            Column::Network => "it accesses the network",
            Column::Interactive => "it interacts with the user",
            Column::Other => "it may have side effects",
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Column::Read => "read",
            Column::Write => "write",
            Column::Protected => "protected path",
            Column::Exec => "exec",
            Column::Network => "network",
            Column::Interactive => "interactive",
            Column::Other => "other side effects",
        }
    }
}

impl Mode {
    pub const ALL: [Mode; 8] = [
        Mode::DontAsk,
        Mode::Plan,
        Mode::ReadOnly,
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
            Mode::Default => "default",
            Mode::AcceptEdits => "accept_edits",
            Mode::Auto => "auto",
            Mode::Yolo => "yolo",
            Mode::Custom => "custom",
        }
    }

    /// The table. Plan mode's exceptions depend on more than the column and are made where the call is known.
    pub fn says(self, column: Column) -> Decision {
        use Decision::{Allow, Ask, Deny};
        let row = match self {
            //                   read   write  protect exec   net    inter  other
            Mode::DontAsk => [Deny, Deny, Deny, Deny, Deny, Deny, Deny],
            Mode::Plan | Mode::ReadOnly => [Allow, Deny, Deny, Deny, Ask, Allow, Deny],
            Mode::Default => [Allow, Ask, Ask, Ask, Ask, Allow, Ask],
            Mode::AcceptEdits => [Allow, Allow, Ask, Ask, Ask, Allow, Ask],
            Mode::Auto => [Allow, Allow, Ask, Allow, Allow, Allow, Allow],
            Mode::Yolo => [Allow; 7],
            // The question goes to the callback; a hook that has an opinion has spoken before.
            Mode::Custom => [Ask; 7],
        };
        row[column as usize]
    }

    /// Does something that was allowed in mode `other` hold in this one?
    pub fn is_at_least(self, other: Mode) -> bool {
        self.partial_cmp(&other).is_some_and(Ordering::is_ge)
    }

    fn rank(self) -> Option<u8> {
        match self {
            Mode::DontAsk => Some(0),
            Mode::ReadOnly => Some(1),
            // Notes below `plan_dir` and questions about commands that only read are more than `readonly` has.
            Mode::Plan => Some(2),
            Mode::Default => Some(3),
            Mode::AcceptEdits => Some(4),
            Mode::Auto => Some(5),
            Mode::Yolo => Some(6),
            Mode::Custom => None,
        }
    }
}

impl PartialOrd for Mode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match (self.rank(), other.rank()) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            (None, None) => Some(Ordering::Equal),
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
    "`{word}` is not a mode; write one of dont_ask, plan, readonly, default, accept_edits, auto, yolo, custom"
)]
pub struct UnknownMode {
    /// Escaped and cut.
    word: String,
}

impl FromStr for Mode {
    type Err = UnknownMode;

    /// Takes the words of every system that is imported. A word nobody knows is an error and never a guess: a typing
    /// mistake must not end in a mode that allows more.
    fn from_str(word: &str) -> Result<Self, UnknownMode> {
        let plain: String = word
            .chars()
            .filter(|c| !matches!(c, '-' | '_'))
            .map(|c| c.to_ascii_lowercase())
            .collect();
        Ok(match plain.as_str() {
            "dontask" | "deny" => Mode::DontAsk,
            "plan" => Mode::Plan,
            "readonly" => Mode::ReadOnly,
            "default" | "ask" | "approval" => Mode::Default,
            "acceptedits" | "autoedit" | "skipfileedit" => Mode::AcceptEdits,
            "auto" => Mode::Auto,
            "yolo" | "bypasspermissions" => Mode::Yolo,
            "custom" => Mode::Custom,
            _ => {
                return Err(UnknownMode {
                    word: text::inline(word, 40),
                });
            }
        })
    }
}
