//! Results, input and promises of scripts; the other tests are in the modules below.

mod errors;
mod files;
mod limits;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;

/// Calls the tool on a thread with room for the parser, whose frames are several times larger here than in a component.
fn call(cx: impl FnOnce() -> Context + Send, input: Value) -> Result<Outcome> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(64 << 20);
        let called = thread.spawn_scoped(scope, || testing::call::<code_run>(&cx(), input));
        called.unwrap().join().unwrap()
    })
}

fn run_in(cx: impl FnOnce() -> Context + Send, input: Value) -> String {
    let outcome = match call(cx, input) {
        Ok(outcome) => outcome,
        Err(error) => return testing::error_line(&error),
    };
    let mut lines: Vec<String> = outcome
        .llm
        .into_iter()
        .filter_map(|part| part.text)
        .filter(|text| !text.is_empty())
        .collect();
    if let Some(error) = outcome.error {
        lines.push(testing::error_line(&error));
        lines.extend(error.recommendations.iter().map(|step| format!("- {step}")));
    }
    lines.join("\n")
}

fn run(code: &str) -> String {
    run_in(Context::test, json!({"code": code}))
}

fn check(code: &str, expected: Expect) {
    expected.assert_eq(&run(code));
}

// R-496
#[test]
fn r_496_the_value_of_the_last_expression_is_the_result() {
    check("1 + 2", expect!["3"]);
    check(
        "const a = [3, 1, 2]; a.sort(); ({a, n: 2.5, big: 2 ** 40, none: undefined})",
        expect![[r#"{"a":[1,2,3],"n":2.5,"big":1099511627776}"#]],
    );
    check(
        "'text\\nof two lines'",
        expect![[r#""text\nof two lines""#]],
    );
    check(
        "let x = 1",
        expect!["null (the value of the last expression is the result)"],
    );
    check(
        "[new String('s'), new Number(1.5), new Boolean(false), new Uint8Array(2)]",
        expect![[r#"["s",1.5,false,{"0":0,"1":0}]"#]],
    );
    check("new Date(0)", expect![[r#""1970-01-01T00:00:00.000Z""#]]);
    check("if (true) { 'block' } else { 2 }", expect![[r#""block""#]]);
    check(
        "function f(n) { return n < 2 ? n : f(n - 1) + f(n - 2) } f(15)",
        expect!["610"],
    );
}

#[test]
fn the_structured_result_has_value_and_output() {
    let outcome = call(
        Context::test,
        json!({"code": "console.log('hello', {a: [1]}); [1, 'x', null]"}),
    )
    .unwrap();
    assert_eq!(
        outcome.structured,
        Some(
            json!({"result": [1, "x", null], "output": "hello {\"a\":[1]}\n", "omitted_bytes": 0})
        )
    );
}

#[test]
fn integers_have_the_digits_of_json_stringify() {
    for (code, shown) in [
        ("2 ** 53 + 2", "9007199254740994"),
        ("-(2 ** 60)", "-1152921504606847000"),
        ("1e19", "10000000000000000000"),
        ("[-0, 1.5, 1e300]", "[0,1.5,1e+300]"),
    ] {
        assert_eq!(run(code), shown, "{code}");
        assert_eq!(
            run(&format!("JSON.stringify({code})")),
            format!("{shown:?}")
        );
    }
    assert!(run("console.log(1e20, -0)").starts_with("100000000000000000000 -0\n"));
}

#[test]
fn integers_of_the_input_are_not_rounded() {
    let shown = |number: Value| {
        let input = json!({"code": "input.a[0]", "input": {"a": [number]}});
        run_in(Context::test, input)
    };
    expect!["InvalidInput number_out_of_range: `input` has the integer 9007199254740993, which JavaScript would round"]
        .assert_eq(&shown(json!(9_007_199_254_740_993_i64)));
    assert!(shown(json!(u64::MAX)).contains("18446744073709551615"));
    assert_eq!(shown(json!(1_u64 << 53)), "9007199254740992");
    assert_eq!(shown(json!(0.1)), "0.1");
}

#[test]
fn the_text_of_a_failed_script_has_its_error() {
    let text = |code: &str| {
        let outcome = call(Context::test, json!({"code": code})).unwrap();
        assert!(outcome.error.is_some(), "{code}");
        let parts = outcome.llm.into_iter();
        parts.filter_map(|part| part.text).collect::<Vec<_>>()
    };
    // The host shows the error itself if there is no text.
    assert_eq!(text("missing"), [""; 0]);
    expect![[r#"
        printed
        the promise that the script returns never settles
        - there are no timers and no network; resolve it in the script
        - if it should settle, code after an `await` reached a limit of loops or recursion; move that code before the first `await`"#]]
    .assert_eq(&text("console.log('printed'); new Promise(() => {})").join("|"));
}

#[test]
fn input_is_a_variable() {
    let input = json!({"code": "input.rows.map(row => row.n).reduce((a, b) => a + b)", "input": {"rows": [{"n": 1}, {"n": 2}]}});
    assert_eq!(run_in(Context::test, input), "3");
    assert_eq!(
        run("input"),
        "null (the value of the last expression is the result)"
    );
    assert_eq!(run("const input = 5; input"), "5");
    let odd = json!({"code": "[input.__proto__, Object.keys(input), input[0]]", "input": {"__proto__": 1, "0": "zero"}});
    expect![[r#"[1,["0","__proto__"],"zero"]"#]].assert_eq(&run_in(Context::test, odd));
}

#[test]
fn examples_are_inputs() {
    testing::check_examples::<code_run>().unwrap();
    for example in code_run::descriptor().examples {
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        assert!(call(Context::test, input).unwrap().error.is_none());
    }
}

#[test]
fn output_is_text() {
    check(
        "console.log('a', 1, -0, true, null, undefined, 10n, Symbol('s'), NaN); console.error([1, {b: 'c'}]); print()",
        expect![[r#"
            a 1 -0 true null undefined 10n Symbol(s) NaN
            [1,{"b":"c"}]

            result: null"#]],
    );
    check(
        "const o = {f() {}, n: NaN, m: new Map(), e: new TypeError('no')}; o.self = o; console.log(o, o.f, new RangeError('far'))",
        expect![[r#"
            {"f":"[a function]","n":"[NaN]","m":"[a Map]","e":"TypeError: no","self":"[Circular]"} [a function] RangeError: far
            result: null"#]],
    );
    check(
        "console.log({get a() { return 1 }, [Symbol('x')]: 2}, new Proxy({p: 1}, {}))",
        expect![[r#"
            {"a":1} {"p":1}
            result: null"#]],
    );
    check(
        "console.log('\\ud800')",
        expect![[r#"
            �
            result: null"#]],
    );
}

#[test]
fn await_and_return_work_at_the_top() {
    check(
        "const x = await Promise.resolve(4);\nreturn x + 1",
        expect!["5"],
    );
    check(
        "return await Promise.all([1, Promise.resolve(2)])",
        expect!["[1,2]"],
    );
    check(
        "const x = await (async () => 4)();\n// the result\nx + 1; // end",
        expect!["5"],
    );
    check("await [1, 2]", expect!["[1,2]"]);
    check("function await(x) { return x } await (1)", expect!["1"]);
    check(
        "await null; nothing.x",
        expect![[r#"
            Failed script_error: the script failed: ReferenceError: nothing is not defined at line 1, column 21:
            await null; nothing.x
                                ^"#]],
    );
    check(
        "await null;\n\n  nothing.x",
        expect![[r#"
            Failed script_error: the script failed: ReferenceError: nothing is not defined at line 3, column 11:
              nothing.x
                      ^"#]],
    );
    check(
        "null.x; await null",
        expect![[r#"
            Failed script_error: the script failed: TypeError: cannot convert 'null' or 'undefined' to object at line 1, column 6:
            null.x; await null
                 ^"#]],
    );
    check(
        "return 1 +",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: it ends within a statement: a bracket, brace or quote is not closed"#]],
    );
    check(
        "await null; let b = ;",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: unexpected token ';', primary expression at line 1, column 21:
        await null; let b = ;
                            ^"#]],
    );
}

#[test]
fn the_last_expression_is_the_result_with_await_at_the_top() {
    for (last, result) in [
        ("a.b", "1"),
        ("a['b']", "1"),
        ("a.f(1)", "1"),
        ("f(1)(2)", "2"),
        ("f(1)\n(2)", "2"),
        ("a\n.f(1)", "1"),
        ("a?.b", "1"),
        ("f`x`(3)", "3"),
        ("new Date(0)\n.getTime()", "0"),
        ("new C", "{}"),
        ("n++", "5"),
        ("--n", "4"),
        ("-n", "-5"),
        ("typeof n", r#""number""#),
        ("n\n+ 1", "6"),
        ("n, 7", "7"),
        ("(1, 2)", "2"),
        ("({a: 1}).a", "1"),
        ("({b: n} = {b: 2})", r#"{"b":2}"#),
        ("n = 8", "8"),
        ("a.b = 8", "8"),
        ("[n] = [9]", "[9]"),
        ("n ? 1 : 2", "1"),
        ("n ?? 2", "5"),
        ("'b' in a", "true"),
        ("/x/.source", r#""x""#),
        ("`${n}`", r#""5""#),
        ("[1].map(n => n + 1)", "[2]"),
        ("await f(1)(2)", "2"),
        ("(async () => { await null; return 3 })()", "3"),
        ("(() => 4)()", "4"),
        ("(function () { return 5 })()", "5"),
        ("(class { static x = 6 }).x", "6"),
        ("this === undefined", "false"),
        ("null", "null"),
        ("é = 2; 'é'; é", "2"),
    ] {
        const NULL_HINT: &str = " (the value of the last expression is the result)";
        let before =
            "await null; let n = 5, é; const f = () => x => x, a = {b: 1, f: x => x}; class C {}";
        for separator in ["\n", "; ", "\r\n\r\n /* é */ ", "\u{2028}/*\r*/"] {
            let code = format!("{before}{separator}{last};\r\n");
            let shown = run(&code);
            let shown = shown.strip_suffix(NULL_HINT).unwrap_or(&shown);
            assert_eq!(shown, result, "{code}");
        }
    }
    check(
        "await null; nothing",
        expect![[r#"
            Failed script_error: the script failed: ReferenceError: nothing is not defined"#]],
    );
}

#[test]
fn promises_are_settled_before_the_end() {
    check(
        "(async () => { await null; return 'later' })()",
        expect![[r#""later""#]],
    );
    check(
        "Promise.resolve().then(() => console.log('then')); 1",
        expect![[r#"
            then
            result: 1"#]],
    );
    check(
        "new Promise(() => {})",
        expect![[r#"
            Failed promise_pending: the promise that the script returns never settles
            - there are no timers and no network; resolve it in the script
            - if it should settle, code after an `await` reached a limit of loops or recursion; move that code before the first `await`"#]],
    );
    check(
        "(async () => { await null; throw new Error('async') })()",
        expect![[r#"
            Failed script_error: the script failed: Error: async at line 1, column 34:
            (async () => { await null; throw new Error('async') })()
                                             ^"#]],
    );
    check(
        "(async () => { throw new Error('lost') })(); 5",
        expect![[r#"
            Failed script_error: the script failed: Error: lost at line 1, column 22:
            (async () => { throw new Error('lost') })(); 5
                                 ^
            called at line 1, column 42"#]],
    );
    check(
        "(async () => { throw new Error('caught') })().catch(() => {}); 5",
        expect!["5"],
    );
    check(
        "import('fs')",
        expect![[r#"
            Failed promise_pending: the promise that the script returns never settles
            - there are no timers and no network; resolve it in the script
            - if it should settle, code after an `await` reached a limit of loops or recursion; move that code before the first `await`"#]],
    );
}

#[test]
fn there_is_nothing_but_the_language_and_files() {
    check(
        "[typeof require, typeof process, typeof fetch, typeof setTimeout, typeof Deno, typeof XMLHttpRequest, typeof WebAssembly]",
        expect![[
            r#"["undefined","undefined","undefined","undefined","undefined","undefined","undefined"]"#
        ]],
    );
    check(
        "eval('1 + 1')",
        expect![[r#"
            Failed script_error: the script failed: EvalError: eval and new Function are not available; write the code in the script at line 1, column 5:
            eval('1 + 1')
                ^"#]],
    );
    check(
        "new Function('return 1')()",
        expect![[r#"
            Failed script_error: the script failed: EvalError: eval and new Function are not available; write the code in the script at line 1, column 1:
            new Function('return 1')()
            ^"#]],
    );
    check(
        "Object.getPrototypeOf(async function () {}).constructor('return 1')",
        expect![[r#"
            Failed script_error: the script failed: EvalError: eval and new Function are not available; write the code in the script at line 1, column 56:
            typeOf(async function () {}).constructor('return 1')
                                                    ^"#]],
    );
}

#[test]
fn inputs_are_checked() {
    let check = |input: Value, expected: Expect| {
        expected.assert_eq(&run_in(Context::test, input));
    };
    check(
        json!({"code": ""}),
        expect!["InvalidInput invalid_input: `code`: a length of 0 is less than the minimum of 1"],
    );
    check(
        json!({"code": "1", "language": "python"}),
        expect![[
            r#"InvalidInput invalid_input: `language`: "python" is not one of ["javascript"]"#
        ]],
    );
    check(
        json!({"code": "1", "timeout": 0}),
        expect!["InvalidInput invalid_input: `timeout_ms`: 0 is less than the minimum of 1"],
    );
    check(
        json!({"code": "1 ".repeat(200_000)}),
        expect!["InvalidInput script_too_large: the script has 400000 bytes; the limit is 262144"],
    );
}
