//! Tests of questions to the user, their offers and the effect of answers.

use expect_test::expect;

use std::fmt::Write as _;

use super::*;

/// The reason and the offers of a question.
fn question_text(rules: &str, call: &str) -> String {
    let question = question(rules, call);
    let mut out = format!("{} ({})\n", question.reason, question.kind.as_str());
    for offer in &question.offers {
        let _ = writeln!(out, "  {:7} {}", offer.scope.as_str(), offer.text);
    }
    out
}

#[test]
fn r_193_a_question_is_of_one_of_four_kinds() {
    for (call, kind) in [
        ("files/write_file writes kind=edit path=a", PromptKind::Edit),
        (
            "files/delete_file destroys kind=delete path=a",
            PromptKind::Edit,
        ),
        ("files/patch writes kind=edit patch=x", PromptKind::Edit),
        ("system/bash kind=execute command=ls", PromptKind::Exec),
        (
            "system/bash kind=execute command=\"echo x > a\"",
            PromptKind::Exec,
        ),
        ("srv/mcp__srv__look reads", PromptKind::Mcp),
        ("srv/look category=mcp path=a", PromptKind::Mcp),
        (
            "web/http_get reads network url=https://a.example/",
            PromptKind::Info,
        ),
        ("x/unknown", PromptKind::Info),
    ] {
        assert_eq!(question("", call).kind, kind, "{call}");
    }
}

