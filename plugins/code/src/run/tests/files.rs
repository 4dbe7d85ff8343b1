//! `readFile`, `writeFile` and `listFiles`.

use std::fs;

use super::*;

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

#[cfg(unix)]
#[test]
fn links_and_special_files_are_listed_as_such() {
    let workspace = Workspace::new(&[]);
    let path = |name: &str| workspace.0.path().join(name);
    std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    workspace.check(
        "ro",
        "listFiles().map(file => [file.name, file.type])",
        expect![[r#"[["link","link"],["socket","other"]]"#]],
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
