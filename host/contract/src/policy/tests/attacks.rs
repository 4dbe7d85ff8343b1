//! Tests with tools that misdescribe themselves, and with prompts that could show less than they approve.

use super::rules::decision;
use super::*;

/// Checks rows of rules, call and decision.
fn decisions(rows: &[(&str, &str, Decision)]) {
    for (rules, call, expected) in rows {
        assert_eq!(decision(rules, call), *expected, "{rules} | {call}");
    }
}

#[test]
fn a_mode_never_allows_unnamed_writes() {
    for call in [
        "x/t kind=edit interactive file=a content=b",
        "x/t kind=delete interactive writes file=a",
        "x/t kind=edit writes from=x dest=.git/hooks/pre-commit",
        "x/t kind=move writes network file=a",
        "x/t kind=edit network file=a",
        "x/t kind=edit destroys network url=https://a.example/ file=a",
    ] {
        for mode in ["default", "accept_edits", "auto"] {
            assert_eq!(
                decision(&format!("mode {mode}"), call),
                Decision::Ask,
                "{mode} {call}"
            );
        }
        for mode in ["plan", "readonly", "dont_ask"] {
            let rules = format!("mode {mode}\nplan_dir docs");
            assert_eq!(decision(&rules, call), Decision::Deny, "{mode} {call}");
        }
    }
    decisions(&[
        ("", "x/t interactive file=a", Decision::Ask),
        ("", "x/t interactive reads", Decision::Allow),
        (
            "mode plan\nplan_dir docs",
            "x/t kind=edit writes from=docs/a.md dest=.git/config",
            Decision::Deny,
        ),
    ]);
}

#[test]
fn a_rule_for_files_applies_to_unnamed_writes() {
    let copy = "x/t kind=edit writes from=x dest=.git/hooks/pre-commit";
    decisions(&[
        ("mode yolo\ndeny Edit(.git/**)", copy, Decision::Deny),
        ("mode yolo\nask Edit(.git/**)", copy, Decision::Ask),
        ("allow *\ndeny Edit(.git/**)", copy, Decision::Deny),
        ("allow *\ndeny t(.git/**)", copy, Decision::Deny),
        ("mode yolo\ndeny * path=.git/**", copy, Decision::Deny),
        (
            "mode yolo\ndeny Edit(.git/**)",
            "x/t kind=edit interactive file=a",
            Decision::Deny,
        ),
        (
            "mode yolo\ndeny Edit(.git/**)",
            "x/t kind=edit network url=https://a.example/",
            Decision::Deny,
        ),
        // Its reads are known.
        ("mode yolo\ndeny Read(.git/**)", copy, Decision::Allow),
        // An approval of the file it reads does not cover the one it writes.
        ("allow Edit(x)", copy, Decision::Ask),
        ("allow t(x)", copy, Decision::Ask),
        ("allow t", copy, Decision::Allow),
        (
            "allow WebFetch",
            "x/t kind=edit network url=https://a.example/ file=b",
            Decision::Ask,
        ),
        (
            "allow WebFetch(domain:a.example)",
            "x/t kind=fetch network url=https://a.example/ file=b",
            Decision::Ask,
        ),
        // A tool of another kind may write files as well.
        ("mode auto", "x/t writes file=a", Decision::Allow),
        (
            "mode auto\ndeny Edit(.git/**)",
            "x/t writes file=a",
            Decision::Ask,
        ),
        (
            "mode yolo\nask Edit(.git/**)",
            "x/t destroys file=a",
            Decision::Ask,
        ),
        (
            "allow t\ndeny Edit(.git/**)",
            "x/t writes file=a",
            Decision::Allow,
        ),
        (
            "mode auto\ndeny Edit(.git/**)",
            "x/t writes path=a",
            Decision::Allow,
        ),
    ]);
}

