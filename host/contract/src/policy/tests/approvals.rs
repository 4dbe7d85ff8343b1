use expect_test::expect;

use std::fmt::Write as _;

use super::*;

/// The approval that answering with the given offer leaves behind.
fn approve(rules: &str, call: &str, words: &str) -> Approval {
    let question = question(rules, call);
    let offer = question
        .offers
        .iter()
        .position(|offer| offer.words.contains(words));
    let offer = offer.unwrap_or_else(|| panic!("{words}: {:#?}", question.offers));
    match settle(question, Answer::Allow { offer, note: None }) {
        Ok(Settled::Granted {
            approval: Some(approval),
            ..
        }) => approval.stored("a1", "user", NOW - 10),
        other => panic!("{other:?}"),
    }
}

fn holds(approval: &Approval, rules: &str, call: &str) -> bool {
    match World::of(call).decide(&policy(rules), std::slice::from_ref(approval)) {
        Verdict::Allow(grant) => {
            assert_eq!(grant.approvals(), ["a1"]);
            assert!(grant.by().contains("approval:a1"), "{}", grant.by());
            true
        }
        Verdict::Ask(_) => false,
        Verdict::Deny(denial) => panic!("{}", denial.reason),
    }
}

const WRITE: &str = "files/write_file writes kind=edit path=";
const RUN: &str = "system/bash kind=execute command=";

/// Whatever its scope is: another user was not asked, and may not ride on the answer.
#[test]
fn a_02_an_approval_speaks_only_for_the_user_who_was_asked_about() {
    for words in ["in this project", "for the rest of this session"] {
        let asked = format!("{WRITE}src/a.rs user:ann");
        let approval = approve("", &asked, words);
        assert_eq!(
            Approval::from_value(&approval.to_value()).as_ref(),
            Ok(&approval)
        );
        for (user, expected) in [("user:ann", true), ("user:bob", false), ("", false)] {
            let call = format!("{WRITE}src/a.rs {user}");
            assert_eq!(holds(&approval, "", &call), expected, "{words} {user}");
        }
        let local = approve("", &format!("{WRITE}src/a.rs"), words);
        assert!(!holds(&local, "", &asked), "{words}");
        assert!(
            local.to_value().get("user").is_none(),
            "as it was stored before"
        );
    }
}

#[test]
fn an_approved_directory_covers_what_lies_below_it() {
    let approval = approve(
        "",
        &format!("{WRITE}src/a.rs"),
        "below `/w/src/` in this project",
    );
    for (path, expected) in [
        ("src/a.rs", true),
        ("src/deep/b.rs", true),
        ("/w/src/c.rs", true),
        ("/workspace/src/c.rs", true),
        ("lib/a.rs", false),
        ("srcx/a.rs", false),
        ("src/../lib/a.rs", false),
        ("src/.git/config", false),
        ("../w/src/a.rs", false),
        ("SRC/a.rs", false),
    ] {
        assert_eq!(
            holds(&approval, "", &format!("{WRITE}{path}")),
            expected,
            "{path}"
        );
    }
    let one = approve(
        "",
        &format!("{WRITE}src/a.rs"),
        "on `/w/src/a.rs` in this project",
    );
    assert!(holds(&one, "", &format!("{WRITE}src/a.rs")));
    assert!(!holds(&one, "", &format!("{WRITE}src/b.rs")));
}

#[test]
fn an_approved_command_covers_its_first_words_and_nothing_around_it() {
    let approval = approve(
        "",
        &format!("{RUN}\"git status -s\""),
        "`git status …` for the rest",
    );
    for (command, expected) in [
        ("git status", true),
        ("git status --porcelain", true),
        ("git log", false),
        ("git -c a=b status", false),
        ("git status && git log", false),
        ("git status | sh", false),
        ("git status > out.txt", false),
        ("git statusx", false),
        ("GIT_PAGER=id git status", false),
        ("git status; rm -rf /", false),
        ("./git status", false),
    ] {
        assert_eq!(
            holds(&approval, "", &format!("{RUN}\"{command}\"")),
            expected,
            "{command}"
        );
    }
}

