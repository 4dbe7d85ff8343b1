//! Tests of commands with variables, and of the command that a grant carries.

use expect_test::expect;

use super::rules::decision;
use super::*;

const RUN: &str = "shell/shell destroys kind=execute";

fn grant(rules: &str, call: &str) -> Grant {
    match Fixture::of(call).decide(&policy(rules), &[]) {
        Verdict::Allow(grant) => grant,
        Verdict::Ask(question) => match apply_answer(*question, Answer::once()) {
            Ok(AnswerOutcome::Granted { grant, .. }) => grant,
            other => panic!("{other:?}"),
        },
        Verdict::Deny(denial) => panic!("{}", denial.reason),
    }
}

#[test]
fn a_05_a_rule_for_commands_does_not_cover_modifying_variables() {
    table(
        "allow Bash
         allow Bash(make *)
         allow shell/shell(make *)
         allow shell(make *)",
        r#"shell/shell destroys kind=execute command="make test"
           shell/shell destroys kind=execute command="make test" env={'RUST_LOG':'debug'} session.LANG=C
           shell/shell destroys kind=execute command="make test" session.MAKEFILES=evil.mk
           shell/shell destroys kind=execute command="make test" env={'CC':'./cc','LANG':'C'}
           shell/shell destroys kind=execute command="make test" env={'LC_ALL':'../../x'}
           shell/shell destroys kind=execute command="make test" env={'BASH_FUNC_make%%':'x'}
           shell/shell destroys kind=execute command="make test" env={'LANG':1}
           shell/shell destroys kind=execute command="make test" session.CC=./a env={'CC':'./b'}
           shell/shell destroys kind=execute command="make test" session.A=1 session.B=2 env={'C':'3'}
           shell/shell destroys kind=execute command="make test" session.A=1 hook:allow"#,
        expect![[r#"
            shell/shell destroys kind=execute command="make test" → allow by rule user:1 allow `Bash`
            shell/shell destroys kind=execute command="make test" env={'RUST_LOG':'debug'} session.LANG=C → allow by rule user:1 allow `Bash`
            shell/shell destroys kind=execute command="make test" session.MAKEFILES=evil.mk → ask: it runs a command; the variable `MAKEFILES` (set for the session) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" env={'CC':'./cc','LANG':'C'} → ask: it runs a command; the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" env={'LC_ALL':'../../x'} → ask: it runs a command; the variable `LC_ALL` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" env={'BASH_FUNC_make%%':'x'} → ask: it runs a command; the variable `BASH_FUNC_make%%` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" env={'LANG':1} → ask: it runs a command; the variable `LANG` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" session.CC=./a env={'CC':'./b'} → ask: it runs a command; the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" session.A=1 session.B=2 env={'C':'3'} → ask: it runs a command; the variables `A`, `B` (set for the session) and the variable `C` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            shell/shell destroys kind=execute command="make test" session.A=1 hook:allow → ask: it runs a command; the variable `A` (set for the session) can change what it runs, so rules and approvals for commands do not cover it
        "#]],
    );
    table(
        "allow shell/shell",
        r#"shell/shell destroys kind=execute command="make test" session.MAKEFILES=evil.mk"#,
        expect![[r#"
            shell/shell destroys kind=execute command="make test" session.MAKEFILES=evil.mk → allow by rule user:1 allow `shell/shell`
        "#]],
    );
    for (mode, expected) in [("auto", Decision::Allow), ("plan", Decision::Deny)] {
        let call = format!("{RUN} command=make session.MAKEFILES=x");
        assert_eq!(decision(&format!("mode {mode}"), &call), expected, "{mode}");
    }
}

#[test]
fn a_05_the_denial_names_the_variable_and_the_remedy() {
    let call = format!("{RUN} command=\"make test\" session.MAKEFILES=evil.mk env={{'CC':'x'}}");
    let question = question("allow Bash(make *)", &call);
    assert_eq!(
        question.variables,
        [("MAKEFILES".to_owned(), "evil.mk".to_owned())]
    );
    let denial = apply_answer(question, Answer::NoPrompter).unwrap_err();
    expect!["`shell` requires approval (it runs a command; the variable `MAKEFILES` (set for the session) and the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it), and no terminal is available to ask for it"].assert_eq(&denial.reason);
    expect![[r#"to allow it: remove the variable `MAKEFILES` with `set_env` without a value and remove the variables from its input, or to allow it with any variables run host with --allow-tool shell/shell, or put `allow = ["shell/shell"]` under [policy] in toolhost.toml"#]].assert_eq(&denial.remedy.unwrap());
    let policy = policy("allow Bash(make *)");
    let world = Fixture::of(&call);
    expect![[r#"
        shell/shell: ask, it runs a command; the variable `MAKEFILES` (set for the session) and the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it
        policy in mode default
          run `make test`: ask
            the variable `MAKEFILES` (set for the session) and the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it
            no rule matches; mode default, exec: ask
        remedy: remove the variable `MAKEFILES` with `set_env` without a value and remove the variables from its input, or to allow it with any variables run host with --allow-tool shell/shell, or put `allow = ["shell/shell"]` under [policy] in toolhost.toml
    "#]].assert_eq(
        &policy
            .explain(world.request(), &world.hooks, &[], NOW)
            .to_string(),
    );
    let denied = Fixture::of(&format!("{call} in:plan"));
    let Verdict::Deny(denial) = denied.decide(&policy, &[]) else {
        panic!("denied")
    };
    expect!["`shell` may not run `make test` in mode plan: it runs a command; the variable `MAKEFILES` (set for the session) and the variable `CC` (in its input) can change what it runs, so rules and approvals for commands do not cover it"].assert_eq(&denial.reason);
}

#[test]
fn a_05_no_approval_is_saved_for_a_command_with_session_variables() {
    let steered = format!("{RUN} command=\"make test\" session.MAKEFILES=evil.mk");
    let offers = question("", &steered).offers;
    assert_eq!(offers.len(), 1, "once alone: {offers:?}");
    assert!(
        question("", &steered)
            .advance_approval(ApprovalScope::Session)
            .is_none()
    );
    // An approval of the plain command or of exactly this input does not cover it either.
    let plain = format!("{RUN} command=\"make test\"");
    let own = format!("{RUN} command=\"make test\" env={{'CC':'x'}}");
    for given in [plain, own] {
        let question = question("", &given);
        assert!(question.offers.len() > 1, "{given}");
        let approval = saved_approval(question, 1);
        let approval = approval.into_approval("a1", "user", NOW - 10);
        for (variables, covers) in [
            ("", true),
            (" session.LANG=C", true),
            (" session.MAKEFILES=x", false),
        ] {
            let call = format!("{given}{variables}");
            let world = Fixture::of(&call);
            let verdict = world.decide(&policy(""), std::slice::from_ref(&approval));
            assert_eq!(matches!(verdict, Verdict::Allow(_)), covers, "{call}");
        }
    }
}

#[test]
fn a_05_an_approval_for_one_input_does_not_cover_other_variables() {
    let call = |rest: &str| format!("{RUN} command=\"make test\"{rest}");
    for (given, cases) in [
        (
            " env={'CC':'x'}",
            &[
                (" env={'CC':'x'}", true),
                // A variable in the input replaces the session's.
                (" env={'CC':'x'} session.CC=y", true),
                (" env={'CC':'y'}", false),
                (" env={'CC':'x','LD_PRELOAD':'y'}", false),
                (" env={'CC':'x','LANG':'C'}", false),
                (" env={'CC':'x'} session.LD_PRELOAD=y", false),
                ("", false),
                (" session.CC=x", false),
            ][..],
        ),
        (
            "",
            &[
                ("", true),
                (" env={'CC':'x'}", false),
                (" env={'LANG':'../x'}", false),
                (" session.CC=x", false),
            ],
        ),
    ] {
        let lasting = 1..question("", &call(given)).offers.len();
        assert!(!lasting.is_empty(), "{given}");
        for offer in lasting {
            let approval = saved_approval(question("", &call(given)), offer);
            let approval = [approval.into_approval("a1", "user", NOW - 10)];
            for &(variables, covers) in cases {
                let verdict = Fixture::of(&call(variables)).decide(&policy(""), &approval);
                let allowed = matches!(verdict, Verdict::Allow(_));
                assert_eq!(allowed, covers, "{given}, offer {offer}: {variables}");
            }
        }
    }
}

#[test]
fn a_05_setting_a_variable_that_modifies_programs_requires_approval() {
    table(
        "",
        "system/set_env writes kind=other key=RUST_LOG value=debug nothing
         system/set_env writes kind=other key=MAKEFILES value=x sets.MAKEFILES=x
         system/set_env writes kind=other key=RUST_LOG value=debug sets.MAKEFILES=x",
        expect![[r#"
            system/set_env writes kind=other key=RUST_LOG value=debug nothing → allow by mode default: read
            system/set_env writes kind=other key=MAKEFILES value=x sets.MAKEFILES=x → ask: it would set the variable `MAKEFILES` for the programs of this session, which can change what they run
            system/set_env writes kind=other key=RUST_LOG value=debug sets.MAKEFILES=x → ask: it would set the variable `MAKEFILES` for the programs of this session, which can change what they run
        "#]],
    );
    let named = "system/set_env writes kind=other key=CC value=gcc sets.CC=gcc";
    let other = "system/set_env writes kind=other key=CC value=gcc sets.MAKEFILES=x";
    for (rules, call, expected) in [
        ("mode plan", named, Decision::Deny),
        ("mode accept_edits", named, Decision::Ask),
        ("mode auto", named, Decision::Allow),
        ("allow set_env", other, Decision::Allow),
        ("allow set_env(key:CC)", named, Decision::Allow),
        // The tool does not do what its input states.
        ("allow set_env(key:CC)", other, Decision::Ask),
        ("allow Edit", other, Decision::Ask),
        ("allow Bash", other, Decision::Ask),
        ("deny set_env(key:CC)", named, Decision::Deny),
    ] {
        assert_eq!(decision(rules, call), expected, "{rules}: {call}");
    }
    assert!(question("", named).offers.len() > 1);
    assert_eq!(question("", other).offers.len(), 1);
    assert_eq!(
        question("", other).variables,
        [("MAKEFILES".to_owned(), "x".to_owned())]
    );
}

#[test]
fn a_01_the_grant_holds_the_command_and_its_variables() {
    let call = format!(
        "{RUN} command=\"git status\" cwd=src session.LANG=C session.HOME=. env={{'LANG':'D','TOKEN':'x','N':1}}"
    );
    let held = grant("", &call);
    expect![[r#"
        Some(
            AuthorizedCommand {
                argv: [
                    "sh",
                    "-c",
                    "git status",
                ],
                cwd: Some(
                    "src",
                ),
                variables: {
                    "HOME": ".",
                    "LANG": "D",
                    "TOKEN": "x",
                },
                tty: false,
            },
        )
    "#]]
    .assert_debug_eq(&held.command());
    expect![[r#"{"argv":["sh","-c","git status"],"cwd":"src","stdin":"closed","variables":{"HOME":".","LANG":"D","TOKEN":"***"}}"#]].assert_eq(&held.command().unwrap().to_record().to_string());
    // A secret that crosses the truncation limit.
    let held = grant(
        "",
        &format!(
            "{RUN} command=\"{} ghp_{}\"",
            "x".repeat(3_990),
            "a".repeat(36)
        ),
    );
    let recorded = held.command().unwrap().to_record()["argv"][2].to_string();
    assert!(recorded.ends_with("x ***\""), "{recorded}");
    // The input requests a login shell, which no rule for commands covers.
    let mut world = Fixture::of(&format!("{RUN} command=\"git status\""));
    world.input["login"] = json!(true);
    let verdict = world.decide(&policy("allow Bash(git *)"), &[]);
    expect!["ask: it runs a command; a login shell runs profile files first, so rules and approvals for commands do not cover it"].assert_eq(&show(&verdict));
    let Verdict::Ask(question) = verdict else {
        panic!("the call requires approval")
    };
    let Ok(AnswerOutcome::Granted { grant, .. }) = apply_answer(*question, Answer::once()) else {
        panic!("granted")
    };
    assert_eq!(grant.command().unwrap().argv[1], "-lc");
    world.input["login"] = json!("true");
    let Verdict::Allow(grant) = world.decide(&policy("allow Bash(git *)"), &[]) else {
        panic!("allowed")
    };
    assert_eq!(grant.command().unwrap().argv[1], "-c");
}

#[test]
fn the_record_of_a_command_has_the_first_4000_bytes_of_each_argument() {
    for (command, prefix) in [
        ("x".repeat(4_000), None),
        ("x".repeat(4_001), Some("x".repeat(4_000))),
        ("x".repeat(9_000), Some("x".repeat(4_000))),
        // A character at the limit is dropped as a whole.
        ("é".repeat(2_000), None),
        (
            format!("x{}", "é".repeat(2_000)),
            Some(format!("x{}", "é".repeat(1_999))),
        ),
    ] {
        let held = grant("", &format!("{RUN} command={command} cwd={command}"));
        let recorded = held.command().unwrap().to_record();
        let expected = prefix.map_or(command, |prefix| prefix + "…");
        assert_eq!(recorded["argv"], json!(["sh", "-c", expected]));
        assert_eq!(recorded["cwd"], json!(expected));
    }
}

#[test]
fn a_04_the_grant_holds_what_is_typed_and_into_which_program() {
    let call = "shell/shell_input destroys kind=execute task_id=job-1 chars=y";
    let running = format!("{call} runs=python3");
    table(
        "",
        &format!("{running}\n{call}"),
        expect![[r#"
        shell/shell_input destroys kind=execute task_id=job-1 chars=y runs=python3 → ask: it runs a command; it types into `python3` (job-1)
        shell/shell_input destroys kind=execute task_id=job-1 chars=y → ask: it runs a command; it types into a program that is not running
    "#]],
    );
    assert_eq!(decision("allow Bash(python3)", &running), Decision::Ask);
    // A later job with this name may be another program.
    assert_eq!(question("", &running).offers.len(), 1);
    let held = grant("", &running);
    expect![[r#"
        Some(
            AuthorizedTask {
                job: Some(
                    "job-1",
                ),
                text: "y",
            },
        )
    "#]]
    .assert_debug_eq(&held.task());
    assert_eq!(held.command(), None);
    // A call that types nothing is bound to the named program as well.
    let kill = "shell/shell_kill destroys kind=execute pid=70 runs=python3";
    assert_eq!(grant("", kill).task().unwrap().text, "");
    assert!(question("", kill).offers.len() > 1);
}

#[test]
fn the_directory_of_a_command_counts_as_an_option_for_it() {
    let git = "allow Bash(git *)\nallow Bash(ls *)";
    let run = "allow Bash(cd *)\nallow Bash(make *)\nallow Bash(./build.sh *)\nallow Bash(python3 run.py *)\nallow \
               Bash(ls *)\nallow Bash(env *)\nallow Bash(npx eslint *)";
    let call = |command: &str, cwd: &str| {
        format!("system/bash kind=execute command=\"{command}\" cwd={cwd}")
    };
    for (rules, command, cwd, expected) in [
        (git, "git log", ".", Decision::Allow),
        (git, "git log", "sub", Decision::Ask),
        (git, "git log", "../other", Decision::Ask),
        ("mode plan", "git status", ".", Decision::Ask),
        ("mode plan", "git status", "sub", Decision::Deny),
        (git, "ls x", "sub", Decision::Allow),
        ("allow Bash(make)", "make", "sub", Decision::Ask),
        ("allow Bash(*)", "make", "sub", Decision::Allow),
        ("allow Bash", "make", "sub", Decision::Allow),
        ("deny Bash(make)", "make", "sub", Decision::Deny),
        (run, "./build.sh", ".", Decision::Allow),
        (run, "./build.sh", "sub", Decision::Ask),
        (run, "cd sub && ./build.sh", ".", Decision::Ask),
        (run, "python3 run.py", ".", Decision::Allow),
        (run, "python3 run.py", "sub", Decision::Ask),
        (run, "npx eslint", "sub", Decision::Ask),
        (run, "cd . && make", ".", Decision::Allow),
        (run, "cd /workspace && make", ".", Decision::Allow),
        (run, "cd sub && ls x", ".", Decision::Allow),
        (run, "x=1; make", ".", Decision::Allow),
        (run, "cd sub && make", ".", Decision::Ask),
        (run, "cd -- sub && make", ".", Decision::Ask),
        (run, "cd ../sub && make", ".", Decision::Ask),
        (run, "cd && make", ".", Decision::Ask),
        (run, "cd $x && make", ".", Decision::Ask),
        (
            run,
            "cd .; cd .; cd .; cd .; cd sub; make",
            ".",
            Decision::Ask,
        ),
        (run, "(cd sub; make)", ".", Decision::Ask),
        (run, "eval 'cd sub' && make", ".", Decision::Ask),
        (run, "find . -execdir make ';'", ".", Decision::Ask),
        (run, "env -C sub make", ".", Decision::Ask),
        (run, "env A=b make", ".", Decision::Ask),
        (run, "env LANG=C make", ".", Decision::Allow),
    ] {
        assert_eq!(
            decision(rules, &call(command, cwd)),
            expected,
            "{rules}: {command} in {cwd}"
        );
    }
    let question = question("", &call("make", "sub"));
    expect!["it runs a command; what `make` runs depends on the directory, and it would run in another one; only a rule for all commands and an approval of exactly this input cover that"].assert_eq(&question.reason);
    let approval = saved_approval(question, 1);
    let approval = [approval.into_approval("a1", "user", NOW - 10)];
    for (cwd, covers) in [("sub", true), ("other", false), (".", false)] {
        let verdict = Fixture::of(&call("make", cwd)).decide(&policy(""), &approval);
        assert_eq!(matches!(verdict, Verdict::Allow(_)), covers, "{cwd}");
    }
}

#[test]
fn arguments_are_paths_from_where_the_command_runs() {
    let rules = "allow Bash(rm *)\nallow Bash(cd *)\ndeny Edit(secrets/**)";
    for (command, cwd, expected) in [
        ("rm secrets/key", ".", Decision::Deny),
        ("rm key", "secrets", Decision::Deny),
        ("rm key", ".", Decision::Allow),
        ("rm key", "other", Decision::Allow),
        ("cd secrets && rm key", ".", Decision::Deny),
        ("cd other && rm key", ".", Decision::Allow),
        ("cd other && cd ../secrets && rm key", ".", Decision::Deny),
        ("cd secrets && cd deep && rm key", ".", Decision::Deny),
        ("rm ../secrets/key", "other", Decision::Deny),
        (
            "cd .; cd .; cd .; cd .; cd secrets; rm key",
            ".",
            Decision::Deny,
        ),
        ("cd -- secrets && rm key", ".", Decision::Deny),
        ("rm -rsecrets/key", ".", Decision::Deny),
        ("rm -rfsecrets/key", ".", Decision::Deny),
        ("rm -tsecrets e", ".", Decision::Deny),
        ("rm --x=secrets/key", ".", Decision::Deny),
        ("rm --x=y=secrets/key", ".", Decision::Deny),
        ("rm of=secrets/key", ".", Decision::Deny),
        ("rm of=secrets/$x", ".", Decision::Deny),
        ("rm -osecrets/$x", ".", Decision::Deny),
        ("rm 's'ecrets/$x", ".", Decision::Deny),
        ("rm -osecretsx/key", ".", Decision::Allow),
        ("rm -o x/secrets", ".", Decision::Allow),
    ] {
        let call = format!("system/bash kind=execute command=\"{command}\" cwd={cwd}");
        assert_eq!(decision(rules, &call), expected, "{command} in {cwd}");
    }
}

#[test]
fn the_question_names_the_option_that_no_rule_names() {
    let call = "system/bash kind=execute command=\"make -C sub -f x\"";
    expect!["it runs a command; `-f` of `make` can run other programs (make(1), GNU make manual 9.5 and 9.8); a wildcard in a rule or a saved approval does not cover it"]
        .assert_eq(&question("allow Bash(make -C sub *)", call).reason);
    let call = "system/bash kind=execute command=\"uniq a b\"";
    expect!["it runs a command; further operands of `uniq` can write files (uniq(1): the second operand is the output); a wildcard in a rule or a saved approval does not cover it"]
        .assert_eq(&question("allow Bash(uniq *)", call).reason);
}

#[test]
fn an_expression_names_each_occurrence_of_a_risky_option() {
    for (regex, command, expected) in [
        ("git log.*", "git log --oneline", Decision::Allow),
        ("git -C sub .*", "git -C sub status", Decision::Allow),
        ("git -C sub .*", "git -C sub -C x status", Decision::Ask),
        ("git .*--no-Color", "git -C x log --no-Color", Decision::Ask),
        ("uniq .*", "uniq a", Decision::Allow),
        ("uniq .*", "uniq a b", Decision::Ask),
        ("npx .*", "npx eslint", Decision::Allow),
    ] {
        let call = format!("system/bash kind=execute command=\"{command}\"");
        let rules = format!("allow bash regex=\"{regex}\"");
        assert_eq!(decision(&rules, &call), expected, "{regex}: {command}");
    }
}

#[test]
fn no_rule_is_suggested_for_a_command_that_cannot_be_analyzed() {
    let call = "system/bash kind=execute command=\"echo ${x[@]}\"";
    for rules in ["", "allow bash"] {
        let denial = apply_answer(question(rules, call), Answer::NoPrompter).unwrap_err();
        expect!["to allow it: rewrite the command so that it can be analyzed, or answer at a terminal; no allow rule covers it as it is"]
            .assert_eq(&denial.remedy.unwrap());
    }
}
