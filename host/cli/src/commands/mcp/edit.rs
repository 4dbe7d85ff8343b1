//! Edits of the servers in a configuration file.

use anyhow::{Context as _, bail};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, Value, value};
use toolhost_contract::Access;

use super::AddArgs;
use super::proposal::Proposal;
use crate::config::{push_item, remove_entry, to_snake_case};

/// The keys that `add` writes, and the other spellings of these settings. `update` replaces all of them.
const OWN_KEYS: [&str; 13] = [
    "url",
    "http_url",
    "command",
    "args",
    "env",
    "headers",
    "cwd",
    "sandbox",
    "trust",
    "insecure",
    "timeout",
    "transport",
    "type",
];

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
    if servers.get(&args.name).is_some() {
        bail!("server `{}` already exists; remove it first", args.name);
    }
    let mut server = Table::new();
    set_values(&mut server, &own_values(args)?);
    servers.insert(&args.name, Item::Table(server));
    Ok(())
}

/// Replaces the keys that `add` writes. Other keys and all comments are kept.
pub fn update_server(file: &mut DocumentMut, args: &AddArgs) -> anyhow::Result<()> {
    let values = own_values(args)?;
    let server = find_server(file, &args.name)?;
    set_values(server, &values);
    let is_current =
        |key: &str, item: &Item| item.is_value() && values.iter().any(|(name, _)| *name == key);
    let obsolete = server
        .iter()
        .filter(|(key, item)| OWN_KEYS.contains(&&*to_snake_case(key)) && !is_current(key, item))
        .map(|(key, _)| key.to_owned());
    let obsolete: Vec<String> = obsolete.collect();
    for key in obsolete {
        remove_entry(file, &[servers_key(file), &args.name, &key])?;
    }
    // Those that were tables.
    set_values(find_server(file, &args.name)?, &values);
    Ok(())
}

/// Sets keys to values, and keeps the comments beside earlier values. A key that is a table is left alone.
fn set_values(server: &mut dyn TableLike, values: &[(&str, Value)]) {
    for (key, new) in values {
        match server.get_mut(key) {
            Some(Item::Value(old)) => {
                let decor = old.decor().clone();
                *old = new.clone();
                *old.decor_mut() = decor;
            }
            Some(_) => {}
            None => {
                server.insert(key, value(new.clone()));
            }
        }
    }
}

