//! Tool names as rules match them: name patterns, aliases and tool families.

use globset::{GlobBuilder, GlobMatcher};

use super::call_analysis::{AccessKind, AccessRequest, CallAnalysis};
use super::{Decision, PolicyRequest};
use crate::{Descriptor, Effect, McpToolName, PluginName, ToolName, text};

/// A group of tools with the same purpose, independent of their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ToolFamily {
    /// Tools that read files.
    Read,
    /// Tools that write, patch, delete or move files.
    Edit,
    /// Tools that run commands.
    Bash,
    /// Tools that access a network address.
    Fetch,
}

impl ToolFamily {
    pub(super) const ALL: [ToolFamily; 4] = [
        ToolFamily::Read,
        ToolFamily::Edit,
        ToolFamily::Bash,
        ToolFamily::Fetch,
    ];

    fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "read" => ToolFamily::Read,
            "edit" => ToolFamily::Edit,
            "bash" | "shell" | "bash_run" | "run_shell_command" => ToolFamily::Bash,
            "webfetch" | "web_fetch" => ToolFamily::Fetch,
            _ => return None,
        })
    }

    /// Whether a rule interprets this name as a family.
    pub(super) fn is_family_name(name: &str) -> bool {
        Self::of_name(name).is_some()
    }

    /// Whether a tool belongs to the family, judged without a call.
    pub(super) fn contains(self, tool: &Descriptor) -> bool {
        match self {
            ToolFamily::Read => {
                matches!(tool.kind.as_str(), "read" | "search") || tool.effect() == Effect::Reads
            }
            ToolFamily::Edit => {
                tool.effect() > Effect::Reads && tool.kind != "execute" && tool.kind != "fetch"
            }
            ToolFamily::Bash => tool.kind == "execute" || has_parameter(tool, "command"),
            ToolFamily::Fetch => {
                tool.kind == "fetch"
                    || tool.annotations.open_world == Some(true)
                    || has_parameter(tool, "url")
            }
        }
    }

    /// Whether a rule for the family matches this access. Allow rules match narrowly, because a plugin chooses its own
    /// kind: `Read` allows no tool that can do more than read, `Edit` none that can do more than change files, `Bash`
    /// none whose commands the host does not run, `WebFetch` none that changes unnamed files, and no family allows a
    /// tool of a foreign server.
    pub(super) fn covers(
        self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        decision: Decision,
    ) -> bool {
        let allows = decision == Decision::Allow;
        let tool = analysis.request.tool;
        if allows && analysis.is_foreign {
            return false;
        }
        match self {
            ToolFamily::Read => {
                let only_reads = tool.effect() <= Effect::Reads;
                match &part.kind {
                    AccessKind::Path { write, .. } => !write && (only_reads || !allows),
                    AccessKind::Call => {
                        matches!(tool.kind.as_str(), "read" | "search") && (only_reads || !allows)
                    }
                    AccessKind::Command(_)
                    | AccessKind::Unknown(_)
                    | AccessKind::Address { .. }
                    | AccessKind::Variable { .. } => false,
                }
            }
            // Any access of it may concern an unnamed file.
            ToolFamily::Edit if analysis.may_write_any_file && !allows => true,
            ToolFamily::Edit => {
                let edits = matches!(tool.kind.as_str(), "edit" | "delete" | "move");
                match &part.kind {
                    AccessKind::Path { write, .. } if allows => {
                        !analysis.has_other_effects && (*write || edits)
                    }
                    AccessKind::Path { write, .. } => *write,
                    AccessKind::Call => edits,
                    AccessKind::Command(_)
                    | AccessKind::Unknown(_)
                    | AccessKind::Address { .. }
                    | AccessKind::Variable { .. } => false,
                }
            }
            // A command's redirections belong to it. A kind chosen by a plugin does not make the host run its command.
            ToolFamily::Bash => analysis.host_runs_command || analysis.runs_command && !allows,
            ToolFamily::Fetch if analysis.writes_unnamed && allows => false,
            ToolFamily::Fetch => match &part.kind {
                AccessKind::Address { .. } => true,
                AccessKind::Call => tool.kind == "fetch",
                AccessKind::Path { .. }
                | AccessKind::Command(_)
                | AccessKind::Unknown(_)
                | AccessKind::Variable { .. } => false,
            },
        }
    }
}

pub(super) fn has_parameter(tool: &Descriptor, name: &str) -> bool {
    tool.input_schema
        .get("properties")
        .and_then(|properties| properties.get(name))
        .is_some()
}

/// A tool name in a rule. Names are compared in lower case.
#[derive(Debug, Clone)]
pub(super) enum NamePattern {
    /// `*`
    All,
    /// Any name or alias of a tool.
    Name(String),
    /// `plugin/tool`, `plugin/*`
    Plugin {
        plugin: String,
        tool: Option<String>,
    },
    /// `read_*`
    Glob(GlobMatcher),
    /// `mcp__server`; `None`: every foreign server.
    Server(Option<String>),
}

