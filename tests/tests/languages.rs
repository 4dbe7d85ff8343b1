//! One small tool in each language, through the real program. A language whose toolchain is not here is skipped, and
//! the reason is printed; one that should be here and is not fails.

use std::fs;

use e2e::{run, target};
use serde_json::{Value, json};

fn check(language: &str, tool: &str) {
    let samples = target().join("samples");
    if let Ok(reason) = fs::read_to_string(samples.join(format!("{language}.skipped"))) {
        // Written past the test harness's capture, so that a run that skips says so.
        use std::io::Write as _;
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the {language} sample was not built: {}",
            reason.trim()
        );
        return;
    }
    let plugin = samples.join(format!("{language}.wasm"));
    assert!(
        plugin.exists(),
        "{} is neither built nor skipped; run `cargo xtask samples`",
        plugin.display()
    );
    let plugin = plugin.to_string_lossy();
    let call = |input: &Value| {
        let ended = run(&[
            "call",
            tool,
            &input.to_string(),
            "--json",
            "--plugins",
            &plugin,
        ]);
        let report: Value =
            serde_json::from_str(&ended.stdout).unwrap_or_else(|_| panic!("{ended:?}"));
        (report, ended)
    };

    let (report, ended) = call(&json!({"text": "to be or not to be"}));
    assert_eq!(
        report["outcome"]["structured"],
        json!({"words": 6}),
        "{report} {}",
        ended.stderr
    );
    assert_eq!(report["outcome"]["content"][0]["text"], "6 words");
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stderr.contains("count"),
        "neither log nor progress arrived: {}",
        ended.stderr
    );

    let (report, ended) = call(&json!({"text": ""}));
    assert_eq!(report["error"]["class"], "invalid_tool_params", "{report}");
    assert_eq!(ended.code, Some(2));

    let (report, _) = call(&json!({"texd": "x"}));
    assert!(
        report["error"]["message"]
            .as_str()
            .is_some_and(|text| text.contains("text")),
        "{report}"
    );
}

#[test]
fn a_tool_in_rust() {
    check("rust", "word_count_rs");
}

#[test]
fn a_tool_in_python() {
    check("python", "word_count_py");
}

#[test]
fn a_tool_in_javascript() {
    check("javascript", "word_count_js");
}

#[test]
fn a_tool_in_c() {
    check("c", "word_count_c");
}
