//! Comparison with git: applying git's diff of two trees turns one into the other, including modes.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use toolhost_sdk::testing;

use super::*;

/// A repository for the test, and a directory as its work tree.
struct Git {
    dir: tempfile::TempDir,
    /// The repository that holds the objects and commits.
    repository: PathBuf,
}

impl Git {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let git = Self {
            repository: dir.path().join("git"),
            dir,
        };
        fs::create_dir(git.tree()).unwrap();
        git.run(&["init", "--quiet"]);
        git
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Ignores the git configuration of the user who runs the tests.
    fn try_run(&self, arguments: &[&str]) -> Result<Vec<u8>, String> {
        let done = Command::new("git")
            .args(["-c", "core.autocrlf=false", "-c", "core.fileMode=true"])
            .args(arguments)
            .current_dir(self.tree())
            .env("GIT_DIR", &self.repository)
            .env("GIT_WORK_TREE", self.tree())
            .env("GIT_INDEX_FILE", self.dir.path().join("index"))
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .map_err(|error| error.to_string())?;
        if done.status.success() {
            Ok(done.stdout)
        } else {
            Err(String::from_utf8_lossy(&done.stderr).into_owned())
        }
    }

    fn run(&self, arguments: &[&str]) -> String {
        let output = self.try_run(arguments).unwrap();
        String::from_utf8(output).unwrap().trim_end().to_owned()
    }

    /// The tree hash of the work tree: names, contents, links and executable bits.
    fn written(&self) -> String {
        self.run(&["add", "--all", "--force", "."]);
        self.run(&["write-tree"])
    }

    /// Checks out a commit or tree into the work tree.
    fn check_out(&self, tree: &str) {
        self.run(&["read-tree", "--reset", "-u", tree]);
        self.run(&["clean", "-ffdxq"]);
    }
}

