//! `code_run` in the real sandbox: results, files on a stage, and scripts that try to exhaust or escape it.

use std::fs;
use std::path::PathBuf;

use e2e::{CommandResult, host, root};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace with a file, and a state directory.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        fs::write(dir.path().join("workspace/data.csv"), "a,b\n1,2\n3,4\n").unwrap();
        fs::write(dir.path().join("secret.txt"), "secret\n").unwrap();
        Self { dir }
    }

    fn workspace(&self) -> PathBuf {
        self.dir.path().join("workspace")
    }

    /// A call with the workspace granted as `access`.
    fn call(&self, access: &str, input: &Value, flags: &[&str]) -> (Value, CommandResult) {
        let plugin = root().join("plugins/code.wasm").display().to_string();
        let grant = format!("{}:{access}", self.workspace().display());
        let input = input.to_string();
        let mut command = host(&["call", "code_run", &input, "--json"]);
        command
            .args(["--plugins", &plugin, "--allow-path", &grant])
            .args(flags)
            .env("TOOLHOST_STATE_DIR", self.dir.path().join("state"));
        let ended = CommandResult::of(&command.output().unwrap());
        let report = serde_json::from_str(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        (report, ended)
    }

    /// The result of a script that completes.
    fn result(&self, code: &str) -> Value {
        let (mut report, ended) = self.call("ro", &json!({"code": code}), &[]);
        assert_eq!(ended.code, Some(0), "{code}: {report:#} {}", ended.stderr);
        report["outcome"]["structured"]["result"].take()
    }

    /// The code of the error of a script, or of the call.
    fn error(&self, input: &Value) -> String {
        let (report, ended) = self.call("ro", input, &[]);
        assert_ne!(ended.code, Some(0), "{report:#}");
        assert_ne!(report["error"]["class"], "trap", "{report:#}");
        let error = [&report["error"], &report["outcome"]["error"]]
            .into_iter()
            .find(|error| error.is_object())
            .unwrap_or_else(|| panic!("{report:#}"));
        let code = error["code"].as_str().or(error["class"].as_str());
        code.unwrap_or_else(|| panic!("{report:#}")).to_owned()
    }
}

//
#[test]
fn r_496_a_script_computes_without_a_grant_to_write_and_without_a_question() {
    let fixture = Fixture::new();
    assert_eq!(
        fixture.result("readFile('data.csv').trim().split('\\n').slice(1).map(line => Number(line.split(',')[1]))"),
        json!([2, 4])
    );
    assert_eq!(
        fixture.result("listFiles().map(file => [file.name, file.type, file.size])"),
        json!([["data.csv", "file", 12]])
    );
    let (report, ended) = fixture.call("rw", &json!({"code": "1 + 1"}), &[]);
    assert_eq!(ended.code, Some(0), "{report:#}");
    let (report, ended) = fixture.call("rw", &json!({"code": "1 + 1"}), &["--mode", "readonly"]);
    assert_eq!(ended.code, Some(0), "{report:#}");
}

