//! Tests of session modes, declared effects, timeouts and protected files.

use expect_test::expect;

use std::fmt::Write as _;

use super::*;

/// One call for each column of the mode table, and the exceptions of mode plan.
const CALLS: [(&str, &str); 12] = [
    ("read", "files/read_file reads kind=read path=src/a.rs"),
    ("pure", "data/json_parse pure"),
    ("write", "files/write_file writes kind=edit path=src/a.rs"),
    (
        "plan file",
        "files/write_file writes kind=edit path=docs/plans/a.md",
    ),
    (
        "protected",
        "files/write_file writes kind=edit path=.git/config",
    ),
    ("exec", "system/bash kind=execute command=\"make all\""),
    ("exec reads", "system/bash kind=execute command=\"ls src\""),
    (
        "network",
        "web/http_get reads network kind=fetch url=https://example.com/",
    ),
    ("interactive", "ui/ask_user pure interactive"),
    ("other", "x/unknown"),
    ("foreign", "srv/mcp__srv__look"),
    ("foreign, reads", "srv/mcp__srv__look reads"),
];

#[test]
fn the_mode_table_matches_the_documentation() {
    let mut out = format!("{:14}", "");
    for mode in Mode::ALL {
        let _ = write!(out, " {mode:>12}");
    }
    out.push('\n');
    for (name, call) in CALLS {
        let mut line = format!("{name:14}");
        for mode in Mode::ALL {
            let policy = policy(&format!("mode {mode}\nplan_dir docs/plans\ncallback"));
            let verdict = Fixture::of(call).decide(&policy, &[]);
            let shown = show(&verdict);
            let _ = write!(line, " {:>12}", shown.split([' ', ':']).next().unwrap());
        }
        out.push_str(&line);
        out.push('\n');
    }
    expect![[r#"
                           dont_ask         plan     readonly          ask      default accept_edits         auto         yolo       custom
        read                   deny        allow        allow          ask        allow        allow        allow        allow        allow
        pure                   deny        allow        allow          ask        allow        allow        allow        allow        allow
        write                  deny         deny         deny          ask          ask        allow        allow        allow        allow
        plan file              deny        allow         deny          ask          ask        allow        allow        allow        allow
        protected              deny         deny         deny          ask          ask          ask          ask        allow          ask
        exec                   deny         deny         deny          ask          ask          ask        allow        allow        allow
        exec reads             deny          ask         deny          ask          ask          ask        allow        allow        allow
        network                deny          ask          ask          ask          ask          ask        allow        allow        allow
        interactive            deny        allow        allow          ask        allow        allow        allow        allow        allow
        other                  deny         deny         deny          ask          ask          ask        allow        allow        allow
        foreign                deny         deny         deny          ask          ask          ask        allow        allow        allow
        foreign, reads         deny          ask         deny          ask          ask          ask        allow        allow        allow
    "#]].assert_eq(&out);
}

// R-197, R-444, C-08
#[test]
fn a_mode_accepts_the_names_of_every_system_and_no_others() {
    for (names, mode) in [
        ("dont_ask dontAsk dont-ask DONT_ASK deny", Mode::DontAsk),
        ("plan Plan PLAN", Mode::Plan),
        ("readonly read_only readOnly read-only", Mode::ReadOnly),
        ("ask Ask approval", Mode::Ask),
        ("default Default", Mode::Default),
        (
            "accept_edits acceptEdits accept-edits autoEdit auto_edit skipFileEdit",
            Mode::AcceptEdits,
        ),
        ("auto AUTO", Mode::Auto),
        ("yolo bypassPermissions bypass_permissions", Mode::Yolo),
        ("custom", Mode::Custom),
    ] {
        for name in names.split_whitespace() {
            assert_eq!(name.parse(), Ok(mode), "{name}");
        }
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    for name in ["", "autoo", "allow", "yolo!", " auto", "auto\u{202e}"] {
        assert!(name.parse::<Mode>().is_err(), "{name}");
    }
    expect![[r"`yo\u{202e}lo` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom"]]
        .assert_eq(&"yo\u{202e}lo".parse::<Mode>().unwrap_err().to_string());
}

#[test]
fn modes_are_ordered_except_ask_and_custom() {
    let ordered = [
        Mode::DontAsk,
        Mode::ReadOnly,
        Mode::Plan,
        Mode::Default,
        Mode::AcceptEdits,
        Mode::Auto,
        Mode::Yolo,
    ];
    assert!(ordered.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(
        ordered
            .iter()
            .all(|mode| mode.partial_cmp(&Mode::Custom).is_none())
    );
    assert!(Mode::Custom.is_at_least(Mode::Custom));
    for (mode, than_ask) in [
        (Mode::DontAsk, Some(std::cmp::Ordering::Less)),
        (Mode::ReadOnly, None),
        (Mode::Plan, None),
        (Mode::Ask, Some(std::cmp::Ordering::Equal)),
        (Mode::Default, Some(std::cmp::Ordering::Greater)),
        (Mode::Yolo, Some(std::cmp::Ordering::Greater)),
        (Mode::Custom, None),
    ] {
        assert_eq!(mode.partial_cmp(&Mode::Ask), than_ask, "{mode}");
        let reversed = than_ask.map(std::cmp::Ordering::reverse);
        assert_eq!(Mode::Ask.partial_cmp(&mode), reversed, "{mode}");
    }
}

#[test]
fn a_session_in_a_host_that_asks_for_everything_still_asks_in_plan() {
    let read = "files/read_file reads kind=read path=a";
    for mode in [Mode::Plan, Mode::ReadOnly] {
        let policy = policy("mode ask").with_mode(mode).unwrap();
        let verdict = Fixture::of(read).decide(&policy, &[]);
        assert!(matches!(verdict, Verdict::Ask(_)), "{mode}: {verdict:?}");
        let write = "files/write_file writes kind=edit path=a";
        let verdict = Fixture::of(write).decide(&policy, &[]);
        assert!(matches!(verdict, Verdict::Deny(_)), "{mode}: {verdict:?}");
    }
}

#[test]
fn r_191_a_read_only_tool_needs_no_approval() {
    for mode in [
        "plan",
        "readonly",
        "default",
        "accept_edits",
        "auto",
        "yolo",
    ] {
        check(
            &format!("mode {mode}"),
            "files/read_file reads path=a",
            match mode {
                "plan" => expect!["allow by mode plan: read"],
                "readonly" => expect!["allow by mode readonly: read"],
                "default" => expect!["allow by mode default: read"],
                "accept_edits" => expect!["allow by mode accept_edits: read"],
                "auto" => expect!["allow by mode auto: read"],
                _ => expect!["allow by mode yolo: read"],
            },
        );
    }
    // A rule takes precedence over the mode.
    check(
        "ask read_file",
        "files/read_file reads path=a",
        expect!["ask: rule user:1 ask `read_file`"],
    );
}

#[test]
fn the_sessions_mode_narrows_and_never_widens() {
    table(
        "mode accept_edits",
        "files/write_file writes kind=edit path=a
         files/write_file writes kind=edit path=a in:default
         files/write_file writes kind=edit path=a in:plan
         files/write_file writes kind=edit path=a in:dont_ask
         system/bash kind=execute command=ls in:yolo
         files/read_file reads path=a in:custom",
        expect![[r#"
            files/write_file writes kind=edit path=a → allow by mode accept_edits: write
            files/write_file writes kind=edit path=a in:default → ask: it changes files
            files/write_file writes kind=edit path=a in:plan → deny: `write_file` may not write `a` in mode plan: it changes files
            files/write_file writes kind=edit path=a in:dont_ask → deny: `write_file` may not write `a` in mode dont_ask: it changes files
            system/bash kind=execute command=ls in:yolo → ask: it runs a command
            files/read_file reads path=a in:custom → allow by mode custom: read
        "#]],
    );
}

#[test]
fn a_disabled_mode_or_a_custom_mode_without_callback_is_rejected() {
    let wrong = |text: &str| Policy::new(spec(text)).unwrap_err()[0].to_string();
    expect!["policy: error: mode yolo is disabled by disable_yolo; choose another mode"]
        .assert_eq(&wrong("mode yolo\nno_yolo"));
    expect!["policy: error: mode custom requires a hook that decides about calls, but none exists; configure one or choose another mode"].assert_eq(&wrong("mode custom"));
    assert!(wrong("mode custom\nheadless callback").contains("requires a hook"));
    assert_eq!(policy("mode custom\ncallback").mode(), Mode::Custom);
    assert!(policy("no_yolo").with_mode(Mode::Yolo).is_err());
    assert_eq!(policy("").with_mode(Mode::Auto).unwrap().mode(), Mode::Auto);
}

#[test]
fn an_allow_rule_overrides_the_mode() {
    table(
        "mode dont_ask
         allow read_file
         allow Bash(git *)",
        "files/read_file reads path=a
         files/list_dir reads path=a
         system/bash kind=execute command=\"git status\"
         system/bash kind=execute command=make",
        expect![[r#"
            files/read_file reads path=a → allow by rule user:1 allow `read_file`
            files/list_dir reads path=a → deny: `list_dir` may not read `a` in mode dont_ask: it reads
            system/bash kind=execute command="git status" → allow by rule user:2 allow `Bash(git *)`
            system/bash kind=execute command=make → deny: `bash` may not run `make` in mode dont_ask: it runs a command
        "#]],
    );
}

#[test]
fn plans_are_written_below_the_plan_directory_only() {
    table(
        "mode plan
         plan_dir .toolhost/plans",
        "files/write_file writes kind=edit path=.toolhost/plans/a.md
         files/write_file writes kind=edit path=/workspace/.toolhost/plans/b/c.md
         files/write_file writes kind=edit path=.toolhost/plans/a.sh
         files/write_file writes kind=edit path=.toolhost/plans/../x.md
         files/write_file writes kind=edit path=.toolhost/plans/../../../x.md
         files/write_file writes kind=edit path=.toolhost/plansx/a.md
         files/delete_file destroys kind=delete path=.toolhost/plans/a.md
         files/copy_file writes kind=edit from=a.md to=.toolhost/plans/a.md
         files/copy_file writes kind=edit from=a.md to=b.md",
        expect![[r#"
            files/write_file writes kind=edit path=.toolhost/plans/a.md → allow by mode plan: protected path
            files/write_file writes kind=edit path=/workspace/.toolhost/plans/b/c.md → allow by mode plan: protected path
            files/write_file writes kind=edit path=.toolhost/plans/a.sh → deny: `write_file` may not write `.toolhost/plans/a.sh` in mode plan: it changes a protected path: agents take instructions, tools or permissions from it
            files/write_file writes kind=edit path=.toolhost/plans/../x.md → deny: `write_file` may not write `.toolhost/plans/../x.md` in mode plan: it changes a protected path: agents take instructions, tools or permissions from it
            files/write_file writes kind=edit path=.toolhost/plans/../../../x.md → deny: `write_file` may not write `.toolhost/plans/../../../x.md` in mode plan: it changes a protected path: its target cannot be determined
            files/write_file writes kind=edit path=.toolhost/plansx/a.md → deny: `write_file` may not write `.toolhost/plansx/a.md` in mode plan: it changes a protected path: agents take instructions, tools or permissions from it
            files/delete_file destroys kind=delete path=.toolhost/plans/a.md → deny: `delete_file` may not write `.toolhost/plans/a.md` in mode plan: it changes a protected path: agents take instructions, tools or permissions from it
            files/copy_file writes kind=edit from=a.md to=.toolhost/plans/a.md → allow by mode plan: read, mode plan: protected path
            files/copy_file writes kind=edit from=a.md to=b.md → deny: `copy_file` may not write `b.md` in mode plan: it changes files
        "#]],
    );
}

#[test]
fn missing_annotations_default_to_the_strictest() {
    table(
        "mode accept_edits",
        "x/unknown
         x/unknown path=a
         x/touch writes
         x/touch writes path=a
         x/patch writes kind=edit text=a
         x/drop destroys path=a
         x/delete_file destroys kind=delete path=a
         x/ask_user interactive
         x/post network writes url=https://a.example/
         x/explain reads command=\"rm -rf /\"
         x/look reads url=https://a.example/
         x/parse pure url=https://a.example/
         srv/mcp__srv__run reads command=ls
         srv/mcp__srv__stat pure path=a",
        expect![[r#"
            x/unknown → ask: it may destroy data
            x/unknown path=a → ask: it may destroy data
            x/touch writes → ask: it may have side effects
            x/touch writes path=a → allow by mode accept_edits: write
            x/patch writes kind=edit text=a → ask: it changes files without naming them
            x/drop destroys path=a → ask: it may destroy data
            x/delete_file destroys kind=delete path=a → allow by mode accept_edits: write
            x/ask_user interactive → ask: it may destroy data
            x/post network writes url=https://a.example/ → ask: it accesses the network
            x/explain reads command="rm -rf /" → allow by mode accept_edits: read
            x/look reads url=https://a.example/ → ask: it accesses the network
            x/parse pure url=https://a.example/ → allow by mode accept_edits: read
            srv/mcp__srv__run reads command=ls → ask: it runs a command
            srv/mcp__srv__stat pure path=a → ask: it may have side effects
        "#]],
    );
}

#[test]
fn timeouts_come_from_the_tool_or_its_kind_and_have_a_maximum() {
    for (call, seconds) in [
        ("x/a writes network", 60),
        ("x/a writes timeout=90s", 90),
        ("x/a writes timeout=5h", 600),
        ("x/a writes", 30),
    ] {
        let Verdict::Allow(grant) = Fixture::of(call).decide(&policy("allow *"), &[]) else {
            panic!("{call}")
        };
        assert_eq!(grant.timeout().as_secs(), seconds, "{call}");
    }
}

#[test]
fn the_sandbox_is_narrowed_to_the_tools_effect_in_every_mode() {
    for mode in [Mode::Default, Mode::Auto, Mode::Yolo] {
        let policy = policy("allow *").with_mode(mode).unwrap();
        for (effect, files, environment) in [
            ("pure", FileAccess::Nothing, false),
            ("reads", FileAccess::ReadOnly, true),
            ("writes", FileAccess::AsGranted, true),
            ("destroys", FileAccess::AsGranted, true),
        ] {
            let Verdict::Allow(grant) = Fixture::of(&format!("x/a {effect}")).decide(&policy, &[])
            else {
                panic!("{effect}")
            };
            assert_eq!(
                (grant.files(), grant.environment()),
                (files, environment),
                "{effect}"
            );
        }
    }
}

#[test]
fn a_18_protected_files_require_approval_in_accept_edits() {
    let accept = policy("mode accept_edits");
    let ask = |path: &str| {
        let call = format!("files/write_file writes kind=edit path={path}");
        show(&Fixture::of(&call).decide(&accept, &[]))
    };
    for path in [
        "Makefile",
        "GNUmakefile",
        "makefile",
        "rules.mk",
        "sub/CMakeLists.txt",
        "x.cmake",
        "BUILD",
        "WORKSPACE",
        "x.bzl",
        "package.json",
        "conftest.py",
        "build.rs",
        "setup.py",
        "justfile",
        ".gitattributes",
        ".gitmodules",
        ".vimrc",
        ".exrc",
        ".bazelrc",
        ".yarnrc.yml",
        ".npmrc",
        ".pnpmfile.cjs",
        "CLAUDE.md",
        "docs/AGENTS.md",
        "GEMINI.md",
        ".cursorrules",
        ".cursor/rules/a.mdc",
        ".github/copilot-instructions.md",
        ".github/workflows/a.yml",
        ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
        ".husky/pre-commit",
        "lefthook.yml",
        "pyproject.toml",
        "tox.ini",
        "noxfile.py",
        "sitecustomize.py",
        "a.pth",
        "Cargo.toml",
        ".cargo/config.toml",
        "rust-toolchain.toml",
        "Gemfile",
        "Rakefile",
        "x.gemspec",
        "composer.json",
        "build.gradle.kts",
        "gradlew",
        "pom.xml",
        ".mvn/jvm.config",
        "x.csproj",
        "Directory.Build.props",
        "NuGet.config",
        ".envrc",
        "mise.toml",
        ".vscode/tasks.json",
        ".dir-locals.el",
        "webpack.config.js",
        "vite.config.ts",
        ".eslintrc.cjs",
        "eslint.config.mjs",
        "jest.config.js",
        "babel.config.json/../babel.config.js",
        "tailwind.config.ts",
        ".mcp.json",
        ".claude/settings.json",
        ".gemini/settings.json",
        "Dockerfile",
        "docker-compose.yml",
        "compose.yaml",
        "Jenkinsfile",
        "x.service",
        "x.desktop",
        "crontab",
        ".ssh/config",
        ".gdbinit",
        ".inputrc",
        ".tmux.conf",
    ] {
        let shown = ask(path);
        assert!(
            shown.starts_with("ask: it changes a protected path: "),
            "{path}: {shown}"
        );
    }
    for path in [
        "src/main.rs",
        "README.md",
        "build/out.txt",
        "workspace/a.txt",
        "tsconfig.json",
        ".editorconfig",
        ".gitignore",
        "docs/makefile-guide.md",
    ] {
        assert!(ask(path).starts_with("allow"), "{path}: {}", ask(path));
    }
    expect!["ask: it changes a protected path: build tools execute its contents"]
        .assert_eq(&ask("Makefile"));
    let prefix = [
        "files/rewrite writes kind=edit changed=src/a.sh",
        "files/rewrite writes kind=edit changed=run.sh",
    ];
    for call in prefix {
        let mut world = Fixture::of(call);
        for path in &mut world.subject.paths {
            path.executable = true;
        }
        expect!["ask: it changes a protected path: it is executable"]
            .assert_eq(&show(&world.decide(&accept, &[])));
    }
}

#[test]
fn c_06_a_stricter_session_mode_overrides_command_line_rules() {
    let write = "files/write_file writes kind=edit path=a";
    let typed = policy("mode default\nallow write_file yields");
    let written = policy("mode default\nallow write_file");
    let decide = |policy: &Policy, call: &str| show(&Fixture::of(call).decide(policy, &[]));
    expect!["allow by rule user:1 allow `write_file`"].assert_eq(&decide(&typed, write));
    for mode in [Mode::Plan, Mode::ReadOnly, Mode::DontAsk] {
        let narrowed = typed.with_mode(mode).unwrap();
        let answer = decide(&narrowed, write);
        assert!(answer.starts_with("deny"), "{mode}: {answer}");
        // A rule of the configuration file applies in every mode, unless it lists modes.
        let updated = written.with_mode(mode).unwrap();
        assert!(decide(&updated, write).starts_with("allow"), "{mode}");
    }
    let verdict = decide(&typed, "files/write_file writes kind=edit path=a in:plan");
    assert!(verdict.starts_with("deny"), "{verdict}");
    let wider = typed.with_mode(Mode::Auto).unwrap();
    assert!(decide(&wider, write).starts_with("allow by rule"));
    // Allowing a tool while starting the host in mode plan applies to mode plan.
    let plan = policy("mode plan\nallow write_file yields");
    assert!(decide(&plan, write).starts_with("allow by rule"));
}
