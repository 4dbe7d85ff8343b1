//! Names of external tools for models: `mcp__server__tool`, in characters that every model accepts.

use sha2::{Digest as _, Sha256};
use toolhost_contract::{PluginName, ToolName};

const MAX: usize = 64;
/// Minimum length of the server's part, however long the tool's name is.
const MIN_SERVER_LEN: usize = 4;

/// The name of a server's tool. If it is too long, the server's part is shortened and marked with a hash of the whole
/// name; if that is not enough, the tool's part is shortened in the middle.
pub fn tool_name(server: &str, tool: &str) -> ToolName {
    prefixed("mcp", server, tool)
}

/// The name of a discovered tool.
pub fn discovered_name(tool: &str) -> ToolName {
    let tool = normalize(tool, '_');
    let full = format!("discovered__{tool}");
    let name = if full.len() <= MAX {
        full
    } else {
        let hash = short_hash(&[&tool]);
        format!("discovered__{}_{hash}", &tool[..MAX - 12 - 7])
    };
    ToolName::parse(&name).expect("plain letters below 64 bytes are a name")
}

/// The name with a hash of the original names, for two tools whose names would be equal.
pub fn distinct_name(server: &str, tool: &str) -> ToolName {
    let hash = short_hash(&[server, tool]);
    let tool = normalize(tool, '_');
    let tool = &tool[..tool.len().min(MAX - 24)];
    prefixed("mcp", server, &format!("{tool}_{hash}"))
}

fn prefixed(prefix: &str, server: &str, tool: &str) -> ToolName {
    let (short_server, short_tool) = (normalize(server, '_'), normalize(tool, '_'));
    let full = format!("{prefix}__{short_server}__{short_tool}");
    let name = if full.len() <= MAX {
        full
    } else {
        let hash = short_hash(&[server, tool]);
        // prefix__SERVER_hash6__TOOL
        let fixed = prefix.len() + 2 + 7 + 2;
        let room = MAX - fixed;
        let of_tool = short_tool.len().min(room - MIN_SERVER_LEN);
        let of_server = short_server.len().min(room - of_tool);
        let half = of_tool / 2;
        let tool = if of_tool == short_tool.len() {
            short_tool
        } else {
            let back = short_tool.len() - (of_tool - half);
            format!("{}{}", &short_tool[..half], &short_tool[back..])
        };
        format!("{prefix}__{}_{hash}__{tool}", &short_server[..of_server])
    };
    ToolName::parse(&name).expect("plain letters below 64 bytes are a name")
}

/// Lower-case letters, digits and `_`. Any other character becomes an underscore, and one is inserted before a capital
/// after a small letter. Never two underscores in a row, because these separate a server from its tool.
fn normalize(name: &str, joint: char) -> String {
    let mut out = String::with_capacity(name.len());
    let mut previous = joint;
    for c in name.chars() {
        if c.is_ascii_uppercase() && (previous.is_ascii_lowercase() || previous.is_ascii_digit()) {
            out.push(joint);
        }
        let next = if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            joint
        };
        if next != joint || !out.ends_with(joint) {
            out.push(next);
        }
        previous = c;
    }
    let trimmed = out.trim_matches(joint);
    if trimmed.is_empty() {
        "x".to_owned()
    } else {
        trimmed.to_owned()
    }
}

/// The plugin name under which a server's tools are registered; it never equals the name of an installed plugin.
pub fn plugin_name(server: &str) -> PluginName {
    let full = format!("mcp-{}", normalize(server, '-'));
    let name = if full.len() <= MAX {
        full
    } else {
        format!("{}-{}", &full[..MAX - 7], short_hash(&[server]))
    };
    PluginName::parse(&name).expect("plain letters below 64 bytes are a name")
}

fn short_hash(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let hash = hash.finalize();
    format!("{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: &str, tool: &str, expected: &str) {
        let name = tool_name(server, tool);
        assert_eq!(name.as_str(), expected);
        assert!(name.as_str().len() <= MAX);
    }

    //
    #[test]
    fn r_421_a_tool_of_a_server_is_called_mcp_server_tool() {
        check("github", "create_issue", "mcp__github__create_issue");
        check("my-server", "get-sum", "mcp__my_server__get_sum");
        check(
            "Everything",
            "getTinyImage",
            "mcp__everything__get_tiny_image",
        );
        check("a", "HTTPGet v2.1", "mcp__a__httpget_v2_1");
        check("a__b", "c__d", "mcp__a_b__c_d");
        check("a", "日本", "mcp__a__x");
        check("9", "9", "mcp__9__9");
    }

    #[test]
    fn long_names_keep_the_tool_and_stay_distinct() {
        let long = "s".repeat(60);
        let (one, two) = (
            tool_name(&format!("{long}1"), "read_file"),
            tool_name(&format!("{long}2"), "read_file"),
        );
        assert_ne!(one, two);
        assert!(one.as_str().ends_with("__read_file"));
        let (one, two) = (
            tool_name("srv", &format!("a{}b", "t".repeat(200))),
            tool_name("srv", &format!("a{}b", "t".repeat(201))),
        );
        assert_ne!(one, two);
        assert!(one.as_str().starts_with("mcp__srv_") && one.as_str().ends_with("tb"));
        assert!(discovered_name(&"t".repeat(200)).as_str().len() <= MAX);
        assert!(distinct_name(&long, &long).as_str().len() <= MAX);
    }

    #[test]
    fn each_server_has_a_plugin_name() {
        for (server, plugin) in [
            ("memory", "mcp-memory"),
            ("My_Server", "mcp-my-server"),
            ("_", "mcp-x"),
        ] {
            assert_eq!(plugin_name(server).as_str(), plugin);
        }
        assert!(plugin_name(&"x".repeat(64)).as_str().len() <= MAX);
    }
}
