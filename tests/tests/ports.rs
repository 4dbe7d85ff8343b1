//! Tools of other agent systems as plugins, and the page that shows them beside their originals.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::terminal::{KEYS, Terminal};
use e2e::{CommandResult, host, root, run, target};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A packed port next to a workspace.
struct Port {
    tool: &'static str,
    plugin: String,
    dir: TempDir,
}

impl Port {
    /// `None` if the toolchain of its language is not available; then the reason is printed.
    fn new(name: &str, language: &str, tool: &'static str) -> Option<Self> {
        let samples = target().join("samples");
        if let Ok(reason) = fs::read_to_string(samples.join(format!("{language}.skipped"))) {
            // Bypasses the output capture of the test harness, so that a skipped test is visible.
            use std::io::Write as _;
            let _ = writeln!(
                std::io::stderr(),
                "skipped: the port of {name} was not built: {}",
                reason.trim()
            );
            return None;
        }
        let component = samples.join(format!("port-{name}.wasm"));
        assert!(
            component.exists(),
            "{} is not built; run `cargo xtask samples`",
            component.display()
        );
        let dir = tempfile::tempdir().unwrap();
        let plugin = text(&dir.path().join(format!("port-{name}.wasm")));
        let manifest = text(&root().join(format!("examples/ports/{name}/plugin.toml")));
        let component = text(&component);
        let arguments = ["pack", &component, "--manifest", &manifest, "--output"];
        let packed = run(&[&arguments[..], &[plugin.as_str()]].concat());
        assert_eq!(packed.code, Some(0), "{}", packed.stderr);
        fs::create_dir(dir.path().join("workspace")).unwrap();
        Some(Self { tool, plugin, dir })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("workspace").join(name)
    }

    fn arguments(&self, input: &Value, flags: &[&str]) -> Vec<String> {
        let folder = format!("{}:rw", self.dir.path().join("workspace").display());
        let input = input.to_string();
        let plugin = &self.plugin;
        let mut arguments = vec!["call", self.tool, &input, "--plugins", plugin];
        arguments.extend(["--allow-path", &folder]);
        arguments.extend(flags);
        arguments.into_iter().map(str::to_owned).collect()
    }

    fn call(&self, input: &Value, flags: &[&str]) -> Value {
        self.call_with_messages(input, flags).0
    }

    fn call_with_messages(&self, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
        let arguments = self.arguments(input, &[flags, &["--json"]].concat());
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let ended = run(&arguments);
        let report = serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        (report, ended)
    }