impl NamePattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        let shown = crate::text::escape_line(text, 80);
        let plain = |s: &str| {
            !s.is_empty()
                && s.chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if name.len() > 256 {
            return Err(format!("`{shown}` is longer than 256 bytes"));
        }
        if name == "*" {
            return Ok(Self::All);
        }
        if let Some((plugin, tool)) = name.split_once('/') {
            if !plain(plugin) || tool != "*" && !plain(tool) {
                return Err(format!(
                    "`{shown}` is not a name; write `plugin/tool` or `plugin/*`"
                ));
            }
            return Ok(Self::Plugin {
                plugin: plugin.to_owned(),
                tool: (tool != "*").then(|| tool.to_owned()),
            });
        }
        if let Some(server) = name.strip_prefix("mcp__") {
            let server = server.strip_suffix("__*").unwrap_or(server);
            if server == "*" {
                return Ok(Self::Server(None));
            }
            if plain(server) && !server.contains("__") {
                return Ok(Self::Server(Some(server.to_owned())));
            }
        }
        if name.contains(['*', '?']) {
            if !name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "_-.*?".contains(c))
            {
                return Err(format!(
                    "`{shown}` is neither a tool name nor a name pattern"
                ));
            }
            let glob = GlobBuilder::new(&name).build();
            return glob
                .map(|glob| Self::Glob(glob.compile_matcher()))
                .map_err(|error| {
                    let reason = text::escape_line(&error.kind().to_string(), 200);
                    format!("`{shown}`: {reason}")
                });
        }
        if plain(&name) {
            Ok(Self::Name(name))
        } else {
            Err(format!(
                "`{shown}` is not a tool name; write one such as `read_file`, `plugin/tool` or `Bash(git *)`"
            ))
        }
    }

    pub(super) fn family(&self) -> Option<ToolFamily> {
        match self {
            Self::Name(name) => ToolFamily::of_name(name),
            Self::All | Self::Plugin { .. } | Self::Glob(_) | Self::Server(_) => None,
        }
    }

    /// Whether it names exactly one tool.
    pub(super) fn is_single_tool(&self) -> bool {
        match self {
            Self::Name(name) => ToolFamily::of_name(name).is_none(),
            Self::Plugin { tool, .. } => tool.is_some(),
            Self::All | Self::Glob(_) | Self::Server(_) => false,
        }
    }

    /// Whether the pattern matches this access for a rule with this decision.
    pub(super) fn covers(
        &self,
        part: &AccessRequest,
        analysis: &CallAnalysis,
        decision: Decision,
    ) -> bool {
        let named = match decision {
            Decision::Allow => self.matches_certainly(&analysis.names),
            Decision::Ask | Decision::Deny => self.matches(&analysis.names),
        };
        named
            || self
                .family()
                .is_some_and(|family| family.covers(part, analysis, decision))
    }

    /// Like `covers` for an ask rule, but ignores aliases that the tool only requests.
    pub(super) fn covers_assigned(&self, part: &AccessRequest, analysis: &CallAnalysis) -> bool {
        self.matches_any_of(&analysis.names.assigned, &analysis.names)
            || self
                .family()
                .is_some_and(|family| family.covers(part, analysis, Decision::Ask))
    }

    /// For an allow rule: whether the pattern matches a name that only this tool has. A family name is never such a
    /// name; otherwise the first tool called `edit` would be allowed whatever it does.
    fn matches_certainly(&self, names: &ToolNames) -> bool {
        match self {
            Self::All => true,
            Self::Name(name) => {
                ToolFamily::of_name(name).is_none()
                    && (names.exclusive.contains(name)
                        || names.foreign && names.is_qualified_name(name))
            }
            Self::Plugin { .. } => self.matches(names),
            Self::Glob(glob) => names.exclusive.iter().any(|name| glob.is_match(name)),
            Self::Server(None) => {
                names.foreign
                    && names
                        .exclusive
                        .iter()
                        .any(|name| McpToolName::has_prefix(name))
            }
            Self::Server(Some(server)) => {
                let mut exclusive = names.exclusive.iter();
                names.foreign
                    && (*server == names.plugin
                        || exclusive.any(|name| McpToolName::is_of_server(name, server)))
            }
        }
    }

    /// Whether a deny rule matches every call of the tool.
    pub(super) fn matches_every_call(&self, names: &ToolNames, tool: &Descriptor) -> bool {
        let is_kind = |kinds: &[&str]| kinds.contains(&tool.kind.as_str());
        self.matches(names)
            || self.family().is_some_and(|family| match family {
                ToolFamily::Bash => is_kind(&["execute"]),
                ToolFamily::Fetch => is_kind(&["fetch"]),
                ToolFamily::Edit => {
                    is_kind(&["edit", "delete", "move"]) && tool.effect() > Effect::Reads
                }
                ToolFamily::Read => {
                    is_kind(&["read", "search"])
                        && tool.effect() <= Effect::Reads
                        && tool.annotations.open_world != Some(true)
                }
            })
    }

    /// For ask and deny rules and for lookups: whether the pattern matches any assigned or requested name.
    pub(super) fn matches(&self, names: &ToolNames) -> bool {
        self.matches_any_of(&names.all, names)
    }

    fn matches_any_of(&self, known: &[String], names: &ToolNames) -> bool {
        match self {
            Self::All => true,
            Self::Name(name) => known.contains(name),
            Self::Plugin { plugin, tool } => {
                *plugin == names.plugin && tool.as_ref().is_none_or(|tool| *tool == names.tool)
            }
            Self::Glob(glob) => known.iter().any(|name| glob.is_match(name)),
            Self::Server(None) => names.foreign,
            Self::Server(Some(server)) => {
                names.foreign
                    && known
                        .iter()
                        .any(|name| McpToolName::is_of_server(name, server))
            }
        }
    }
}

