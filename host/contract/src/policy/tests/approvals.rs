//! Tests of saved approvals: coverage, validity and serialization.

use expect_test::expect;

use std::fmt::Write as _;

use super::*;

/// The approval that results from choosing the given offer.
fn approve(rules: &str, call: &str, text: &str) -> Approval {
    let question = question(rules, call);
    let offer = question
        .offers
        .iter()
        .position(|offer| offer.text.contains(text));
    let offer = offer.unwrap_or_else(|| panic!("{text}: {:#?}", question.offers));
    match apply_answer(question, Answer::Allow { offer, note: None }) {
        Ok(AnswerOutcome::Granted {
            approval: Some(approval),
            ..
        }) => approval.into_approval("a1", "user", NOW - 10),
        other => panic!("{other:?}"),
    }
}

fn is_valid(approval: &Approval, rules: &str, call: &str) -> bool {
    match Fixture::of(call).decide(&policy(rules), std::slice::from_ref(approval)) {
        Verdict::Allow(grant) => {
            assert_eq!(grant.approvals(), ["a1"]);
            assert!(
                grant.authorizer().contains("approval:a1"),
                "{}",
                grant.authorizer()
            );
            true
        }
        Verdict::Ask(_) => false,
        Verdict::Deny(denial) => panic!("{}", denial.reason),
    }
}

const WRITE: &str = "files/write_file writes kind=edit path=";
const RUN: &str = "system/bash kind=execute command=";

/// Another user was not prompted and must not benefit from the answer, whatever the scope.
#[test]
fn a_02_an_approval_applies_only_to_the_user_who_gave_it() {
    for scope in ["in this project", "for the rest of this session"] {
        let request = format!("{WRITE}src/a.rs user:ann");
        let approval = approve("", &request, scope);
        assert_eq!(
            Approval::from_value(&approval.to_value()).as_ref(),
            Ok(&approval)
        );
        for (user, expected) in [("user:ann", true), ("user:bob", false), ("", false)] {
            let call = format!("{WRITE}src/a.rs {user}");
            assert_eq!(is_valid(&approval, "", &call), expected, "{scope} {user}");
        }
        let local = approve("", &format!("{WRITE}src/a.rs"), scope);
        assert!(!is_valid(&local, "", &request), "{scope}");
        assert!(
            local.to_value().get("user").is_none(),
            "as it was stored before"
        );
    }
}

#[test]
fn an_approved_directory_covers_its_contents() {
    let approval = approve(
        "",
        &format!("{WRITE}src/a.rs"),
        "below `/w/src/` with any content in this project",
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
            is_valid(&approval, "", &format!("{WRITE}{path}")),
            expected,
            "{path}"
        );
    }
    let one = approve(
        "",
        &format!("{WRITE}src/a.rs"),
        "on `/w/src/a.rs` with any content in this project",
    );
    assert!(is_valid(&one, "", &format!("{WRITE}src/a.rs")));
    assert!(!is_valid(&one, "", &format!("{WRITE}src/b.rs")));
}

#[test]
fn an_approved_command_covers_only_its_prefix() {
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
            is_valid(&approval, "", &format!("{RUN}\"{command}\"")),
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
    let Verdict::Allow(grant) = Fixture::of(&call).decide(&policy(""), &[one, two]) else {
        panic!("allowed")
    };
    assert_eq!(grant.approvals(), ["a1", "a2"]);
    assert_eq!(grant.authorizer(), "approval:a1, approval:a2");
}

