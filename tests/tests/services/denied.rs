//! Read rules apply to the file that is actually opened, by guests, shipped tools and programs. Calls that cannot run
//! are refused before the user is prompted.

use std::os::unix::fs::symlink;

use e2e::{CommandResult, Guest, root, run};
use serde_json::{Value, json};

use super::session::result_value;

const DENY: [&str; 2] = ["--deny-tool", "Read(./secrets/**)"];

/// A workspace with a denied folder, a link to it and one to a file in it.
fn workspace(guest: &Guest) -> String {
    let workspace = guest.workspace();
    for dir in ["secrets", "notes"] {
        std::fs::create_dir(workspace.join(dir)).unwrap();
    }
    std::fs::write(workspace.join("secrets/k.txt"), "the canary").unwrap();
    std::fs::write(workspace.join("notes/a.txt"), "a note").unwrap();
    symlink("secrets", workspace.join("link")).unwrap();
    symlink("../secrets/k.txt", workspace.join("notes/k.txt")).unwrap();
    workspace.display().to_string()
}

fn shipped(tool: &str, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
    let plugins = root().join("plugins").display().to_string();
    let input = input.to_string();
    let args = [
        &["call", tool, &input, "--json", "--plugins", &plugins],
        flags,
    ]
    .concat();
    let ended = run(&args);
    let report = serde_json::from_str(&ended.stdout)
        .unwrap_or_else(|error| panic!("{tool}: {error} {} {}", ended.stdout, ended.stderr));
    (report, ended)
}

#[test]
fn a_07_a_denied_file_is_not_read_whatever_leads_to_it() {
    let guest = Guest::new("script", &["fs.read", "fs.write"], "");
    let folder = workspace(&guest);
    let flags = [&["--mode", "yolo", "--allow-path", &folder][..], &DENY].concat();
    // The input of these calls names no path that a rule could be held against.
    let steps = [
        "read secrets/k.txt",
        "read link/k.txt",
        "read notes/k.txt",
        "list secrets",
        "list link",
        "stat notes/k.txt",
        "read notes/a.txt",
    ];
    for tool in ["look", "script"] {
        let (report, ended) = guest.call_tool(tool, &json!({ "steps": steps }), &flags);
        assert_eq!(report["ok"], json!(true), "{report} {}", ended.stderr);
        let results = result_value(&report);
        assert_eq!(results[6], json!("a note"), "{results}");
        assert!(!results.to_string().contains("canary"), "{tool}: {results}");
        assert!(!results.to_string().contains("k.txt"), "{tool}: {results}");
    }
    for (tool, input) in [
        ("read_file", json!({"path": "link/k.txt"})),
        ("read_file", json!({"path": "notes/k.txt"})),
        (
            "read_many_files",
            json!({"paths": ["notes/a.txt", "notes/k.txt"]}),
        ),
        ("list_directory", json!({"path": "link"})),
        ("glob", json!({"pattern": "**/*.txt"})),
        (
            "grep",
            json!({"pattern": "canary", "output_mode": "content"}),
        ),
        (
            "grep",
            json!({"pattern": "canary", "glob": "secrets/*", "output_mode": "content"}),
        ),
        (
            "grep",
            json!({"pattern": "canary", "path": "link", "output_mode": "content"}),
        ),
    ] {
        let (report, _) = shipped(tool, &input, &flags);
        let text = report.to_string().replace(&input.to_string(), "");
        assert!(!text.contains("the canary"), "{tool} {input}: {report}");
        assert!(!text.contains("secrets/k.txt"), "{tool} {input}: {report}");
    }
    // The answer names the rule.
    let (report, _) = shipped("read_file", &json!({"path": "link/k.txt"}), &flags);
    assert!(
        report.to_string().contains("Read(./secrets/**)"),
        "{report}"
    );
}

#[test]
fn a_07_a_program_does_not_read_what_a_rule_denies() {
    let guest = Guest::new("programs", &["process:bash", "fs.read", "fs.write"], "");
    let folder = format!("{}:rw", workspace(&guest));
    let allowed = [
        "--mode",
        "yolo",
        "--allow-program",
        "bash",
        "--allow-path",
        &folder,
    ];
    let command = "cat $PWD/secrets/k.txt; cat l*/k.txt; cat notes/a.txt; echo x > notes/new; cat notes/new; echo ended";
    let input = json!({ "command": command });
    for deny in ["Read(./secrets/**)", "Read(k.txt)", "Read(secrets/*.txt)"] {
        let flags = [&allowed[..], &["--deny-tool", deny, "--allow-tool", "Bash"]].concat();
        let (report, ended) = guest.call_tool("programs", &input, &flags);
        let text = report.to_string();
        assert!(
            text.contains("a note") && text.contains("ended"),
            "{deny}: {report} {}",
            ended.stderr
        );
        assert!(!text.contains("the canary"), "{deny}: {report}");
    }
    // The operator may say that programs are no business of the rule.
    let config = guest.workspace().parent().unwrap().join("host.toml");
    let rule =
        "[[rule]]\ntool = \"Read\"\npath = \"secrets/**\"\ndecision = \"deny\"\nprograms = false\n";
    std::fs::write(&config, rule).unwrap();
    let config = config.display().to_string();
    let flags = [&allowed[..], &["--config", &config]].concat();
    let (report, ended) =
        guest.call_tool("programs", &json!({"command": "cat $PWD/s*/k.txt"}), &flags);
    assert!(
        report.to_string().contains("the canary"),
        "{report} {}",
        ended.stderr
    );
}