/// A tool with all names by which rules can name it.
#[derive(Debug, Clone, Copy)]
pub struct NamedTool<'a> {
    pub plugin: &'a PluginName,
    pub name: &'a ToolName,
    pub tool: &'a Descriptor,
    pub aliases: &'a [String],
}

/// All names of a tool in lower case.
#[derive(Debug, Clone)]
pub(super) struct ToolNames {
    /// Includes requested aliases and short forms, which may belong to another tool.
    pub all: Vec<String>,
    /// Excludes aliases that the tool only requests.
    assigned: Vec<String>,
    /// Names assigned to this tool only.
    exclusive: Vec<String>,
    plugin: String,
    tool: String,
    foreign: bool,
}

impl ToolNames {
    pub(super) fn of(request: &PolicyRequest<'_>) -> Self {
        let PolicyRequest {
            plugin,
            name,
            tool,
            aliases,
            ..
        } = request;
        Self::new(NamedTool {
            plugin,
            name,
            tool,
            aliases,
        })
    }

    pub(super) fn new(named: NamedTool<'_>) -> Self {
        let NamedTool { tool, aliases, .. } = named;
        let (plugin, name) = (named.plugin.as_str(), named.name.as_str());
        let foreign = is_foreign(name, tool);
        let mut granted = vec![name.to_ascii_lowercase()];
        granted.extend(aliases.iter().map(|alias| alias.to_ascii_lowercase()));
        let mut all = granted.clone();
        all.push(tool.name.as_str().to_owned());
        // `plugin/tool` is matched by `NamePattern::Plugin`, not by a glob such as `pl*`.
        granted.retain(|name| !name.contains('/'));
        let has_prefix = [name, tool.name.as_str()]
            .into_iter()
            .any(McpToolName::has_prefix);
        if foreign && !has_prefix {
            let tool = tool.name.as_str();
            all.push(
                McpToolName {
                    server: plugin,
                    tool,
                }
                .to_string(),
            );
        }
        let assigned = with_short_forms(all.clone());
        all.extend(tool.aliases.iter().map(|alias| alias.to_ascii_lowercase()));
        Self {
            all: with_short_forms(all),
            assigned,
            exclusive: granted,
            plugin: plugin.to_owned(),
            tool: tool.name.as_str().to_owned(),
            foreign,
        }
    }

    pub(super) fn plugin(&self) -> &str {
        &self.plugin
    }

    pub(super) fn is_foreign(&self) -> bool {
        self.foreign
    }

    /// Whether the name is `mcp__plugin__tool`, another spelling of `plugin/tool`.
    fn is_qualified_name(&self, name: &str) -> bool {
        let qualified = McpToolName {
            server: &self.plugin,
            tool: &self.tool,
        };
        name == qualified.to_string()
    }
}

/// Adds the forms without `mcp__`, and those with one underscore between server and tool, which some systems use.
fn with_short_forms(mut names: Vec<String>) -> Vec<String> {
    for at in 0..names.len() {
        let Some(McpToolName { server, tool }) = McpToolName::parse(&names[at]) else {
            continue;
        };
        let (long, short) = (format!("{server}__{tool}"), format!("{server}_{tool}"));
        names.push(format!("mcp__{short}"));
        names.extend([long, short]);
    }
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether the tool belongs to an MCP server, which runs outside the sandbox.
pub(super) fn is_foreign(name: &str, tool: &Descriptor) -> bool {
    let names = [name, tool.name.as_str()];
    names.into_iter().any(McpToolName::has_prefix) || tool.category == "mcp"
}
