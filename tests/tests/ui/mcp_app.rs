//! The question in the view of an MCP App, with the client and the bridge of the official packages.

use e2e::client_kits::stdio_args;
use e2e::test_env::TestEnv;
use serde_json::{Value, json};

use crate::Script;

/// Runs code, or reorders text, where text is not escaped.
pub const HOSTILE: &str =
    "\"><script>window.pwned=1</script><img src=x onerror=window.pwned=1>\u{202e}\u{200b}";

fn check(era: &str) {
    let env = TestEnv::new("");
    let server = stdio_args(&env.command_with_plugins(&["run", "--ask-client"])).split_off(1);
    let files = json!({
        "old": env.workspace().join("old.txt"),
        "other": env.workspace().join("other.txt"),
        "hostile": env.workspace().join(HOSTILE),
    });
    let variables = [
        ("SERVER", &*json!(server).to_string()),
        ("FILES", &*files.to_string()),
        ("ERA", era),
    ];
    let Some(mut script) = Script::start("mcp_app", &variables) else {
        return;
    };
    assert_eq!(script.hear(), "done");
    script.end();
    let calls = env.run_json(&["calls", "--json"]);
    let calls: Vec<&Value> = calls.as_array().expect("calls").iter().collect();
    assert_eq!(calls.len(), 6, "the tools of the view are not recorded");
    let approved = calls.last().expect("calls")["id"].as_str().expect("an id");
    let shown = env.run(&["audit", "show", approved]);
    assert!(shown.stdout.contains("mcp client apps"), "{}", shown.stdout);
}

#[test]
fn a_view_in_a_session_answers_questions() {
    check("legacy");
}

#[test]
fn a_view_of_a_stateless_client_answers_questions() {
    check("modern");
}