/// The search for names has a bound on its depth; what it did not see is not granted.
#[test]
fn a_07_a_program_does_not_read_a_denied_file_in_deep_directories() {
    let guest = Guest::new("programs", &["process:bash", "fs.read"], "");
    let workspace = workspace(&guest);
    for (depth, readable) in [(100, true), (140, false)] {
        let deep = "d/".repeat(depth);
        let dir = format!("{workspace}/{deep}");
        std::fs::create_dir_all(&dir).unwrap();
        for (name, content) in [("k.txt", "the canary"), ("a.txt", "a deep note")] {
            std::fs::write(format!("{dir}{name}"), content).unwrap();
        }
        let flags = [
            "--mode",
            "yolo",
            "--allow-program",
            "bash",
            "--allow-path",
            &workspace,
            "--deny-tool",
            "Read(k.txt)",
            "--allow-tool",
            "Bash",
        ];
        let input =
            json!({ "command": format!("cd {workspace}; cat {deep}[a-z].txt; echo ended") });
        let (report, ended) = guest.call_tool("programs", &input, &flags);
        let text = report.to_string().replace(&input.to_string(), "");
        assert!(text.contains("ended"), "{report} {}", ended.stderr);
        assert!(!text.contains("the canary"), "{depth}: {report}");
        assert_eq!(text.contains("a deep note"), readable, "{depth}: {report}");
    }
}

#[test]
fn a_program_is_refused_where_a_pattern_needs_a_look_at_more_than_20_000_entries() {
    let guest = Guest::new("programs", &["process:bash", "fs.read"], "");
    let folder = guest.workspace().join("many");
    std::fs::create_dir(&folder).unwrap();
    // With the folder itself.
    for number in 1..20_000 {
        std::fs::File::create(folder.join(number.to_string())).unwrap();
    }
    let workspace = guest.workspace().display().to_string();
    let flags = [
        "--mode",
        "yolo",
        "--allow-program",
        "bash",
        "--allow-path",
        &workspace,
        "--deny-tool",
        "Read(*.key)",
    ];
    let input = json!({"command": "touch $TMPDIR/x && echo ran"});
    let call = || {
        let (report, ended) = guest.call_tool("programs", &input, &flags);
        assert_eq!(report["ok"], json!(true), "{report} {}", ended.stderr);
        result_value(&report)
    };
    assert_eq!(call(), json!(["0", "ran"]));
    std::fs::File::create(folder.join("one more")).unwrap();
    assert_eq!(call(), json!(["! read_denied"]));
}

#[test]
fn c_09_a_call_that_lacks_a_grant_is_refused_before_a_prompt() {
    for (tool, input, flag) in [
        ("shell", json!({"command": "ls"}), "--allow-program"),
        (
            "web_fetch",
            json!({"url": "https://example.com/", "prompt": "x"}),
            "--allow-host",
        ),
    ] {
        let (report, ended) = shipped(tool, &input, &[]);
        let text = report.to_string();
        assert!(
            text.contains("capability_missing"),
            "{report} {}",
            ended.stderr
        );
        assert!(text.contains(flag), "{report}");
        assert!(!text.contains("no terminal is available"), "{report}");
    }
}

#[test]
fn c_12_a_tool_that_a_rule_always_denies_is_not_listed() {
    let plugins = root().join("plugins").display().to_string();
    let list = |flags: &[&str]| {
        let args = [
            &["tools", "--format", "openai", "--plugins", &plugins],
            flags,
        ]
        .concat();
        let ended = run(&args);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    };
    assert!(list(&[]).contains("\"write_file\""));
    let denied = list(&["--deny-tool", "write_file"]);
    assert!(!denied.contains("\"write_file\"") && denied.contains("\"read_file\""));
    // A rule about some calls leaves the tool listed.
    assert!(list(&["--deny-tool", "write_file(secrets/**)"]).contains("\"write_file\""));
}
