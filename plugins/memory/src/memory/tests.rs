//! Memory files of projects and users: adding, changing, deleting and searching.

use std::fs;

use expect_test::{Expect, expect};
use toolhost_sdk::testing::{run_examples, show, text, write_files};

use super::*;

fn check(cx: &Context, input: Value, expected: Expect) {
    expected.assert_eq(&show::<memory>(cx, input));
}

struct Folders {
    dir: tempfile::TempDir,
}

impl Folders {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for scope in ["project", "user"] {
            fs::create_dir_all(dir.path().join("memory").join(scope)).unwrap();
        }
        write_files(dir.path(), files);
        Self { dir }
    }

    fn cx(&self) -> Context {
        Context::test()
            .with_root(self.dir.path().join("memory/project"), "rw")
            .with_root(self.dir.path().join("memory/user"), "rw")
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.dir.path().join("memory").join(file)).unwrap()
    }

    fn check(&self, input: Value, expected: Expect) {
        check(&self.cx(), input, expected);
    }
}

// R-327
#[test]
fn r_327_project_and_user_remember_apart() {
    let folders = Folders::new(&[]);
    folders.check(json!({"action": "write", "content": "p\n"}), expect![[r#"
        created MEMORY.md in the memory of the project
        summary: created MEMORY.md in the memory of the project
        {"action":"write","scope":"project","file":"MEMORY.md","size":2,"changed":true,"truncated":false}"#]]);
    folders.check(json!({"action": "write", "scope": "user", "path": "me.md", "content": "u\n", "summary": "who I am"}), expect![[r#"
        created me.md in the memory of the user
        summary: created me.md in the memory of the user
        {"action":"write","scope":"user","file":"me.md","size":2,"changed":true,"truncated":false}"#]]);
    folders.check(json!({"action": "list"}), expect![[r#"
        project: MEMORY.md (2 bytes)
        user: MEMORY.md (36 bytes)
        user: me.md (2 bytes): who I am
        summary: 3 files
        {"action":"list","changed":false,"files":[{"scope":"project","file":"MEMORY.md","size":2},{"scope":"user","file":"MEMORY.md","size":36},{"scope":"user","file":"me.md","size":2,"summary":"who I am"}],"truncated":false}"#]]);
    folders.check(json!({"action": "list", "scope": "project"}), expect![[r#"
        project: MEMORY.md (2 bytes)
        summary: 1 file
        {"action":"list","scope":"project","changed":false,"files":[{"scope":"project","file":"MEMORY.md","size":2}],"truncated":false}"#]]);
    folders.check(
        json!({"action": "read", "scope": "user", "file": "me"}),
        expect![[r#"
            u

            summary: read me.md
            {"action":"read","scope":"user","file":"me.md","content":"u\n","size":2,"changed":false,"truncated":false}"#]],
    );
    assert_eq!(
        folders.read("user/MEMORY.md"),
        "## Files\n- [me.md](me.md): who I am\n"
    );
}

#[test]
fn r_327_a_fact_alone_is_a_bullet_in_the_index() {
    let folders = Folders::new(&[("memory/project/MEMORY.md", "# Ours\n")]);
    folders.check(json!({"fact": "tabs, not\nspaces"}), expect![[r#"
        changed MEMORY.md in the memory of the project
        summary: changed MEMORY.md in the memory of the project
        {"action":"append","scope":"project","file":"MEMORY.md","size":36,"changed":true,"truncated":false}"#]]);
    folders.check(
        json!({"fact": "tabs, not\nspaces", "action": "append"}),
        expect![[r#"
            no change in MEMORY.md in the memory of the project
            summary: no change in MEMORY.md in the memory of the project
            {"action":"append","scope":"project","file":"MEMORY.md","size":36,"changed":false,"truncated":false}"#]],
    );
    assert_eq!(
        folders.read("project/MEMORY.md"),
        "# Ours\n\n## Facts\n- tabs, not spaces\n"
    );
}

#[test]
fn files_are_changed_and_deleted() {
    let folders = Folders::new(&[("memory/project/a/b.md", "one")]);
    let requests = [
        json!({"action": "append", "file": "a/b.md", "content": "two"}),
        json!({"action": "edit", "file": "a/b.md", "old_string": "one", "new_string": "1"}),
        json!({"action": "write", "file": "a/b.md", "content": "1\ntwo\n"}),
        json!({"action": "write", "file": "a/b.md", "content": "1\ntwo\n", "summary": "numbers"}),
        json!({"action": "write", "file": "a/b.md", "content": "1\ntwo\n", "summary": "two numbers"}),
    ];
    let texts: Vec<String> = requests
        .into_iter()
        .map(|request| text::<memory>(&folders.cx(), request))
        .collect();
    expect![[r#"
        changed a/b.md in the memory of the project
        changed a/b.md in the memory of the project
        no change in a/b.md in the memory of the project
        noted in the index what is in a/b.md in the memory of the project
        noted in the index what is in a/b.md in the memory of the project"#]]
    .assert_eq(&texts.join("\n"));
    assert_eq!(folders.read("project/a/b.md"), "1\ntwo\n");
    assert_eq!(
        folders.read("project/MEMORY.md"),
        "## Files\n- [a/b.md](a/b.md): two numbers\n"
    );
    folders.check(
        json!({"action": "delete", "file": "a/b.md"}),
        expect![[r#"
        deleted a/b.md in the memory of the project
        summary: deleted a/b.md in the memory of the project
        {"action":"delete","scope":"project","file":"a/b.md","changed":true,"truncated":false}"#]],
    );
    assert_eq!(folders.read("project/MEMORY.md"), "## Files\n");
}

#[test]
fn words_are_found_everywhere() {
    let folders = Folders::new(&[
        ("memory/project/a.md", "x\nThe API is slow\n"),
        ("memory/user/b.md", "slow food\nslow api\n"),
        ("memory/user/.hidden/c.md", "slow api\n"),
        ("memory/user/d.txt", "slow api\n"),
    ]);
    folders.check(
        json!({"action": "search", "query": "SLOW api"}),
        expect![[r#"
            project: a.md:2: The API is slow
            user: b.md:2: slow api
            summary: 2 found
            {"action":"search","changed":false,"matches":[{"scope":"project","file":"a.md","line":2,"text":"The API is slow"},{"scope":"user","file":"b.md","line":2,"text":"slow api"}],"truncated":false}"#]],
    );
    folders.check(
        json!({"action": "search", "pattern": "fast"}),
        expect![[r#"
            nothing found for "fast" in 2 files
            summary: 0 found
            {"action":"search","changed":false,"matches":[],"truncated":false}"#]],
    );
    write_files(
        folders.dir.path(),
        &[("memory/project/many.md", &"slow api\n".repeat(60))],
    );
    let found = text::<memory>(&folders.cx(), json!({"action": "search", "query": "slow"}));
    assert!(
        found.ends_with("(showing 50 of 63 lines; search for more words)"),
        "{found}"
    );
}

#[test]
fn a_session_remembers_without_a_folder() {
    let cx = Context::test();
    check(
        &cx,
        json!({"action": "list"}),
        expect![[r#"
        no notes yet (session)
        summary: 0 files
        {"action":"list","changed":false,"files":[],"truncated":false}"#]],
    );
    check(
        &cx,
        json!({"fact": "f", "scope": "session"}),
        expect![[r#"
        created MEMORY.md in the memory of the session
        summary: created MEMORY.md in the memory of the session
        {"action":"append","scope":"session","file":"MEMORY.md","size":13,"changed":true,"truncated":false}"#]],
    );
    check(
        &cx,
        json!({"action": "read", "scope": "session"}),
        expect![[r###"
            ## Facts
            - f

            summary: read MEMORY.md
            {"action":"read","scope":"session","file":"MEMORY.md","content":"## Facts\n- f\n","size":13,"changed":false,"truncated":false}"###]],
    );
    check(
        &cx,
        json!({"action": "delete", "scope": "session", "file": "MEMORY.md"}),
        expect![[r#"
            deleted MEMORY.md in the memory of the session
            summary: deleted MEMORY.md in the memory of the session
            {"action":"delete","scope":"session","file":"MEMORY.md","changed":true,"truncated":false}"#]],
    );
    check(
        &cx,
        json!({"action": "read"}),
        expect![[r#"
            Unavailable not_configured: no directory is configured for the memory of the project
            - use the scope `session`
            - the operator can configure one: `memory = "PATH"`"#]],
    );
}

#[test]
fn bad_wishes() {
    let folders = Folders::new(&[
        ("memory/project/a.md", "x x"),
        ("memory/project/dir.md/x.md", ""),
    ]);
    write_files(
        folders.dir.path(),
        &[("memory/project/large.md", &"x".repeat(MOST_BYTES + 1))],
    );
    fs::write(folders.dir.path().join("memory/project/bytes.md"), [0xff]).unwrap();
    let refused =
        |input: Value, expected: Expect| expected.assert_eq(&show::<memory>(&folders.cx(), input));
    refused(
        json!({}),
        expect![
            "InvalidInput invalid_memory: no `action`; use list, read, write, append, edit, delete or search"
        ],
    );
    refused(
        json!({"action": "read", "fact": "f"}),
        expect!["InvalidInput invalid_memory: `fact` requires the action `append`; omit one"],
    );
    refused(
        json!({"action": "forget"}),
        expect![[
            r#"InvalidInput invalid_input: `action`: "forget" is not one of ["list","read","write","append","edit","delete","search"]"#
        ]],
    );
    refused(
        json!({"action": "write"}),
        expect!["InvalidInput invalid_memory: no `content`; pass the complete text of the file"],
    );
    refused(
        json!({"action": "append"}),
        expect!["InvalidInput invalid_memory: nothing to append; pass `content` or `fact`"],
    );
    refused(
        json!({"action": "append", "content": "c", "fact": "f"}),
        expect![
            "InvalidInput invalid_memory: `fact` and `content` are mutually exclusive; omit one"
        ],
    );
    refused(
        json!({"fact": "f", "file": "a.md"}),
        expect![
            "InvalidInput invalid_memory: a fact goes into MEMORY.md; omit `file`, or pass `content`"
        ],
    );
    refused(
        json!({"action": "delete"}),
        expect!["InvalidInput invalid_memory: no `file`; name the file to delete"],
    );
    refused(
        json!({"action": "delete", "file": "b.md"}),
        expect![[r#"
        NotFound file_not_found: File not found: b.md in the memory of the project. Did you mean: a.md?
        - list the files with the action `list`"#]],
    );
    refused(
        json!({"action": "read", "file": "nothing-like-it.md"}),
        expect![[r#"
            NotFound file_not_found: File not found: nothing-like-it.md in the memory of the project
            - list the files with the action `list`"#]],
    );
    refused(
        json!({"action": "read", "file": "../../secret.md"}),
        expect![[r#"
            InvalidInput invalid_memory: "../../secret.md" is not a valid memory file: its names must not be empty or start with a dot
            - use a name such as `release.md` or `api/errors.md`"#]],
    );
    refused(
        json!({"action": "read", "file": "large.md"}),
        expect![
            "Failed file_too_large: large.md is larger than 65536 bytes; ask the user to shorten it"
        ],
    );
    refused(
        json!({"action": "read", "file": "bytes.md"}),
        expect!["Failed binary_file: bytes.md is not text in UTF-8"],
    );
    refused(
        json!({"action": "read", "file": "dir.md"}),
        expect![[r#"
        NotFound file_not_found: File not found: dir.md in the memory of the project. Did you mean: dir.md/x.md?
        - list the files with the action `list`"#]],
    );
    refused(
        json!({"action": "edit", "file": "a.md", "old_string": "x"}),
        expect!["InvalidInput invalid_memory: an edit needs `old_string` and `new_string`"],
    );
    refused(
        json!({"action": "edit", "file": "a.md", "old_string": "x", "new_string": "x"}),
        expect!["InvalidInput edit_no_change: `old_string` and `new_string` are the same"],
    );
    refused(
        json!({"action": "edit", "file": "a.md", "old_string": "x", "new_string": "y"}),
        expect![[
            r#"InvalidInput edit_expected_occurrence_mismatch: a.md contains "x" 2 times; include more of the surrounding text"#
        ]],
    );
    refused(
        json!({"action": "edit", "file": "a.md", "old_string": "z", "new_string": "y"}),
        expect![[
            r#"InvalidInput edit_no_occurrence_found: a.md does not contain "z"; read the file and copy the passage exactly"#
        ]],
    );
    refused(
        json!({"action": "search"}),
        expect!["InvalidInput invalid_memory: no `query`; pass search words"],
    );
    refused(
        json!({"action": "search", "query": " "}),
        expect!["InvalidInput invalid_memory: `query` is empty; pass search words"],
    );
}

#[test]
fn memory_is_bounded() {
    let folders = Folders::new(&[]);
    folders.check(
        json!({"action": "write", "content": "x\n".repeat(201)}),
        expect![[r#"
            InvalidInput invalid_memory: MEMORY.md would have 201 lines; the index has at most 200
            - move details to separate files"#]],
    );
    folders.check(
        json!({"action": "write", "file": "a.md", "content": "ä".repeat(40_000)}),
        expect![[r#"
            InvalidInput invalid_memory: a.md would have 80000 bytes; the limit is 65536
            - write less, or to several files"#]],
    );
    for n in 0..200 {
        write_files(
            folders.dir.path(),
            &[(&format!("memory/project/{n}.md"), "")],
        );
    }
    folders.check(
        json!({"action": "write", "file": "a.md", "content": "x"}),
        expect![[r#"
            InvalidInput invalid_memory: 200 files exist already; the limit is 200
            - delete or merge some first"#]],
    );
    let cx = Context::test();
    for n in 0..4 {
        let input = json!({"action": "write", "scope": "session", "file": n.to_string(), "content": "x".repeat(MOST_BYTES)});
        assert!(text::<memory>(&cx, input).starts_with("created"));
    }
    check(
        &cx,
        json!({"action": "write", "scope": "session", "file": "5", "content": "x"}),
        expect![[r#"
            InvalidInput invalid_memory: the notes of a session are limited to 262144 bytes; this would make 262145
            - delete or shorten some first"#]],
    );
}

#[test]
fn m_05_two_names_that_look_the_same_are_not_two_files() {
    let folders = Folders::new(&[("memory/project/Api.md", "x")]);
    for (file, scope) in [
        ("api.md", "project"),
        ("memory.md", "project"),
        ("memory.md", "session"),
        ("a\u{202e}b.md", "session"),
    ] {
        let request = json!({"action": "write", "scope": scope, "file": file, "content": "x"});
        let message = text::<memory>(&folders.cx(), request);
        let refused = message.contains("only in upper and lower case")
            || message.contains("an invisible or combining character");
        assert!(refused, "{file:?}: {message}");
    }
}

#[test]
fn m_06_folders_that_are_left_make_no_room_for_more_files() {
    let folders = Folders::new(&[]);
    let act = |action: &str, file: &str| {
        let request = json!({"action": action, "file": file, "content": "x"});
        text::<memory>(&folders.cx(), request)
    };
    act("write", "a/b/c.md");
    act("write", "a/d.md");
    act("delete", "a/b/c.md");
    let project = folders.dir.path().join("memory/project");
    assert!(project.join("a/d.md").exists() && !project.join("a/b").exists());
    act("delete", "a/d.md");
    assert!(!project.join("a").exists() && project.exists());
    // Foreign entries count towards the limit of visited entries.
    for number in 0..2000 {
        fs::create_dir(project.join(number.to_string())).unwrap();
    }
    let message = act("write", "new.md");
    assert!(message.contains("more than 2000 entries"), "{message}");
}

#[test]
fn examples_work() {
    let folders = Folders::new(&[]);
    run_examples::<memory>(|| folders.cx()).unwrap();
}
