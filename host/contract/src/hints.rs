//! MCP tool annotations, derived from descriptors and grants.

use crate::{Descriptor, Effect};

/// An upper bound of the effects of a tool's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EffectBounds {
    /// Whether the backend restricts the call to the tool's effect and to its grants. If not, only the tool's own
    /// annotations describe its effects, and the other fields are meaningless.
    pub sandboxed: bool,
    /// Whether it can change files of the host.
    pub can_change_files: bool,
    /// Whether it can access other machines, directly or through other processes.
    pub can_reach_network: bool,
}

impl EffectBounds {
    /// The bound of a call without a sandbox.
    pub const UNBOUNDED: EffectBounds = EffectBounds {
        sandboxed: false,
        can_change_files: true,
        can_reach_network: true,
    };
}

/// The four hints of MCP's `ToolAnnotations`, and whether the sandbox enforces them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolHints {
    pub sandboxed: bool,
    pub read_only: bool,
    /// Whether it can do more than add data. Overwriting counts as destructive, although the user can undo it.
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

impl ToolHints {
    pub fn new(tool: &Descriptor, reach: EffectBounds) -> Self {
        let annotations = &tool.annotations;
        let effect = tool.effect();
        let read_only = effect <= Effect::Reads;
        if !reach.sandboxed {
            return Self {
                sandboxed: false,
                read_only,
                destructive: !read_only && annotations.destructive != Some(false),
                idempotent: annotations.idempotent == Some(true),
                open_world: annotations.open_world != Some(false),
            };
        }
        Self {
            sandboxed: true,
            read_only,
            destructive: match effect {
                Effect::Pure | Effect::Reads => false,
                Effect::Writes => reach.can_change_files || reach.can_reach_network,
                Effect::Destroys => true,
            },
            idempotent: read_only || annotations.idempotent == Some(true),
            open_world: reach.can_reach_network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Annotations, ToolName};

    fn hints(annotations: Annotations, reach: EffectBounds) -> String {
        let mut tool = Descriptor::new(ToolName::parse("t").unwrap(), "t");
        tool.annotations = annotations;
        let hints = ToolHints::new(&tool, reach);
        [
            (hints.read_only, "read-only"),
            (hints.destructive, "destructive"),
            (hints.idempotent, "idempotent"),
            (hints.open_world, "open-world"),
        ]
        .into_iter()
        .filter_map(|(is_set, name)| is_set.then_some(name))
        .collect::<Vec<_>>()
        .join(" ")
    }

    #[test]
    fn hints_of_a_sandboxed_tool_follow_its_bounds() {
        let none = Annotations::default();
        let pure = Annotations {
            pure: Some(true),
            ..none
        };
        let reads = Annotations {
            read_only: Some(true),
            open_world: Some(true),
            ..none
        };
        let writes = Annotations {
            destructive: Some(false),
            ..none
        };
        let again = Annotations {
            idempotent: Some(true),
            open_world: Some(false),
            ..none
        };
        // Of contradictory annotations, the riskier one applies.
        let both = Annotations {
            read_only: Some(true),
            destructive: Some(true),
            ..none
        };
        let nothing = EffectBounds {
            sandboxed: true,
            can_change_files: false,
            can_reach_network: false,
        };
        let files = EffectBounds {
            can_change_files: true,
            ..nothing
        };
        let world = EffectBounds {
            can_reach_network: true,
            ..nothing
        };
        for (annotations, reach, expected) in [
            (none, nothing, "destructive"),
            (pure, nothing, "read-only idempotent"),
            (reads, files, "read-only idempotent"),
            (reads, world, "read-only idempotent open-world"),
            (writes, nothing, ""),
            (writes, files, "destructive"),
            (writes, world, "destructive open-world"),
            (again, nothing, "destructive idempotent"),
            (again, world, "destructive idempotent open-world"),
            (both, files, "destructive"),
        ] {
            assert_eq!(
                hints(annotations, reach),
                expected,
                "{annotations:?} {reach:?}"
            );
        }
    }

    #[test]
    fn hints_of_other_tools_are_declared_or_the_worst_case() {
        let none = Annotations::default();
        for (annotations, expected) in [
            (none, "destructive open-world"),
            (
                Annotations {
                    read_only: Some(true),
                    ..none
                },
                "read-only open-world",
            ),
            (
                Annotations {
                    destructive: Some(false),
                    open_world: Some(false),
                    idempotent: Some(true),
                    ..none
                },
                "idempotent",
            ),
        ] {
            assert_eq!(
                hints(annotations, EffectBounds::UNBOUNDED),
                expected,
                "{annotations:?}"
            );
        }
    }
}
