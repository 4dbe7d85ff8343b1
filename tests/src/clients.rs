//! Other people's MCP clients, as `cargo xtask test` has installed them, or the printed reason why they are not there.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::http::Server;
use crate::target;

fn clients() -> PathBuf {
    target().join("clients")
}

/// The folder of a kit (`javascript`, `python-1`, `python-2`, `node`); none, and a printed line, when it was skipped.
pub fn kit(name: &str) -> Option<PathBuf> {
    let folder = clients().join(name);
    if folder.join(".complete").is_file() {
        return Some(folder);
    }
    let reason = std::fs::read_to_string(clients().join(format!("{name}.skipped")));
    let reason = reason.unwrap_or_else(|_| "`cargo xtask test` installs it".to_owned());
    // Written past the test harness's capture, so that a run that skips says so.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: {name} is not installed: {}",
        reason.trim()
    );
    None
}

/// Node, and the folder with the packages for it.
pub fn javascript() -> Option<(PathBuf, PathBuf)> {
    let node = kit("node")?.join("program");
    Some((node, kit("javascript")?))
}

/// Lets packages of a kit be found by a script that is kept elsewhere: Node looks beside the script.
pub fn beside_packages(script: &Path, packages: &Path) -> PathBuf {
    let copy = packages.join(script.file_name().expect("a script has a name"));
    let text = std::fs::read(script).expect("the script is in the tree");
    if std::fs::read(&copy).is_ok_and(|there| there == text) {
        return copy;
    }
    // By a rename, as another test may be starting it just now.
    let draft = packages.join(format!(".{}", std::process::id()));
    std::fs::write(&draft, text).expect("write the script");
    std::fs::rename(&draft, &copy).expect("rename the script");
    copy
}

/// Another program in the environment that `host` gets in these tests, which it hands on.
pub fn as_of(host: &Command, program: PathBuf) -> Command {
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

/// How a script is told to start a server itself.
pub fn by_stdio(server: &Command) -> Vec<String> {
    let words = std::iter::once(server.get_program()).chain(server.get_args());
    let words = words.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("stdio".to_owned()).chain(words).collect()
}

/// How a script is told to find one.
pub fn by_http(server: &Server) -> Vec<String> {
    let token = server.token.clone().expect("a token was made");
    let url = format!("http://{}/mcp", server.address);
    vec!["http".to_owned(), url, token]
}