// R-194
#[test]
fn a_saved_approval_is_limited_to_the_accesses_of_the_call() {
    expect![[r#"
        it changes files (edit)
          once    Allow `write_file` this once
          session Allow `write_file` on `/w/src/a.rs` with any content for the rest of this session
          project Allow `write_file` on `/w/src/a.rs` with any content in this project until revoked
          user    Allow `write_file` on `/w/src/a.rs` with any content in every project until revoked
          session Allow `write_file` below `/w/src/` with any content for the rest of this session
          project Allow `write_file` below `/w/src/` with any content in this project until revoked
          user    Allow `write_file` below `/w/src/` with any content in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "files/write_file writes kind=edit path=src/a.rs",
    ));
    expect![[r#"
        it changes files (edit)
          once    Allow `copy_file` this once
          session Allow `copy_file` on `/w/lib/b` with any content for the rest of this session
          project Allow `copy_file` on `/w/lib/b` with any content in this project until revoked
          user    Allow `copy_file` on `/w/lib/b` with any content in every project until revoked
          session Allow `copy_file` below `/w/lib/` with any content for the rest of this session
          project Allow `copy_file` below `/w/lib/` with any content in this project until revoked
          user    Allow `copy_file` below `/w/lib/` with any content in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "files/copy_file writes kind=edit from=a to=lib/b",
    ));
    expect![[r#"
        it runs a command (exec)
          once    Allow `bash` this once
          session Allow `git status …` and `cargo test …` for the rest of this session
          project Allow `git status …` and `cargo test …` in this project until revoked
          user    Allow `git status …` and `cargo test …` in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "system/bash kind=execute command=\"git status -s && cargo test -p x\"",
    ));
    expect![[r#"
        it runs a command (exec)
          once    Allow `bash` this once
          session Allow `cargo test …` and `bash` on `/w/out/log.txt` with any content for the rest of this session
          project Allow `cargo test …` and `bash` on `/w/out/log.txt` with any content in this project until revoked
          user    Allow `cargo test …` and `bash` on `/w/out/log.txt` with any content in every project until revoked
          session Allow `cargo test …` and `bash` below `/w/out/` with any content for the rest of this session
          project Allow `cargo test …` and `bash` below `/w/out/` with any content in this project until revoked
          user    Allow `cargo test …` and `bash` below `/w/out/` with any content in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "system/bash kind=execute command=\"cargo test > out/log.txt\"",
    ));
    expect![[r#"
        it accesses the network (info)
          once    Allow `http_get` this once
          session Allow `http_get` to reach `api.example.com` for the rest of this session
          project Allow `http_get` to reach `api.example.com` in this project until revoked
          user    Allow `http_get` to reach `api.example.com` in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "web/http_get reads network kind=fetch url=https://api.example.com/x?y=z",
    ));
    expect![[r#"
        it may destroy data (info)
          once    Allow `unknown` this once
          session Allow `unknown` with exactly this input for the rest of this session
          project Allow `unknown` with exactly this input in this project until revoked
          user    Allow `unknown` with exactly this input in every project until revoked
          session Allow every call of `unknown` for the rest of this session
          project Allow every call of `unknown` in this project until revoked
          user    Allow every call of `unknown` in every project until revoked
    "#]]
    .assert_eq(&question_text("", "x/unknown n=1"));
}

#[test]
fn accesses_that_cannot_be_narrowed_are_approved_once() {
    for call in [
        "system/bash kind=execute command=\"python x.py\"",
        "system/bash kind=execute command=\"rm -rf build\"",
        "system/bash kind=execute command=\"sudo make\"",
        "system/bash kind=execute command=\"if [ ; then\"",
        "system/bash kind=execute command=\"git status && rm -rf /\"",
        "system/bash kind=execute command=\"cargo test > $LOG\"",
        "files/write_file writes kind=edit path=../../x",
        "web/http_get reads network kind=fetch url=nonsense",
        "x/unknown hook:risk",
    ] {
        assert_eq!(question("", call).offers.len(), 1, "{call}");
    }
    for rules in ["once_only", "ask x remember=no"] {
        assert_eq!(question(rules, "a/x").offers.len(), 1, "{rules}");
    }
    // A protected file can be offered, but not its directory.
    expect![[r#"
        it changes a protected path: version control runs programs named in it (edit)
          once    Allow `write_file` this once
          session Allow `write_file` on `/w/.git/hooks/pre-commit` with any content for the rest of this session
          project Allow `write_file` on `/w/.git/hooks/pre-commit` with any content in this project until revoked
          user    Allow `write_file` on `/w/.git/hooks/pre-commit` with any content in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "mode auto",
        "files/write_file writes kind=edit path=.git/hooks/pre-commit",
    ));
    // A directory that contains everything is not offered either.
    expect![[r#"
        it changes files (edit)
          once    Allow `write_file` this once
          session Allow `write_file` on `/w` with any content for the rest of this session
          project Allow `write_file` on `/w` with any content in this project until revoked
          user    Allow `write_file` on `/w` with any content in every project until revoked
    "#]]
    .assert_eq(&question_text(
        "",
        "files/write_file writes kind=edit path=/w",
    ));
    expect![[r#"
        it changes files (edit)
          once    Allow `write_file` this once
    "#]]
    .assert_eq(&question_text(
        "",
        "files/write_file writes kind=edit path=~/notes.txt",
    ));
}

#[test]
fn danger_is_named_in_the_question() {
    expect!["it runs a command; deletes directories recursively without prompting"]
        .assert_eq(&question("", "system/bash kind=execute command=\"rm -rf /\"").reason);
}

// R-200
#[test]
fn a_hooks_question_carries_its_meta() {
    let question = question("allow *", "a/x hook:risk");
    expect!["a hook requires approval: looks bad"].assert_eq(&question.reason);
    assert_eq!(question.meta, Some(json!({"risk": "high"})));
}

#[test]
fn hostile_text_is_escaped_in_questions() {
    let bad = question_text(
        "",
        "files/write_file writes kind=edit path=src/\u{1b}[2J\u{202e}a.rs",
    );
    assert!(!bad.contains(['\u{1b}', '\u{202e}']), "{bad}");
    let bad = question("ask x reason=\"\u{1b}[2J\"", "a/x").reason;
    assert!(!bad.contains('\u{1b}'), "{bad}");
}

fn show_outcome(answer: Answer) -> String {
    match apply_answer(
        question("", "files/write_file writes kind=edit path=src/a.rs"),
        answer,
    ) {
        Ok(AnswerOutcome::Granted { grant, approval }) => {
            format!(
                "granted by {}; {:?}",
                grant.authorizer(),
                approval.map(|a| a.scope)
            )
        }
        Ok(AnswerOutcome::Modified { input }) => format!("modified {input}"),
        Ok(AnswerOutcome::Edited { edits, .. }) => format!("edited {edits:?}"),
        Err(denial) => format!(
            "{}: {} | {} | {:?} | {:?}",
            denial.code,
            denial.reason,
            denial.result_text(),
            denial.note,
            denial.remedy
        ),
    }
}

// R-194, R-201, R-202, C-21
#[test]
fn an_answer_becomes_a_grant_or_a_denial() {
    let allow = |offer| Answer::Allow { offer, note: None };
    expect!["granted by the user, once; None"].assert_eq(&show_outcome(Answer::once()));
    expect!["granted by the user, for the rest of this session; Some(Session)"]
        .assert_eq(&show_outcome(allow(1)));
    expect!["policy_violation: answer 99 to the prompt for `write_file` was not offered; number of offers: 7 | Permission denied by policy | None | None"].assert_eq(&show_outcome(allow(99)));
    expect![
        "user_denied: the user rejected `write_file` | Permission denied by user | None | None"
    ]
    .assert_eq(&show_outcome(Answer::Deny { note: None }));
    expect![
        "user_denied: the user rejected `write_file` | Permission denied by user | None | None"
    ]
    .assert_eq(&show_outcome(Answer::Deny {
        note: Some(" ".to_owned()),
    }));
    expect![[r#"user_denied: the user rejected `write_file`: use the staging copy\u{1b} | Permission denied by user | Some("use the staging copy\\u{1b}") | None"#]].assert_eq(&show_outcome(Answer::Deny {
        note: Some("use the staging copy\u{1b}".to_owned()),
    }));
    expect!["cancelled: the user cancelled the prompt for `write_file` | Cancelled by user | None | None"].assert_eq(&show_outcome(Answer::Cancel));
    expect![[r#"modified {"path":"b"}"#]].assert_eq(&show_outcome(Answer::Modify {
        input: json!({"path": "b"}),
    }));
    expect![[r#"policy_violation: the prompt for `write_file` got no valid answer (it changes files) | Permission denied by policy | None | Some("to allow it: run host with --allow-tool 'write_file(src/a.rs)', or put `allow = [\"write_file(src/a.rs)\"]` under [policy] in toolhost.toml")"#]].assert_eq(&show_outcome(Answer::TimedOut));
    let problem = "the input is 19 KiB, too long to review".to_owned();
    expect!["policy_violation: `write_file` requires approval (it changes files), but the input is 19 KiB, too long to review | Permission denied by policy | None | None"].assert_eq(&show_outcome(Answer::Unreviewable { problem }));
    expect![[r#"policy_violation: `write_file` requires approval (it changes files), and no terminal is available to ask for it | Permission denied by policy | None | Some("to allow it: run host with --allow-tool 'write_file(src/a.rs)', or put `allow = [\"write_file(src/a.rs)\"]` under [policy] in toolhost.toml")"#]].assert_eq(&show_outcome(Answer::NoPrompter));
}

#[test]
fn r_202_denials_have_the_texts_of_the_seed() {
    let Verdict::Deny(policy_says) = Fixture::of("a/x").decide(&policy("deny x"), &[]) else {
        panic!("denied")
    };
    assert_eq!(policy_says.result_text(), "Permission denied by policy");
    assert_eq!(policy_says.record_text(), "Tool denied by policy");
    let user = apply_answer(question("", "a/x"), Answer::Deny { note: None }).unwrap_err();
    assert_eq!(
        (user.result_text(), user.record_text()),
        ("Permission denied by user", "Permission denied by user")
    );
    assert_eq!(Denial::by_hook(None).result_text(), "Denied by hook");
    assert_eq!(
        Denial::by_hook(Some("not on a Friday")).result_text(),
        "not on a Friday"
    );
    assert_eq!(
        Denial::outside_allowed_paths("/etc/x").code.as_str(),
        "capability_missing"
    );
    assert_eq!(
        Answer::once(),
        Answer::Allow {
            offer: 0,
            note: None
        }
    );
}

#[test]
fn without_a_prompter_the_remedy_allows_the_call() {
    let mut out = String::new();
    for (rules, call) in [
        ("", "files/write_file writes kind=edit path=src/a.rs"),
        ("", "files/write_file writes kind=edit path=/abs/a.rs"),
        ("", "system/bash kind=execute command=\"git status -s\""),
        ("", "system/bash kind=execute command=\"python x.py\""),
        ("", "system/bash kind=execute command=\"ls; git status\""),
        (
            "allow bash(ls *)",
            "system/bash kind=execute command=\"ls; git status\"",
        ),
        (
            "",
            "web/http_get reads network kind=fetch url=https://a.example/",
        ),
        ("", "x/unknown"),
        ("ask x", "a/x"),
        // A hook may still ask about a call that the operator allows.
        ("allow x", "a/x hook:risk"),
    ] {
        let denial = apply_answer(question(rules, call), Answer::NoPrompter).unwrap_err();
        let _ = writeln!(out, "{}", denial.remedy.unwrap());
        // The suggested rules must allow the call.
        let last_line = out.lines().last().unwrap();
        if let Some((_, list)) = last_line.split_once("allow = [") {
            let list = list.split_once(']').unwrap().0;
            let mut spec = spec(rules);
            let forms = list.split(", ").map(|form| form.trim_matches('"'));
            let allow = forms.map(|form| RuleSpec::new(Decision::Allow, form));
            spec.rules.extend(allow);
            let verdict = Fixture::of(call).decide(&Policy::new(spec).unwrap(), &[]);
            assert!(matches!(verdict, Verdict::Allow(_)), "{call} with {list}");
        }
    }
    expect![[r#"
        to allow it: run host with --allow-tool 'write_file(src/a.rs)', or put `allow = ["write_file(src/a.rs)"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool write_file, or put `allow = ["write_file"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool 'bash(git status *)', or put `allow = ["bash(git status *)"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool bash, or put `allow = ["bash"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool 'bash(ls *)' --allow-tool 'bash(git status *)', or put `allow = ["bash(ls *)", "bash(git status *)"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool 'bash(git status *)', or put `allow = ["bash(git status *)"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool 'http_get(domain:a.example)', or put `allow = ["http_get(domain:a.example)"]` under [policy] in toolhost.toml
        to allow it: run host with --allow-tool unknown, or put `allow = ["unknown"]` under [policy] in toolhost.toml
        to allow it: remove or narrow rule user:1 ask `x` (policy), or answer at a terminal
        to allow it: answer at a terminal, or change the hook or tool that requires approval
    "#]].assert_eq(&out);
}
