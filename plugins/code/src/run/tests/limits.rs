//! Scripts that use too much time, memory, stack or output.

use super::*;
use crate::console;

#[test]
fn output_is_bounded() {
    let outcome = call(
        Context::test,
        json!({"code": "for (let i = 0; i < 1000; i++) console.log('é'.repeat(50000)); console.log('end'); 7"}),
    )
    .unwrap();
    let text = outcome.llm[0].text.as_deref().unwrap();
    expect![[r#"

        [99971004 bytes of output omitted; print less, or write it to a file with writeFile]
        result: 7"#]]
    .assert_eq(&text[console::MOST_BYTES..]);
    assert_eq!(
        outcome.truncated,
        Some(toolhost_sdk::Truncation {
            original_bytes: 100_001_004,
            shown_bytes: 30_000,
            saved_to: None
        })
    );
    // One argument, with many and with deep members.
    let code = "const a = Array(1e6).fill('abc'); console.log(a); let d = []; for (let i = 0; i < 1e5; i++) d = [d]; console.log(d)";
    let shown = run(code);
    assert!(shown.len() < 25_000, "{}", shown.len());
    assert!(shown.contains("more\"]"), "{shown}");
}

#[test]
fn a_long_result_is_cut_in_the_text_and_refused_beyond_its_limit() {
    let shown = run("'x'.repeat(100000)");
    assert_eq!(
        shown.len() - shown.trim_start_matches(['"', 'x']).len(),
        38_000
    );
    expect![[r#"

        [62002 bytes of the result omitted; return less, or write it to a file with writeFile]"#]]
    .assert_eq(shown.trim_start_matches(['"', 'x']));
    check(
        "'x'.repeat(2000000)",
        expect![
            "Failed result_not_json: the result has more than 1048576 bytes; return less, or write it to a file with writeFile"
        ],
    );
    // Two to the power of 60 values, of which each is in memory once.
    check(
        "let a = [1]; for (let i = 0; i < 60; i++) a = [a, a]; a",
        expect![
            "Failed result_not_json: the result has more than 1048576 bytes; return less, or write it to a file with writeFile"
        ],
    );
    let sized = |code: &str| run(code).starts_with("Failed result_not_json: the result has more");
    for (code, is_refused) in [
        ("Array(4294967295)", true),
        ("Array(209715)", false),
        ("Array(209716)", true),
        ("'x'.repeat(1048574)", false),
        ("'x'.repeat(1048575)", true),
        ("'\\u0001'.repeat(174762)", false),
        ("'\\u0001'.repeat(174763)", true),
        ("Array(60000).fill(0.1234567890123)", false),
        ("Array(70000).fill(0.1234567890123)", true),
        ("({['\\u0001'.repeat(174761)]: 1})", false),
        ("({['\\u0001'.repeat(174762)]: 1})", true),
    ] {
        assert_eq!(sized(code), is_refused, "{code}");
    }
}

#[test]
fn recursion_ends_with_an_error() {
    for code in [
        "function f() { return f() } f()",
        "function f() { [1].map(f) } f()",
        "const o = {get a() { return o.a }}; o.a",
        "const p = new Proxy({}, {get(t, k, r) { return r[k] }}); p.x",
        "class A { constructor() { new A() } } new A()",
        "function f() { try { f() } catch { f() } } f()",
        "function f() { try { f() } finally { f() } } f()",
        "function* g() { yield* g() } [...g()]",
        "[2, 1].sort(function c(a, b) { return [2, 1].sort(c) })",
        "'a'.replace(/a/, function r() { return 'a'.replace(/a/, r) })",
        "JSON.stringify({toJSON: function j() { return JSON.stringify({toJSON: j}) }})",
        "Reflect.construct(function f() { return Reflect.construct(f, []) }, [])",
    ] {
        let shown = run(code);
        assert!(
            shown.starts_with("Failed recursion_limit: "),
            "{code}: {shown}"
        );
    }
    check(
        "function f() { return f() } f()",
        expect![[r#"
        Failed recursion_limit: the functions of the script call each other more than 400 levels deep; calls through functions such as `map` and `sort`, getters and proxies count twice
        - check the condition that ends the recursion, or use a loop with a list of what is left"#]],
    );
    check(
        "function f(n) { return n ? f(n - 1) + 1 : 0 } f(300)",
        expect!["300"],
    );
}

#[test]
fn a_limit_after_an_await_leaves_the_promise_pending() {
    check(
        "await null; function f() { return f() } f()",
        expect![[r#"
            Failed promise_pending: the promise that the script returns never settles
            - there are no timers and no network; resolve it in the script
            - if it should settle, code after an `await` reached a limit of loops or recursion; move that code before the first `await`"#]],
    );
}

#[test]
fn nesting_of_the_script_is_bounded() {
    let deep = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(5000), close.repeat(5000))
    };
    for code in [
        deep("(", "1", ")"),
        deep("[", "", "]"),
        deep("{", "", "}"),
        deep("({a:", "1", "})"),
        deep("!", "1", ""),
        deep("() => ", "1", ""),
        deep("if (1) ", ";", ""),
        deep("`${", "1", "}`"),
        deep("1 ** ", "1", ""),
        deep("x = ", "1", ""),
        deep("1 ? 1 : ", "1", ""),
        deep("function f() {", "", "}"),
        deep("new ", "f", ""),
        deep("a: ", ";", ""),
    ] {
        let shown = run(&code);
        assert!(
            shown.starts_with("InvalidInput script_too_deep: "),
            "{}: {shown}",
            &code[..20]
        );
    }
    let few = format!("{}1{}", "[".repeat(20), "]".repeat(20));
    assert_eq!(run(&few), few);
}

#[test]
fn time_and_cancellation_end_a_script_and_keep_its_output() {
    let limited = |code: &str| run_in(Context::test, json!({"code": code, "timeout_ms": 20}));
    expect![[r#"
        started
        the script ran longer than its limit of 20 ms
        - raise `timeout_ms`, up to the operator's limit, or do less at once
        Interrupted timeout: the script ran longer than its limit of 20 ms
        - raise `timeout_ms`, up to the operator's limit, or do less at once"#]]
    .assert_eq(&limited("console.log('started'); while (true) {}"));
    for code in [
        "for (;;) { try { null.x } catch {} }",
        "(async () => { for (;;) await null })()",
        "function f() { while (true) {} } f()",
        "Promise.resolve().then(function again() { return Promise.resolve().then(again) })",
    ] {
        let shown = limited(code);
        assert!(
            shown.starts_with("Interrupted timeout: "),
            "{code}: {shown}"
        );
    }
    let cancelled = || Context::test().cancelled_after(3);
    expect!["Interrupted cancelled: the call was cancelled"]
        .assert_eq(&run_in(cancelled, json!({"code": "while (true) {}"})));
    let late = || Context::test().with_remaining(Duration::ZERO);
    expect!["Interrupted timeout: the call ran out of time"]
        .assert_eq(&run_in(late, json!({"code": "while (true) {}"})));
}

#[test]
fn memory_of_buffers_and_stacks_is_bounded() {
    check(
        "new ArrayBuffer(1e10)",
        expect![[r#"
            Failed script_error: the script failed: RangeError: cannot allocate a buffer that exceeds the maximum buffer size at line 1, column 1:
            new ArrayBuffer(1e10)
            ^"#]],
    );
    check(
        "new Uint8Array(2 ** 31)",
        expect![[r#"
            Failed script_error: the script failed: RangeError: cannot allocate a buffer that exceeds the maximum buffer size at line 1, column 1:
            new Uint8Array(2 ** 31)
            ^"#]],
    );
    check("Math.max(...Array(1e6).fill(1))", expect!["1"]);
    check(
        "JSON.parse('['.repeat(100000))",
        expect![[r#"
            Failed script_error: the script failed: SyntaxError: JSON.parse: recursion limit exceeded at line 1 column 128 at line 1, column 11:
            JSON.parse('['.repeat(100000))
                      ^"#]],
    );
    check(
        "RegExp('('.repeat(100000))",
        expect![[r#"
            Failed script_error: the script failed: SyntaxError: failed to create matcher: Regular expression is too deeply nested at line 1, column 7:
            RegExp('('.repeat(100000))
                  ^"#]],
    );
}
