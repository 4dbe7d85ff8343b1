//! Comparison of this plugin's tools with Python's `json` and `base64`. Intended differences are listed in
//! docs/tools.md.

use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json;
use toolhost_sdk::testing;

use crate::base64::{base64_decode, base64_encode};
use crate::json::{json_parse, json_stringify};

/// `count` samples of a strategy, reproducible with `PROPTEST_RNG_SEED`.
fn samples<S: Strategy>(strategy: S, count: usize) -> Vec<S::Value> {
    let mut runner = TestRunner::new(ProptestConfig::default());
    let mut next = || strategy.new_tree(&mut runner).unwrap().current();
    (0..count).map(|_| next()).collect()
}

/// The output of a Python script for `input`, both as JSON; `None` without Python.
fn python(script: &str, input: &Value) -> Option<Value> {
    let started = Command::new("python3")
        .args(["-I", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = started else {
        println!("skipped: python3 is not installed");
        return None;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn call<T: Tool>(input: Value) -> Result<Value> {
    let outcome = testing::call::<T>(&Context::test(), input)?;
    Ok(outcome.structured.unwrap())
}

/// Each text as parsed by Python, or null, serialized again so that numbers are compared by value.
const PARSE: &str = r#"
import json, sys
def refuse(_): raise ValueError
def number(text):
    # Python has room for any, and makes too large ones infinite; a test of their own is below.
    value = float(text) if any(c in ".eE" for c in text) else int(text)
    if value in (float("inf"), float("-inf")) or isinstance(value, int) and not -2**63 <= value < 2**64:
        raise ValueError
    return value
def read(text):
    try:
        return {"text": json.dumps(json.loads(text, parse_constant=refuse, parse_int=number, parse_float=number), ensure_ascii=False)}
    except (ValueError, RecursionError):
        return None
sys.setrecursionlimit(10000)
out = []
for case in json.load(sys.stdin):
    want = read(case["text"])
    got = case["ours"]
    if want is None or got is None:
        same = want is None and got is None
    else:
        same = json.loads(want["text"]) == json.loads(got)
    out.append({"same": same, "want": want})
json.dump(out, sys.stdout)
"#;

fn pieces() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ",",
        ":",
        "\"a\"",
        "\"b\"",
        r#""\u00e9""#,
        r#""\ud83d\ude00""#,
        r#""\x""#,
        r#""\/""#,
        "\"\t\"",
        "1",
        "-0",
        "0.1",
        "1e5",
        "1E+2",
        "-",
        "01",
        ".5",
        "5.",
        "+1",
        "true",
        "false",
        "null",
        "nul",
        " ",
        "\n",
        "\t",
        "\u{a0}",
        "'a'",
        "/**/",
        "//",
        "\"",
        "\\",
        "9007199254740993",
        "1e400",
        "-1e-400",
        "\u{c}",
    ]);
    prop::collection::vec(piece, 0..9).prop_map(|pieces| pieces.concat())
}

fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:e}")),
        any::<f32>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| format!("{number:?}")),
    ];
    let text = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
    let leaf = prop_oneof![
        number,
        text,
        select(vec!["true", "false", "null"]).prop_map(str::to_owned)
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4)
                .prop_map(|items| format!("[{}]", items.join(" ,"))),
            prop::collection::vec((any::<String>(), inner), 0..4).prop_map(|members| {
                let members = members.iter().map(|(name, value)| {
                    format!("{}\n: {value}", serde_json::to_string(name).unwrap())
                });
                format!("{{ {} }}", members.collect::<Vec<String>>().join(","))
            }),
        ]
    })
}

fn check_parsed(texts: &[String]) {
    let cases = texts.iter().map(|text| {
        let parsed = call::<json_parse>(json!({"text": text})).ok();
        let ours = parsed.map(|parsed| parsed["data"].to_string());
        json!({"text": text, "ours": ours})
    });
    let cases: Vec<Value> = cases.collect();
    let Some(answers) = python(PARSE, &json!(cases)) else {
        return;
    };
    for (case, answer) in cases.iter().zip(answers.as_array().unwrap()) {
        assert_eq!(answer["same"], json!(true), "{case} {answer}");
    }
}

#[test]
fn json_is_what_python_takes_for_json() {
    check_parsed(&samples(pieces(), 4000));
}

#[test]
fn values_are_those_that_python_reads() {
    check_parsed(&samples(value(), 1000));
}

