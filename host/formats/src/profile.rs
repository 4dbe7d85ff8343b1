//! Profiles: built-in tools under the names, parameters and result formats of other agents.
//!
//! A model that was trained on the tools of one agent makes fewer mistakes with those tools. A profile translates at
//! the outermost layer: the tool list and results on their way to the model, and calls on their way back. Rules, hooks,
//! records and undo use canonical names only, so a profile cannot change what is allowed.

mod calls;
mod claude;
mod clauses;
mod descriptors;
mod envelope;
mod gemini;
mod kode;
mod mapping;
mod name_replacement;
mod notes;
mod params;
mod pegasus;
mod problems;
mod profiled_registry;
mod render;
mod sema;
mod task_failures;

use std::fmt;
use std::str::FromStr;

use toolhost_contract::nearest;
use toolhost_contract::text;

pub use profiled_registry::{ProfiledRegistry, ProfiledTool, UnmappedTools};
pub use render::RenderedResult;
pub use task_failures::{TaskFailures, ToolFailure};

/// The agent whose tool names and formats the model uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Profile {
    /// The canonical names and formats of Toolhost.
    #[default]
    Native,
    Claude,
    Sema,
    Gemini,
    Kode,
    Pegasus,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a profile; {hint}")]
pub struct ProfileError {
    /// Escaped and truncated.
    name: String,
    hint: String,
}

impl Profile {
    pub const ALL: [Profile; 6] = [
        Profile::Native,
        Profile::Claude,
        Profile::Sema,
        Profile::Gemini,
        Profile::Kode,
        Profile::Pegasus,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Profile::Native => "native",
            Profile::Claude => "claude",
            Profile::Sema => "sema",
            Profile::Gemini => "gemini",
            Profile::Kode => "kode",
            Profile::Pegasus => "pegasus",
        }
    }

    /// Returns the tools of the agent. Several of them can map to the same canonical tool.
    fn mappings(self) -> &'static [mapping::ToolMapping] {
        match self {
            Profile::Native => &[],
            Profile::Claude => claude::MAPPINGS,
            Profile::Sema => sema::MAPPINGS,
            Profile::Gemini => gemini::MAPPINGS,
            Profile::Kode => kode::MAPPINGS,
            Profile::Pegasus => pegasus::MAPPINGS,
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = ProfileError;

    fn from_str(name: &str) -> Result<Self, ProfileError> {
        let names = Profile::ALL.map(Profile::as_str);
        if let Some(found) = Profile::ALL.into_iter().find(|one| one.as_str() == name) {
            return Ok(found);
        }
        let all = names.join(", ");
        let hint = match nearest(text::head(name, 40), names, 1).first() {
            Some(near) => format!("did you mean `{near}`? the profiles are {all}"),
            None => format!("use one of {all}"),
        };
        Err(ProfileError {
            name: text::escape_line(name, 40),
            hint,
        })
    }
}

#[cfg(test)]
mod tests;
