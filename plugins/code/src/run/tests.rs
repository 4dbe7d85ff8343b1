use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing;

use super::*;
use crate::console;

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

struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        testing::write_files(dir.path(), files);
        Self(dir)
    }

    fn check(&self, access: &str, code: &str, expected: Expect) {
        let root = self.0.path();
        let cx = || Context::test().with_root(root, access);
        let shown = run_in(cx, json!({"code": code}));
        expected.assert_eq(&shown.replace(self.0.path().to_str().unwrap(), "<root>"));
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.0.path().join(path)).unwrap()
    }
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
    assert!(run("Array(4294967295)").starts_with("[null,null,"));
}

#[test]
fn values_that_are_not_json_are_refused() {
    for code in [
        "const a = {}; a.b = [a]; a",
        "({a: [1, 10n]})",
        "Symbol('s')",
        "() => 1",
        "({f: Math.max})",
        "0 / 0",
        "[1 / 0]",
        "new Map([[1, 2]])",
        "[new Set()]",
        "let d = []; for (let i = 0; i < 1e5; i++) d = [d]; d",
        "({toJSON() { return () => 1 }})",
        "({toJSON() { return new Map() }})",
        "({toJSON() { return this }, a: 1})",
        "const a = {}; a.b = {'key with\\n': [a]}; a",
    ] {
        let shown = run(code);
        assert!(
            shown.starts_with("Failed result_not_json: "),
            "{code}: {shown}"
        );
    }
    check(
        "({a: [1, 10n]})",
        expect![
            "Failed result_not_json: `result.a[1]` is the BigInt 10n, which is not JSON; convert it with String(value) or Number(value)"
        ],
    );
    let late = run("({toJSON() { return {get x() { throw new Error('late') }} }})");
    assert!(
        late.starts_with("Failed script_error: the script failed: Error: late at line 1"),
        "{late}"
    );
}

