//! Tests of running hooks: decisions, failures, matching and concurrency.

use std::sync::Mutex;

use expect_test::expect;
use serde_json::json;

use super::*;

/// A hook with a fixed answer.
struct FixedAnswers(Mutex<Vec<Result<PreHookResponse, HookError>>>);

impl Hook for FixedAnswers {
    fn before<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        let response = self.0.lock().unwrap().remove(0);
        Box::pin(std::future::ready(response))
    }

    fn after<'a>(
        &'a self,
        _: &'a HookCall,
        outcome: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        let text = format!("{}+", outcome.model_text());
        let response = match outcome.model_text().as_str() {
            "fail" => Err(HookError("no\u{1b}".to_owned())),
            _ => Ok(PostHookResponse::Replace(Box::new(Outcome::text(text)))),
        };
        Box::pin(std::future::ready(response))
    }
}

struct Hangs;

impl Hook for Hangs {
    fn before<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(std::future::pending())
    }
}

struct Panics;

impl Hook for Panics {
    fn before<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async { panic!("ouch") })
    }
}

pub(super) fn call() -> HookCall {
    let name = ToolName::parse("edit_file").unwrap();
    let mut tool = Descriptor::new(name.clone(), "x");
    tool.aliases = vec!["Edit".to_owned()];
    HookCall {
        call: Call::new("1", name.clone(), json!({"path": "a"})),
        name,
        plugin: PluginName::parse("files").unwrap(),
        tool: Arc::new(tool),
        digest: None,
        mode: "default".to_owned(),
        is_narrowed: false,
        reads: None,
        rewritten: None,
    }
}

fn entry(name: &str, hook: impl Hook + 'static, on_failure: OnFailure) -> HookEntry {
    HookEntry {
        on_failure,
        ..HookEntry::new(name, Arc::new(hook))
    }
}

fn says(decision: PreHookDecision) -> FixedAnswers {
    FixedAnswers(Mutex::new(vec![Ok(PreHookResponse {
        decision,
        updated_input: None,
    })]))
}

fn ask(reason: &str) -> FixedAnswers {
    says(PreHookDecision::Ask {
        reason: Some(reason.to_owned()),
        meta: Some(json!({"risk": "high"})),
    })
}

// R-210, R-218
#[tokio::test]
async fn the_first_deny_or_answer_ends_the_round_and_asks_are_collected() {
    let deny = || {
        says(PreHookDecision::Deny {
            reason: Some("no".to_owned()),
            outcome: None,
        })
    };
    let answer = || says(PreHookDecision::Result(Box::new(Outcome::text("cached"))));
    let allow = || says(PreHookDecision::Allow { reason: None });
    let closed = OnFailure::Closed;
    let hooks = Hooks::new(vec![
        entry("one", ask("first"), closed),
        entry("two", ask("second"), closed),
        entry("three", allow(), closed),
    ]);
    let HookDecision::Proceed(hints) = hooks.before(&call()).await else {
        panic!("stopped")
    };
    let ask_of = hints.ask.unwrap();
    assert_eq!(
        (ask_of.by.as_str(), ask_of.reason.as_deref()),
        ("one", Some("first; second"))
    );
    assert_eq!(hints.allow.as_deref(), Some("three"));
    // A high risk comes first, so that no saved approval answers the question.
    let mild = says(PreHookDecision::Ask {
        reason: None,
        meta: None,
    });
    let hooks = Hooks::new(vec![
        entry("mild", mild, closed),
        entry("strict", ask("risky"), closed),
    ]);
    let HookDecision::Proceed(hints) = hooks.before(&call()).await else {
        panic!("stopped")
    };
    let ask_of = hints.ask.unwrap();
    assert_eq!(ask_of.reason.as_deref(), Some("risky; hook `mild`"));
    assert_eq!(ask_of.meta, Some(json!({"risk": "high"})));

    let hooks = Hooks::new(vec![
        entry("a", allow(), closed),
        entry("d", deny(), closed),
    ]);
    assert!(matches!(hooks.before(&call()).await, HookDecision::Denied { by, .. } if by == "d"));
    let hooks = Hooks::new(vec![
        entry("r", answer(), closed),
        entry("d", deny(), closed),
    ]);
    assert!(matches!(hooks.before(&call()).await, HookDecision::Answered { by, .. } if by == "r"));
}

