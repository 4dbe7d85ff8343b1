//! Information that a tool supplies about a call: before the call runs, in the approval prompt, and about its result.
//!
//! A tool can make the host more careful and explain its calls. It cannot make the host less careful.

use crate::{CallError, Display};

/// A function of the optional interfaces `preview` and `hooks` that a tool implements for its own calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolHook {
    Validate,
    DescribeCall,
    Locations,
    Confirm,
    RenderPermission,
    RenderResult,
    PreToolUse,
    PostToolUse,
}

impl ToolHook {
    pub const ALL: [Self; 8] = [
        Self::Validate,
        Self::DescribeCall,
        Self::Locations,
        Self::Confirm,
        Self::RenderPermission,
        Self::RenderResult,
        Self::PreToolUse,
        Self::PostToolUse,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Validate => "validate",
            Self::DescribeCall => "describe-call",
            Self::Locations => "locations",
            Self::Confirm => "confirm",
            Self::RenderPermission => "render-permission",
            Self::RenderResult => "render-result",
            Self::PreToolUse => "pre-tool-use",
            Self::PostToolUse => "post-tool-use",
        }
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.as_str() == name)
    }

    /// The interface that exports it.
    pub fn interface(self) -> &'static str {
        match self {
            Self::PreToolUse | Self::PostToolUse => "hooks",
            _ => "preview",
        }
    }
}

/// The functions that a tool implements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolHooks(u8);

impl ToolHooks {
    pub fn contains(self, hook: ToolHook) -> bool {
        self.0 & (1 << hook as u8) != 0
    }

    /// Whether [`crate::Backend::preview`] returns information about a call.
    pub fn has_preview(self) -> bool {
        [
            ToolHook::Validate,
            ToolHook::DescribeCall,
            ToolHook::Locations,
            ToolHook::Confirm,
        ]
        .into_iter()
        .any(|hook| self.contains(hook))
    }

    pub fn iter(self) -> impl Iterator<Item = ToolHook> {
        let hooks = ToolHook::ALL.into_iter();
        hooks.filter(move |hook| self.contains(*hook))
    }
}

impl FromIterator<ToolHook> for ToolHooks {
    fn from_iter<I: IntoIterator<Item = ToolHook>>(hooks: I) -> Self {
        Self(
            hooks
                .into_iter()
                .fold(0, |bits, hook| bits | (1 << hook as u8)),
        )
    }
}

/// Information that a tool supplies about a call before it runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Preview {
    /// The call in one line.
    pub description: Option<String>,
    /// Paths that the call will use, in addition to those in its input.
    pub locations: Vec<Location>,
    /// The tool should name the paths but did not, or named too many. Then no rule for paths allows the call.
    pub has_unknown_locations: bool,
    /// Why the tool requires the user's approval, whatever the rules allow.
    pub confirm: Option<String>,
    /// For the log.
    pub warnings: Vec<String>,
}

/// A path that a call will use, as the guest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    pub path: String,
    pub write: bool,
    /// The line that the call concerns, from 1.
    pub line: Option<u32>,
}

/// How a tool renders a prompt or a result for users, or why it could not.
pub type Rendering = Result<Vec<Display>, CallError>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_has_its_own_bit() {
        for hook in ToolHook::ALL {
            let hooks: ToolHooks = [hook].into_iter().collect();
            assert_eq!(hooks.iter().collect::<Vec<_>>(), [hook]);
            assert_eq!(ToolHook::parse(hook.as_str()), Some(hook));
        }
        assert_eq!(ToolHook::parse("render"), None);
        let all: ToolHooks = ToolHook::ALL.into_iter().collect();
        assert_eq!(all.iter().count(), 8);
        let rendering: ToolHooks = [ToolHook::RenderResult].into_iter().collect();
        assert!(all.has_preview() && !rendering.has_preview());
    }
}