#[test]
fn a_path_is_found_at_any_depth() {
    let rules = "mode accept_edits\ndeny Edit(secrets/**)";
    let deep = |levels: usize| {
        format!(
            "x/t kind=edit writes path=a o={}{{'path':'secrets/a'}}{}",
            "{'o':".repeat(levels),
            "}".repeat(levels)
        )
    };
    decisions(&[
        (rules, "x/t kind=edit writes path=a", Decision::Allow),
        (
            rules,
            "x/t kind=edit writes path=a target={'path':'secrets/a'}",
            Decision::Deny,
        ),
        (
            rules,
            "x/t kind=edit writes path=a edits=[[{'file':{'to':'secrets/a'}}]]",
            Decision::Deny,
        ),
        (
            rules,
            "x/t kind=edit writes path=a target={'path':'b'}",
            Decision::Allow,
        ),
        // A path that is not a string may be any path.
        (rules, "x/t kind=edit writes path={'a':'b'}", Decision::Deny),
        (
            rules,
            "x/t kind=edit writes path=a to=[['b']]",
            Decision::Deny,
        ),
        (rules, "x/t kind=edit writes path=a to=5", Decision::Deny),
        (
            "mode accept_edits",
            "x/t kind=edit writes path={'a':'b'}",
            Decision::Ask,
        ),
    ]);
    for levels in [1, 6, 7, 8, 40] {
        assert_eq!(decision(rules, &deep(levels)), Decision::Deny, "{levels}");
    }
    let count = |count: usize| {
        let items: Vec<String> = (0..count).map(|at| format!("{{'path':'{at}'}}")).collect();
        format!("x/t kind=edit writes edits={{'a':[{}]}}", items.join(","))
    };
    assert_eq!(decision(rules, &count(256)), Decision::Allow);
    assert_eq!(decision(rules, &count(257)), Decision::Deny);
}

#[test]
fn an_offer_covers_only_what_it_shows() {
    let paths = |names: &[&str]| {
        let items: Vec<String> = names.iter().map(|name| format!("'{name}'")).collect();
        format!("x/t kind=edit writes paths=[{}]", items.join(","))
    };
    for (call, offers) in [
        (paths(&["a/1", "b/2", "c/3", "d/4"]), 7),
        (paths(&["a/1", "b/2", "c/3", "d/4", "a/1"]), 7),
        (paths(&["a/1", "b/2", "c/3", "d/4", "e/5"]), 1),
        // Five files are too many for one offer, so none is offered.
        (paths(&["a/1", "a/2", "a/3", "a/4", "a/5"]), 1),
        (
            "system/bash kind=execute command=\"a; b; c; d; e\"".to_owned(),
            1,
        ),
    ] {
        let question = question("", &call);
        assert_eq!(question.offers.len(), offers, "{call}");
        for offer in &question.offers {
            assert!(!offer.text.contains(" more"), "{}", offer.text);
        }
    }
}

#[test]
fn a_claimed_command_is_not_allowed_like_a_shell_command() {
    let claims = "x/t kind=execute claims writes command=\"git status\"";
    for rules in [
        "allow Bash(git status)",
        "allow Bash",
        "allow shell",
        "allow * prefix=\"git status\"",
        "allow x/* prefix=\"git status\"",
        "allow * regex=git",
        "mode accept_edits\nallow Bash(git *)",
    ] {
        assert_eq!(decision(rules, claims), Decision::Ask, "{rules}");
        let runs = claims.replace("claims ", "");
        assert_eq!(decision(rules, &runs), Decision::Allow, "{rules}");
    }
    decisions(&[
        ("allow t", claims, Decision::Allow),
        ("allow t(git *)", claims, Decision::Allow),
        ("allow x/t(git *)", claims, Decision::Allow),
        ("deny Bash(git *)", claims, Decision::Deny),
        ("allow t\nask Bash(git status)", claims, Decision::Ask),
        ("mode plan", claims, Decision::Deny),
        (
            "allow bash",
            "x/bash kind=execute claims command=ls",
            Decision::Ask,
        ),
        // Files that it names may be written.
        (
            "mode auto\ndeny Edit(src/**)",
            "x/t kind=execute claims command=ls path=src/a",
            Decision::Deny,
        ),
        (
            "mode auto\ndeny Edit(src/**)",
            "x/t kind=execute command=ls path=src/a",
            Decision::Allow,
        ),
        (
            "mode auto\ndeny Edit(src/**)",
            "x/t kind=execute claims command=\"cat src/a\"",
            Decision::Deny,
        ),
        (
            "mode accept_edits",
            "x/t kind=edit claims command=\"echo > a\"",
            Decision::Ask,
        ),
    ]);
    let offers = question("", claims).offers;
    let texts: Vec<&str> = offers.iter().map(|offer| offer.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "Allow `t` this once",
            "Allow `t` with exactly this input for the rest of this session",
            "Allow `t` with exactly this input in this project until revoked",
            "Allow `t` with exactly this input in every project until revoked",
        ]
    );
}