/// Applies a patch like the host, which sets the executable bits that the tool requests.
fn apply(tree: &Path, patch: &str) -> Result<()> {
    let cx = Context::test().with_root(tree.to_str().unwrap(), "rw");
    let outcome = testing::call::<apply_patch>(&cx, json!({"patch": patch}))?;
    let files = outcome
        .meta
        .and_then(|meta| meta["executable"].as_object().cloned());
    for (path, is_executable) in files.unwrap_or_default() {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        let mode = if is_executable == json!(true) {
            mode | 0o111
        } else {
            mode & !0o111
        };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    Ok(())
}

/// A file of a tree: name, lines and whether it is executable.
type Entry = (String, String, bool);

fn name() -> impl Strategy<Value = String> {
    select(vec![
        "a", "b", "c.txt", "d/a", "d/b", "d/e/a", "run.sh", "x y.txt", "ä.txt", "q\"q.txt",
        "t\tt.txt", "Makefile", "s.py",
    ])
    .prop_map(str::to_owned)
}

fn line() -> impl Strategy<Value = String> {
    select(vec![
        "a\n",
        "b\n",
        "c\n",
        "    a\n",
        "\ta\n",
        "\n",
        "\n",
        "a\r\n",
        "\r\n",
        "-- a\n",
        "++ b\n",
        "-- \n",
        "diff --git a/a b/a\n",
        "@@ -1 +1 @@\n",
        "--- a/a\n",
        "+++ b/a\n",
        "\\ No newline at end of file\n",
        "*** End Patch\n",
        "     2→a\n",
        "(showing lines 1-2 of 3; 1 line left; to go on: read_file with …)\n",
        "\u{feff}a\n",
        "a\rb\n",
        "ä\n",
        "  a  \n",
        "```\n",
        "EOF\n",
        "a… [+17 chars]\n",
    ])
    .prop_map(str::to_owned)
}

fn text() -> impl Strategy<Value = String> {
    (prop::collection::vec(line(), 0..14), 0..4_u8).prop_map(|(lines, end)| {
        let mut text = lines.concat();
        if end == 0 && text.ends_with('\n') {
            text.pop();
        }
        text
    })
}

fn tree() -> impl Strategy<Value = Vec<Entry>> {
    prop::collection::vec((name(), text(), any::<bool>()), 1..6)
}

/// What happens to a file between the two trees.
#[derive(Debug, Clone)]
enum FileOperation {
    Delete,
    Rename(String),
    Mode,
    Insert(usize, String),
    Remove(usize),
    Replace(usize, String),
    Write(String, String),
}

fn operation() -> impl Strategy<Value = FileOperation> {
    let position = 0..14_usize;
    prop_oneof![
        Just(FileOperation::Delete),
        name().prop_map(FileOperation::Rename),
        Just(FileOperation::Mode),
        (position.clone(), line()).prop_map(|(at, line)| FileOperation::Insert(at, line)),
        position.clone().prop_map(FileOperation::Remove),
        (position, line()).prop_map(|(at, line)| FileOperation::Replace(at, line)),
        (name(), text()).prop_map(|(name, text)| FileOperation::Write(name, text)),
    ]
}

/// Files by name; a name below another file's name is dropped, because a file system cannot have both.
fn settle(files: Vec<Entry>) -> Vec<Entry> {
    let mut settled: Vec<Entry> = Vec::new();
    for file in files {
        if settled.iter().all(|known| known.0 != file.0) {
            settled.push(file);
        }
    }
    settled
}

fn changed(files: &[Entry], operations: &[(usize, FileOperation)]) -> Vec<Entry> {
    let mut files = files.to_vec();
    for (nth, operation) in operations {
        if let FileOperation::Write(name, text) = operation {
            files.insert(0, (name.clone(), text.clone(), nth % 2 == 0));
            files = settle(files);
            continue;
        }
        if files.is_empty() {
            continue;
        }
        let nth = nth % files.len();
        let mut lines: Vec<String> = files[nth]
            .1
            .split_inclusive('\n')
            .map(str::to_owned)
            .collect();
        match operation {
            FileOperation::Delete => {
                files.remove(nth);
                continue;
            }
            FileOperation::Rename(name) if files.iter().all(|file| file.0 != *name) => {
                files[nth].0.clone_from(name);
            }
            FileOperation::Rename(name) => {
                // The two files are swapped.
                let other = files.iter().position(|file| file.0 == *name).unwrap_or(nth);
                let (one, two) = (files[nth].0.clone(), files[other].0.clone());
                (files[nth].0, files[other].0) = (two, one);
            }
            FileOperation::Mode => files[nth].2 = !files[nth].2,
            FileOperation::Insert(at, line) => lines.insert((*at).min(lines.len()), line.clone()),
            FileOperation::Remove(at) if *at < lines.len() => drop(lines.remove(*at)),
            FileOperation::Replace(at, line) if *at < lines.len() => lines[*at].clone_from(line),
            FileOperation::Remove(_) | FileOperation::Replace(..) | FileOperation::Write(..) => {}
        }
        if !matches!(operation, FileOperation::Rename(_)) {
            files[nth].1 = lines.concat();
        }
    }
    files
}

fn write(git: &Git, files: &[Entry]) -> String {
    fs::remove_dir_all(git.tree()).unwrap();
    fs::create_dir(git.tree()).unwrap();
    for (name, text, is_executable) in files {
        let path = git.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let mode = if *is_executable { 0o755 } else { 0o644 };
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }
    git.written()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn d_01_a_patch_of_git_makes_the_tree_that_git_makes(
        files in tree(), operations in prop::collection::vec((0..9_usize, operation()), 1..6)
    ) {
        let git = Git::new();
        let files = settle(files);
        let old = write(&git, &files);
        let new = write(&git, &changed(&files, &operations));
        prop_assume!(old != new);
        let patch = git.try_run(&["diff", "-M", "--text", &old, &new]).unwrap();
        let patch = String::from_utf8(patch).unwrap();
        git.check_out(&old);
        apply(&git.tree(), &patch).map_err(|error| TestCaseError::fail(format!("{error}\n{patch}")))?;
        let written = git.written();
        if written != new {
            let difference = git.run(&["diff", "--text", &new, &written]);
            return Err(TestCaseError::fail(format!("{patch}\n=====\n{difference}")));
        }
    }
}

/// Number of commits of this repository to try, newest first.
const COMMITS: usize = 40;

/// Intended refusals, listed in docs/tools.md.
const REFUSED: [&str; 4] = [
    "changes a binary file",
    "changes a symbolic link",
    "changes a submodule",
    "is a placeholder for left-out text",
];

#[test]
fn d_02_commits_of_this_repository_are_applied() {
    let mut git = Git::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let found = Command::new("git")
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir"])
        .current_dir(here)
        .output();
    let Some(found) = found.ok().filter(|found| found.status.success()) else {
        println!("skipped: not in a git repository");
        return;
    };
    let head = Command::new("git")
        .args(["rev-parse", "HEAD"])
        .current_dir(here)
        .output()
        .unwrap();
    git.repository = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim_end());
    let head = String::from_utf8(head.stdout).unwrap();
    let limit = format!("-{}", COMMITS + 1);
    let commits = git.run(&["rev-list", "--first-parent", &limit, head.trim_end()]);
    let mut commits: Vec<&str> = commits.lines().collect();
    commits.reverse();
    let mut refused = Vec::new();
    git.check_out(commits[0]);
    for pair in commits.windows(2) {
        let patch = git.try_run(&["diff", "-M", pair[0], pair[1]]).unwrap();
        let expected = git.run(&["rev-parse", &format!("{}^{{tree}}", pair[1])]);
        let Ok(patch) = String::from_utf8(patch) else {
            git.check_out(pair[1]);
            continue;
        };
        if patch.is_empty() {
            continue;
        }
        let is_input = patch.len() <= 4_000_000 && patch.matches("\ndiff --git ").count() < 500;
        let applied = apply(&git.tree(), &patch);
        let written = git.written();
        match applied {
            Ok(()) if written == expected => {}
            Ok(()) => {
                let difference = git.run(&["diff", "--stat", &expected, &written]);
                panic!("{}: another tree: {difference}", pair[1]);
            }
            Err(error) => {
                let message = error.to_string();
                let is_known = !is_input || REFUSED.iter().any(|known| message.contains(known));
                assert!(is_known, "{}: {message}", pair[1]);
                refused.push(message);
                git.check_out(pair[1]);
            }
        }
    }
    println!(
        "{} commits, {} refused: {refused:?}",
        commits.len() - 1,
        refused.len()
    );
    assert!(refused.len() * 10 <= commits.len() + 9, "{refused:?}");
}