#[test]
fn several_approvals_may_cover_a_call_together() {
    let one = approve(
        "",
        &format!("{RUN}\"git status\""),
        "`git status …` in every",
    );
    let mut two = approve(
        "",
        &format!("{RUN}\"cargo test\""),
        "`cargo test …` in every",
    );
    two.id = "a2".to_owned();
    let call = format!("{RUN}\"git status && cargo test\"");
    let Verdict::Allow(grant) = World::of(&call).decide(&policy(""), &[one, two]) else {
        panic!("allowed")
    };
    assert_eq!(grant.approvals(), ["a1", "a2"]);
    assert_eq!(grant.by(), "approval:a1, approval:a2");
}

#[test]
fn an_approved_host_covers_that_host() {
    let call = "web/http_get reads network kind=fetch url=https://";
    let approval = approve("", &format!("{call}api.example.com/x"), "in this project");
    assert!(holds(
        &approval,
        "",
        &format!("{call}API.example.com/other")
    ));
    for host in [
        "example.com",
        "x.api.example.com",
        "api.example.com.evil.net",
        "api.example.com@evil.net",
    ] {
        assert!(!holds(&approval, "", &format!("{call}{host}/")), "{host}");
    }
}

#[test]
fn an_approval_of_a_plain_call_covers_its_input_or_every_call() {
    let same = approve("", "x/unknown n=1", "exactly this input in this project");
    assert!(holds(&same, "", "x/unknown n=1"));
    assert!(!holds(&same, "", "x/unknown n=2"));
    let every = approve(
        "",
        "x/unknown n=1",
        "every call of `unknown` in this project",
    );
    assert!(holds(&every, "", "x/unknown n=2"));
    // It says nothing about paths or commands, should the tool name some one day.
    assert!(!holds(&every, "", "x/unknown path=a"));
}

#[test]
fn an_approval_holds_for_its_tool_session_and_mode_only() {
    let approval = approve(
        "",
        "x/unknown in:default session:s1",
        "every call of `unknown` for the rest",
    );
    assert!(holds(&approval, "", "x/unknown session:s1"));
    assert!(holds(
        &approval,
        "mode accept_edits",
        "x/unknown session:s1"
    ));
    for (rules, call) in [
        ("", "x/unknown session:s2"),
        ("", "y/unknown session:s1"),
        ("", "x/other session:s1"),
        ("mode custom\ncallback", "x/unknown session:s1"),
        ("", "x/unknown session:s1 in:custom"),
        ("ask unknown remember=no", "x/unknown session:s1"),
        ("", "x/unknown session:s1 hook:risk"),
    ] {
        assert!(!holds(&approval, rules, call), "{rules} {call}");
    }
    // A mode that refuses is not asked twice, and a deny is not approved away.
    for rules in ["mode plan", "deny unknown"] {
        let verdict = World::of("x/unknown session:s1")
            .decide(&policy(rules), std::slice::from_ref(&approval));
        assert!(matches!(verdict, Verdict::Deny(_)), "{rules}");
    }
    let freer = approve(
        "mode accept_edits",
        "x/unknown",
        "every call of `unknown` in this project",
    );
    assert!(!holds(&freer, "", "x/unknown"));
    assert!(holds(&freer, "mode accept_edits", "x/unknown"));
    // An ask rule, and a hook that only asks, are answered by it.
    let asked = approve(
        "admin ask unknown",
        "x/unknown",
        "every call of `unknown` in this project",
    );
    assert!(holds(&asked, "admin ask unknown", "x/unknown"));
    assert!(holds(&asked, "allow *", "x/unknown hook:ask"));
}