#[test]
fn an_approved_command_does_not_cover_a_tool_that_does_not_run_it() {
    let saved_approval = |call: &str| {
        let answer = Answer::Allow {
            offer: 1,
            note: None,
        };
        match apply_answer(question("", call), answer) {
            Ok(AnswerOutcome::Granted {
                approval: Some(approval),
                ..
            }) => approval.into_approval("a1", "user", NOW),
            other => panic!("{other:?}"),
        }
    };
    let holds = |approval: &Approval, call: &str| {
        let verdict = Fixture::of(call).decide(&policy(""), std::slice::from_ref(approval));
        matches!(verdict, Verdict::Allow(_))
    };
    let runs = "x/t kind=execute command=\"git status\"";
    let claims = "x/t kind=execute claims command=\"git status\"";
    let approval = saved_approval(runs);
    assert!(holds(&approval, runs));
    assert!(holds(&approval, &format!("{runs} n=1")));
    assert!(!holds(&approval, claims));
    let approval = saved_approval(claims);
    assert!(holds(&approval, claims));
    assert!(!holds(&approval, &format!("{claims} file=a")));
    // The same applies to a file that is read next to unnamed ones.
    let copy = "x/t kind=edit writes from=x dest=";
    let approval = saved_approval(&format!("{copy}a"));
    assert!(holds(&approval, &format!("{copy}a")));
    assert!(!holds(&approval, &format!("{copy}.git/hooks/pre-commit")));
}

#[test]
fn a_name_chosen_by_a_plugin_does_not_match_another_tool() {
    let qualified = "evil/evil__write_file own=write_file destroys";
    decisions(&[
        ("allow write_file", qualified, Decision::Ask),
        ("allow write_*", qualified, Decision::Ask),
        ("allow evil__write_file", qualified, Decision::Allow),
        ("allow evil/write_file", qualified, Decision::Allow),
        ("allow evil/*", qualified, Decision::Allow),
        ("deny write_file", qualified, Decision::Deny),
        ("allow *\nask write_*", qualified, Decision::Ask),
        ("allow save", "x/t wants=save", Decision::Ask),
        ("allow sa*", "x/t wants=save", Decision::Ask),
        ("allow save", "x/t alias=Save", Decision::Allow),
        ("allow sa*", "x/t alias=Save", Decision::Allow),
        ("deny save", "x/t pure wants=Save", Decision::Deny),
        // A requested alias cannot turn a deny into an ask that a hook could answer.
        (
            "default deny *\ndefault ask save @900",
            "x/t wants=save hook:allow",
            Decision::Deny,
        ),
        ("allow *\nask save @900", "x/t wants=save", Decision::Ask),
        // A plugin's name is not a prefix of a tool's name.
        ("allow save/*", "save/t", Decision::Allow),
        ("allow sa*t", "save/t kind=x", Decision::Allow),
    ]);
    for family in ["Read", "Edit", "Bash", "shell", "WebFetch", "web_fetch"] {
        let name = family.to_lowercase();
        for call in [
            format!("x/t destroys alias={family}"),
            format!("x/{name} destroys"),
            format!("x/t own={name} destroys wants={family}"),
        ] {
            assert_eq!(
                decision(&format!("allow {family}"), &call),
                Decision::Ask,
                "{call}"
            );
            assert_eq!(
                decision(&format!("deny {family}"), &call),
                Decision::Deny,
                "{call}"
            );
        }
        let call = format!("x/{name} destroys");
        let remedy = question("", &call).remedy;
        assert!(
            remedy.contains(&format!("--allow-tool x/{name},")),
            "{remedy}"
        );
        assert_eq!(
            decision(&format!("allow x/{name}"), &call),
            Decision::Allow,
            "{call}"
        );
    }
    // A foreign server's tool, and a plugin that claims to be one.
    decisions(&[
        ("allow write_file", "write/file category=mcp", Decision::Ask),
        ("allow write_file", "x/mcp__write__file", Decision::Ask),
        (
            "allow files__write_file",
            "x/mcp__files__write_file",
            Decision::Ask,
        ),
        ("allow mcp__*", "x/t category=mcp", Decision::Ask),
        ("allow mcp__github", "x/t category=mcp", Decision::Ask),
        ("allow mcp__github", "x/t own=mcp__github__t", Decision::Ask),
        ("deny mcp__github", "x/t own=mcp__github__t", Decision::Deny),
        ("deny mcp__*", "x/t category=mcp", Decision::Deny),
    ]);
}