#[tokio::test]
async fn an_unchanged_input_is_no_change() {
    let updated = |input| {
        FixedAnswers(Mutex::new(vec![Ok(PreHookResponse {
            decision: PreHookDecision::Continue,
            updated_input: Some(input),
        })]))
    };
    let hooks = Hooks::new(vec![entry(
        "same",
        updated(json!({"path": "a"})),
        OnFailure::Closed,
    )]);
    assert_eq!(
        hooks.before(&call()).await,
        HookDecision::Proceed(HookHints::default())
    );
    let hooks = Hooks::new(vec![entry(
        "new",
        updated(json!({"path": "b"})),
        OnFailure::Closed,
    )]);
    assert!(matches!(hooks.before(&call()).await, HookDecision::Changed { by, .. } if by == "new"));
    // A hook can ask about the input that it changed.
    let asks = FixedAnswers(Mutex::new(vec![Ok(PreHookResponse {
        decision: PreHookDecision::Ask {
            reason: None,
            meta: None,
        },
        updated_input: Some(json!({"path": "b"})),
    })]));
    let hooks = Hooks::new(vec![entry("asks", asks, OnFailure::Closed)]);
    assert!(matches!(
        hooks.before(&call()).await,
        HookDecision::Changed { ask: Some(ask), .. } if ask.by == "asks"
    ));
}

