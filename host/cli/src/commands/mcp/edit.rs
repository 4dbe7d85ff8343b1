//! Edits of the servers in a configuration file.

use anyhow::{Context as _, bail};
use toml_edit::{Array, DocumentMut, Item, Table, value};
use toolhost_contract::Access;

use super::AddArgs;
use super::proposal::Proposal;

pub fn add_server(file: &mut DocumentMut, args: &AddArgs) -> anyhow::Result<()> {
    let key = servers_key(file);
    let servers = file.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let Some(servers) = servers.as_table_like_mut() else {
        bail!("`{key}` is a list; add the server by hand");
    };
    let mut server = Table::new();
    if let Some(url) = &args.url {
        server["url"] = value(url);
    } else if let [command, arguments @ ..] = &args.command[..] {
        server["command"] = value(command);
        if !arguments.is_empty() {
            server["args"] = value(Array::from_iter(arguments));
        }
    }
    for (name, pairs) in [("env", &args.env), ("headers", &args.header)] {
        if !pairs.is_empty() {
            let mut table = toml_edit::InlineTable::new();
            for (name, text) in pairs {
                table.insert(name, text.into());
            }
            server[name] = value(table);
        }
    }
    if let Some(cwd) = &args.cwd {
        server["cwd"] = value(cwd);
    }
    if let Some(sandbox) = sandbox_value(args)? {
        server["sandbox"] = value(sandbox);
    }
    for (name, on) in [("trust", args.trust), ("insecure", args.insecure)] {
        if on {
            server[name] = value(true);
        }
    }
    if let Some(timeout) = args.timeout {
        server["timeout"] = value(format!("{}ms", timeout.as_millis()));
    }
    if servers.get(&args.name).is_some() {
        bail!("server `{}` already exists; remove it first", args.name);
    }
    servers.insert(&args.name, Item::Table(server));
    Ok(())
}

/// The key `sandbox`; none for the default, a sandbox without access.
fn sandbox_value(args: &AddArgs) -> anyhow::Result<Option<toml_edit::Value>> {
    if args.unconfined {
        return Ok(Some("none".into()));
    }
    let mut table = toml_edit::InlineTable::new();
    if !args.allow_path.is_empty() {
        let paths = args.allow_path.iter().map(|entry| {
            // As typed, it is relative to the current directory; in the file, to the directory of the file.
            let path = std::path::absolute(&entry.path)?;
            let path = path.to_str().context("a path is not UTF-8")?;
            Ok(path_entry(path, entry.access))
        });
        table.insert("paths", paths.collect::<anyhow::Result<Array>>()?.into());
    }
    if !args.allow_host.is_empty() {
        table.insert("hosts", Array::from_iter(&args.allow_host).into());
    }
    if args.allow_network {
        table.insert("network", true.into());
    }
    Ok((!table.is_empty()).then(|| table.into()))
}

/// An entry of `paths`. The end of the path itself must not be read as an access.
pub fn path_entry(path: &str, access: Access) -> String {
    match access {
        Access::ReadWrite => format!("{path}:rw"),
        Access::ReadOnly if path.ends_with(":rw") || path.ends_with(":ro") => format!("{path}:ro"),
        Access::ReadOnly => path.to_owned(),
    }
}

/// Adds the paths and hosts to the sandbox of a server.
pub fn extend_sandbox(
    file: &mut DocumentMut,
    name: &str,
    proposal: &Proposal,
) -> anyhow::Result<()> {
    let key = servers_key(file);
    let servers = file.get_mut(key).and_then(Item::as_table_like_mut);
    let server = servers
        .and_then(|servers| servers.get_mut(name))
        .and_then(Item::as_table_like_mut);
    let Some(server) = server else {
        bail!("server `{name}` is not in `[{key}]`; add these lines to its `sandbox` by hand");
    };
    let sandbox = server
        .entry("sandbox")
        .or_insert_with(|| value(toml_edit::InlineTable::new()));
    let Some(sandbox) = sandbox.as_table_like_mut() else {
        bail!("the `sandbox` of server `{name}` is not a table; change it by hand");
    };
    let hosts: Vec<String> = proposal.hosts.iter().cloned().collect();
    for (name, added) in [("paths", proposal.paths().collect()), ("hosts", hosts)] {
        if added.is_empty() {
            continue;
        }
        let list = sandbox.entry(name).or_insert_with(|| value(Array::new()));
        let Some(list) = list.as_array_mut() else {
            bail!("`{name}` of the sandbox is not a list; change it by hand");
        };
        list.extend(added);
    }
    Ok(())
}

pub fn remove_server(file: &mut DocumentMut, name: &str) -> anyhow::Result<()> {
    let key = servers_key(file);
    let servers = file.get_mut(key).and_then(Item::as_table_like_mut);
    let Some(servers) = servers else {
        bail!("the servers are not a table `[{key}]`; remove `{name}` by hand");
    };
    if servers.remove(name).is_none() {
        bail!("server `{name}` is not in `[{key}]`; remove it by hand");
    }
    if servers.is_empty() {
        file.remove(key);
    }
    Ok(())
}