    /// The screen of the question about this call, which is then answered.
    fn ask(&self, input: &Value, flags: &[&str], answer: &str) -> String {
        let arguments = self.arguments(input, flags);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut terminal = Terminal::start(&host(&arguments), "");
        terminal.wait_for(KEYS);
        terminal.type_keys(answer);
        terminal.wait().1
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

fn assert_shows(screen: &str, expected: &[&str]) {
    for text in expected {
        assert!(screen.contains(text), "{text}: {screen}");
    }
}

fn sema() -> Port {
    Port::new("sema", "rust", "add_note").expect("Rust is available")
}

fn gemini() -> Port {
    Port::new("gemini", "rust", "replace_text").expect("Rust is available")
}

const ALLOW: [&str; 2] = ["--allow-tool", "*"];

#[test]
fn sema_a_call_returns_data_and_text_and_renders_its_result() {
    let port = sema();
    let (report, ended) = port.call_with_messages(&json!({"text": "buy bread"}), &ALLOW);
    assert_eq!(
        report["outcome"]["structured"],
        json!({"file": "notes.md", "line": 1}),
        "{report}"
    );
    assert_eq!(
        report["outcome"]["content"][0]["text"],
        "added line 1 to notes.md"
    );
    assert_eq!(
        report["rendering"],
        json!([
            {"kind": "text", "text": "Note added"},
            {"kind": "table", "data": {"columns": ["line", "note"], "rows": [["1", "buy bread"]]}},
        ]),
        "{report}"
    );
    assert_shows(&ended.stderr, &["Add note: buy bread"]);
    assert_eq!(
        fs::read_to_string(port.file("notes.md")).unwrap(),
        "- buy bread\n"
    );
}

#[test]
fn sema_validate_refuses_a_blank_note() {
    let port = sema();
    let report = port.call(&json!({"text": " "}), &ALLOW);
    assert_eq!(report["error"]["code"], "blank_note", "{report}");
    assert_eq!(report["error"]["message"], "`text` is blank");
    assert!(!port.file("notes.md").exists());
}

#[test]
fn sema_a_rule_applies_to_the_file_that_the_input_does_not_name() {
    let port = sema();
    let deny = ["--deny-tool", "add_note(notes.md)"];
    let report = port.call(&json!({"text": "buy bread"}), &[ALLOW, deny].concat());
    assert_eq!(report["error"]["code"], "policy_violation", "{report}");
    assert!(!port.file("notes.md").exists());
}

#[test]
fn sema_the_question_has_title_and_content_of_the_tool() {
    let port = sema();
    let input = json!({"text": "buy bread", "priority": 2});
    let screen = port.ask(&input, &[], "y");
    assert_shows(
        &screen,
        &[
            "Add note: buy bread",
            "This line will be appended to notes.md:",
            "- [2] buy bread",
        ],
    );
    assert_eq!(
        fs::read_to_string(port.file("notes.md")).unwrap(),
        "- [2] buy bread\n"
    );
}

fn edit(old: &str, new: &str, places: u32) -> Value {
    json!({"file_path": "a.txt", "old_string": old, "new_string": new, "expected_replacements": places})
}

#[test]
fn gemini_an_edit_returns_its_difference_for_the_user() {
    let port = gemini();
    fs::write(port.file("a.txt"), "one\ntwo\n").unwrap();
    let (report, ended) = port.call_with_messages(&edit("one", "1", 1), &ALLOW);
    assert_eq!(report["outcome"]["summary"], "Modified a.txt", "{report}");
    let display = &report["outcome"]["display"];
    assert_eq!(display["kind"], "diff", "{report}");
    assert_eq!(
        display["diff"],
        json!({
            "file_name": "a.txt", "diff": "@@ -1,2 +1,2 @@\n-one\n+1\n two\n",
            "original": "one\ntwo\n", "new": "1\ntwo\n",
        }),
        "{report}"
    );
    assert_shows(&ended.stderr, &["a.txt: one => 1"]);
    assert_eq!(fs::read_to_string(port.file("a.txt")).unwrap(), "1\ntwo\n");
}

#[test]
fn gemini_validate_refuses_an_edit_without_a_change() {
    let port = gemini();
    fs::write(port.file("a.txt"), "one\n").unwrap();
    let report = port.call(&edit("one", "one", 1), &ALLOW);
    assert_eq!(report["error"]["code"], "no_change", "{report}");
}

#[test]
fn gemini_confirm_requires_approval_that_no_rule_gives() {
    let port = gemini();
    fs::write(port.file("a.txt"), "one\none\n").unwrap();
    let report = port.call(&edit("one", "1", 2), &ALLOW);
    let message = report["error"]["message"].as_str().unwrap_or_default();
    assert_shows(message, &["it replaces 2 places in a.txt"]);
    assert_eq!(
        fs::read_to_string(port.file("a.txt")).unwrap(),
        "one\none\n"
    );

    let screen = port.ask(&edit("one", "1", 2), &ALLOW, "y");
    assert_shows(
        &screen,
        &[
            "it replaces 2 places",
            "a.txt: one => 1",
            "a.txt | one | 1 | 2",
        ],
    );
    assert_eq!(fs::read_to_string(port.file("a.txt")).unwrap(), "1\n1\n");
}

#[test]
fn gemini_a_rule_denies_the_location_of_an_edit() {
    let port = gemini();
    fs::write(port.file("a.txt"), "one\n").unwrap();
    let deny = ["--deny-tool", "replace_text(a.txt)"];
    let report = port.call(&edit("one", "1", 1), &[ALLOW, deny].concat());
    assert_eq!(report["error"]["code"], "policy_violation", "{report}");
    assert_eq!(fs::read_to_string(port.file("a.txt")).unwrap(), "one\n");
}

#[test]
fn kode_a_file_is_read_and_its_hooks_guard_the_call() {
    let Some(port) = Port::new("kode", "python", "fs_read_enhanced") else {
        return;
    };
    fs::write(port.file("a.txt"), "hello\n").unwrap();
    fs::write(port.file("binary"), [0xff, 0xfe]).unwrap();
    fs::write(port.file("long.txt"), "x".repeat(1_000_001)).unwrap();
    let content = |input: &Value| port.call(input, &[])["outcome"]["structured"]["content"].clone();
    assert_eq!(content(&json!({"path": "a.txt"})), "hello\n");
    let base64 = json!({"path": "a.txt", "encoding": "base64"});
    assert_eq!(content(&base64), "aGVsbG8K");

    let report = port.call(&json!({"path": "a.txt", "encoding": "utf16"}), &[]);
    assert_eq!(report["error"]["class"], "invalid_tool_params", "{report}");
    // The hook after the call leaves an error as it is.
    let report = port.call(&json!({"path": "binary"}), &[]);
    assert_eq!(report["error"]["message"], "binary is not UTF-8 text");

    let report = port.call(&json!({"path": "/etc/hosts"}), &ALLOW);
    let message = report["error"]["message"].as_str().unwrap_or_default();
    assert_shows(message, &["requires approval", "it reads a system file"]);

    let screen = port.ask(&json!({"path": "/etc/hosts"}), &ALLOW, "n");
    assert_shows(&screen, &["it reads a system file", "risk", "high"]);

    let shortened = format!("{}...(truncated)", "x".repeat(1_000));
    assert_eq!(content(&json!({"path": "long.txt"})), shortened);
}

#[test]
fn kode_metadata_is_in_the_descriptor() {
    let Some(port) = Port::new("kode", "python", "fs_read_enhanced") else {
        return;
    };
    let listed = run(&["tools", "--json", "--plugins", &port.plugin]);
    let tools: Value = serde_json::from_str(&listed.stdout).unwrap();
    let tools = tools.as_array().or_else(|| tools["tools"].as_array());
    let tool = &tools.unwrap()[0];
    assert_eq!(tool["version"], "1.0.0", "{tool}");
    assert_eq!(tool["tags"], json!(["filesystem", "read"]), "{tool}");
}

#[test]
fn pegasus_a_custom_tool_gets_parameters_and_context() {
    let Some(port) = Port::new("pegasus", "javascript", "my_custom_tool") else {
        return;
    };
    let call = |input: &Value| port.call(input, &["--task", "t-1"]);
    let report = call(&json!({"input": "Hello, World of Tools", "optional": 12}));
    assert_eq!(
        report["outcome"]["structured"],
        json!({"name": "hello-world", "taskId": "t-1"}),
        "{report}"
    );
    let report = call(&json!({"input": "…"}));
    assert_eq!(report["error"]["code"], "no_words", "{report}");
    let report = call(&json!({"input": "a", "optional": 0}));
    assert_eq!(report["error"]["class"], "invalid_tool_params", "{report}");
}

/// Each block of code below a comment `<!-- from FILE -->` is a part of the file.
#[test]
fn the_page_shows_the_code_of_the_ports() {
    let page = fs::read_to_string(root().join("docs/porting.md")).unwrap();
    let mut files = Vec::new();
    for part in page.split("<!-- from ").skip(1) {
        let (name, rest) = part
            .split_once(" -->\n")
            .expect("a comment ends with ` -->`");
        let (_, rest) = rest.split_once("```").expect("a block follows");
        let (_, rest) = rest.split_once('\n').unwrap();
        let (block, _) = rest.split_once("```").expect("the block ends");
        let file = fs::read_to_string(root().join(name)).expect(name);
        assert!(
            file.contains(block),
            "docs/porting.md shows code that {name} does not contain; copy it again:\n{block}"
        );
        files.push(name.to_owned());
    }
    files.sort();
    files.dedup();
    assert_eq!(
        files,
        [
            "examples/ports/gemini/src/lib.rs",
            "examples/ports/kode/fs_read_enhanced.py",
            "examples/ports/pegasus/my_custom_tool.ts",
            "examples/ports/sema/src/lib.rs",
        ]
    );
}