fn own_values(args: &AddArgs) -> anyhow::Result<Vec<(&'static str, Value)>> {
    let mut values: Vec<(&'static str, Value)> = Vec::new();
    if let Some(url) = &args.url {
        values.push(("url", url.into()));
    } else if let [command, arguments @ ..] = &args.command[..] {
        values.push(("command", command.into()));
        if !arguments.is_empty() {
            values.push(("args", Array::from_iter(arguments).into()));
        }
    }
    for (name, pairs) in [("env", &args.env), ("headers", &args.header)] {
        if !pairs.is_empty() {
            let table: InlineTable = pairs.iter().map(|(name, text)| (name, text)).collect();
            values.push((name, table.into()));
        }
    }
    if let Some(cwd) = &args.cwd {
        values.push(("cwd", path_in_file(cwd)?.into()));
    }
    if let Some(sandbox) = sandbox_value(args)? {
        values.push(("sandbox", sandbox));
    }
    for (name, on) in [("trust", args.trust), ("insecure", args.insecure)] {
        if on {
            values.push((name, true.into()));
        }
    }
    if let Some(timeout) = args.timeout {
        let timeout = format!("{}ms", timeout.as_millis());
        values.push(("timeout", timeout.into()));
    }
    Ok(values)
}

/// A typed path is relative to the current directory, and one in the file to the directory of the file.
fn path_in_file(path: &str) -> anyhow::Result<String> {
    // The home directory and variables are expanded when the file is read.
    if path.starts_with("~/") || path.starts_with("${") {
        return Ok(path.to_owned());
    }
    let path = std::path::absolute(path)?;
    let path = path.to_str().context("a path is not UTF-8")?;
    Ok(path.to_owned())
}

/// The key `sandbox`; none for the default, a sandbox without access.
fn sandbox_value(args: &AddArgs) -> anyhow::Result<Option<Value>> {
    if args.unconfined {
        return Ok(Some("none".into()));
    }
    let mut table = InlineTable::new();
    if !args.allow_path.is_empty() {
        let paths = args.allow_path.iter();
        let paths = paths.map(|entry| Ok(path_entry(&path_in_file(&entry.path)?, entry.access)));
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
        .or_insert_with(|| value(InlineTable::new()));
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
        for item in added {
            push_item(list, &item);
        }
    }
    Ok(())
}

/// Returns whether the server had the key `oauth`.
pub fn remove_oauth(file: &mut DocumentMut, name: &str) -> anyhow::Result<bool> {
    if find_server(file, name)?.get("oauth").is_none() {
        return Ok(false);
    }
    remove_entry(file, &[servers_key(file), name, "oauth"])?;
    Ok(true)
}

pub fn remove_server(file: &mut DocumentMut, name: &str) -> anyhow::Result<()> {
    find_server(file, name)?;
    remove_entry(file, &[servers_key(file), name])
}

fn find_server<'a>(file: &'a mut DocumentMut, name: &str) -> anyhow::Result<&'a mut dyn TableLike> {
    let key = servers_key(file);
    let servers = file.get_mut(key).and_then(Item::as_table_like_mut);
    let Some(servers) = servers else {
        bail!("the servers are not a table `[{key}]`; change `{name}` by hand");
    };
    let server = servers.get_mut(name).and_then(Item::as_table_like_mut);
    server.with_context(|| format!("server `{name}` is not in `[{key}]`; change it by hand"))
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

    fn parse(arguments: &[&str]) -> Result<Box<AddArgs>, clap::Error> {
        let line = ["host", "mcp", "add"].iter().chain(arguments);
        let Command::Mcp {
            command: McpCommand::Add(args),
        } = Cli::try_parse_from(line)?.command
        else {
            unreachable!()
        };
        Ok(args)
    }

    fn check(before: &str, arguments: &[&str], expected: Expect) {
        let args = parse(arguments).unwrap();
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
    fn options_without_an_effect_are_refused() {
        for wrong in [
            &["a", "--url", "https://b", "--env", "A=b"][..],
            &["a", "--url", "https://b", "--cwd", "."],
            &["a", "--url", "https://b", "--allow-path", "."],
            &["a", "--url", "https://b", "--unconfined"],
            &["a", "--header", "A=b", "--", "x"],
            &["a", "--insecure", "--", "x"],
        ] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_working_directory_is_relative_to_the_current_one() {
        for (typed, written) in [
            (".", std::env::current_dir().unwrap().to_str().unwrap()),
            ("/x", "/x"),
            ("~/x", "~/x"),
            ("${TOOLHOST_DATA}", "${TOOLHOST_DATA}"),
        ] {
            let mut file = DocumentMut::new();
            add_server(
                &mut file,
                &parse(&["a", "--cwd", typed, "--", "x"]).unwrap(),
            )
            .unwrap();
            assert_eq!(file["mcp_servers"]["a"]["cwd"].as_str(), Some(written));
        }
    }

    fn check_update(before: &str, arguments: &[&str], expected: Expect) {
        let mut file: DocumentMut = before.parse().unwrap();
        update_server(&mut file, &parse(arguments).unwrap()).unwrap();
        expected.assert_eq(&file.to_string());
    }

    #[test]
    fn an_update_replaces_only_the_keys_that_add_writes() {
        let before = "\
# My servers

# The tracker
[mcp_servers.a] # slow
# It needs npx.
command = \"npx\" # of the system
args = [\"x\"]
# Not now
enabled = false
includeTools = [\"get_*\"]
timeout = \"5s\" # short
oauth = { client_id = \"me\" }

# Its token
[mcp_servers.a.env]
TOKEN = \"${T}\"

# The rules
[policy]
";
        check_update(
            before,
            &["a", "--timeout", "9s", "--env", "B=c", "--", "uvx", "y"],
            expect![[r##"
                # My servers

                # The tracker
                [mcp_servers.a] # slow
                # It needs npx.
                command = "uvx" # of the system
                args = ["y"]
                # Not now
                enabled = false
                includeTools = ["get_*"]
                timeout = "9000ms" # short
                oauth = { client_id = "me" }
                env = { B = "c" }

                # Its token

                # The rules
                [policy]
            "##]],
        );
        check_update(
            before,
            &["a", "--url", "https://b"],
            expect![[r##"
                # My servers

                # The tracker
                [mcp_servers.a] # slow
                # It needs npx.

                # Not now
                enabled = false
                includeTools = ["get_*"]
                oauth = { client_id = "me" }
                url = "https://b"

                # Its token

                # The rules
                [policy]
            "##]],
        );
        check_update(
            "mcpServers.a = { httpUrl = \"https://a\", type = \"http\", enabled = false }\n",
            &["a", "--", "x"],
            expect![[r#"
                mcpServers.a = { enabled = false , command = "x" }
            "#]],
        );
    }

    #[test]
    fn comments_above_a_removed_server_are_kept() {
        let check = |before: &str, expected: Expect| {
            let mut file: DocumentMut = before.parse().unwrap();
            remove_server(&mut file, "a").unwrap();
            expected.assert_eq(&file.to_string());
        };
        check(
            "# My settings\n\n# A server\n[mcp_servers.a]\nurl = \"https://a\" # its own\n\n# Rules\n[policy]\n",
            expect![[r#"
                # My settings

                # A server

                # Rules
                [policy]
            "#]],
        );
        check(
            "# Mine\n[mcp_servers.a]\nurl = \"https://a\"\n[mcp_servers.b]\nurl = \"https://b\"\n# end\n",
            expect![[r##"
                # Mine

                [mcp_servers.b]
                url = "https://b"
                # end
            "##]],
        );
        check(
            "a = 1\n\n# Mine\n[mcp_servers.a]\nurl = \"https://a\"\n",
            expect![[r#"
                a = 1

                # Mine
            "#]],
        );
        check(
            "# Mine\nmcp_servers.a.url = \"https://a\"\nmcp_servers.b.url = \"https://b\"\n",
            expect![[r##"
                # Mine
                mcp_servers.b.url = "https://b"
            "##]],
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