#[tokio::test(start_paused = true)]
async fn a_failing_hook_denies_or_is_ignored_as_configured() {
    let fails = || {
        FixedAnswers(Mutex::new(vec![Err(HookError(
            "broken\u{1b}[2J".to_owned(),
        ))]))
    };
    let mut lines = Vec::new();
    for on_failure in [OnFailure::Closed, OnFailure::Open] {
        for entry in [
            entry("fails", fails(), on_failure),
            entry("hangs", Hangs, on_failure),
            entry("panics", Panics, on_failure),
        ] {
            let decision = Hooks::new(vec![entry]).before(&call()).await;
            lines.push(match decision {
                HookDecision::Denied { reason, .. } => format!("denied: {}", reason.unwrap()),
                HookDecision::Proceed(hints) => {
                    format!("goes on: {}", hints.failures.join(", "))
                }
                other => panic!("{other:?}"),
            });
        }
    }
    expect![[r"
        denied: hook `fails` failed: broken\u{1b}[2J
        denied: hook `hangs` failed: no answer within 60000 ms
        denied: hook `panics` failed: panicked
        goes on: hook `fails` failed: broken\u{1b}[2J
        goes on: hook `hangs` failed: no answer within 60000 ms
        goes on: hook `panics` failed: panicked"]]
    .assert_eq(&lines.join("\n"));
}

/// Fails wherever it runs, which is only after calls.
struct OnlyAfter;

impl Hook for OnlyAfter {
    fn runs(&self, point: HookPoint, _: &PluginName, _: &Descriptor) -> bool {
        point == HookPoint::After
    }

    fn before<'a>(&'a self, _: &'a HookCall) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async { panic!("ouch") })
    }

    fn after<'a>(
        &'a self,
        _: &'a HookCall,
        _: &'a Outcome,
    ) -> BoxFuture<'a, Result<PostHookResponse, HookError>> {
        Box::pin(async { panic!("ouch") })
    }
}

#[tokio::test]
async fn a_hook_is_called_only_where_it_runs() {
    let hooks = Hooks::new(vec![entry("after", OnlyAfter, OnFailure::Closed)]);
    let decision = hooks.before(&call()).await;
    assert_eq!(decision, HookDecision::Proceed(HookHints::default()));
    let revised = hooks.after(&call(), Outcome::text("x")).await;
    assert_eq!(revised.by, ["after"]);
}

// R-211
#[tokio::test]
async fn post_hooks_run_in_sequence_and_a_fail_closed_failure_withholds_the_result() {
    let hook = || FixedAnswers(Mutex::default());
    let hooks = Hooks::new(vec![
        entry("a", hook(), OnFailure::Closed),
        entry("b", hook(), OnFailure::Closed),
    ]);
    let RevisedOutcome {
        outcome, failures, ..
    } = hooks.after(&call(), Outcome::text("x")).await;
    assert_eq!((outcome.model_text().as_str(), failures.len()), ("x++", 0));

    let open = Hooks::new(vec![entry("a", hook(), OnFailure::Open)]);
    let RevisedOutcome {
        outcome, failures, ..
    } = open.after(&call(), Outcome::text("fail")).await;
    assert_eq!((outcome.model_text().as_str(), failures.len()), ("fail", 1));

    let closed = Hooks::new(vec![entry("a", hook(), OnFailure::Closed)]);
    let RevisedOutcome { outcome, .. } = closed.after(&call(), Outcome::text("fail")).await;
    expect![[r"hook `a` failed: no\u{1b}"]].assert_eq(&outcome.model_text());
}

#[test]
fn a_matcher_checks_every_name_and_only_whole_names() {
    for (pattern, hit) in [
        ("", true),
        ("*", true),
        ("edit_file", true),
        ("Edit", true),
        ("edit", true),
        ("read_file|edit_.*", true),
        ("files__edit_file", true),
        ("files/edit_file", true),
        ("edi", false),
        ("mcp__.*", false),
        ("a|b", false),
    ] {
        let (matcher, call) = (Matcher::parse(pattern).unwrap(), call());
        let matches = matcher.matches_tool(&call.plugin, &call.name, &call.tool);
        assert_eq!(matches, hit, "{pattern}");
    }
    let error = Matcher::parse("edit(").unwrap_err().to_string();
    expect!["`edit(` is not a valid tool pattern: error: unclosed group"].assert_eq(&error);
}

/// Waits for a user named `slow`, and has no effect on calls of others.
struct SlowForUser;

impl Hook for SlowForUser {
    fn before<'a>(
        &'a self,
        call: &'a HookCall,
    ) -> BoxFuture<'a, Result<PreHookResponse, HookError>> {
        Box::pin(async {
            if call.call.caller.user == UserId::token("slow") {
                std::future::pending::<()>().await;
            }
            Ok(PreHookResponse::default())
        })
    }
}

#[tokio::test]
async fn h_07_slow_hooks_do_not_delay_the_calls_of_other_users() {
    let hooks = Hooks::new(vec![entry("slow", SlowForUser, OnFailure::Closed)]);
    let of = |user: &str| {
        let mut call = call();
        call.call.caller.user = UserId::token(user);
        call
    };
    let slow = of("slow");
    let flood = futures::future::join_all((0..=MAX_HOOKED_CALLS).map(|_| hooks.before(&slow)));
    let mut flood = std::pin::pin!(flood);
    assert!(flood.as_mut().now_or_never().is_none());
    let decision = hooks.before(&of("quick")).now_or_never();
    assert_eq!(decision, Some(HookDecision::Proceed(HookHints::default())));
    // Of users without a call in a hook, only the last one is kept.
    for user in ["third", "fourth"] {
        drop(hooks.slots.of(&UserId::token(user)));
    }
    assert_eq!(hooks.slots.0.lock().unwrap().len(), 2);
}

#[test]
fn a_reason_that_both_demands_for_approval_give_is_stated_once() {
    let ask = |reason: &str| {
        Some(AskHint {
            by: "a".to_owned(),
            reason: Some(reason.to_owned()),
            meta: None,
        })
    };
    for (first, second, expected) in [("R1", "R1", "R1"), ("R1", "R2", "R1; R2")] {
        let both = AskHint::of_both(ask(first), ask(second)).unwrap();
        assert_eq!(both.reason(), expected);
    }
}