#[test]
fn writes_are_staged_approved_and_undone() {
    let fixture = Fixture::new();
    let path = fixture.workspace().join("out/sum.txt");
    let write = json!({"code": "writeFile('out/sum.txt', '7'); readFile('out/sum.txt')"});

    let (report, ended) = fixture.call("rw", &write, &[]);
    assert_eq!(ended.code, Some(5), "{report:#}");
    assert!(!path.exists());

    let allow = ["--allow-tool", "code_run"];
    let (report, ended) = fixture.call("rw", &write, &allow);
    assert_eq!(ended.code, Some(0), "{report:#} {}", ended.stderr);
    assert_eq!(report["outcome"]["structured"]["result"], "7");
    assert_eq!(fs::read_to_string(&path).unwrap(), "7");

    let failed = json!({"code": "writeFile('out/sum.txt', '8'); console.log('written'); throw new Error('after')"});
    let (report, ended) = fixture.call("rw", &failed, &allow);
    assert_ne!(ended.code, Some(0), "{report:#}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "7");

    let denied = json!({"code": "writeFile('out/sum.txt', '9')"});
    let (report, ended) = fixture.call(
        "rw",
        &denied,
        &["--allow-tool", "code_run", "--deny-tool", "Edit(out/**)"],
    );
    assert_eq!(ended.code, Some(5), "{report:#}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "7");
}

#[test]
fn nothing_outside_the_granted_directories_is_reachable() {
    let fixture = Fixture::new();
    std::os::unix::fs::symlink("../secret.txt", fixture.workspace().join("link")).unwrap();
    for code in [
        "readFile('../secret.txt')",
        "readFile('link')",
        "readFile('/etc/passwd')",
        "listFiles('/')",
        "listFiles('..')",
        "writeFile('data.csv', '')",
        "writeFile('link', '')",
    ] {
        assert_eq!(
            fixture.error(&json!({"code": code})),
            "script_error",
            "{code}"
        );
    }
    assert_eq!(
        fixture.result("[typeof process, typeof require, typeof fetch, typeof WebAssembly]"),
        json!(["undefined", "undefined", "undefined", "undefined"])
    );
}

#[test]
fn a_script_that_exhausts_something_gets_an_error_and_no_trap() {
    let fixture = Fixture::new();
    let nested = |open: &str, middle: &str, close: &str| {
        format!("{}{middle}{}", open.repeat(5000), close.repeat(5000))
    };
    for (code, expected) in [
        ("while (true) {}".to_owned(), "timeout"),
        (
            "(async () => { for (;;) await null })()".to_owned(),
            "timeout",
        ),
        (
            "function f() { return f() } f()".to_owned(),
            "recursion_limit",
        ),
        (
            "function f() { [1].map(f) } f()".to_owned(),
            "recursion_limit",
        ),
        (
            "const o = {get a() { return o.a }}; o.a".to_owned(),
            "recursion_limit",
        ),
        (
            "const p = new Proxy({}, {get(t, k, r) { return r[k] }}); p.x".to_owned(),
            "recursion_limit",
        ),
        (
            "[2, 1].sort(function c(a, b) { return [2, 1].sort(c) })".to_owned(),
            "recursion_limit",
        ),
        (
            "'a'.replace(/a/, function r() { return 'a'.replace(/a/, r) })".to_owned(),
            "recursion_limit",
        ),
        (
            "function* g() { yield* g() } [...g()]".to_owned(),
            "recursion_limit",
        ),
        (
            "class A { constructor() { new A() } } new A()".to_owned(),
            "recursion_limit",
        ),
        (
            "JSON.stringify({toJSON: function j() { return JSON.stringify({toJSON: j}) }})"
                .to_owned(),
            "recursion_limit",
        ),
        (nested("(", "1", ")"), "script_too_deep"),
        (nested("[", "", "]"), "script_too_deep"),
        (nested("{", "", "}"), "script_too_deep"),
        (nested("() => ", "1", ""), "script_too_deep"),
        (nested("`${", "1", "}`"), "script_too_deep"),
        (nested("function f() {", "", "}"), "script_too_deep"),
        (nested("if (1) ", ";", ""), "script_too_deep"),
        ("let s = 'x'; for (;;) s += s".to_owned(), "out_of_memory"),
        ("'x'.repeat(2 ** 29)".to_owned(), "script_error"),
        ("new ArrayBuffer(2 ** 33)".to_owned(), "script_error"),
        ("JSON.parse('['.repeat(100000))".to_owned(), "script_error"),
        ("const a = {}; a.a = a; a".to_owned(), "result_not_json"),
        ("10n".to_owned(), "result_not_json"),
        ("Symbol()".to_owned(), "result_not_json"),
        ("throw {not: 'an error'}".to_owned(), "script_error"),
        ("let = = 1".to_owned(), "syntax_error"),
    ] {
        let input = json!({"code": code, "timeout_ms": 5000});
        assert_eq!(
            fixture.error(&input),
            expected,
            "{}",
            &code[..code.len().min(80)]
        );
    }
}

#[test]
fn deep_values_and_expressions_end_in_an_error_of_the_stack_at_worst() {
    let fixture = Fixture::new();
    let sum = vec!["1"; 20_000].join("+");
    for code in [
        sum.as_str(),
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
        "let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); f()",
        "let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x",
        "let o = {}; for (let i = 0; i < 1e5; i++) o = Object.create(o); o.x",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)",
        "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a + ''",
    ] {
        let (report, _) = fixture.call("ro", &json!({"code": code}), &[]);
        assert_ne!(report["error"]["class"], "trap", "{report:#}");
    }
}

#[test]
fn output_of_100_mb_is_cut() {
    let fixture = Fixture::new();
    let code =
        "const line = 'x'.repeat(999999); for (let i = 0; i < 100; i++) console.log(line); 'end'";
    let (report, ended) = fixture.call("ro", &json!({"code": code}), &[]);
    assert_eq!(ended.code, Some(0), "{report:#}");
    let structured = &report["outcome"]["structured"];
    assert_eq!(structured["result"], "end");
    assert_eq!(structured["output"].as_str().unwrap().len(), 30_000);
    assert_eq!(structured["omitted_bytes"], 100_000_000 - 30_000);
}
