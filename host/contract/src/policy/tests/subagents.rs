//! Tests of sub-agent limits.

use expect_test::expect;

use std::fmt::Write as _;

use super::*;

fn run(parent: &str, limits: &[&str], call: &str, approvals: &[Approval]) -> String {
    let mut world = Fixture::of(call);
    let mut limits = limits.iter().map(|limit| policy(limit));
    world.narrow = limits
        .next()
        .map(|first| limits.fold(Restriction::new(first), Restriction::with_policy));
    let policy = policy(parent);
    let explanation = policy.explain(world.request(), &world.hooks, approvals, NOW);
    let verdict = world.decide(&policy, approvals);
    assert_eq!(
        explanation.decision().as_str(),
        show(&verdict).split([' ', ':']).next().unwrap()
    );
    show(&verdict)
}

#[test]
fn a_sub_agent_needs_permission_from_its_parent_and_its_limits() {
    let mut out = String::new();
    for (parent, limit, call) in [
        ("mode auto", "mode yolo", "x/unknown agent:helper"),
        ("mode default", "mode yolo", "x/unknown agent:helper"),
        ("mode plan", "mode yolo\nallow *", "x/unknown agent:helper"),
        ("mode auto", "mode readonly", "x/unknown agent:helper"),
        ("mode auto", "mode default", "x/unknown agent:helper"),
        (
            "mode auto",
            "mode yolo\ndeny Edit(src/**)",
            "files/write_file writes kind=edit path=src/a agent:helper",
        ),
        (
            "allow Edit(src/**)",
            "mode dont_ask\nallow Read",
            "files/write_file writes kind=edit path=src/a agent:helper",
        ),
        (
            "deny Bash",
            "mode yolo\nallow Bash",
            "system/bash kind=execute command=ls agent:helper",
        ),
        (
            "mode dont_ask\nallow Read",
            "mode dont_ask\nallow Read",
            "files/read_file reads path=a agent:helper",
        ),
    ] {
        let _ = writeln!(
            out,
            "{} | {} | {} → {}",
            parent.replace('\n', "; "),
            limit.replace('\n', "; "),
            call,
            run(parent, &[limit], call, &[])
        );
    }
    expect![[r#"
        mode auto | mode yolo | x/unknown agent:helper → allow by mode auto: other side effects
        mode default | mode yolo | x/unknown agent:helper → ask: it may destroy data
        mode plan | mode yolo; allow * | x/unknown agent:helper → deny: `unknown` may not run in mode plan: it may have side effects
        mode auto | mode readonly | x/unknown agent:helper → deny: `unknown` may not run in mode readonly: it may have side effects
        mode auto | mode default | x/unknown agent:helper → ask: it may destroy data
        mode auto | mode yolo; deny Edit(src/**) | files/write_file writes kind=edit path=src/a agent:helper → deny: rule user:1 deny `Edit(src/**)` forbids `write_file`
        allow Edit(src/**) | mode dont_ask; allow Read | files/write_file writes kind=edit path=src/a agent:helper → deny: `write_file` may not write `src/a` in mode dont_ask: it changes files
        deny Bash | mode yolo; allow Bash | system/bash kind=execute command=ls agent:helper → deny: rule user:1 deny `Bash` forbids `bash`
        mode dont_ask; allow Read | mode dont_ask; allow Read | files/read_file reads path=a agent:helper → allow by rule user:1 allow `Read`
    "#]].assert_eq(&out);
}

#[test]
fn each_further_limit_narrows() {
    let call = "files/write_file writes kind=edit path=src/a agent:helper";
    assert!(run("mode auto", &["mode yolo"], call, &[]).starts_with("allow"));
    assert!(run("mode auto", &["mode yolo", "mode default"], call, &[]).starts_with("ask"));
    assert!(
        run(
            "mode auto",
            &["mode yolo", "mode default", "mode plan"],
            call,
            &[]
        )
        .starts_with("deny")
    );
}

#[test]
fn a_parents_approval_is_inherited_but_does_not_override_a_limit() {
    let question = question("", "x/unknown");
    let offer = question
        .offers
        .iter()
        .position(|offer| offer.narrowing.tool)
        .unwrap();
    let Ok(AnswerOutcome::Granted {
        approval: Some(approval),
        ..
    }) = apply_answer(question, Answer::Allow { offer, note: None })
    else {
        panic!("granted")
    };
    let approval = [approval.into_approval("a1", "user", 0)];
    let call = "x/unknown agent:helper";
    expect!["allow by approval:a1"].assert_eq(&run("", &["mode default"], call, &approval));
    expect!["deny: `unknown` may not run in mode readonly: it may have side effects"]
        .assert_eq(&run("", &["mode readonly"], call, &approval));
    expect!["ask: rule user:1 ask `unknown`"].assert_eq(&run(
        "",
        &["mode yolo\nask unknown remember=no"],
        call,
        &approval,
    ));
}

#[test]
fn a_sub_agents_question_names_it() {
    let world = Fixture::of("x/unknown agent:helper");
    let Verdict::Ask(question) = world.decide(&policy(""), &[]) else {
        panic!("asks")
    };
    assert_eq!(question.agent.as_deref(), Some("helper"));
    let Verdict::Ask(question) = Fixture::of("x/unknown").decide(&policy(""), &[]) else {
        panic!("asks")
    };
    assert_eq!(question.agent, None);
}

#[test]
fn a_limit_denies_before_hooks_run() {
    let mut world = Fixture::of("x/unknown agent:helper");
    world.narrow = Some(Restriction::new(policy("mode yolo\ndeny unknown")));
    assert!(policy("allow *").find_denial(world.request()).is_some());
    // The limit forbids saving, so no lasting approval is offered.
    world.narrow = Some(Restriction::new(policy("mode yolo\nonce_only")));
    let Verdict::Ask(question) = world.decide(&policy(""), &[]) else {
        panic!("asks")
    };
    assert_eq!(question.offers.len(), 1);
}

/// The limits that a host passes to a host below its sub-agent `helper`.
fn inherited(parent: &str, mode: Mode, call: &str) -> String {
    let (parent, own) = (policy(parent), policy("mode yolo\nallow *"));
    let caller = Principal {
        task: "t-1".to_owned(),
        ..Principal::default()
    };
    let passed = parent.to_inherited(mode, &caller, "helper");
    let text = serde_json::to_string(&passed).unwrap();
    let passed: InheritedRules = serde_json::from_str(&text).unwrap();
    let mut world = Fixture::of(call);
    world.narrow = Some(passed.restriction(&own).unwrap());
    show(&world.decide(&own, &[]))
}

#[test]
fn a_host_below_a_sub_agent_inherits_rules_and_mode() {
    let mut out = String::new();
    let write = "files/write_file writes kind=edit path=src/a";
    for (parent, mode, call) in [
        ("mode yolo", Mode::Yolo, write),
        ("mode default", Mode::Default, write),
        (
            "mode default",
            Mode::Default,
            "files/read_file reads path=a",
        ),
        ("mode default\nallow Edit(src/**)", Mode::Default, write),
        ("mode yolo\ndeny Edit(src/**)", Mode::Yolo, write),
        ("mode yolo\nask Edit(src/**)", Mode::Yolo, write),
        // The session was in a stricter mode than the host.
        ("mode yolo", Mode::ReadOnly, write),
        // Conditions on the caller are those of the sub-agent.
        ("mode yolo\ndeny Edit subagent=helper", Mode::Yolo, write),
        ("mode yolo\ndeny Edit subagent=other", Mode::Yolo, write),
        (
            "mode default\nallow Edit subagent=helper",
            Mode::Default,
            write,
        ),
    ] {
        let shown = inherited(parent, mode, call);
        let _ = writeln!(
            out,
            "{} | {mode} | {call} → {shown}",
            parent.replace('\n', "; ")
        );
    }
    expect![[r#"
        mode yolo | yolo | files/write_file writes kind=edit path=src/a → allow by rule user:1 allow `*`
        mode default | default | files/write_file writes kind=edit path=src/a → deny: `write_file` may not write `src/a` in a sub-agent: the host that started it does not allow it (mode default)
        mode default | default | files/read_file reads path=a → allow by rule user:1 allow `*`
        mode default; allow Edit(src/**) | default | files/write_file writes kind=edit path=src/a → allow by rule user:1 allow `*`
        mode yolo; deny Edit(src/**) | yolo | files/write_file writes kind=edit path=src/a → deny: `write_file` may not write `src/a` in a sub-agent: the host that started it does not allow it (rule user:1 deny `Edit(src/**)`)
        mode yolo; ask Edit(src/**) | yolo | files/write_file writes kind=edit path=src/a → deny: `write_file` may not write `src/a` in a sub-agent: the host that started it does not allow it (rule user:1 ask `Edit(src/**)`)
        mode yolo | readonly | files/write_file writes kind=edit path=src/a → deny: `write_file` may not write `src/a` in a sub-agent: the host that started it does not allow it (mode readonly)
        mode yolo; deny Edit subagent=helper | yolo | files/write_file writes kind=edit path=src/a → deny: `write_file` may not write `src/a` in a sub-agent: the host that started it does not allow it (rule user:1 deny `Edit`)
        mode yolo; deny Edit subagent=other | yolo | files/write_file writes kind=edit path=src/a → allow by rule user:1 allow `*`
        mode default; allow Edit subagent=helper | default | files/write_file writes kind=edit path=src/a → allow by rule user:1 allow `*`
    "#]].assert_eq(&out);
}
