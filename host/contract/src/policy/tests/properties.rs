//! Property tests over random policies and calls.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;

const CALLS: &[&str] = &[
    "files/read_file reads kind=read alias=Read path=src/a.rs",
    "files/read_file reads kind=read path=../../etc/passwd",
    "files/write_file writes kind=edit alias=Write path=src/a.rs",
    "files/write_file writes kind=edit path=.git/config",
    "files/copy_file writes kind=edit from=src/a to=lib/b",
    "files/delete_file destroys kind=delete path=src/a.rs",
    "system/bash kind=execute command=\"git status\"",
    "system/bash kind=execute command=\"git status && rm -rf x > out\"",
    "system/bash kind=execute command=\"echo $(\"",
    "web/http_get reads network kind=fetch url=https://a.example/",
    "web/http_post network kind=fetch url=https://a.example/",
    "ui/ask_user pure interactive",
    "data/json_parse pure",
    "x/unknown",
    "srv/mcp__srv__look reads",
    "x/t kind=edit writes from=src/a dest=.git/config",
    "x/t kind=edit interactive file=a",
    "x/t kind=edit writes network url=https://a.example/",
    "x/t kind=execute claims writes command=\"git status > a\" path=src/a",
    "x/t bytes=unknown wants=write_file paths=['a/1','a/2','b/3','b/4','c/5']",
];

const FORMS: &[&str] = &[
    "*",
    "Read",
    "Edit",
    "Edit(src/**)",
    "Edit(lib/**)",
    "Read(src/**)",
    "Bash",
    "Bash(git *)",
    "Bash(rm *)",
    "WebFetch",
    "WebFetch(domain:a.example)",
    "files/*",
    "write_file",
    "unknown",
    "mcp__srv",
    "*_file",
    "json_parse",
    "ask_user",
];

prop_compose! {
    fn any_rule()(
        form in select(FORMS),
        decision in select(&[Decision::Allow, Decision::Ask, Decision::Deny][..]),
        tier in select(&Tier::ALL[..]),
        priority in select(&[0_u16, 100, 999][..]),
        remember in any::<bool>(),
        redirect in any::<bool>(),
    ) -> RuleSpec {
        RuleSpec { priority, remember, allow_redirection: redirect, ..RuleSpec::new(decision, form).tier(tier) }
    }
}

fn any_rules() -> impl Strategy<Value = Vec<RuleSpec>> {
    proptest::collection::vec(any_rule(), 0..6)
}

fn any_mode() -> impl Strategy<Value = Mode> {
    select(&Mode::ALL[..])
}

fn any_call() -> impl Strategy<Value = String> {
    (
        select(CALLS),
        select(&["", "hook:allow", "hook:ask", "hook:risk", "agent:helper"][..]),
    )
        .prop_map(|(call, more)| format!("{call} {more}"))
}

fn build(mode: Mode, rules: &[RuleSpec]) -> Policy {
    let spec = PolicySpec {
        mode,
        rules: rules.to_vec(),
        has_callback: true,
        ..spec("plan_dir docs")
    };
    Policy::new(spec).unwrap()
}

