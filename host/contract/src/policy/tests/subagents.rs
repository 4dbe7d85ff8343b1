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

/// The verdict of a host with this policy on a call, below the sub-agent `helper` of a host with the policy `parent`.
fn below(parent: &Policy, own: &Policy, mode: Mode, call: &str) -> String {
    let passed = parent.to_inherited(mode, &Principal::default(), "helper");
    decide_below(vec![passed], own, call)
}

fn decide_below(passed: Vec<InheritedRules>, own: &Policy, call: &str) -> String {
    let text = serde_json::to_string(&passed).unwrap();
    let passed: Vec<InheritedRules> = serde_json::from_str(&text).unwrap();
    let limits = passed
        .into_iter()
        .map(|rules| rules.restriction(own).unwrap());
    let mut world = Fixture::of(call);
    world.narrow = limits.reduce(|all, one| all.and(&one));
    show(&world.decide(own, &[]))
}

const PERMISSIVE: &str = "mode yolo\nallow *";

fn inherited(parent: &str, mode: Mode, call: &str) -> String {
    below(&policy(parent), &policy(PERMISSIVE), mode, call)
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

/// A policy whose workspace lies below the guest path of its own mount.
fn policy_in_workspace(text: &str) -> Policy {
    let mut spec = spec(text);
    spec.path_context = PathContext {
        home: Some("/workspace/home".to_owned()),
        root: Some("/workspace/repo".to_owned()),
        mounts: vec![Mount {
            guest: "/workspace".to_owned(),
            host: "/workspace/repo".to_owned(),
        }],
        ..PathContext::default()
    };
    Policy::new(spec).unwrap()
}

fn write_of(path: &str) -> String {
    format!("files/write_file writes kind=edit path={path}")
}

#[test]
fn patterns_are_inherited_if_the_host_path_looks_like_a_guest_path() {
    for (parent, path, expected) in [
        ("mode yolo\ndeny Edit(src/**)", "src/a", "deny"),
        ("mode yolo\ndeny Edit(src/**)", "/workspace/src/a", "deny"),
        ("mode yolo\ndeny Edit(/src/**)", "/workspace/src/a", "deny"),
        ("mode yolo\ndeny Edit(src/**)", "/workspace/lib/a", "allow"),
        (
            "mode yolo\ndeny Edit(~/x/**)",
            "/workspace/home/x/a",
            "deny",
        ),
        ("allow Edit(src/**)", "/workspace/src/a", "allow"),
        ("mode accept_edits", "/workspace/keys/a", "allow"),
        (
            "mode accept_edits\nprotect ./keys",
            "/workspace/keys/a",
            "deny",
        ),
        (
            "mode yolo\nallowed /workspace/src",
            "/workspace/src/a",
            "allow",
        ),
        (
            "mode yolo\nallowed /workspace/src",
            "/workspace/lib/a",
            "deny",
        ),
        (
            "mode plan\nplan_dir /workspace/plans",
            "/workspace/plans/a.md",
            "allow",
        ),
    ] {
        let (parent_policy, own) = (policy_in_workspace(parent), policy_in_workspace(PERMISSIVE));
        let mode = parent_policy.mode();
        let shown = below(&parent_policy, &own, mode, &write_of(path));
        assert!(shown.starts_with(expected), "{parent} | {path} → {shown}");
    }
}

#[test]
fn directories_of_inherited_limits_are_paths_on_the_host() {
    let own = policy_in_workspace(PERMISSIVE);
    let directories = ["/workspace/repo/src".to_owned()];
    let limits = Restriction::to_directories(&directories, &own).unwrap();
    for (path, expected) in [
        ("/workspace/src/a", "allow"),
        ("/workspace/repo/src/a", "deny"),
        ("/workspace/lib/a", "deny"),
    ] {
        let mut world = Fixture::of(&write_of(path));
        world.narrow = Some(limits.clone());
        let shown = show(&world.decide(&own, &[]));
        assert!(shown.starts_with(expected), "{path} → {shown}");
    }
}

#[test]
fn rules_about_the_delegating_agent_are_inherited_unless_they_allow() {
    let rules = |text: &str| {
        let mut spec = spec("");
        let mut rule = RuleSpec::new(text.parse().unwrap(), "Edit");
        rule.agent = Some("planner".to_owned());
        spec.rules.push(rule.clone());
        rule.agent = None;
        rule.subagent = Some("planner".to_owned());
        spec.rules.push(rule);
        Policy::new(spec).unwrap()
    };
    let caller = |parent: Option<&str>| Principal {
        agent: "planner".to_owned(),
        parent_agent: parent.map(str::to_owned),
        ..Principal::default()
    };
    for (decision, caller, agent, expected) in [
        ("deny", caller(None), "helper", 1),
        ("ask", caller(Some("main")), "helper", 2),
        ("allow", caller(Some("main")), "helper", 0),
        ("allow", Principal::default(), "planner", 2),
        ("deny", Principal::default(), "helper", 0),
    ] {
        let passed = rules(decision).to_inherited(Mode::Yolo, &caller, agent);
        let passed = passed.restriction(&policy(PERMISSIVE)).unwrap();
        let count = passed.layers[0].rules().len();
        assert_eq!(count, expected, "{decision} {caller:?} {agent}");
    }
}

#[test]
fn every_limit_of_a_call_is_inherited() {
    let own = policy(PERMISSIVE);
    let directory = Restriction::to_directories(&["/w/src".to_owned()], &own).unwrap();
    let limits = directory.with_policy(policy("mode yolo\ndeny Edit(src/keys)"));
    for (path, expected) in [("src/a", "allow"), ("lib/a", "deny"), ("src/keys", "deny")] {
        let passed = limits.to_inherited(&Principal::default(), "helper");
        let shown = decide_below(passed, &own, &write_of(path));
        assert!(shown.starts_with(expected), "{path} → {shown}");
    }
    let more = limits.to_inherited(&Principal::default(), "helper");
    let more = more
        .into_iter()
        .map(|rules| rules.with_directories(&["/w/lib".to_owned()]));
    let shown = decide_below(more.collect(), &own, &write_of("lib/a"));
    assert!(shown.starts_with("allow"), "{shown}");
}

#[test]
fn rules_of_mode_custom_are_inherited_as_rules_of_mode_default() {
    let write = write_of("src/a");
    for (parent, mode, expected) in [
        ("deny Edit modes=custom", Mode::Custom, "deny"),
        ("ask Edit modes=custom", Mode::Custom, "deny"),
        ("deny Edit modes=custom\nallow Edit", Mode::Custom, "deny"),
        // The policy and the session have different modes, and the rule applies in one of them.
        ("deny Edit modes=custom\nallow Edit", Mode::Yolo, "deny"),
        ("deny Edit modes=yolo\nallow Edit", Mode::Yolo, "deny"),
        (
            "deny Edit modes=readonly\nallow Edit",
            Mode::Custom,
            "allow",
        ),
        // An allow rule that does not apply in mode custom is not gained.
        ("allow Edit modes=default", Mode::Custom, "deny"),
        ("allow Edit modes=default,custom", Mode::Custom, "allow"),
        ("allow Edit", Mode::Custom, "allow"),
    ] {
        let shown = inherited(&format!("callback\nmode custom\n{parent}"), mode, &write);
        assert!(shown.starts_with(expected), "{parent} | {mode} → {shown}");
    }
    // No mode is replaced.
    let parent = "mode default\nallow Edit\ndeny Edit modes=custom";
    let shown = inherited(parent, Mode::Default, &write);
    assert!(shown.starts_with("allow"), "{shown}");
}

#[test]
fn rules_with_a_condition_on_the_prompt_are_inherited_without_a_gain() {
    for (rules, interactive, expected) in [
        ("deny Edit interactive=no\nmode yolo", true, "deny"),
        ("deny Edit interactive=yes\nmode yolo", true, "deny"),
        ("ask Edit interactive=yes\nmode yolo", true, "deny"),
        ("deny Edit interactive=no\nmode yolo", false, "deny"),
        ("deny Edit interactive=yes\nmode yolo", false, "allow"),
        ("allow Edit interactive=no", true, "deny"),
        ("allow Edit interactive=yes", true, "deny"),
        ("allow Edit interactive=no", false, "allow"),
        ("allow Edit interactive=yes", false, "deny"),
    ] {
        let prompt = if interactive { "" } else { "no_prompt" };
        let parent = policy(&format!("{rules}\n{prompt}"));
        let shown = below(&parent, &policy(PERMISSIVE), parent.mode(), &write_of("a"));
        assert!(shown.starts_with(expected), "{rules} {prompt} → {shown}");
    }
}
