//! Tests of path patterns, allowed paths, protected paths, mounts and read guards.

use expect_test::expect;

use std::fmt::Write as _;

use super::*;

/// Whether the pattern matches the path for an allow rule and for a deny rule.
fn matches(pattern: &str, path: &str) -> (bool, bool) {
    let path_context = spec("").path_context;
    let pattern = path_pattern::PathPattern::parse(pattern, &path_context).unwrap();
    let path_ref = path_pattern::PathRef::parse(path, &path_context);
    (pattern.matches_all(&path_ref), pattern.may_match(&path_ref))
}

#[test]
fn patterns_follow_gitignore_with_anchors() {
    const BOTH: (bool, bool) = (true, true);
    const NONE: (bool, bool) = (false, false);
    const DENY: (bool, bool) = (false, true);
    for (pattern, path, expected) in [
        // Relative to the working directory.
        ("src/**", "src/a.rs", BOTH),
        ("src/**", "src/a/b/c.rs", BOTH),
        ("src/**", "/w/src/a.rs", BOTH),
        ("src/**", "/workspace/src/a.rs", BOTH),
        ("src/**", "./src/./a.rs", BOTH),
        ("src/**", "lib/../src/a.rs", BOTH),
        ("src/**", "/src/a.rs", NONE),
        ("src/**", "srcx/a.rs", NONE),
        ("src/**", "lib/src/a.rs", NONE),
        ("src/**", "src", DENY),
        ("src/*", "src/a.rs", BOTH),
        ("src/*", "src/a/b.rs", BOTH),
        ("src/*.rs", "src/a.rs", BOTH),
        ("src/*.rs", "src/a/b.rs", NONE),
        ("src/*.rs", "src/dir.rs/x", BOTH),
        ("src/*/*", "src/a.rs", NONE),
        ("src/*/*", "src/a/b/c.rs", BOTH),
        ("./*.md", "a.md", BOTH),
        ("./*.md", "docs/a.md", NONE),
        ("src/**/*.rs", "src/a.rs", BOTH),
        ("src/**/*.rs", "src/a/b.rs", BOTH),
        ("./src", "src/a.rs", BOTH),
        ("./a.rs", "lib/a.rs", NONE),
        ("../other/**", "/other/a", BOTH),
        // A directory covers everything below it; a trailing slash has no effect.
        ("src/a", "src/a/b/c", BOTH),
        ("src/a/", "src/a/b/c", BOTH),
        ("src/a/", "src/a", BOTH),
        ("secrets/", "secrets/key", BOTH),
        ("secrets/", "a/secrets/key", BOTH),
        ("secrets", "secrets", BOTH),
        // Without a slash, at any depth.
        (".env", ".env", BOTH),
        (".env", "a/b/.env", BOTH),
        (".env", ".envrc", NONE),
        (".env", "/elsewhere/.env", DENY),
        ("*.pem", "a/b/k.pem", BOTH),
        ("*.pem", "a/b/k.pem.txt", NONE),
        ("**", "a/b", BOTH),
        ("**", "/etc/passwd", DENY),
        // From the root directory, from home, from the settings file.
        ("//etc/**", "/etc/passwd", BOTH),
        ("//etc/**", "etc/passwd", NONE),
        ("//etc", "/etc/ssh/key", BOTH),
        ("//**", "/anything/at/all", BOTH),
        ("//", "/anything/at/all", BOTH),
        ("~/.ssh/**", "/home/u/.ssh/id_rsa", BOTH),
        ("~/.ssh/**", "/home/u/.ssh", DENY),
        ("~/.ssh/**", "/home/v/.ssh/id_rsa", NONE),
        ("~/.ssh", "~/.ssh/id_rsa", DENY),
        ("/src/**", "src/a.rs", BOTH),
        ("/src/**", "lib/src/a.rs", NONE),
        ("/", "src/a.rs", BOTH),
        ("/", "/etc", NONE),
        // Case-insensitive volumes must not bypass a deny.
        ("src/**", "SRC/a.rs", DENY),
        ("//etc/passwd", "/ETC/Passwd", DENY),
        (".env", "a/.ENV", DENY),
        ("src/straße", "SRC/STRASSE", NONE),
        ("src/ärger", "src/ÄRGER", DENY),
        // Characters that are special elsewhere.
        ("src/a+b(c).rs", "src/a+b(c).rs", BOTH),
        ("src/a[bc].rs", "src/ab.rs", BOTH),
        ("src/a[bc].rs", "src/ad.rs", NONE),
        (r"src/\*.rs", "src/*.rs", BOTH),
        (r"src/\*.rs", "src/a.rs", NONE),
        ("src/{a,b}.rs", "src/b.rs", BOTH),
        ("src/?.rs", "src/a.rs", BOTH),
        ("src/?.rs", "src//.rs", NONE),
        // `..` that leaves the base matches no allow rule and every deny rule that it may refer to.
        ("src/**", "../w/src/a.rs", DENY),
        ("//etc/**", "../../etc/passwd", DENY),
        ("//etc/**", "../x", DENY),
        ("//etc/**", "/../../etc/passwd", DENY),
        ("//**", "../x", DENY),
        ("../other/**", "../other/a", DENY),
        // Not a path at all.
        ("src/**", "src/a\0.rs", DENY),
        ("//etc", "", NONE),
        ("./", "", BOTH),
    ] {
        assert_eq!(matches(pattern, path), expected, "{pattern} on {path:?}");
    }
}

