//! Conversion of hook results, valid and invalid.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

const ROOM: HookLimits = HookLimits {
    input: 100,
    output: 1_000,
};

fn verdict(decision: &str) -> PreToolUseResult {
    PreToolUseResult {
        decision: decision.to_owned(),
        reason: None,
        updated_input: None,
        outcome: None,
        meta: None,
    }
}

fn revision(action: &str) -> PostToolUseResult {
    PostToolUseResult {
        action: action.to_owned(),
        patch: None,
        outcome: None,
    }
}

fn shown<T: std::fmt::Debug>(result: Result<T, CallError>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("{:?}: {}", error.class, error.message),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check(raw: PreToolUseResult, expected: Expect) {
    expected.assert_eq(&shown(before(raw, ROOM)));
}

#[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
fn check_after(raw: PostToolUseResult, expected: Expect) {
    expected.assert_eq(&shown(after(raw, ROOM)));
}

fn text(text: &str) -> types::Outcome {
    outcome_to_wit(&Outcome::text(text), 1_000_000).unwrap()
}

// R-210
#[test]
fn r_210_verdicts_before_a_call() {
    check(
        PreToolUseResult {
            updated_input: Some(r#"{"a": 1}"#.to_owned()),
            ..verdict("continue")
        },
        expect![[
            r#"PreHookResponse { decision: Continue, updated_input: Some(Object {"a": Number(1)}) }"#
        ]],
    );
    check(
        PreToolUseResult {
            reason: Some("risky".to_owned()),
            meta: Some(r#"{"risk": "high"}"#.to_owned()),
            ..verdict("ask")
        },
        expect![[
            r#"PreHookResponse { decision: Ask { reason: Some("risky"), meta: Some(Object {"risk": String("high")}) }, updated_input: None }"#
        ]],
    );
    check(
        verdict("deny"),
        expect![
            "PreHookResponse { decision: Deny { reason: None, outcome: None }, updated_input: None }"
        ],
    );
    check(
        PreToolUseResult {
            outcome: Some(text("no")),
            ..verdict("deny")
        },
        expect![[
            r#"PreHookResponse { decision: Deny { reason: None, outcome: Some(Outcome { summary: None, llm: [Text("no")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None }) }, updated_input: None }"#
        ]],
    );
    check(
        PreToolUseResult {
            outcome: Some(text("yes")),
            ..verdict("result")
        },
        expect![[
            r#"PreHookResponse { decision: Result(Outcome { summary: None, llm: [Text("yes")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None }), updated_input: None }"#
        ]],
    );
}

#[test]
fn a_verdict_that_contradicts_itself_is_an_error() {
    check(
        verdict("result"),
        expect![
            "Failed: the hook returned an invalid result: the decision `result` requires an outcome"
        ],
    );
    check(
        PreToolUseResult {
            outcome: Some(text("x")),
            ..verdict("ask")
        },
        expect![
            "Failed: the hook returned an invalid result: the decision `ask` has an outcome; only `result` and `deny` may have one"
        ],
    );
    check(
        verdict("Deny\u{1b}[2J"),
        expect![[
            r#"Failed: the hook returned an invalid result: `Deny\u{1b}[2J` is not a decision; use continue, ask, deny or result"#
        ]],
    );
}

#[test]
fn an_input_is_an_object_and_within_its_limit() {
    let with = |input: &str| PreToolUseResult {
        updated_input: Some(input.to_owned()),
        ..verdict("continue")
    };
    check(
        with("[]"),
        expect!["Failed: the hook returned an invalid result: the input is not a JSON object"],
    );
    check(
        with("{"),
        expect![
            "Failed: the hook returned an invalid result: the input is not valid JSON: EOF while parsing an object at line 1 column 1"
        ],
    );
    check(
        with(&format!("{{}}{}", " ".repeat(99))),
        expect!["OutputLimit: the hook's input is 101 bytes; the limit is 100 bytes"],
    );
    check(
        PreToolUseResult {
            meta: Some("7".to_owned()),
            ..verdict("ask")
        },
        expect!["Failed: the hook returned an invalid result: the meta is not a JSON object"],
    );
}

#[test]
fn a_reason_is_cut_and_an_outcome_is_not() {
    let long = PreToolUseResult {
        reason: Some("ä".repeat(20_000)),
        ..verdict("deny")
    };
    let PreHookDecision::Deny { reason, .. } = before(long, ROOM).unwrap().decision else {
        panic!("not a denial");
    };
    assert_eq!(reason.map(|reason| reason.len()), Some(16 << 10));
    check(
        PreToolUseResult {
            outcome: Some(text(&"x".repeat(1_000))),
            ..verdict("result")
        },
        expect!["OutputLimit: the result is 1068 bytes; the limit is 1000 bytes"],
    );
}

// R-211
#[test]
fn r_211_revisions_after_a_call() {
    check_after(revision("keep"), expect!["Keep"]);
    let patch = RawPatch {
        summary: None,
        llm: Some(vec![part_to_wit(&Part::Text("short".to_owned()))]),
        structured: None,
        meta: Some(r#"{"cut": true}"#.to_owned()),
    };
    let update = PostToolUseResult {
        patch: Some(patch),
        ..revision("update")
    };
    check_after(
        update,
        expect![[
            r#"Update(OutcomePatch { summary: None, llm: Some([Text("short")]), structured: None, meta: Some(Object {"cut": Bool(true)}), text_only: false })"#
        ]],
    );
    let nothing = RawPatch {
        summary: None,
        llm: None,
        structured: None,
        meta: None,
    };
    let update = PostToolUseResult {
        patch: Some(nothing),
        ..revision("update")
    };
    check_after(
        update,
        expect![
            "Update(OutcomePatch { summary: None, llm: None, structured: None, meta: None, text_only: false })"
        ],
    );
    let replace = PostToolUseResult {
        outcome: Some(text("new")),
        ..revision("replace")
    };
    check_after(
        replace,
        expect![[
            r#"Replace(Outcome { summary: None, llm: [Text("new")], structured: None, display: None, error: None, truncated: None, tail: None, meta: None })"#
        ]],
    );
    let expected = || {
        expect![
            "Failed: the hook returned an invalid result: the action `replace` has the wrong fields: `update` takes a patch, `replace` an outcome, `keep` neither"
        ]
    };
    check_after(revision("replace"), expected());
    check_after(
        PostToolUseResult {
            outcome: Some(text("x")),
            ..revision("keep")
        },
        expect![
            "Failed: the hook returned an invalid result: the action `keep` has the wrong fields: `update` takes a patch, `replace` an outcome, `keep` neither"
        ],
    );
}

#[test]
fn an_outcome_round_trips_through_a_hook() {
    let parts = vec![
        Part::Text("a".to_owned()),
        Part::Json(json!({"b": [1, null]})),
        Part::Image {
            data: vec![1],
            media_type: "image/png".to_owned(),
        },
        Part::Audio {
            data: vec![2],
            media_type: "audio/wav".to_owned(),
        },
        Part::File {
            data: vec![3],
            media_type: "text/plain".to_owned(),
            uri: Some("file:///a".to_owned()),
            name: Some("a".to_owned()),
        },
        Part::ResourceLink {
            uri: "x:y".to_owned(),
            name: None,
            media_type: Some("text/plain".to_owned()),
        },
        Part::Other {
            kind: "hologram".to_owned(),
            text: Some("?".to_owned()),
        },
    ];
    let whole = Outcome {
        summary: Some("all".to_owned()),
        llm: parts,
        structured: Some(json!({"c": 1.5})),
        display: Some(Display {
            kind: "diff".to_owned(),
            text: None,
            diff: Some(FileDiff {
                file_name: "f".to_owned(),
                diff: "+x".to_owned(),
                original: None,
                new: "x".to_owned(),
            }),
            data: Some(json!([1])),
        }),
        error: Some(Failure {
            recommendations: vec!["again".to_owned()],
            retryable: true,
            cause: Some("moon".to_owned()),
            details: Some(json!({"orbit": 1})),
            ..Failure::new("code", "it failed")
        }),
        truncated: Some(Truncation {
            original_bytes: 9.0,
            shown_bytes: 3.0,
            saved_to: Some("/tmp/x".to_owned()),
        }),
        tail: Some(TailCall {
            tool: "t".to_owned(),
            input: json!({"d": 1}),
        }),
        meta: Some(json!({"e": 1})),
    };
    assert_eq!(
        outcome(outcome_to_wit(&whole, 10_000).unwrap(), 10_000),
        Ok(whole)
    );
}

#[test]
fn a_19_a_result_with_an_integer_that_would_lose_digits_is_broken() {
    let long = "123456789012345678901234567890";
    for (structured, meta) in [(Some(long), None), (None, Some(long))] {
        let mut raw = outcome_to_wit(&Outcome::text("x"), 10_000).unwrap();
        raw.structured = structured.map(|number| format!("{{\"id\": {number}}}"));
        raw.meta = meta.map(|number| format!("[{number}]"));
        let error = outcome(raw, 10_000).unwrap_err();
        assert!(
            error.message.contains("does not fit into 64 bits"),
            "{error:?}"
        );
    }
}
