//! The sandbox of an MCP server, from its table.

use std::path::{Path, PathBuf};

use toolhost_contract::{Access, text};
use toolhost_mcp_client::{ServerNetwork, ServerProfile, ServerSandbox};
use toolhost_net::HostRule;

use super::{SettingsEnv, absolute};
use crate::config::{PathEntry, SandboxSetting, SandboxTable, expand_variables};

/// In strings of a confined server, its own directory.
pub const DATA_VARIABLE: &str = "TOOLHOST_DATA";

/// Without the key, a server is confined and gets nothing but its own directory.
pub fn resolve(
    setting: Option<&SandboxSetting>,
    base: &Path,
    world: &SettingsEnv<'_>,
) -> Result<ServerSandbox, String> {
    match setting {
        None => Ok(ServerSandbox::default()),
        Some(SandboxSetting::None) => Ok(ServerSandbox::Unconfined),
        Some(SandboxSetting::Table(table)) => profile(table, base, world)
            .map(ServerSandbox::Confined)
            .map_err(|error| format!("sandbox: {error}")),
    }
}

fn profile(
    table: &SandboxTable,
    base: &Path,
    world: &SettingsEnv<'_>,
) -> Result<ServerProfile, String> {
    let mut profile = ServerProfile::default();
    for text in &table.paths {
        let entry: PathEntry = text.parse()?;
        let path = absolute(
            base,
            Path::new(&expand_variables(&entry.path, world.variable)?),
        );
        // What a link leads to now is shown, approved and granted. A path that does not exist is refused at the start.
        let path = path.canonicalize().unwrap_or(path);
        refuse_home(&path, world)?;
        let list = match entry.access {
            Access::ReadOnly => &mut profile.read,
            Access::ReadWrite => &mut profile.write,
        };
        list.push(path);
    }
    for host in &table.hosts {
        HostRule::parse(host).map_err(|error| error.to_string())?;
    }
    profile.network = match (table.network, table.hosts.is_empty()) {
        (true, false) => {
            return Err("`network = true` allows all hosts; remove it or `hosts`".to_owned());
        }
        (true, true) => ServerNetwork::Unrestricted,
        (false, _) => ServerNetwork::Hosts(table.hosts.clone()),
    };
    Ok(profile)
}

/// A home directory contains keys and the configuration of other programs.
fn refuse_home(path: &Path, world: &SettingsEnv<'_>) -> Result<(), String> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let home = (world.variable)("HOME").map(PathBuf::from);
    let contains_home = home.is_some_and(|home| real(&home).starts_with(real(path)));
    if contains_home || path.parent().is_none() {
        return Err(format!(
            "`{}` contains the home directory; name the directories in it that the server needs",
            text::escape_line(&path.to_string_lossy(), 300)
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{FileFormat, parse};

    fn check(sandbox: &str, expected: &str) {
        let text = format!("[mcp_servers.a]\ncommand = \"x\"\n{sandbox}");
        let shown = match parse(Path::new("toolhost.toml"), FileFormat::Toml, &text) {
            Err(error) => error.to_string(),
            Ok(config) => {
                let world = SettingsEnv {
                    directory: Path::new("/"),
                    variable: &|name| (name == "HOME").then(|| "/home/me".to_owned()),
                    read: &|_| Err("there is no file".to_owned()),
                    interactive: false,
                    shipped_plugins: None,
                };
                let server = &config.mcp_servers.unwrap().0["a"];
                match resolve(server.sandbox.as_ref(), Path::new("/etc/me"), &world) {
                    Ok(ServerSandbox::Unconfined) => "unconfined".to_owned(),
                    Ok(ServerSandbox::Confined(profile)) => profile.lines().join(", "),
                    Err(reason) => reason,
                }
            }
        };
        assert!(shown.contains(expected), "{sandbox}: {shown}");
    }

    #[test]
    fn a_server_is_confined_unless_its_table_says_otherwise() {
        check("", "has no network");
        check("sandbox = \"none\"", "unconfined");
        check("sandbox = {}", "has no network");
        check(
            "sandbox = { paths = [\"a\", \"~/b:rw\"], hosts = [\"example.org\"] }",
            "may read /etc/me/a, may read and change /home/me/b, may connect to example.org",
        );
        check(
            "[mcp_servers.a.sandbox]\nnetwork = true",
            "may connect to all hosts",
        );
    }

    #[test]
    fn a_link_is_shown_as_its_real_path() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let root = root.display();
        check(
            &format!("sandbox = {{ paths = [\"{root}/link:rw\"] }}"),
            &format!("may read and change {root}/real"),
        );
    }

    #[test]
    fn invalid_sandboxes_are_refused() {
        for (sandbox, reason) in [
            ("sandbox = \"off\"", "expected `\"none\"`, or a table"),
            ("sandbox = true", "expected `\"none\"`, or a table"),
            ("sandbox = { path = [] }", "unknown key `path`"),
            (
                "sandbox = { paths = [\"/\"] }",
                "`/` contains the home directory",
            ),
            (
                "sandbox = { paths = [\"~/:rw\"] }",
                "`/home/me` contains the home directory",
            ),
            (
                "sandbox = { paths = [\"/home\"] }",
                "`/home` contains the home directory",
            ),
            ("sandbox = { paths = [\"\"] }", "the path is empty"),
            ("sandbox = { hosts = [\"a b\"] }", "invalid host rule"),
            (
                "sandbox = { hosts = [\"a\"], network = true }",
                "remove it or `hosts`",
            ),
        ] {
            check(sandbox, reason);
        }
    }
}