#[test]
fn an_overlong_path_matches_no_allow_rule() {
    assert_eq!(
        matches("//**", &format!("src/{}", "a/".repeat(4_000))),
        (false, true)
    );
}

#[test]
fn wildcards_in_the_home_directory_are_literal() {
    let path_context = PathContext {
        home: Some("/home/[a]*".to_owned()),
        ..PathContext::default()
    };
    let pattern = path_pattern::PathPattern::parse("~/x*", &path_context).unwrap();
    assert!(pattern.matches_all(&path_pattern::PathRef::parse(
        "/home/[a]*/xy",
        &path_context
    )));
    assert!(!pattern.matches_all(&path_pattern::PathRef::parse("/home/ab/xy", &path_context)));
}

#[test]
fn r_203_a_path_outside_the_allowed_paths_is_refused_before_anything_else() {
    table(
        "mode yolo
         allow *
         allowed src
         allowed /data",
        "files/read_file reads path=src/a.rs
         files/read_file reads path=/data/x
         files/read_file reads path=/datax
         files/read_file reads path=lib/a.rs
         files/read_file reads path=src/../lib/a.rs
         files/copy_file writes kind=edit from=src/a to=/etc/x
         x/weather pure",
        expect![[r#"
            files/read_file reads path=src/a.rs → allow by rule user:1 allow `*`
            files/read_file reads path=/data/x → allow by rule user:1 allow `*`
            files/read_file reads path=/datax → deny: Access denied: path is outside the allowed paths: /datax
            files/read_file reads path=lib/a.rs → deny: Access denied: path is outside the allowed paths: lib/a.rs
            files/read_file reads path=src/../lib/a.rs → deny: Access denied: path is outside the allowed paths: src/../lib/a.rs
            files/copy_file writes kind=edit from=src/a to=/etc/x → deny: Access denied: path is outside the allowed paths: /etc/x
            x/weather pure → allow by rule user:1 allow `*`
        "#]],
    );
}

#[test]
fn every_path_must_be_allowed() {
    table(
        "allow Edit(src/**)
         deny Read(secrets/**)
         deny Edit(src/frozen/**)",
        "files/copy_file writes kind=edit from=src/a to=src/b
         files/copy_file writes kind=edit from=src/a to=lib/b
         files/copy_file writes kind=edit from=secrets/a to=src/b
         files/move_file destroys kind=move from=src/frozen/a to=src/b
         files/read_many reads paths=['a','secrets/b']
         files/read_many reads paths=['a','b']
         files/multi_edit writes kind=edit edits=[{'path':'src/a'},{'path':'src/frozen/a'}]
         files/read_file reads path=5",
        expect![[r#"
            files/copy_file writes kind=edit from=src/a to=src/b → allow by rule user:1 allow `Edit(src/**)`
            files/copy_file writes kind=edit from=src/a to=lib/b → ask: it changes files
            files/copy_file writes kind=edit from=secrets/a to=src/b → deny: rule user:2 deny `Read(secrets/**)` forbids `copy_file`
            files/move_file destroys kind=move from=src/frozen/a to=src/b → deny: rule user:3 deny `Edit(src/frozen/**)` forbids `move_file`
            files/read_many reads paths=['a','secrets/b'] → deny: rule user:2 deny `Read(secrets/**)` forbids `read_many`
            files/read_many reads paths=['a','b'] → allow by mode default: read
            files/multi_edit writes kind=edit edits=[{'path':'src/a'},{'path':'src/frozen/a'}] → deny: rule user:3 deny `Edit(src/frozen/**)` forbids `multi_edit`
            files/read_file reads path=5 → deny: rule user:2 deny `Read(secrets/**)` forbids `read_file`
        "#]],
    );
}

#[test]
fn unknown_paths_match_no_allow_rule_and_every_deny_rule() {
    let many: Vec<String> = (0..300).map(|n| format!("'src/{n}'")).collect();
    let call = format!(
        "files/write_many writes kind=edit paths=[{}]",
        many.join(",")
    );
    check(
        "allow Edit(src/**)",
        &call,
        expect!["ask: it changes a protected path: its target cannot be determined"],
    );
    check(
        "deny Edit(secrets/**)",
        &call,
        expect!["deny: rule user:1 deny `Edit(secrets/**)` forbids `write_many`"],
    );
    check(
        "allow write_many",
        &call,
        expect!["allow by rule user:1 allow `write_many`"],
    );
}

#[test]
fn files_that_execute_code_later_are_protected() {
    let mut out = String::new();
    for path in [
        "src/a.rs",
        ".git/hooks/pre-commit",
        "a/b/.git/config",
        ".GIT/config",
        ".github/workflows/ci.yml",
        ".github/ISSUE.md",
        "/home/u/.bashrc",
        "build.rs",
        "sub/build.rs",
        "src/build.rs.txt",
        ".vscode/tasks.json",
        "keys/server.pem",
        "id_ed25519",
        "../x",
        "toolhost.toml",
        ".gitignore",
        "Jenkinsfile",
        "my/own/thing",
    ] {
        let call = format!("files/write_file writes kind=edit path={path}");
        let verdict = Fixture::of(&call).decide(&policy("mode auto\nprotect my/own"), &[]);
        let _ = writeln!(out, "{path}: {}", show(&verdict));
    }
    expect![[r#"
        src/a.rs: allow by mode auto: write
        .git/hooks/pre-commit: ask: it changes a protected path: version control runs programs named in it
        a/b/.git/config: ask: it changes a protected path: version control runs programs named in it
        .GIT/config: ask: it changes a protected path: version control runs programs named in it
        .github/workflows/ci.yml: ask: it changes a protected path: continuous integration or deployment runs it
        .github/ISSUE.md: allow by mode auto: write
        /home/u/.bashrc: ask: it changes a protected path: shells and other programs read it when they start
        build.rs: ask: it changes a protected path: build tools execute its contents
        sub/build.rs: ask: it changes a protected path: build tools execute its contents
        src/build.rs.txt: allow by mode auto: write
        .vscode/tasks.json: ask: it changes a protected path: editors execute its contents
        keys/server.pem: ask: it changes a protected path: it contains keys or controls who may log in
        id_ed25519: ask: it changes a protected path: it contains keys or controls who may log in
        ../x: ask: it changes a protected path: its target cannot be determined
        toolhost.toml: ask: it changes a protected path: agents take instructions, tools or permissions from it
        .gitignore: allow by mode auto: write
        Jenkinsfile: ask: it changes a protected path: continuous integration or deployment runs it
        my/own/thing: ask: it changes a protected path: the configuration protects it
    "#]]
    .assert_eq(&out);
}

#[test]
fn a_subject_is_what_the_input_names() {
    let subject = |call: &str| Fixture::of(call).subject;
    let paths = |call: &str| {
        let show = |one: &PathUse| format!("{}{}", if one.write { "w:" } else { "r:" }, one.path);
        subject(call)
            .paths
            .iter()
            .map(show)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (call, expected) in [
        ("a/x reads path=a", "r:a"),
        ("a/x writes path=a", "w:a"),
        ("a/x path=a", "w:a"),
        ("a/x writes from=a to=b", "r:a w:b"),
        ("a/x writes kind=move from=a to=b", "w:a w:b"),
        ("a/x destroys from=a to=b", "w:a w:b"),
        (
            "a/x reads file_path=a notebook_path=b directory=c dir_path=d",
            "r:a r:b r:c r:d",
        ),
        ("a/x reads paths=['a','b'] path=c", "r:c r:a r:b"),
        (
            "a/x writes edits=[{'path':'a'},{'file_path':'b'}]",
            "w:a w:b",
        ),
        ("a/x pure path=a", ""),
        ("a/x reads pattern=a", ""),
        // The input does not show whether the host runs the command.
        ("a/x kind=execute command=ls directory=a", "w:a"),
        ("a/x kind=execute reads command=ls directory=a", "r:a"),
        (
            "a/x reads o={'path':'a','l':[[{'to':'b'}]]} path=c",
            "r:c r:a r:b",
        ),
    ] {
        assert_eq!(paths(call), expected, "{call}");
    }
    assert_eq!(
        subject("a/x command=ls url=https://a/").command.as_deref(),
        Some("ls")
    );
    assert_eq!(subject("a/x url=https://a/").urls, ["https://a/"]);
    assert!(subject("a/x reads path=5").has_unknown_paths);
    assert!(!subject("a/x reads path=a").has_unknown_paths);
}

/// The paths, with `-` before those that the guard of an allowed call denies.
fn show_guarded(rules: &str, call: &str, paths: &[&str]) -> String {
    let guard = match Fixture::of(call).decide(&policy(rules), &[]) {
        Verdict::Allow(grant) => grant.guard().cloned(),
        other => panic!("{call}: {}", show(&other)),
    };
    let refused = |path: &str| guard.as_ref().is_some_and(|guard| guard.denies_read(path));
    let marked = paths.iter().map(|path| {
        if refused(path) {
            format!("-{path}")
        } else {
            (*path).to_owned()
        }
    });
    marked.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_07_read_rules_apply_to_the_files_a_call_opens() {
    let paths = [
        "/w/secrets",
        "/w/secrets/k",
        "/etc/passwd",
        "/w/.env",
        "/w/src/a",
        "/w/lib/a",
        "/w/a",
    ];
    let rules = "deny Read(secrets/**) @100
         deny * path=//etc/**
         deny Read(.env) modes=plan
         deny grep(src/**)
         deny Edit(a)
         ask Read(lib/**)
         allow Read(secrets/k) @200";
    for (call, expected) in [
        (
            "files/read_file reads kind=read path=a",
            "-/w/secrets /w/secrets/k -/etc/passwd /w/.env /w/src/a -/w/lib/a /w/a",
        ),
        (
            "files/list_directory reads kind=search path=.",
            "-/w/secrets /w/secrets/k -/etc/passwd /w/.env /w/src/a -/w/lib/a /w/a",
        ),
        (
            "files/grep reads kind=search path=.",
            "-/w/secrets /w/secrets/k -/etc/passwd /w/.env -/w/src/a -/w/lib/a /w/a",
        ),
        (
            "files/read_file reads kind=read path=a in:plan",
            "-/w/secrets /w/secrets/k -/etc/passwd -/w/.env /w/src/a -/w/lib/a /w/a",
        ),
    ] {
        assert_eq!(show_guarded(rules, call, &paths), expected, "{call}");
    }
    // The user who was prompted about a named path has answered for it.
    let call = "files/read_file reads kind=read path=lib/a";
    let approved =
        |rules: &str, call: &str| match apply_answer(question(rules, call), Answer::once()) {
            Ok(AnswerOutcome::Granted { grant, .. }) => {
                grant.guard().cloned().expect("a rule denies some paths")
            }
            other => panic!("an answer is a grant: {other:?}"),
        };
    let guard = approved("ask Read(lib/**)\ndeny Read(secrets/**)", call);
    assert!(!guard.denies_read("/w/lib/a"));
    assert!(!guard.denies_read("/w/lib/a/below"));
    assert!(guard.has_answered_below("/w/lib") && !guard.has_answered_below("/w/lib/a"));
    assert!(guard.denies_read("/w/lib/b") && guard.denies_read("/w/lib"));
    assert!(guard.denies_read("/w/secrets/x"));
    assert_eq!(
        guard.hits(),
        [
            "user:1 ask `Read(lib/**)`",
            "user:2 deny `Read(secrets/**)`"
        ]
    );
    // An allowed path is not a question about the others.
    let rules = "ask Read(secrets/**)
         allow Read(secrets/public/**) @200";
    let call = "files/read_file reads kind=read path=secrets/public/x";
    assert_eq!(
        show_guarded(rules, call, &["/w/secrets/public/x", "/w/secrets/private"]),
        "/w/secrets/public/x -/w/secrets/private"
    );
    // A question about every call of a tool names no path.
    let call = "files/read_file reads kind=read path=a";
    let guard = approved("ask read_file\nask Read(lib/**)", call);
    assert!(!guard.denies_read("/w/src/b") && guard.denies_read("/w/lib/a"));
    let call = "files/read_file reads kind=read path=lib/a";
    // Without such rules there is no guard.
    let Verdict::Allow(grant) =
        Fixture::of(call).decide(&policy("deny Edit(x)\ndeny Bash(git push *)"), &[])
    else {
        panic!("reading is allowed");
    };
    assert_eq!(grant.guard(), None);
}

#[test]
fn a_07_denied_paths_for_programs_are_known_before_they_start() {
    let call = "files/read_file reads kind=read path=a";
    let rules = "deny Read(secrets/**)
         deny Read(./one/file)
         deny Read(.env)
         deny Read(keys/*.pem)
         deny Read(//etc/shadow)";
    let Verdict::Allow(grant) = Fixture::of(call).decide(&policy(rules), &[]) else {
        panic!("reading is allowed");
    };
    let tree = |path: &str| DeniedPath::Tree(path.to_owned());
    let below = |path: &str| DeniedPath::Below(path.to_owned());
    assert_eq!(
        grant.guard().unwrap().denied_paths(),
        [
            tree("/w/secrets"),
            tree("/w/one/file"),
            below("/"),
            below("/w/keys"),
            tree("/etc/shadow"),
        ]
    );
}

#[test]
fn the_innermost_mount_applies() {
    let path_context = PathContext {
        mounts: [("/workspace", "/w"), ("/workspace/data", "/srv/data")]
            .map(|(guest, host)| Mount {
                guest: guest.to_owned(),
                host: host.to_owned(),
            })
            .into(),
        ..PathContext::default()
    };
    let path_ref = path_pattern::PathRef::parse("/workspace/data/x", &path_context);
    assert_eq!(path_ref.exact(), Some("/srv/data/x"));
    // A deny matches it by either path.
    for pattern in ["//srv/data/**", "//workspace/data/**"] {
        assert!(
            path_pattern::PathPattern::parse(pattern, &path_context)
                .unwrap()
                .may_match(&path_ref),
            "{pattern}"
        );
    }
}

#[test]
fn the_path_context_accepts_guest_paths() {
    let mut spec =
        spec("allow Edit(src/**)\nallowed /workspace\nmode plan\nplan_dir /workspace/plans");
    spec.path_context.cwd = "/workspace".to_owned();
    let policy = Policy::new(spec).unwrap();
    for path in [
        "src/a",
        "/workspace/src/a",
        "/w/src/a",
        "/workspace/plans/a.md",
        "/w/plans/a.md",
    ] {
        let verdict = Fixture::of(&format!("files/write_file writes kind=edit path={path}"))
            .decide(&policy, &[]);
        assert!(
            matches!(verdict, Verdict::Allow(_)),
            "{path}: {}",
            show(&verdict)
        );
    }
}

/// Otherwise rules would be applied to another file than the one that the call opens.
#[test]
fn paths_of_a_plugin_with_its_own_directories_are_resolved_in_them() {
    let mut spec = spec(
        "allow Edit(//w/**)\ndeny Edit(//other/secret)\nmode accept_edits\nprotect //other/keep",
    );
    spec.path_context.cwd = "/workspace".to_owned();
    let mount = Mount {
        guest: "/workspace".to_owned(),
        host: "/other".to_owned(),
    };
    spec.plugin_mounts = [(PluginName::parse("own").unwrap(), vec![mount])].into();
    let policy = Policy::new(spec).unwrap();
    for (call, expected) in [
        ("files/a writes kind=edit path=secret", Decision::Allow),
        ("own/a writes kind=edit path=secret", Decision::Deny),
        (
            "own/a writes kind=edit path=/workspace/secret",
            Decision::Deny,
        ),
        ("own/a writes kind=edit path=keep/x", Decision::Ask),
        // By the mode, because the rule is about another directory.
        ("own/a writes kind=edit path=x", Decision::Allow),
        (
            "own/run writes kind=execute command=\"touch secret\"",
            Decision::Deny,
        ),
        (
            "files/run writes kind=execute command=\"touch secret\"",
            Decision::Ask,
        ),
    ] {
        let verdict = Fixture::of(call).decide(&policy, &[]);
        assert_eq!(
            decision_of(&verdict),
            expected,
            "{call}: {}",
            show(&verdict)
        );
    }
}
