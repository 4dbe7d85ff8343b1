//! What tools say about their own calls: `validate`, `describe-call`, `locations`, `confirm`, `render-permission`,
//! `render-result`, and a plugin's hooks for its own tools. A misbehaving function never makes the host less careful.

use std::fs;

use e2e::terminal::{KEYS, Terminal};
use e2e::{Guest, host, run};
use serde_json::{Value, json};

const NEEDS: [&str; 2] = ["fs.read", "fs.write"];

fn call(input: &Value, flags: &[&str]) -> (Guest, Value) {
    let guest = Guest::new("preview", &NEEDS, "");
    let allowed = format!("{}:rw", guest.workspace().display());
    let mut all = vec!["--allow-path", &allowed];
    all.extend(flags);
    let (report, _) = guest.call(input, &all);
    (guest, report)
}

fn misbehave(function: &str, how: &str, flags: &[&str]) -> (Value, String) {
    let guest = Guest::new("preview_misbehaves", &NEEDS, "");
    let allowed = format!("{}:rw", guest.workspace().display());
    let mut all = vec!["--allow-path", &allowed];
    all.extend(flags);
    let (report, ended) = guest.call(&json!({"function": function, "how": how}), &all);
    assert_eq!(
        fs::read_dir(guest.workspace()).unwrap().count(),
        0,
        "a preview has no files"
    );
    assert!(!ended.stderr.contains(['\u{1b}', '\u{202e}']), "{ended:?}");
    (report, ended.stderr)
}

#[test]
fn r_033_r_034_validate_refuses_a_call_before_anything_runs() {
    let (guest, report) = call(
        &json!({"name": "a.txt", "lines": 0}),
        &["--allow-tool", "*"],
    );
    let error = &report["error"];
    assert_eq!(
        (&error["code"], &error["message"], &error["recommendations"]),
        (
            &json!("no_lines"),
            &json!("`a.txt` would have no lines"),
            &json!(["write at least one line"])
        ),
        "{report}"
    );
    assert!(!guest.workspace().join("a.txt").exists());
}

#[test]
fn r_040_a_tool_renders_its_result_for_users() {
    let (_, report) = call(
        &json!({"name": "a.txt", "lines": 2}),
        &["--allow-tool", "*"],
    );
    assert_eq!(
        report["rendering"],
        json!([
            {"kind": "text", "text": "a.txt: wrote 2 lines"},
            {"kind": "table", "data": {"columns": ["line"], "rows": [["1"], ["2"]]}},
        ]),
        "{report}"
    );
}

#[test]
fn r_037_rules_see_the_locations_that_a_tool_names() {
    let write = json!({"name": "a.txt", "lines": 2});
    let (guest, report) = call(
        &write,
        &["--allow-tool", "*", "--deny-tool", "preview(*.log)"],
    );
    assert_eq!(report["error"]["code"], "policy_violation", "{report}");
    assert!(!guest.workspace().join("a.txt").exists());
}

#[test]
fn r_038_a_tool_can_require_approval_that_no_rule_gives() {
    let (guest, report) = call(
        &json!({"name": "a.txt", "lines": 101}),
        &["--allow-tool", "*"],
    );
    let message = report["error"]["message"].as_str().unwrap();
    assert!(message.contains("101 lines are many"), "{report}");
    assert!(!guest.workspace().join("a.txt").exists());
}

#[test]
fn hooks_of_a_plugin_guard_its_own_tools_without_configuration() {
    let code = |name: &str| {
        let (guest, report) = call(&json!({"name": name, "lines": 1}), &["--allow-tool", "*"]);
        (guest, report["error"]["code"].clone(), report)
    };
    let (guest, denied, report) = code("secret.txt");
    assert_eq!(denied, "hook_denied", "{report}");
    assert!(report.to_string().contains("the plugin keeps its secret"));
    assert!(!guest.workspace().join("secret.txt").exists());

    // It may not answer in place of the tool.
    let (guest, denied, report) = code("result.txt");
    assert_eq!(denied, "hook_denied", "{report}");
    assert!(!guest.workspace().join("result.txt").exists());

    let (guest, denied, report) = code("rename.txt");
    assert_eq!(denied, Value::Null, "{report}");
    assert!(guest.workspace().join("renamed.txt").exists());

    let (_, denied, report) = code("quiet.txt");
    assert_eq!(denied, Value::Null, "{report}");
    assert_eq!(report["outcome"]["content"][0]["text"], "done", "{report}");
}

#[test]
fn the_functions_run_only_for_tools_that_list_them() {
    let guest = Guest::new("preview", &NEEDS, "");
    let (report, _) = guest.call_tool("unguarded", &json!({}), &[]);
    assert_eq!(
        report["outcome"]["content"][0]["text"], "not guarded",
        "{report}"
    );
    assert_eq!(report["rendering"], Value::Null);
}

/// The benchmark compares them.
#[test]
fn a_tool_with_previews_or_hooks_returns_what_the_same_tool_without_returns() {
    let both = Guest::new("bench_previews", &[], "");
    let neither = Guest::new("bench_plain", &[], "");
    for (guest, tool) in [
        (&neither, "alone"),
        (&both, "plain"),
        (&both, "described"),
        (&both, "guarded_before"),
        (&both, "guarded"),
    ] {
        let (report, _) = guest.call_tool(tool, &json!({"text": "x"}), &[]);
        assert_eq!(report["outcome"]["content"][0]["text"], "x", "{report}");
    }
}