#[test]
fn an_approval_for_other_bytes_is_void_and_says_so() {
    let mut approval = approve("", "x/unknown", "every call of `unknown` in this project");
    let world = World::of("x/unknown");
    let now = Identity::of(&world.request());
    assert_eq!(approval.state(&now, NOW), ApprovalState::Live);
    approval.identity.digest = Some(Digest([8; 32]));
    assert!(!holds(&approval, "", "x/unknown"));
    let told = policy("").explain(
        world.request(),
        &world.hooks,
        std::slice::from_ref(&approval),
        NOW,
    );
    expect![[r#"
        x/unknown: ask, it may destroy data
        policy in mode default
          the call: ask
            no rule speaks; mode default, other side effects: ask
            approval a1: void: the tool was sha256:0808080808080808080808080808080808080808080808080808080808080808 and is sha256:0707070707070707070707070707070707070707070707070707070707070707
        to change it: run host with --allow-tool unknown, or put `allow = ["unknown"]` under [policy] in toolhost.toml
    "#]].assert_eq(&told.to_string());
    approval.identity.digest = None;
    approval.identity.definition = Some(Digest([9; 32]));
    assert!(matches!(
        approval.state(&now, NOW),
        ApprovalState::Void { .. }
    ));
}

#[test]
fn an_approval_ends() {
    let fresh = || approve("", "x/unknown", "every call of `unknown` in this project");
    let now = Identity::of(&World::of("x/unknown").request());
    let expiring = Approval {
        expires_ms: Some(NOW),
        ..fresh()
    };
    assert_eq!(expiring.state(&now, NOW - 1), ApprovalState::Live);
    assert_eq!(expiring.state(&now, NOW), ApprovalState::Expired);
    // The clock jumped back to before it was given.
    assert_eq!(expiring.state(&now, NOW - 11), ApprovalState::Expired);
    assert_eq!(
        Approval {
            uses_left: Some(0),
            ..fresh()
        }
        .state(&now, NOW),
        ApprovalState::UsedUp
    );
    assert_eq!(
        Approval {
            uses_left: Some(1),
            ..fresh()
        }
        .state(&now, NOW),
        ApprovalState::Live
    );
    // A yes for one call is not to be found in a store; if it is, it does not hold.
    assert_eq!(
        Approval {
            scope: Scope::Once,
            ..fresh()
        }
        .state(&now, NOW),
        ApprovalState::UsedUp
    );
}

// R-201
#[test]
fn an_approval_survives_its_form_on_disk() {
    for (call, words) in [
        ("x/unknown n=1", "exactly"),
        ("x/unknown", "every call of `unknown` for the rest"),
        (
            "system/bash kind=execute command=\"cargo test > log\"",
            "in every project",
        ),
        (
            "web/http_get reads network kind=fetch url=https://a.example/",
            "in this project",
        ),
    ] {
        let approval = Approval {
            expires_ms: Some(5),
            uses_left: Some(2),
            ..approve("", call, words)
        };
        assert_eq!(Approval::from_value(&approval.to_value()), Ok(approval));
    }
    let approval = approve(
        "",
        "files/write_file writes kind=edit path=src/a.rs",
        "below",
    );
    expect![[r#"
        {
          "id": "a1",
          "plugin": "files",
          "tool": "write_file",
          "digest": "sha256:0707070707070707070707070707070707070707070707070707070707070707",
          "narrowing": {
            "paths": [
              {
                "path": "/w/src",
                "tree": true,
                "write": true
              }
            ]
          },
          "scope": "session",
          "session": "local",
          "mode_min": "default",
          "created_ms": 999990,
          "by": "user"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&approval.to_value()).unwrap());
    let mut out = String::new();
    for (pointer, value) in [
        ("/surprise", json!(1)),
        ("/narrowing/surprise", json!(1)),
        ("/scope", json!("forever")),
        ("/mode_min", json!("free")),
        ("/digest", json!("sha256:00")),
        ("/tool", json!("Not A Tool")),
        ("/session", Value::Null),
        ("/narrowing/paths/0/path", json!("/w/../etc")),
        ("/narrowing/paths/0/path", json!("src")),
    ] {
        let mut broken = approval.to_value();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        broken.pointer_mut(parent).unwrap()[name] = value;
        let _ = writeln!(out, "{}", Approval::from_value(&broken).unwrap_err());
    }
    expect![[r#"
        the approval cannot be used: unknown field `surprise`, expected one of `id`, `plugin`, `tool`, `digest`, `definition`, `narrowing`, `scope`, `user`, `session`, `mode_min`, `created_ms`, `by`, `expires_ms`, `uses_left`
        the approval cannot be used: unknown field `surprise`, expected one of `commands`, `paths`, `domains`, `input`, `tool`
        the approval cannot be used: unknown variant `forever`, expected one of `once`, `session`, `project`, `user`
        the approval cannot be used: `free` is not a mode; write one of dont_ask, plan, readonly, default, accept_edits, auto, yolo, custom
        the approval cannot be used: `sha256:00` is not a digest
        the approval cannot be used: tool name `Not A Tool` is not valid: a lower-case letter followed by up to 63 lower-case letters, digits or underscores
        the approval cannot be used: its scope is session and it names no session
        the approval cannot be used: `/w/../etc` is not an absolute path without `.` and `..`
        the approval cannot be used: `src` is not an absolute path without `.` and `..`
    "#]].assert_eq(&out);
}
