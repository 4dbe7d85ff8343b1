//! Third-party MCP clients that `cargo xtask test` installs, and a printed reason if one is missing.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::http::Server;
use crate::target;

fn clients() -> PathBuf {
    target().join("clients")
}

/// Returns the folder of a kit (`javascript`, `python-1`, `python-2`, `node`). If it was skipped, prints why.
pub fn kit(name: &str) -> Option<PathBuf> {
    let folder = clients().join(name);
    if folder.join(".complete").is_file() {
        return Some(folder);
    }
    let reason = std::fs::read_to_string(clients().join(format!("{name}.skipped")));
    let reason = reason.unwrap_or_else(|_| "`cargo xtask test` installs it".to_owned());
    // Bypasses the output capture of the test harness, so that skipped tests are visible.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {name} is not installed: {}",
        reason.trim()
    );
    None
}

/// Returns the Node binary and the folder with its packages.
pub fn javascript() -> Option<(PathBuf, PathBuf)> {
    let node = kit("node")?.join("program");
    Some((node, kit("javascript")?))
}

/// Copies a script next to the packages of a kit, where Node looks for them.
pub fn copy_beside_packages(script: &Path, packages: &Path) -> PathBuf {
    let copy = packages.join(script.file_name().expect("a script has a name"));
    let text = std::fs::read(script).expect("the script is in the tree");
    if std::fs::read(&copy).is_ok_and(|there| there == text) {
        return copy;
    }
    // Renamed into place, because another test may be starting the script.
    let draft = packages.join(format!(".{}", std::process::id()));
    std::fs::write(&draft, text).expect("write the script");
    std::fs::rename(&draft, &copy).expect("rename the script");
    copy
}

/// Runs another program with the environment variables of a `host` command, for the host that it starts.
pub fn with_env_of(host: &Command, program: PathBuf) -> Command {
    let mut command = Command::new(program);
    for (name, value) in host.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.stdin(Stdio::null());
    command
}

/// Returns the arguments with which a script starts a server itself, with the variables of its command: clients pass on
/// few of their own, and without them the host would compile all plugins into the cache of the user.
pub fn stdio_args(server: &Command) -> Vec<String> {
    let variables = server
        .get_envs()
        .filter_map(|(name, value)| Some(format!("{}={}", name.display(), value?.display())));
    let program = std::iter::once(server.get_program()).chain(server.get_args());
    let program = program.map(|argument| argument.display().to_string());
    ["stdio".to_owned(), "/usr/bin/env".to_owned()]
        .into_iter()
        .chain(variables)
        .chain(program)
        .collect()
}

/// Returns the arguments with which a script connects to a running server.
pub fn http_args(server: &Server) -> Vec<String> {
    let token = server.token.clone().expect("a token was made");
    let url = format!("http://{}/mcp", server.address);
    vec!["http".to_owned(), url, token]
}