fn decide(policy: &Policy, world: &Fixture) -> Decision {
    decision_of(&world.decide(policy, &[]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_deny_of_the_highest_priority_never_loses(
        rules in any_rules(), mode in any_mode(), call in any_call(), tier in select(&Tier::ALL[..]), at in 0_usize..6,
    ) {
        let world = Fixture::of(&call);
        let mut rules = rules;
        let deny = RuleSpec { priority: 999, ..RuleSpec::new(Decision::Deny, "*").tier(tier) };
        rules.insert(at.min(rules.len()), deny);
        let policy = build(mode, &rules);
        prop_assert_eq!(decide(&policy, &world), Decision::Deny);
        prop_assert!(policy.find_denial(world.request()).is_some());
    }

    #[test]
    fn an_additional_deny_or_ask_never_allows_more(
        rules in any_rules(), more in any_rule(), mode in any_mode(), call in any_call(),
    ) {
        // An ask of a higher tier may replace a mode's deny; a deny never allows more.
        let world = Fixture::of(&call);
        let before = decide(&build(mode, &rules), &world);
        let mut rules = rules;
        rules.push(RuleSpec { decision: Decision::Deny, ..more });
        prop_assert!(decide(&build(mode, &rules), &world) >= before);
    }

    #[test]
    fn a_limit_never_allows_more(
        rules in any_rules(), limits in any_rules(), mode in any_mode(), other in any_mode(), call in any_call(),
    ) {
        let parent = build(mode, &rules);
        let limit = build(other, &limits);
        let mut world = Fixture::of(&call);
        let mut alone = decide(&parent, &world);
        let allow = world.hooks.allow.take();
        alone = alone.max(decide(&limit, &world));
        world.hooks.allow = allow;
        world.narrow = Some(Restriction::new(limit));
        prop_assert_eq!(decide(&parent, &world), alone);
    }

    #[test]
    fn the_sessions_mode_never_allows_more(rules in any_rules(), mode in any_mode(), session in any_mode(), call in any_call()) {
        let policy = build(mode, &rules);
        let mut world = Fixture::of(&call);
        let before = decide(&policy, &world);
        world.mode = Some(session);
        prop_assert!(decide(&policy, &world) >= before);
    }

    #[test]
    fn a_more_permissive_mode_never_denies_more(rules in any_rules(), call in any_call(), a in any_mode(), b in any_mode()) {
        let (a, b) = if a.is_at_least(b) { (a, b) } else { (b, a) };
        prop_assume!(a.is_at_least(b));
        let world = Fixture::of(&call);
        prop_assert!(decide(&build(a, &rules), &world) <= decide(&build(b, &rules), &world));
    }

    #[test]
    fn an_explanation_agrees_with_the_decision(rules in any_rules(), mode in any_mode(), call in any_call()) {
        let policy = build(mode, &rules);
        let world = Fixture::of(&call);
        let verdict = world.decide(&policy, &[]);
        let explanation = policy.explain(world.request(), &world.hooks, &[], NOW);
        prop_assert_eq!(explanation.decision(), decision_of(&verdict));
        let worst = explanation.to_value()["layers"][0]["accesses"].as_array().unwrap().iter()
            .map(|part| part["outcome"].as_str().unwrap().parse::<Decision>().unwrap()).max();
        prop_assert_eq!(worst, Some(explanation.decision()));
        if policy.find_denial(world.request()).is_some() {
            prop_assert_eq!(explanation.decision(), Decision::Deny);
        }
    }

    #[test]
    fn a_tail_call_is_never_allowed_more(rules in any_rules(), mode in any_mode(), call in any_call()) {
        let policy = build(mode, &rules);
        let mut world = Fixture::of(&call);
        let before = decide(&policy, &world);
        world.tail = true;
        let after = decide(&policy, &world);
        prop_assert!(after >= before);
        prop_assert!(after > Decision::Allow || world.tool.effect() <= Effect::Reads);
    }

    #[test]
    fn a_requested_alias_never_allows_more(
        rules in any_rules(), mode in any_mode(), call in any_call(), wanted in select(FORMS),
    ) {
        let policy = build(mode, &rules);
        let mut world = Fixture::of(&call);
        let before = decide(&policy, &world);
        world.tool.aliases.push(wanted.to_owned());
        // An ask rule may replace a mode's deny, also for a requested alias: the user is prompted.
        prop_assert!(decide(&policy, &world) >= before.min(Decision::Ask));
    }

    #[test]
    fn the_order_of_rules_never_changes_a_decision(rules in any_rules(), mode in any_mode(), call in any_call()) {
        let world = Fixture::of(&call);
        let mut turned = rules.clone();
        turned.reverse();
        prop_assert_eq!(decide(&build(mode, &rules), &world), decide(&build(mode, &turned), &world));
    }

    #[test]
    fn every_offer_covers_the_call_that_it_was_made_for(rules in any_rules(), mode in any_mode(), call in any_call()) {
        let policy = build(mode, &rules);
        let world = Fixture::of(&call);
        let Verdict::Ask(question) = world.decide(&policy, &[]) else { return Ok(()) };
        for (at, offer) in question.offers.iter().enumerate().skip(1) {
            let answer = Answer::Allow { offer: at, note: None };
            let Ok(AnswerOutcome::Granted { approval: Some(approval), .. }) = apply_answer((*question).clone(), answer) else {
                return Err(TestCaseError::fail("an offer is not granted"));
            };
            let approval = approval.into_approval("a1", "user", 0);
            let again = world.decide(&policy, std::slice::from_ref(&approval));
            prop_assert_eq!(decision_of(&again), Decision::Allow, "{}", offer.text);
        }
    }

    #[test]
    fn no_path_or_pattern_causes_a_panic(path in ".{0,40}", pattern in ".{0,40}", url in ".{0,40}") {
        let path_context = spec("").path_context;
        let path_ref = path_pattern::PathRef::parse(&path, &path_context);
        if let Ok(pattern) = path_pattern::PathPattern::parse(&pattern, &path_context) {
            // Matching every interpretation implies matching any.
            prop_assert!(!pattern.matches_all(&path_ref) || pattern.may_match(&path_ref));
        }
        let _ = domain_pattern::host_of(&url);
        let _ = RuleSpec::new(Decision::Allow, format!("{pattern}({path})")).compile(1, &path_context);
    }

    #[test]
    fn a_path_by_another_spelling_is_the_same_path(path in "[a-c.]{0,3}(/[a-c.]{0,3}){0,5}") {
        let path_context = spec("").path_context;
        let deny = path_pattern::PathPattern::parse("a/b", &path_context).unwrap();
        let plain = path_pattern::normalize("/w", &path);
        let path_ref = path_pattern::PathRef::parse(&path, &path_context);
        let inside = path_pattern::strip_dir(&plain.0, "/w/a/b").is_some() && plain.1.is_none();
        prop_assert_eq!(deny.matches_all(&path_ref), inside, "{}", path);
        prop_assert!(!inside || deny.may_match(&path_ref));
    }
}
