//! Names of tools of MCP servers: `mcp__SERVER__TOOL`. A server's name contains no `__`.

use std::fmt;

const PREFIX: &str = "mcp__";
const SEPARATOR: &str = "__";

/// Server and tool of a name of the form `mcp__SERVER__TOOL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct McpToolName<'a> {
    pub server: &'a str,
    pub tool: &'a str,
}

impl<'a> McpToolName<'a> {
    pub fn parse(name: &'a str) -> Option<Self> {
        let (server, tool) = name.strip_prefix(PREFIX)?.split_once(SEPARATOR)?;
        Some(Self { server, tool })
    }

    /// Returns whether the name is that of a server, of its tools, or of a tool.
    pub fn has_prefix(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    pub fn without_prefix(name: &str) -> &str {
        name.strip_prefix(PREFIX).unwrap_or(name)
    }

    /// Returns whether the name is `mcp__server` or `mcp__server__tool`.
    pub(crate) fn is_of_server(name: &str, server: &str) -> bool {
        let rest = name.strip_prefix(PREFIX);
        rest.and_then(|rest| rest.strip_prefix(server))
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(SEPARATOR))
    }

    /// Returns the rule forms of these tools of these servers: all tools if none is named, and the tools alone if no
    /// server is named.
    pub(crate) fn forms(servers: &[String], tools: Vec<String>) -> Vec<String> {
        if servers.is_empty() {
            return tools;
        }
        let tools = if tools.is_empty() {
            vec!["*".to_owned()]
        } else {
            tools
        };
        let of_server = |server| {
            let name = move |tool| McpToolName { server, tool }.to_string();
            tools
                .iter()
                .map(String::as_str)
                .map(name)
                .collect::<Vec<_>>()
        };
        let servers = servers.iter().map(String::as_str);
        servers.flat_map(of_server).collect()
    }
}

impl fmt::Display for McpToolName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}{SEPARATOR}{}", self.server, self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_the_first_separator() {
        for (name, expected) in [
            ("mcp__github__merge", Some(("github", "merge"))),
            ("mcp__a__b__c", Some(("a", "b__c"))),
            ("mcp__github", None),
            ("github__merge", None),
            ("grep", None),
        ] {
            let parsed = McpToolName::parse(name);
            assert_eq!(
                parsed.map(|name| (name.server, name.tool)),
                expected,
                "{name}"
            );
            assert!(parsed.is_none_or(|parsed| parsed.to_string() == name));
        }
    }

    #[test]
    fn a_server_does_not_own_the_names_of_a_longer_one() {
        for (name, expected) in [
            ("mcp__a", true),
            ("mcp__a__x", true),
            ("mcp__ab__x", false),
            ("a__x", false),
        ] {
            assert_eq!(McpToolName::is_of_server(name, "a"), expected, "{name}");
        }
    }
}