#[test]
fn an_error_has_line_and_column() {
    check(
        "let o = {};\n\n  o.a.b",
        expect![[r#"
            Failed script_error: the script failed: TypeError: cannot convert 'null' or 'undefined' to object at line 3, column 7:
              o.a.b
                  ^"#]],
    );
    check(
        "function deep() {\n  throw new TypeError('too\\n bad')\n}\nconsole.log('before');\n[1].map(() => deep())",
        expect![[r#"
            before

            Failed script_error: the script failed: TypeError: too  bad at line 2, column 9:
              throw new TypeError('too\n bad')
                    ^
            called at line 5, column 19
            called at line 5, column 8"#]],
    );
    check(
        "class Mine extends Error { constructor() { super('special'); this.name = 'Mine' } }\nthrow new Mine()",
        expect![[r#"
            Failed script_error: the script failed: Mine: special at line 1, column 28:
            class Mine extends Error { constructor() { super('special'); this.n
                                       ^
            called at line 2, column 7"#]],
    );
    check(
        "missing",
        expect!["Failed script_error: the script failed: ReferenceError: missing is not defined"],
    );
    check(
        "null.x",
        expect![[r#"
            Failed script_error: the script failed: TypeError: cannot convert 'null' or 'undefined' to object at line 1, column 6:
            null.x
                 ^"#]],
    );
    check(
        "new Array(-1)",
        expect![[r#"
            Failed script_error: the script failed: RangeError: invalid array length at line 1, column 1:
            new Array(-1)
            ^"#]],
    );
    check(
        "JSON.parse('{\"a\": }')",
        expect![[r#"
            Failed script_error: the script failed: SyntaxError: JSON.parse: expected value at line 1 column 7 at line 1, column 11:
            JSON.parse('{"a": }')
                      ^"#]],
    );
    check(
        "decodeURIComponent('%')",
        expect![[r#"
            Failed script_error: the script failed: URIError: invalid escape character found at line 1, column 19:
            decodeURIComponent('%')
                              ^"#]],
    );
}

#[test]
fn values_that_are_not_errors_can_be_thrown() {
    for code in [
        "throw 'text'",
        "throw {code: 5}",
        "throw undefined",
        "throw null",
        "throw 10n",
        "throw Symbol('s')",
        "throw () => 1",
        "const c = {}; c.c = c; throw c",
        "throw new Proxy({}, {get() { throw 1 }})",
        "throw {toJSON() { throw 1 }}",
        "throw Object.assign(new Error('x'), {name: {}, message: 5})",
        "const e = new Error('x'); Object.defineProperty(e, 'message', {get() { throw e }}); throw e",
        "throw 'a\\n    at f (script:9:9)'",
    ] {
        let shown = run(code);
        assert!(
            shown.starts_with("Failed script_error: the script failed: "),
            "{code}: {shown}"
        );
    }
    check(
        "throw 'text'",
        expect![[r#"
        Failed script_error: the script failed: it threw text, which is not an Error at line 1, column 7:
        throw 'text'
              ^"#]],
    );
    check(
        "throw {code: 5}",
        expect![[r#"
        Failed script_error: the script failed: it threw {"code":5}, which is not an Error at line 1, column 7:
        throw {code: 5}
              ^"#]],
    );
    check(
        "throw 'a\\n    at f (script:9:9)'",
        expect![[r#"
        Failed script_error: the script failed: it threw a     at f (script:9:9), which is not an Error at line 1, column 7:
        throw 'a\n    at f (script:9:9)'
              ^"#]],
    );
}

#[test]
fn syntax_errors_have_line_and_column() {
    check(
        "let a = 1;\nlet b = ;",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: unexpected token ';', primary expression at line 2, column 9:
        let b = ;
                ^"#]],
    );
    check(
        "foo(",
        expect![
            "InvalidInput syntax_error: the script is not JavaScript: it ends within a statement: a bracket, brace or quote is not closed"
        ],
    );
    check(
        "'abc",
        expect![
            "InvalidInput syntax_error: the script is not JavaScript: unterminated string literal"
        ],
    );
    check(
        "let a; let a",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: lexical name declared multiple times at line 1, column 1:
        let a; let a
        ^"#]],
    );
    check(
        "/(/",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: Invalid regular expression literal: Unbalanced parenthesis at line 1, column 1:
        /(/
        ^"#]],
    );
    check(
        "x = @",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: unexpected '@' at line 1, column 5:
        x = @
            ^"#]],
    );
    check(
        "import fs from 'fs'",
        expect![[r#"
            InvalidInput syntax_error: the script is not JavaScript: expected token '.', got 'fs' in import.meta at line 1, column 8:
            import fs from 'fs'
                   ^"#]],
    );
    check(
        "const s = 'ä'; ä ö",
        expect![[r#"
            InvalidInput syntax_error: the script is not JavaScript: expected token ';', got 'ö' in expression statement at line 1, column 18:
            const s = 'ä'; ä ö
                             ^"#]],
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
        "return 1 +",
        expect![[r#"
        InvalidInput syntax_error: the script is not JavaScript: unexpected token 'return', statement at line 1, column 1:
        return 1 +
        ^"#]],
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
            - there are no timers and no network; resolve it in the script"#]],
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
            - there are no timers and no network; resolve it in the script"#]],
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

#[test]
fn files_are_those_of_the_call() {
    let workspace = Workspace::new(&[("data.csv", "a,b\n1,2\n3,4\n"), ("deep/x.txt", "x")]);
    workspace.check(
        "rw",
        "const rows = readFile('data.csv').trim().split('\\n').slice(1).map(line => line.split(',').map(Number));\n\
         writeFile('out/sum.json', JSON.stringify(rows.map(([a, b]) => a + b)));\n\
         listFiles()",
        expect![[r#"[{"name":"data.csv","type":"file","size":12},{"name":"deep","type":"directory","size":4096},{"name":"out","type":"directory","size":4096}]"#]],
    );
    assert_eq!(workspace.read("out/sum.json"), "[3,7]");
    workspace.check(
        "rw",
        "writeFile('deep/x.txt', 'y'); readFile('deep/x.txt')",
        expect![[r#""y""#]],
    );
    workspace.check(
        "rw",
        "listFiles('deep').map(f => f.name)",
        expect![[r#"["x.txt"]"#]],
    );
}

#[test]
fn files_outside_and_missing_files_are_errors() {
    let workspace = Workspace::new(&[("a.txt", "a"), ("dir/b.txt", "b")]);
    fs::write(workspace.0.path().join("bin"), [b'a', 0xff]).unwrap();
    for (access, code, expected) in [
        (
            "rw",
            "readFile('/etc/passwd')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: /etc/passwd is outside the allowed paths (<root>) at line 1, column 9:
                readFile('/etc/passwd')
                        ^"#]],
        ),
        (
            "rw",
            "readFile('../x')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: ../x is outside the allowed paths (<root>) at line 1, column 9:
                readFile('../x')
                        ^"#]],
        ),
        (
            "rw",
            "readFile('none.txt')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: cannot access none.txt: no such file or directory at line 1, column 9:
                readFile('none.txt')
                        ^"#]],
        ),
        (
            "rw",
            "readFile('dir')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: cannot access dir: it is a directory at line 1, column 9:
                readFile('dir')
                        ^"#]],
        ),
        (
            "rw",
            "readFile('a.txt/b')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: cannot access a.txt/b: it is not a directory at line 1, column 9:
                readFile('a.txt/b')
                        ^"#]],
        ),
        (
            "rw",
            "readFile('bin')",
            expect![[r#"
                Failed script_error: the script failed: Error: readFile: cannot access bin: it is not UTF-8 text: invalid at byte 1 at line 1, column 9:
                readFile('bin')
                        ^"#]],
        ),
        (
            "rw",
            "readFile()",
            expect![[r#"
                Failed script_error: the script failed: TypeError: readFile: the path is not a string at line 1, column 9:
                readFile()
                        ^"#]],
        ),
        (
            "rw",
            "readFile('a\\0')",
            expect![[r#"
                Failed script_error: the script failed: TypeError: readFile: a path is not empty, has no NUL character and at most 4096 bytes at line 1, column 9:
                readFile('a\0')
                        ^"#]],
        ),
        (
            "rw",
            "listFiles('a.txt')",
            expect![[r#"
                Failed script_error: the script failed: Error: listFiles: cannot access a.txt: it is not a directory at line 1, column 10:
                listFiles('a.txt')
                         ^"#]],
        ),
        (
            "rw",
            "writeFile('dir', 'x')",
            expect![[r#"
                Failed script_error: the script failed: Error: writeFile: cannot access dir: it is a directory at line 1, column 10:
                writeFile('dir', 'x')
                         ^"#]],
        ),
        (
            "rw",
            "writeFile('new.txt', {a: 1})",
            expect![[r#"
                Failed script_error: the script failed: TypeError: writeFile: the second argument is not a string; convert it with String(value) or JSON.stringify(value) at line 1, column 10:
                writeFile('new.txt', {a: 1})
                         ^"#]],
        ),
        (
            "ro",
            "writeFile('a.txt', 'x')",
            expect![[r#"
                Failed script_error: the script failed: Error: writeFile: a.txt is in <root>, which is read-only; only the operator can change that: --allow-path DIR:rw at line 1, column 10:
                writeFile('a.txt', 'x')
                         ^"#]],
        ),
        (
            "rw",
            "try { readFile('none.txt') } catch (error) { error.message }",
            expect![[r#""readFile: cannot access none.txt: no such file or directory""#]],
        ),
    ] {
        workspace.check(access, code, expected);
    }
    check(
        "readFile('a.txt')",
        expect![[r#"
            Failed script_error: the script failed: Error: readFile: the call has no directories; the operator can grant one: --allow-path DIR at line 1, column 9:
            readFile('a.txt')
                    ^"#]],
    );
    check(
        "listFiles()",
        expect![[r#"
            Failed script_error: the script failed: Error: listFiles: the call has no directories; the operator can grant one: --allow-path DIR at line 1, column 10:
            listFiles()
                     ^"#]],
    );
}

#[test]
fn files_that_are_too_large_are_not_read() {
    let workspace = Workspace::new(&[]);
    let file = fs::File::create(workspace.0.path().join("large")).unwrap();
    file.set_len(20 << 20).unwrap();
    workspace.check("ro", "readFile('large')", expect![[r#"
        Failed script_error: the script failed: Error: readFile: cannot access large: it has 20971520 bytes; at most 16777216 can be read at line 1, column 9:
        readFile('large')
                ^"#]]);
}