#[test]
fn calls_requested_by_a_result_require_approval() {
    let write = "files/write_file writes kind=edit path=src/a.rs";
    let read = "files/read_file reads kind=read path=a";
    for rules in ["mode accept_edits", "mode yolo", "allow *", "allow Edit"] {
        assert_eq!(decision(rules, write), Decision::Allow, "{rules}");
        let question = question(rules, &format!("{write} tail"));
        assert_eq!(question.reason, "a tool's result requests it", "{rules}");
        assert_eq!(question.offers.len(), 1, "{rules}");
    }
    let tail = |call: &str| format!("{call} tail");
    decisions(&[
        ("", &tail(&format!("{write} hook:allow")), Decision::Ask),
        ("mode plan", &tail(write), Decision::Deny),
        ("allow *\ndeny Edit", &tail(write), Decision::Deny),
        ("", &tail(read), Decision::Allow),
        ("ask Read", &tail(read), Decision::Ask),
        ("", &tail("data/json_parse pure"), Decision::Allow),
        (
            "allow *",
            &tail("web/web_fetch reads kind=fetch network url=https://a.example/?q=secret"),
            Decision::Ask,
        ),
        ("allow *", &tail("srv/mcp__srv__look reads"), Decision::Ask),
    ]);
    //
    let saved_approval = |call: &str, rules: &str| {
        let answer = Answer::Allow {
            offer: 1,
            note: None,
        };
        match apply_answer(question(rules, call), answer) {
            Ok(AnswerOutcome::Granted {
                approval: Some(approval),
                ..
            }) => approval.into_approval("a1", "user", NOW),
            other => panic!("{other:?}"),
        }
    };
    for (call, rules, expected) in [(write, "", false), (read, "ask Read", true)] {
        let approval = saved_approval(call, rules);
        let verdict = Fixture::of(&tail(call)).decide(&policy(rules), &[approval]);
        assert_eq!(matches!(verdict, Verdict::Allow(_)), expected, "{call}");
    }
    let world = Fixture::of(&tail(write));
    let explanation = policy("allow *").explain(world.request(), &world.hooks, &[], NOW);
    assert!(
        explanation
            .to_string()
            .contains("a tool's result requests it, so approval is required"),
        "{explanation}"
    );
}

#[test]
fn an_approval_without_digest_ends_with_its_session() {
    let call = "x/unknown bytes=unknown session:s1";
    let question = question("", call);
    let scopes: Vec<ApprovalScope> = question.offers.iter().map(|offer| offer.scope).collect();
    assert_eq!(
        scopes,
        [
            ApprovalScope::Once,
            ApprovalScope::Session,
            ApprovalScope::Session
        ]
    );
    let approval = saved_approval(question, 1);
    let approval = approval.into_approval("a1", "user", NOW);
    let now = ToolIdentity::of(&Fixture::of(call).request());
    for (scope, expected) in [
        (ApprovalScope::Session, ApprovalState::Live),
        (
            ApprovalScope::Project,
            ApprovalState::Void {
                was: "unknown".to_owned(),
                is: "unknown".to_owned(),
            },
        ),
        (
            ApprovalScope::User,
            ApprovalState::Void {
                was: "unknown".to_owned(),
                is: "unknown".to_owned(),
            },
        ),
    ] {
        let approval = Approval {
            scope,
            ..approval.clone()
        };
        assert_eq!(approval.state(&now, NOW), expected);
        let verdict = Fixture::of(call).decide(&policy(""), &[approval]);
        let live = expected == ApprovalState::Live;
        assert_eq!(matches!(verdict, Verdict::Allow(_)), live, "{scope:?}");
    }
}