#[test]
fn a_validate_that_fails_refuses_the_call() {
    for how in ["trap", "spin", "grow"] {
        let (report, _) = misbehave("validate", how, &["--allow-tool", "*"]);
        assert_eq!(
            report["error"]["code"], "validation_failed",
            "{how}: {report}"
        );
    }
    let (report, _) = misbehave("validate", "write", &["--allow-tool", "*"]);
    assert_eq!(report["outcome"], Value::Null, "{report}");
    for how in ["flood", "escape"] {
        let (report, _) = misbehave("validate", how, &["--allow-tool", "*"]);
        let message = report["error"]["message"].as_str().unwrap();
        assert!(message.len() <= 16 << 10, "{how}: {}", message.len());
    }
}

#[test]
fn a_confirm_that_fails_requires_approval() {
    for how in ["trap", "spin", "grow", "flood", "escape", "empty"] {
        let (report, _) = misbehave("confirm", how, &["--allow-tool", "*"]);
        let message = report["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("requires approval"), "{how}: {report}");
        assert!(message.len() < 4_000, "{how}: {}", message.len());
    }
}

#[test]
fn locations_that_fail_leave_paths_unknown() {
    for how in ["trap", "spin", "grow", "flood"] {
        let (report, _) = misbehave(
            "locations",
            how,
            &["--allow-tool", "preview_misbehaves(/workspace/**)"],
        );
        assert_eq!(
            report["error"]["code"], "policy_violation",
            "{how}: {report}"
        );
    }
}

#[test]
fn locations_outside_of_the_granted_paths_can_only_be_denied() {
    let rules = ["--allow-tool", "*", "--deny-tool", "Edit(//etc/**)"];
    let (report, _) = misbehave("locations", "outside", &rules);
    assert_eq!(report["error"]["code"], "policy_violation", "{report}");
}

#[test]
fn descriptions_and_renderings_that_fail_are_ignored_with_one_warning() {
    for function in ["describe_call", "render_result"] {
        for how in [
            "trap",
            "spin",
            "grow",
            "flood",
            "many",
            "malformed",
            "escape",
        ] {
            let (report, stderr) = misbehave(function, how, &["--allow-tool", "*"]);
            assert_eq!(
                report["outcome"]["content"][0]["text"],
                format!("{function} {how}"),
                "{report}"
            );
            let warnings = stderr.matches("warning").count();
            assert!(warnings <= 1, "{function} {how}: {stderr}");
        }
    }
}

#[test]
fn a_tool_that_lists_a_hook_which_its_component_lacks_is_not_loaded() {
    let guest = Guest::new("hook_not_exported", &[], "");
    let plugin = guest.plugin();
    let shown = run(&["tools", "--plugins", &plugin.to_string_lossy()]);
    assert!(
        shown.stderr.contains(
            "tool `hook_not_exported` lists the hook `pre-tool-use`, but the component does not export \
             `toolhost:plugin/hooks@0.1.0`"
        ),
        "{shown:?}"
    );
}

/// The screen of the prompt for this call, which is then refused.
fn prompt(guest: &Guest, tool: &str, input: &Value) -> String {
    let plugin = guest.plugin();
    let allowed = format!("{}:rw", guest.workspace().display());
    let input = input.to_string();
    let command = host(&[
        "call",
        tool,
        &input,
        "--plugins",
        &plugin.to_string_lossy(),
        "--allow-path",
        &allowed,
    ]);
    let mut terminal = Terminal::start(&command, "");
    terminal.wait_for(KEYS);
    terminal.type_keys("n");
    let (code, screen) = terminal.wait();
    assert_eq!(code, Ok(5), "{screen}");
    screen
}

#[test]
fn r_035_r_036_r_039_a_prompt_shows_what_the_tool_says_about_the_call() {
    let guest = Guest::new("preview", &NEEDS, "");
    let screen = prompt(&guest, "preview", &json!({"name": "a.txt", "lines": 2}));
    for shown in [
        "the tool says",
        "Write 2 lines to a.txt",
        "the tool shows",
        "This file will be written:",
        "file | lines",
        "a.txt | 2",
    ] {
        assert!(screen.contains(shown), "{shown}: {screen}");
    }
}

#[test]
fn a_prompt_of_a_tool_that_misbehaves_shows_the_rest() {
    let guest = Guest::new("preview_misbehaves", &NEEDS, "");
    for function in ["describe_call", "render_permission", "confirm"] {
        for how in [
            "trap",
            "spin",
            "grow",
            "flood",
            "many",
            "malformed",
            "escape",
        ] {
            let input = json!({"function": function, "how": how, "made": true});
            let screen = prompt(&guest, "preview_misbehaves", &input);
            assert!(screen.len() < 20_000, "{function} {how}: {}", screen.len());
            assert!(!screen.contains("\u{1b}[2J") && !screen.contains('\u{202e}'));
            // It stays on its own line.
            assert!(!screen.contains("\nApproved"), "{screen}");
        }
    }
}
