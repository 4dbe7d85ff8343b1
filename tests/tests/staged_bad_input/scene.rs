//! A workspace with a tool that executes scripted file operations, and checks of everything that could be lost.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use e2e::test_env::{parse_json, poll_until, wait_output};
use e2e::{CommandResult, Guest, host};
use expect_test::Expect;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Each thing by its name, with what is seen of it.
pub type Tree = BTreeMap<String, String>;

/// An earlier call has changed this file. Whatever happens later, it can be taken back.
const EARLIER: &str = "earlier.txt";

pub const AS_IT_WAS: &str = "the tree is as it was\n";

pub struct Scene {
    guest: Guest,
    /// Holds the granted folder, and nothing else that a test did not put there.
    around: TempDir,
    state: TempDir,
    earlier: String,
    /// Runs as an unprivileged user, because root bypasses file permissions.
    unprivileged: bool,
}

const NOBODY: u32 = 65_534;

/// A call that waits for an answer, with its changes held back.
pub struct Waiting {
    pub id: String,
    pub child: Child,
}

impl Scene {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let mut scene = Self {
            guest: Guest::new(
                "file_script",
                &["fs.read", "fs.write"],
                "timeout = \"120s\"",
            ),
            around: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            earlier: String::new(),
            unprivileged: false,
        };
        scene.put(files);
        scene.put(&[(EARLIER, "one")]);
        fs::write(
            scene.state.path().join("ask.toml"),
            "[policy]\non_headless_ask = \"callback\"\n",
        )
        .unwrap();
        let (report, ended) = scene.call(&[&["write", EARLIER, "two"]], &["--allow-tool", "*"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        report["id"]
            .as_str()
            .unwrap()
            .clone_into(&mut scene.earlier);
        scene
    }

    pub fn put(&self, files: &[(&str, &str)]) {
        for (path, content) in files {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.workspace().join(path)
    }

    /// What is granted.
    pub fn workspace(&self) -> PathBuf {
        self.around().join("workspace")
    }

    pub fn around(&self) -> &Path {
        self.around.path()
    }

    /// Where the host keeps what is its own.
    pub fn state(&self) -> PathBuf {
        self.state.path().join("state")
    }

    /// Runs all further commands as an unprivileged user. Returns `None` if root privileges cannot be dropped.
    pub fn without_privileges(mut self) -> Option<Self> {
        self.unprivileged = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
        self.give();
        match self.command(&["--version"]).output() {
            Ok(_) => Some(self),
            Err(error) => {
                println!("not run: another user cannot start the program: {error}");
                None
            }
        }
    }

    /// Changes the owner of all files to the user that runs the host.
    pub fn give(&self) {
        if self.unprivileged {
            let plugin = self.guest.plugin();
            for path in [self.around(), self.state.path(), plugin.parent().unwrap()] {
                give(path);
            }
        }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = host(arguments);
        command
            .env("TOOLHOST_STATE_DIR", self.state())
            .current_dir(self.state.path());
        if self.unprivileged {
            let cache = self.state.path().join("cache");
            command.env("TOOLHOST_CACHE_DIR", cache);
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> CommandResult {
        CommandResult::of(&self.command(arguments).output().unwrap())
    }

    /// One call of a tool of the guest, as it is typed.
    pub fn calling(&self, tool: &str, input: &Value, flags: &[&str]) -> Command {
        self.with_grants(&["call", tool, &input.to_string(), "--json"], flags)
    }

    /// With the plugin, and the folder granted unless the flags name another.
    pub fn with_grants(&self, arguments: &[&str], flags: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command
            .arg("--plugins")
            .arg(self.guest.plugin())
            .args(flags);
        if !flags.contains(&"--allow-path") {
            let grant = format!("{}:rw", self.workspace().display());
            command.args(["--allow-path", &grant]);
        }
        command
    }

    pub fn call(&self, steps: &[&[&str]], flags: &[&str]) -> (Value, CommandResult) {
        let command = self.calling("file_script", &json!({"steps": steps}), flags);
        made(command)
    }

    /// Starts a call and comes back when it has run and waits for an answer.
    pub fn hold(&self, tool: &str, steps: &[&[&str]]) -> Waiting {
        let config = self.state.path().join("ask.toml");
        let mut command = self.calling(tool, &json!({"steps": steps}), &[]);
        command.arg("--config").arg(config);
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let waits = || self.waits_besides(&[]);
        Waiting {
            id: poll_until(waits),
            child,
        }
    }

    /// A call that waits and is none of these.
    pub fn waits_besides(&self, known: &[&str]) -> Option<String> {
        let calls = parse_json(&self.run(&["calls", "--state", "awaiting_approval", "--json"]));
        let ids = calls.as_array().unwrap().iter();
        ids.map(|call| call["id"].as_str().unwrap())
            .find(|id| !known.contains(id))
            .map(ToOwned::to_owned)
    }

    /// Approves every prompt and returns the number of prompts.
    pub fn approve(&self, mut waiting: Waiting) -> (usize, Value, CommandResult) {
        let mut prompts = 0;
        poll_until(|| {
            let over = waiting.child.try_wait().unwrap().is_some();
            let asks = !over && self.waits_besides(&[]).is_some();
            // A call that has ended accepts no answer.
            if asks && self.run(&["approve", &waiting.id]).code == Some(0) {
                prompts += 1;
            }
            over.then_some(())
        });
        let ended = wait_output(waiting.child);
        let report = serde_json::from_str(&ended.stdout).unwrap_or(Value::Null);
        (prompts, report, ended)
    }

    /// The report as text, without values that differ between runs.
    pub fn report_text(&self, report: &Value, ended: &CommandResult) -> String {
        let code = ended.code.unwrap_or(-1);
        let failure = if report["error"].is_object() {
            &report["error"]
        } else {
            &report["outcome"]["error"]
        };
        let mut text = match (report, failure.as_object()) {
            (Value::Null, _) => format!("exit {code}\n{}", ended.stderr),
            (_, None) => format!("exit {code}: ok\n"),
            (_, Some(error)) => {
                let member = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or("-");
                let (class, code_of) = (member("class"), member("code"));
                format!("exit {code}: {class} [{code_of}] {}\n", member("message"))
            }
        };
        let lines = report["outcome"]["structured"].as_array();
        for line in lines.into_iter().flatten() {
            let _ = writeln!(text, "  {}", line.as_str().unwrap_or_default());
        }
        self.plain(&text)
    }

    pub fn plain(&self, text: &str) -> String {
        let text = text.replace(&*self.around().to_string_lossy(), "[AROUND]");
        text.replace(&*self.state.path().to_string_lossy(), "[STATE]")
    }

    pub fn tree(&self) -> Tree {
        tree(self.around())
    }

    /// How many commits are in each state, and what else is kept that should not be.
    pub fn journal(&self) -> String {
        let store = self.state().join("store");
        let journal = Connection::open(store.join("store.db")).unwrap();
        let counts = "SELECT state, count(*) FROM commits GROUP BY state ORDER BY state";
        let mut counted = journal.prepare(counts).unwrap();
        let states = counted
            .query_map([], |row| {
                let (state, count): (String, u32) = (row.get(0)?, row.get(1)?);
                Ok(format!("{count} {state}"))
            })
            .unwrap();
        let mut entries: Vec<String> = states.map(Result::unwrap).collect();
        for part in tree(&store).into_keys() {
            let half =
                part.contains("/temp-") || part.contains("in-place-") || part.contains("/call-");
            if half {
                entries.push(part);
            }
        }
        entries.join(", ")
    }

    /// An earlier call is undone as if nothing had happened since.
    pub fn finish(&self) {
        let undone = self.run(&["undo", &self.earlier, "--yes"]);
        assert_eq!(undone.code, Some(0), "{undone:?}");
        let content = fs::read_to_string(self.path(EARLIER)).unwrap();
        assert_eq!(content, "one");
        let verified = self.run(&["audit", "verify"]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
}

fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    let data = fs::symlink_metadata(path).unwrap();
    if data.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

/// One call in a folder as `make` leaves it, and what came of it; then it is undone, and an earlier one too.
pub fn check(make: impl Fn(&Path), steps: &[&[&str]], expected: &Expect) {
    check_in(&Scene::new(&[]), make, steps, expected);
}

pub fn check_in(scene: &Scene, make: impl Fn(&Path), steps: &[&[&str]], expected: &Expect) {
    make(&scene.workspace());
    let before = scene.tree();
    let (report, ended) = scene.call(steps, &["--allow-tool", "*"]);
    let differs = difference(&before, &scene.tree());
    let text = scene.report_text(&report, &ended);
    expected.assert_eq(&ascii(&format!(
        "{text}{differs}journal: {}\n",
        scene.journal()
    )));
    if report["undo_ids"].is_array() {
        let undone = scene.run(&["undo", report["id"].as_str().unwrap(), "--yes"]);
        assert_eq!(undone.code, Some(0), "{undone:?}");
        assert_eq!(difference(&before, &scene.tree()), AS_IT_WAS);
    }
    scene.finish();
}

pub fn made(mut command: Command) -> (Value, CommandResult) {
    let ended = CommandResult::of(&command.output().unwrap());
    let report = serde_json::from_str(&ended.stdout).unwrap_or(Value::Null);
    (report, ended)
}

/// What looks alike must not be mistaken for the same.
fn ascii(text: &str) -> String {
    let shown = |c: char| match c {
        c if c.is_ascii() => c.to_string(),
        c => c.escape_unicode().to_string(),
    };
    text.chars().map(shown).collect()
}

/// Follows no link and goes through names of any bytes.
pub fn tree(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut left = vec![root.to_owned()];
    while let Some(dir) = left.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            continue;
        };
        for entry in entries {
            let entry = entry.unwrap();
            let path = entry.path();
            let data = entry.metadata().unwrap();
            let mode = data.permissions().mode() & 0o777;
            let description = if data.is_dir() {
                left.push(path.clone());
                format!("folder {mode:o}")
            } else if data.is_symlink() {
                format!("link to {}", fs::read_link(&path).unwrap().display())
            } else if data.len() > 40 {
                format!("file {mode:o} of {} bytes", data.len())
            } else {
                let content = fs::read(&path).unwrap_or_default();
                format!("file {mode:o} {:?}", String::from_utf8_lossy(&content))
            };
            let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes();
            tree.insert(name.escape_ascii().to_string(), description);
        }
    }
    tree
}

/// What became of a tree, one line for each difference.
pub fn difference(before: &Tree, after: &Tree) -> String {
    /// Nobody reads more.
    const SHOWN: usize = 8;
    let mut lines = String::new();
    let mut more = 0;
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    for name in names {
        if before.get(name) != after.get(name) && lines.lines().count() == SHOWN {
            more += 1;
            continue;
        }
        let _ = match (before.get(name), after.get(name)) {
            (was, is) if was == is => continue,
            (Some(was), None) => writeln!(lines, "  gone {name}: {was}"),
            (None, Some(is)) => writeln!(lines, "  new {name}: {is}"),
            (was, is) => writeln!(
                lines,
                "  changed {name}: {}, was {}",
                is.map_or("", |is| is),
                was.map_or("", |was| was)
            ),
        };
    }
    if more > 0 {
        let _ = writeln!(lines, "  and {more} more");
    }
    match lines.as_str() {
        "" => AS_IT_WAS.to_owned(),
        _ => format!("the tree:\n{lines}"),
    }
}
