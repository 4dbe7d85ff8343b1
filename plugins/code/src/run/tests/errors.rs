//! Scripts that do not compile, throw, or return what JSON cannot express.

use super::*;

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
        "[new TypeError('x')]",
        "[/x/]",
        "new ArrayBuffer(8)",
        "new WeakMap()",
        "[1].values()",
        "(function* () {})()",
        "Object(1n)",
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
    check(
        "[1, 2].map(async n => n)",
        expect![
            "Failed result_not_json: `result[0]` is a Promise, which is not JSON; await it, or use Promise.all"
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
            the script failed: TypeError: too  bad at line 2, column 9:
              throw new TypeError('too\n bad')
                    ^
            called at line 5, column 19
            called at line 5, column 8
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
