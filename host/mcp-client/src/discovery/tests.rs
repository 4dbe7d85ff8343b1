//! Tests of discovered tools.

use expect_test::{Expect, expect};
use toolhost_process::PipedStream;

use super::*;

fn check(output: &str, expected: Expect) {
    let accept = |tool: &Descriptor| match tool.input_schema["type"].as_str() {
        Some("object") => Ok(()),
        other => Err(format!("{other:?} is not an object")),
    };
    let shown = match declarations(output, &accept) {
        Err(reason) => reason,
        Ok((tools, left_out)) => {
            let mut shown = String::new();
            for one in tools {
                let tool = one.descriptor;
                let effect = tool.effect().as_str();
                let _ = writeln!(
                    shown,
                    "{} {effect} {} {}",
                    tool.name, tool.description, tool.input_schema
                );
            }
            for one in left_out {
                let _ = writeln!(shown, "left out {}: {}", one.tool, one.reason);
            }
            shown
        }
    };
    expected.assert_eq(&shown);
}

// R-080, R-082
#[test]
fn r_082_declarations_alone_and_in_groups() {
    check(
        r#"[{"name": "weather", "description": "Says it.", "parameters": {"properties": {"city": {"type": "string"}}}},
            {"functionDeclarations": [{"name": "get-time"}, {"name": "weather"}]},
            {"name": "odd", "parameters": {"type": "string"}}, {"name": "--flag"}, {}]"#,
        expect![[r#"
            discovered__get_time destroys The tool get-time of this project. {"type":"object","additionalProperties":true}
            discovered__weather destroys Says it. {"properties":{"city":{"type":"string"}},"type":"object","additionalProperties":true}
            left out weather: another tool is called `discovered__weather`
            left out odd: Some("string") is not an object
            left out --flag: its `name` is missing or cannot be a command argument
            left out : its `name` is missing or cannot be a command argument
        "#]],
    );
    check(
        "Oops\u{1b}[2J",
        expect![[
            r#"the discovery command did not print a list of tools as JSON: expected value at line 1 column 1; the output begins with: Oops\u{1b}[2J"#
        ]],
    );
    check(
        "{}",
        expect!["the discovery command printed JSON that is not a list"],
    );
}

// R-081
#[test]
fn r_081_failures_have_a_full_report() {
    let stream = |text: &str| PipedStream {
        bytes: text.as_bytes().to_vec(),
        is_truncated: false,
    };
    let of = |stdout, stderr, exit| {
        outcome(&PipedResult {
            stdout: stream(stdout),
            stderr: stream(stderr),
            exit,
        })
    };
    let fine = of("sunny\n", "", ExitReason::Code(0));
    assert_eq!(
        (fine.model_text().as_str(), fine.is_error()),
        ("sunny\n", false)
    );
    let noisy = of("sunny\n", "warning\n", ExitReason::Code(0));
    assert!(!noisy.is_error() && noisy.model_text().contains("Stderr: warning"));
    let failed = of("", "no city", ExitReason::Code(3));
    assert!(failed.is_error());
    assert_eq!(
        failed.model_text(),
        "Stdout: (empty)\nStderr: no city\nError: (none)\nExit Code: 3\nSignal: (none)"
    );
    assert!(
        of("", "", ExitReason::Signal(9))
            .model_text()
            .ends_with("Exit Code: (none)\nSignal: 9")
    );
}