#[test]
fn an_approved_host_covers_only_that_host() {
    let call = "web/http_get reads network kind=fetch url=https://";
    let approval = approve("", &format!("{call}api.example.com/x"), "in this project");
    assert!(is_valid(
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
        assert!(
            !is_valid(&approval, "", &format!("{call}{host}/")),
            "{host}"
        );
    }
}

#[test]
fn an_approval_of_a_plain_call_covers_its_input_or_every_call() {
    let same = approve("", "x/unknown n=1", "exactly this input in this project");
    assert!(is_valid(&same, "", "x/unknown n=1"));
    assert!(!is_valid(&same, "", "x/unknown n=2"));
    let every = approve(
        "",
        "x/unknown n=1",
        "every call of `unknown` in this project",
    );
    assert!(is_valid(&every, "", "x/unknown n=2"));
    // It does not cover paths or commands that the tool may name later.
    assert!(!is_valid(&every, "", "x/unknown path=a"));
}

#[test]
fn an_approval_is_valid_only_for_its_tool_session_and_mode() {
    let approval = approve(
        "",
        "x/unknown in:default session:s1",
        "every call of `unknown` for the rest",
    );
    assert!(is_valid(&approval, "", "x/unknown session:s1"));
    assert!(is_valid(
        &approval,
        "mode accept_edits",
        "x/unknown session:s1"
    ));
    for (rules, call) in [
        ("", "x/unknown session:s2"),
        ("", "y/unknown session:s1"),
        ("", "x/other session:s1"),
        ("mode ask", "x/unknown session:s1"),
        ("", "x/unknown session:s1 in:custom"),
        ("ask unknown remember=no", "x/unknown session:s1"),
        ("", "x/unknown session:s1 hook:risk"),
    ] {
        assert!(!is_valid(&approval, rules, call), "{rules} {call}");
    }
    // Approvals override neither a mode's deny nor a deny rule.
    for rules in ["mode plan", "deny unknown"] {
        let verdict = Fixture::of("x/unknown session:s1")
            .decide(&policy(rules), std::slice::from_ref(&approval));
        assert!(matches!(verdict, Verdict::Deny(_)), "{rules}");
    }
    let freer = approve(
        "mode accept_edits",
        "x/unknown",
        "every call of `unknown` in this project",
    );
    assert!(!is_valid(&freer, "", "x/unknown"));
    assert!(is_valid(&freer, "mode accept_edits", "x/unknown"));
    // It answers an ask rule and a hook that only asks.
    let approval = approve(
        "admin ask unknown",
        "x/unknown",
        "every call of `unknown` in this project",
    );
    assert!(is_valid(&approval, "admin ask unknown", "x/unknown"));
    assert!(is_valid(&approval, "allow *", "x/unknown hook:ask"));
}

#[test]
fn an_approval_for_other_bytes_is_void() {
    let mut approval = approve("", "x/unknown", "every call of `unknown` in this project");
    let world = Fixture::of("x/unknown");
    let now = ToolIdentity::of(&world.request());
    assert_eq!(approval.state(&now, NOW), ApprovalState::Live);
    approval.identity.digest = Some(Digest([8; 32]));
    assert!(!is_valid(&approval, "", "x/unknown"));
    let explanation = policy("").explain(
        world.request(),
        &world.hooks,
        std::slice::from_ref(&approval),
        NOW,
    );
    expect![[r#"
        x/unknown: ask, it may destroy data
        policy in mode default
          the call: ask
            no rule matches; mode default, other side effects: ask
            approval a1: void: the tool changed from sha256:0808080808080808080808080808080808080808080808080808080808080808 to sha256:0707070707070707070707070707070707070707070707070707070707070707
        remedy: run host with --allow-tool unknown, or put `allow = ["unknown"]` under [policy] in toolhost.toml
    "#]].assert_eq(&explanation.to_string());
    approval.identity.digest = None;
    approval.identity.definition = Some(Digest([9; 32]));
    assert!(matches!(
        approval.state(&now, NOW),
        ApprovalState::Void { .. }
    ));
}

#[test]
fn an_approval_expires() {
    let fresh = || approve("", "x/unknown", "every call of `unknown` in this project");
    let now = ToolIdentity::of(&Fixture::of("x/unknown").request());
    let expiring = Approval {
        expires_ms: Some(NOW),
        ..fresh()
    };
    assert_eq!(expiring.state(&now, NOW - 1), ApprovalState::Live);
    assert_eq!(expiring.state(&now, NOW), ApprovalState::Expired);
    // The clock was set back to before the approval was given.
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
    // An approval for one call is never stored; if one is found, it is not valid.
    assert_eq!(
        Approval {
            scope: ApprovalScope::Once,
            ..fresh()
        }
        .state(&now, NOW),
        ApprovalState::UsedUp
    );
}

// R-201
#[test]
fn an_approval_round_trips_through_json() {
    for (call, text) in [
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
            ..approve("", call, text)
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
        the approval cannot be used: unknown field `surprise`, expected one of `commands`, `paths`, `domains`, `input`, `tool`, `only_paths`
        the approval cannot be used: unknown variant `forever`, expected one of `once`, `session`, `project`, `user`
        the approval cannot be used: `free` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom
        the approval cannot be used: `sha256:00` is not a digest
        the approval cannot be used: tool name `Not A Tool` is not valid: a lower-case letter followed by up to 63 lower-case letters, digits or underscores
        the approval cannot be used: its scope is `session` but it names no session
        the approval cannot be used: `/w/../etc` is not an absolute path without `.` and `..`
        the approval cannot be used: `src` is not an absolute path without `.` and `..`
    "#]].assert_eq(&out);
}

#[test]
fn r_111_an_approval_of_a_narrowed_call_covers_only_calls_with_the_same_limit() {
    let rules = policy("");
    let limit = |paths: &[&str]| {
        let list = serde_json::from_value(serde_json::json!(paths)).unwrap();
        let directories = Restriction::to_directories(&["/w/src".to_owned()], &rules);
        directories.unwrap().named(list)
    };
    let mut world = Fixture::of("files/write_file writes kind=edit path=src/a");
    world.narrow = Some(limit(&["src"]));
    let Verdict::Ask(question) = world.decide(&rules, &[]) else {
        panic!("asks")
    };
    let shown = format!("{:?}", question.document(&serde_json::json!({})).blocks);
    assert!(shown.contains("\"only in\", value: \"src\""), "{shown}");
    let saved = &question.offers[1];
    assert!(
        saved.text.contains("only in the same directories"),
        "{}",
        saved.text
    );
    let advance = question.advance_approval(ApprovalScope::Session).unwrap();
    let Ok(AnswerOutcome::Granted {
        approval: Some(approval),
        ..
    }) = apply_answer(
        *question,
        Answer::Allow {
            offer: 1,
            note: None,
        },
    )
    else {
        panic!("granted")
    };
    for new in [advance, *approval] {
        let approval = new.into_approval("a1", "user", 0);
        let approval = [Approval::from_value(&approval.to_value()).unwrap()];
        for (narrow, expected) in [
            (Some(limit(&["src"])), "allow by approval:a1"),
            (Some(limit(&["src", "lib"])), "ask"),
            (None, "ask"),
        ] {
            world.narrow = narrow;
            let shown = show(&world.decide(&rules, &approval));
            assert!(shown.starts_with(expected), "{:?}: {shown}", world.narrow);
        }
    }
}