#[test]
fn intended_differences_from_python() {
    for (text, code) in [
        // Python has no integer limit, turns large floats into infinity, and accepts lone surrogates.
        ("[123456789012345678901234567890]", "number_out_of_range"),
        ("{\"a\": -9223372036854775809}", "number_out_of_range"),
        ("1e400", "invalid_json"),
        (r#""\ud800""#, "invalid_json"),
        ("NaN", "invalid_json"),
    ] {
        let error = call::<json_parse>(json!({"text": text})).unwrap_err();
        assert_eq!(error.code.as_deref(), Some(code), "{text}: {error}");
    }
    // In a string it is not a number, and a float can have any number of digits.
    for text in [
        r#"["123456789012345678901234567890"]"#,
        "[18446744073709551615, 1.0000000000000000000000000001]",
    ] {
        call::<json_parse>(json!({"text": text})).unwrap();
    }
}

const BASE64: &str = r#"
import base64, json, sys
out = []
for case in json.load(sys.stdin):
    data = bytes(case["bytes"])
    plain, url = base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode()
    out.append([plain, plain.rstrip("="), url, url.rstrip("=")])
json.dump(out, sys.stdout)
"#;

#[test]
fn base64_is_that_of_python() {
    let inputs = samples(prop::collection::vec(any::<u8>(), 0..40), 300);
    let cases: Vec<Value> = inputs
        .iter()
        .map(|bytes| json!({ "bytes": bytes }))
        .collect();
    let Some(answers) = python(BASE64, &json!(cases)) else {
        return;
    };
    for (bytes, expected) in inputs.iter().zip(answers.as_array().unwrap()) {
        for (nth, (url_safe, padding)) in
            [(false, true), (false, false), (true, true), (true, false)]
                .into_iter()
                .enumerate()
        {
            let input = json!({"bytes": bytes, "url_safe": url_safe, "padding": padding});
            let encoded = call::<base64_encode>(input).unwrap();
            assert_eq!(encoded["encoded"], expected[nth], "{bytes:?}");
            let decoded = call::<base64_decode>(json!({"encoded": expected[nth]})).unwrap();
            let text = decoded["decoded"]
                .as_str()
                .map(|text| text.as_bytes().to_vec());
            match text {
                Some(text) => assert_eq!(&text, bytes),
                None => assert_eq!(decoded["bytes_base64"], expected[0]),
            }
            assert_eq!(decoded["size"], json!(bytes.len()));
        }
    }
}

/// Valid and nearly valid base64: what Python decodes must decode to the same bytes, apart from our stricter checks.
const DECODE: &str = r#"
import base64, binascii, json, sys
out = []
for text in json.load(sys.stdin):
    compact = "".join(text.split())
    padded = compact if "=" in compact else compact + "=" * (-len(compact) % 4)
    try:
        # Both alphabets at once are no alphabet.
        if len(padded) % 4 or any(c in text for c in "-_") and any(c in text for c in "+/"): raise ValueError
        data = base64.b64decode(padded, altchars=b"-_" if "-" in text or "_" in text else None, validate=True)
        canonical = base64.b64encode(data).decode().rstrip("=").translate(str.maketrans("+/", "-_"))
        same = canonical == compact.rstrip("=").translate(str.maketrans("+/", "-_"))
        out.append(list(data) if same else None)
    except (binascii.Error, ValueError):
        out.append(None)
json.dump(out, sys.stdout)
"#;

#[test]
fn texts_that_are_nearly_base64_are_read_as_python_reads_them() {
    let piece = select(vec![
        "a", "B", "9", "+", "/", "-", "_", "=", " ", "\n", "QUJD", "QQ==", "QUI=", "é", ".",
    ]);
    let texts = samples(
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat()),
        1500,
    );
    let Some(answers) = python(DECODE, &json!(texts)) else {
        return;
    };
    for (text, expected) in texts.iter().zip(answers.as_array().unwrap()) {
        let decoded = call::<base64_decode>(json!({"encoded": text})).ok();
        let size = decoded.map(|decoded| decoded["size"].clone());
        let expected = expected.as_array().map(|bytes| json!(bytes.len()));
        // Python ignores data after the first padding and excess padding; here both are errors.
        let data = text.trim_end_matches(['=', ' ', '\n']);
        let is_stricter = data.contains('=') || text[data.len()..].matches('=').count() > 2;
        assert!(
            size == expected || is_stricter && size.is_none(),
            "{text:?}: {size:?}, Python {expected:?}"
        );
    }
}

#[test]
fn round_trip() {
    for text in samples(value(), 500) {
        let data = call::<json_parse>(json!({"text": text})).unwrap()["data"].clone();
        for input in [
            json!({"data": data}),
            json!({"data": data, "pretty": true}),
            json!({"data": data, "indent": 3}),
        ] {
            let written = call::<json_stringify>(input).unwrap()["text"].clone();
            let again = call::<json_parse>(json!({"text": written})).unwrap()["data"].clone();
            assert_eq!(again, data);
        }
    }
}
