//! Tests of the JSON protocol of command hooks, without processes.

use expect_test::{Expect, expect};

use super::*;
use crate::hooks::tests::call;

fn check_before(cases: &[(&str, Expect)]) {
    for (stdout, expected) in cases {
        let response = before(stdout.as_bytes());
        expected.assert_eq(&match response {
            Ok(PreHookResponse {
                decision,
                updated_input,
            }) => match updated_input {
                Some(input) => format!("{decision:?}, input {input}"),
                None => format!("{decision:?}"),
            },
            Err(error) => error.to_string(),
        });
    }
}

fn tool_outcome() -> Outcome {
    Outcome {
        summary: Some("s".to_owned()),
        meta: Some(json!({"m": 1})),
        ..Outcome::text("long")
    }
}

/// Checks the text that the model gets, or the error.
fn check_after(outcome: &Outcome, cases: &[(&str, Expect)]) {
    for (stdout, expected) in cases {
        let shown = match after(stdout.as_bytes(), outcome) {
            Ok(change) => result_of(&change.apply(outcome.clone())).to_string(),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&shown);
    }
}

#[test]
fn r_210_every_decision_has_a_keyword() {
    check_before(&[
        ("", expect!["Continue"]),
        (" \n", expect!["Continue"]),
        ("{}", expect!["Continue"]),
        (r#"{"decision": null, "reason": "x"}"#, expect!["Continue"]),
        (r#"{"decision": "continue"}"#, expect!["Continue"]),
        (
            r#"{"decision": "allow", "reason": "safe"}"#,
            expect![[r#"Allow { reason: Some("safe") }"#]],
        ),
        (
            r#"{"decision": "deny", "reason": "no\u001b[2J"}"#,
            expect![[r#"Deny { reason: Some("no\\u{1b}[2J"), outcome: None }"#]],
        ),
        (
            r#"{"decision": "deny", "result": "not yours"}"#,
            expect![[
                r#"Deny { reason: None, outcome: Some(Outcome { summary: None, llm: [Text("not yours")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None }) }"#
            ]],
        ),
        (
            r#"{"decision": "ask", "meta": {"risk": "high"}}"#,
            expect![[r#"Ask { reason: None, meta: Some(Object {"risk": String("high")}) }"#]],
        ),
        (
            r#"{"decision": "defer", "reason": "unsure"}"#,
            expect![[r#"Ask { reason: Some("unsure"), meta: None }"#]],
        ),
        (
            r#"{"result": "cached"}"#,
            expect![[
                r#"Result(Outcome { summary: None, llm: [Text("cached")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None })"#
            ]],
        ),
        (
            r#"{"result": {"text": "t", "is_error": true, "code": "c"}}"#,
            expect![[
                r#"Result(Outcome { summary: None, llm: [Text("t")], structured: None, display: None, error: Some(Failure { code: Some("c"), message: "t", recommendations: [], retryable: false, cause: None, details: None }), truncated: None, tail: None, meta: None })"#
            ]],
        ),
        (
            r#"{"updated_input": {"a": 1}, "continue": true}"#,
            expect![[r#"Continue, input {"a":1}"#]],
        ),
        (
            r#"{"decision": "allow", "continue": false, "reason": "enough"}"#,
            expect![[
                r#"Deny { reason: Some("enough"), outcome: Some(Outcome { summary: None, llm: [], structured: None, display: None, error: Some(Failure { code: Some("stop_execution"), message: "enough", recommendations: [], retryable: false, cause: None, details: None }), truncated: None, tail: None, meta: None }) }"#
            ]],
        ),
        (
            r#"{"continue": false}"#,
            expect![[
                r#"Deny { reason: None, outcome: Some(Outcome { summary: None, llm: [], structured: None, display: None, error: Some(Failure { code: Some("stop_execution"), message: "a hook stopped the agent", recommendations: [], retryable: false, cause: None, details: None }), truncated: None, tail: None, meta: None }) }"#
            ]],
        ),
    ]);
}

#[test]
fn an_invalid_answer_is_an_error_with_a_remedy() {
    check_before(&[
        (
            "hello",
            expect![
                "standard output is not valid JSON (expected value at line 1 column 1); write one object or nothing, and log to standard error"
            ],
        ),
        (
            r#"{"decision": "allow"} trailing"#,
            expect![
                "standard output is not valid JSON (trailing characters at line 1 column 23); write one object or nothing, and log to standard error"
            ],
        ),
        (
            "\u{7f}\u{0}",
            expect![
                "standard output is not valid JSON (expected value at line 1 column 1); write one object or nothing, and log to standard error"
            ],
        ),
        (
            "[]",
            expect!["`standard output` is an array but must be an object"],
        ),
        (
            "\"deny\"",
            expect!["`standard output` is a string but must be an object"],
        ),
        (
            r#"{"decison": "deny"}"#,
            expect!["unknown member `decison` in the answer; did you mean `decision`?"],
        ),
        (
            r#"{"additionalContext": "x"}"#,
            expect![
                "unknown member `additionalContext` in the answer; did you mean `additional_context`?"
            ],
        ),
        (
            r#"{"\u001b": 1}"#,
            expect![[
                r#"unknown member `\u{1b}` in the answer; expected one of decision, reason, updated_input, result, replace, update, additional_context, meta, continue"#
            ]],
        ),
        (
            r#"{"decision": "block"}"#,
            expect!["`block` is not a decision; use allow, deny, ask, defer or continue"],
        ),
        (
            r#"{"decision": "allow\u001b[2J"}"#,
            expect![[
                r#"`allow\u{1b}[2J` is not a decision; use allow, deny, ask, defer or continue"#
            ]],
        ),
        (
            r#"{"decision": true}"#,
            expect!["`decision` is a boolean but must be a string"],
        ),
        (
            r#"{"updated_input": "rm"}"#,
            expect!["`updated_input` is a string but must be an object"],
        ),
        (
            r#"{"continue": "no"}"#,
            expect!["`continue` is a string but must be true or false"],
        ),
        (
            r#"{"result": 1}"#,
            expect!["`result` is a number but must be a string or an object"],
        ),
        (
            r#"{"result": {"txt": "x"}}"#,
            expect!["unknown member `txt` in result; did you mean `text`?"],
        ),
        (
            r#"{"result": {"code": "x"}}"#,
            expect!["`code` has no effect on a success; set `is_error: true`"],
        ),
        (
            r#"{"decision": "ask", "result": "x"}"#,
            expect!["`result` has no effect with ask; use the decision allow or deny"],
        ),
        (
            r#"{"meta": {}}"#,
            expect![
                "`meta` has no effect before a call; use it with the decision ask or inside `result`"
            ],
        ),
        (
            r#"{"replace": "x"}"#,
            expect![
                "`replace` has no effect before a call; use `result` to answer instead of the tool"
            ],
        ),
        (
            r#"{"update": "x"}"#,
            expect![
                "`update` has no effect before a call; use `result` to answer instead of the tool"
            ],
        ),
        (
            r#"{"additional_context": "x"}"#,
            expect![
                "`additional_context` has no effect before a call; use it in the event PostToolUse"
            ],
        ),
    ]);
}

#[test]
fn r_211_an_answer_after_a_call_keeps_updates_or_replaces() {
    check_after(
        &tool_outcome(),
        &[
            (
                "",
                expect![[r#"{"text":"long","is_error":false,"summary":"s","meta":{"m":1}}"#]],
            ),
            (
                r#"{"decision": "allow"}"#,
                expect![[r#"{"text":"long","is_error":false,"summary":"s","meta":{"m":1}}"#]],
            ),
            (
                r#"{"update": "short"}"#,
                expect![[r#"{"text":"short","is_error":false,"summary":"s","meta":{"m":1}}"#]],
            ),
            (
                r#"{"update": {"structured": [1], "meta": {"n": 2}}}"#,
                expect![[
                    r#"{"text":"long","is_error":false,"summary":"s","structured":[1],"meta":{"m":1,"n":2}}"#
                ]],
            ),
            (
                r#"{"replace": "new"}"#,
                expect![[r#"{"text":"new","is_error":false}"#]],
            ),
            (
                r#"{"replace": {"text": "bad", "is_error": true, "code": "c"}}"#,
                expect![[r#"{"text":"bad","is_error":true,"code":"c"}"#]],
            ),
            (
                r#"{"replace": {}}"#,
                expect![[r#"{"text":"(no output)","is_error":false}"#]],
            ),
            (
                r#"{"additional_context": "mind the gap"}"#,
                expect![[
                    r#"{"text":"long\nmind the gap","is_error":false,"summary":"s","meta":{"m":1}}"#
                ]],
            ),
            (
                r#"{"replace": "new", "additional_context": "c"}"#,
                expect![[r#"{"text":"new\nc","is_error":false}"#]],
            ),
            (
                r#"{"update": {"text": "t", "summary": "u"}, "additional_context": "c"}"#,
                expect![[r#"{"text":"t\nc","is_error":false,"summary":"u","meta":{"m":1}}"#]],
            ),
            (
                r#"{"decision": "deny", "reason": "secret"}"#,
                expect![[
                    r#"{"text":"the tool ran, but a hook withheld its result: secret","is_error":true,"code":"hook_denied"}"#
                ]],
            ),
            (
                r#"{"decision": "deny"}"#,
                expect![[
                    r#"{"text":"the tool ran, but a hook withheld its result: no reason given","is_error":true,"code":"hook_denied"}"#
                ]],
            ),
            (
                r#"{"decision": "deny", "replace": "***"}"#,
                expect![[r#"{"text":"***","is_error":false}"#]],
            ),
            (
                r#"{"decision": "deny", "reason": "no", "additional_context": "c"}"#,
                expect![[
                    r#"{"text":"the tool ran, but a hook withheld its result: no\nc","is_error":true,"code":"hook_denied"}"#
                ]],
            ),
            (
                r#"{"decision": "deny", "update": "x"}"#,
                expect![
                    "`update` has no effect with deny; no result is left to update; use `replace`"
                ],
            ),
            (
                r#"{"continue": false, "reason": "enough"}"#,
                expect![[r#"{"text":"enough","is_error":true,"code":"stop_execution"}"#]],
            ),
        ],
    );
}

#[test]
fn r_211_added_context_does_not_hide_a_result_without_parts() {
    let context = r#"{"additional_context": "c"}"#;
    let structured = Outcome {
        structured: Some(json!({"a": 1})),
        ..Outcome::default()
    };
    check_after(
        &structured,
        &[(
            context,
            expect![[r#"{"text":"{\n  \"a\": 1\n}\nc","is_error":false,"structured":{"a":1}}"#]],
        )],
    );
    check_after(
        &error_outcome("no", "it failed".to_owned()),
        &[(
            context,
            expect![[r#"{"text":"it failed\nc","is_error":true,"code":"no"}"#]],
        )],
    );
    check_after(
        &Outcome::default(),
        &[(context, expect![[r#"{"text":"c","is_error":false}"#]])],
    );
}

#[test]
fn members_for_the_event_before_a_call_are_errors_after_it() {
    check_after(
        &tool_outcome(),
        &[
            (
                r#"{"decision": "ask"}"#,
                expect![
                    "`decision: ask` has no effect after a call; the tool has already run; use deny to withhold its result"
                ],
            ),
            (
                r#"{"decision": "defer"}"#,
                expect![
                    "`decision: ask` has no effect after a call; the tool has already run; use deny to withhold its result"
                ],
            ),
            (
                r#"{"updated_input": {}}"#,
                expect![
                    "`updated_input` has no effect after a call; the tool has already run; use it in the event PreToolUse"
                ],
            ),
            (
                r#"{"result": "x"}"#,
                expect!["`result` has no effect after a call; use `replace` or `update`"],
            ),
            (
                r#"{"meta": {}}"#,
                expect!["`meta` has no effect after a call; put it into `replace` or `update`"],
            ),
            (
                r#"{"replace": "x", "update": "y"}"#,
                expect!["`update` has no effect with `replace`; use one of the two"],
            ),
            (
                r#"{"update": {"is_error": false}}"#,
                expect![
                    "`is_error` has no effect in `update`; only `replace` can turn an error into a success or a success into an error"
                ],
            ),
            (
                r#"{"replac": "x"}"#,
                expect!["unknown member `replac` in the answer; did you mean `replace`?"],
            ),
        ],
    );
}

#[test]
fn r_210_the_event_contains_every_name_of_the_tool() {
    let event_of = |call: &HookCall, outcome| {
        let event = HookEvent::AfterTool;
        call_event(event, call, outcome, Path::new("/work"))
    };
    let (mut call, result) = (call(), tool_outcome());
    let plain = event_of(&call, Some(&result));
    expect![[r#"{"event":"PostToolUse","session_id":"local","agent_id":"main","call_id":"1","cwd":"/work","mode":"default","tool":{"name":"edit_file","aliases":["Edit"],"version":"0.0.0","plugin":"files"},"input":{"path":"a"},"result":{"text":"long","is_error":false,"summary":"s","meta":{"m":1}}}"#]].assert_eq(&plain.to_string());
    // The result in an event is a valid answer.
    let echo = json!({"replace": plain["result"]}).to_string();
    let replaced = after(echo.as_bytes(), &result).unwrap();
    assert_eq!(replaced.apply(Outcome::default()), result);

    call.name = call.tool.name.qualified(&call.plugin);
    expect![[r#"{"name":"files__edit_file","aliases":["edit_file","Edit"],"version":"0.0.0","plugin":"files"}"#]].assert_eq(&event_of(&call, None)["tool"].to_string());
}

#[test]
fn a_reason_is_the_escaped_and_shortened_end_of_standard_error() {
    for (stderr, expected) in [
        (&b""[..], None),
        (b" \n", None),
        (b"no\x1b[2J\nnever\n", Some("no\\u{1b}[2J\nnever")),
        (b"\xff!", Some("\u{fffd}!")),
    ] {
        assert_eq!(reason(stderr).as_deref(), expected);
    }
    let long = format!("{}end", "x".repeat(10_000));
    let cut = reason(long.as_bytes()).unwrap();
    assert_eq!((cut.len(), cut.ends_with("xend")), (MAX_REASON, true));
}
