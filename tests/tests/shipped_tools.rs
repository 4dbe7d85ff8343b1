//! Shipped tools in the real sandbox, with its memory and its file system.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use e2e::{CommandResult, host, root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace and a state folder.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        Self { dir }
    }

    fn workspace(&self) -> std::path::PathBuf {
        self.dir.path().join("workspace")
    }

    fn run(&self, arguments: &[&str]) -> CommandResult {
        let mut command = host(arguments);
        command.env("TOOLHOST_STATE_DIR", self.dir.path().join("state"));
        CommandResult::of(&command.output().unwrap())
    }

    fn call(&self, plugin: &str, tool: &str, input: &Value) -> Value {
        let input = input.to_string();
        let plugin = root().join("plugins").join(plugin);
        let folder = format!("{}:rw", self.workspace().display());
        let arguments = [
            "call",
            tool,
            &input,
            "--json",
            "--plugins",
            plugin.to_str().unwrap(),
            "--allow-path",
            &folder,
            "--allow-tool",
            tool,
        ];
        let ended = self.run(&arguments);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
        assert_eq!(report["ok"], true, "{report:#} {}", ended.stderr);
        report
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7111
}

#[test]
fn d_01_a_patch_sets_and_clears_the_executable_bit() {
    let fixture = Fixture::new();
    let path = |name: &str| fixture.workspace().join(name);
    fs::write(path("was.sh"), "one\ntwo\n").unwrap();
    fs::set_permissions(path("was.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(path("is.sh"), "three\n").unwrap();
    fs::set_permissions(path("is.sh"), fs::Permissions::from_mode(0o640)).unwrap();
    let patch = "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+echo\n\
        diff --git a/was.sh b/was.sh\nold mode 100755\nnew mode 100644\n--- a/was.sh\n+++ b/was.sh\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
        diff --git a/is.sh b/moved.sh\nold mode 100644\nnew mode 100755\nsimilarity index 100%\nrename from is.sh\nrename to moved.sh\n";
    let report = fixture.call("files.wasm", "apply_patch", &json!({"patch": patch}));
    assert_eq!(fs::read_to_string(path("was.sh")).unwrap(), "one\n2\n");
    assert_eq!(mode(&path("new.sh")), 0o111, "{report:#}");
    assert_eq!(mode(&path("was.sh")), 0);
    assert_eq!(mode(&path("moved.sh")), 0o110);
    let text = report.to_string();
    assert!(
        !text.contains("did not change the executable bit"),
        "{text}"
    );

    let undone = fixture.run(&["undo", report["id"].as_str().unwrap(), "--yes"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert!(!path("new.sh").exists() && !path("moved.sh").exists());
    assert_eq!(mode(&path("was.sh")), 0o111);
    assert_eq!(mode(&path("is.sh")), 0);
}

#[test]
fn c_08_grep_searches_large_files_and_many_files_in_bounded_memory() {
    let fixture = Fixture::new();
    let path = |name: &str| fixture.workspace().join(name);
    let write = |name: &str, line: &[u8], count: usize| {
        let mut file = BufWriter::new(File::create(path(name)).unwrap());
        for _ in 0..count {
            file.write_all(line).unwrap();
        }
        file
    };
    // Each larger than what the plugin can hold twice: lines, one line, a few matches, nothing but matches, bytes that are no text.
    write("lines.txt", b"nothing here but a line of text\n", 1_300_000)
        .write_all(b"needle x\n")
        .unwrap();
    drop(write("one-line.txt", &vec![b'x'; 1 << 16], 640));
    drop(write("dense.txt", b"x\n", 20_000_000));
    drop(write(
        "invalid.txt",
        &[[0xff; 4095].as_slice(), b"\n"].concat(),
        10_000,
    ));
    drop(write(
        "wide.txt",
        &"\u{4e00}x\n".repeat(4096).into_bytes(),
        1000,
    ));
    File::create(path("sparse"))
        .unwrap()
        .set_len(1 << 30)
        .unwrap();
    fs::create_dir(path("many")).unwrap();
    for number in 0..5_000 {
        fs::write(path(&format!("many/{number:05}.txt")), "x\n").unwrap();
    }

    let report = fixture.call("search.wasm", "grep", &json!({"pattern": "x"}));
    let text = report["llm"].to_string() + &report["content"].to_string() + &report.to_string();
    assert!(text.contains("5004 files contain matches"), "{text}");
    assert!(text.contains("1 binary skipped"), "{text}");
    for input in [
        json!({"pattern": "needle", "output_mode": "content", "context": 3}),
        json!({"pattern": "x$", "output_mode": "count"}),
        json!({"pattern": "line.*\\n.*needle", "multiline": true}),
        json!({"pattern": ".", "path": "sparse"}),
        json!({"pattern": "^", "output_mode": "content", "path": "one-line.txt"}),
        json!({"pattern": "(?-u:\\xff)", "output_mode": "content", "path": "invalid.txt"}),
    ] {
        fixture.call("search.wasm", "grep", &input);
    }
    fixture.call("search.wasm", "glob", &json!({"pattern": "**/*"}));
}