/// The key of the servers in the spelling of the file.
fn servers_key(file: &DocumentMut) -> &'static str {
    if file.contains_key("mcpServers") {
        "mcpServers"
    } else {
        "mcp_servers"
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use expect_test::{Expect, expect};

    use super::*;
    use crate::args::{Cli, Command};
    use crate::commands::mcp::McpCommand;
    use crate::config::PathEntry;

    fn check(before: &str, arguments: &[&str], expected: Expect) {
        let line = ["host", "mcp", "add"].iter().chain(arguments);
        let Command::Mcp {
            command: McpCommand::Add(args),
        } = Cli::try_parse_from(line).unwrap().command
        else {
            unreachable!()
        };
        let mut file: DocumentMut = before.parse().unwrap();
        let shown = match add_server(&mut file, &args) {
            Ok(()) => {
                let after = file.to_string();
                // Removing the added server restores the file.
                remove_server(&mut file, &args.name).unwrap();
                assert_eq!(file.to_string().trim(), before.trim());
                after
            }
            Err(error) => format!("{error:#}"),
        };
        expected.assert_eq(&shown);
    }

    #[test]
    fn adding_a_server_preserves_comments() {
        check(
            "# mine\nplugins = [\"p\"] # here\n",
            &["memory", "--env", "A=b=c", "--", "npx", "-y", "it's"],
            expect![[r#"
                # mine
                plugins = ["p"] # here

                [mcp_servers.memory]
                command = "npx"
                args = ["-y", "it's"]
                env = { A = "b=c" }
            "#]],
        );
        check(
            "[mcpServers.one]\nurl = \"https://a\" # old\n",
            &[
                "two",
                "--url",
                "https://b",
                "--header",
                "X=${Y}",
                "--trust",
                "--timeout",
                "5s",
            ],
            expect![[r#"
                [mcpServers.one]
                url = "https://a" # old

                [mcpServers.two]
                url = "https://b"
                headers = { X = "${Y}" }
                trust = true
                timeout = "5000ms"
            "#]],
        );
    }

    #[test]
    fn the_sandbox_is_written_with_absolute_paths() {
        check(
            "",
            &[
                "a",
                "--allow-path",
                "/data:rw",
                "--allow-path",
                "/docs",
                "--allow-host",
                "x.example",
                "--",
                "x",
            ],
            expect![[r#"
                [mcp_servers.a]
                command = "x"
                sandbox = { paths = ["/data:rw", "/docs"], hosts = ["x.example"] }
            "#]],
        );
        check(
            "",
            &["a", "--unconfined", "--", "x"],
            expect![[r#"
                [mcp_servers.a]
                command = "x"
                sandbox = "none"
            "#]],
        );
    }

    #[test]
    fn a_path_that_ends_like_an_access_stays_read_only() {
        for path in ["/a", "/a:rw", "/a:ro", "/a:rw:ro"] {
            for access in [Access::ReadOnly, Access::ReadWrite] {
                let entry: PathEntry = path_entry(path, access).parse().unwrap();
                assert_eq!((entry.path.as_str(), entry.access), (path, access));
            }
        }
        let proposal = Proposal {
            read: ["/a:rw".into()].into(),
            ..Proposal::default()
        };
        assert_eq!(proposal.paths().collect::<Vec<_>>(), ["/a:rw:ro"]);
    }

    #[test]
    fn proposals_are_added_to_the_sandbox() {
        let proposal = Proposal {
            read: ["/a".into()].into(),
            write: ["/b".into()].into(),
            hosts: ["x.example".to_owned()].into(),
            notes: Vec::new(),
        };
        let extended = |before: &str| {
            let mut file: DocumentMut = before.parse().unwrap();
            extend_sandbox(&mut file, "one", &proposal).map(|()| file.to_string())
        };
        let after = extended("[mcp_servers.one] # mine\ncommand = \"x\"\n").unwrap();
        assert_eq!(
            after,
            "[mcp_servers.one] # mine\ncommand = \"x\"\n\
             sandbox = { paths = [\"/a\", \"/b:rw\"], hosts = [\"x.example\"] }\n"
        );
        let again = extended("[mcpServers.one.sandbox]\npaths = [\"/c\"] # kept\n").unwrap();
        assert_eq!(
            again,
            "[mcpServers.one.sandbox]\npaths = [\"/c\", \"/a\", \"/b:rw\"] # kept\nhosts = [\"x.example\"]\n"
        );
        assert!(extended("[mcp_servers.one]\nsandbox = \"none\"\n").is_err());
        assert!(extended("[mcp_servers.two]\n").is_err());
    }

    #[test]
    fn servers_that_cannot_be_added_are_errors() {
        check(
            "[mcp_servers.a]\nurl = \"https://a\"\n",
            &["a", "--url", "https://b"],
            expect!["server `a` already exists; remove it first"],
        );
        check(
            "[[mcp_servers]]\nname = \"a\"\nurl = \"https://a\"\n",
            &["b", "--url", "https://b"],
            expect!["`mcp_servers` is a list; add the server by hand"],
        );
    }
}
