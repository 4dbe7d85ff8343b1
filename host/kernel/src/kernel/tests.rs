//! Tests of the call pipeline.

mod agents;
mod answers;
mod cancel;
mod detach;
mod event_formats;
mod fake_backend;
mod loops;
mod misuse;
mod only_paths;
mod order;
mod outcomes;
mod random_programs;
mod scripted_backend;
mod seal;
mod services;
mod staged;
mod store_order;
mod tails;
mod test_world;
mod user_edits;

use std::collections::VecDeque;
use std::time::Duration;

use expect_test::{Expect, expect};
use futures::future::join_all;
use serde_json::json;
use tokio::time::{Instant, timeout};
use toolhost_contract::policy::{Decision, Restriction, RuleSpec};
use toolhost_contract::{
    Annotations, Answer, Concurrency, Descriptor, NoSink, PluginName, PolicySpec, Principal,
    ToolName, Verdict,
};

use crate::PluginInfo;
use crate::schedule;

use super::*;
use fake_backend::{FakeBackend, ScriptedUser};

struct TestKernel {
    kernel: Kernel,
    script: Arc<ScriptedUser>,
    log: Arc<Mutex<Vec<String>>>,
}

fn tool(name: &str, concurrency: Concurrency, read_only: bool) -> Descriptor {
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
    tool.annotations = Annotations {
        read_only: Some(read_only),
        ..Annotations::default()
    };
    tool.concurrency = concurrency;
    tool.input_schema = json!({"type": "object"});
    tool
}

/// Plugin `p` has a tool of every kind; plugin `q` one more serial tool, and one that asks.
fn test_kernel(settings: KernelSettings, answers: impl Into<VecDeque<Answer>>) -> TestKernel {
    let script = Arc::new(ScriptedUser {
        answers: Mutex::new(answers.into()),
        ..ScriptedUser::default()
    });
    let kernel = Kernel::new(settings, Arc::clone(&script) as Arc<dyn Prompter>).unwrap();
    let mut typed = tool("typed", Concurrency::Parallel, true);
    typed.input_schema = json!({"properties": {"n": {"type": "integer", "default": 1}}, "additionalProperties": false});
    let mut promising = tool("promising", Concurrency::Parallel, true);
    promising.output_schema = Some(json!({"type": "object"}));
    let p = vec![
        tool("look", Concurrency::Parallel, true),
        tool("step", Concurrency::Serial, true),
        tool("alone", Concurrency::Exclusive, true),
        tool("erase", Concurrency::Parallel, false),
        typed,
        promising,
    ];
    let mut question = tool("question", Concurrency::Exclusive, true);
    question.annotations.interactive = Some(true);
    let q = vec![tool("walk", Concurrency::Serial, true), question];
    let log = Arc::default();
    for (name, tools) in [("p", p), ("q", q)] {
        let name = PluginName::parse(name).unwrap();
        let backend = FakeBackend {
            tools,
            log: Arc::clone(&log),
            born: Instant::now(),
        };
        let plugin = PluginInfo {
            name,
            version: "1.0.0".to_owned(),
            digest: None,
            timeout: None,
        };
        kernel.register(plugin, Arc::new(backend)).unwrap();
    }
    TestKernel {
        kernel,
        script,
        log,
    }
}

fn slots(all: usize) -> KernelSettings {
    KernelSettings {
        pools: schedule::PoolLimits {
            all,
            ..schedule::PoolLimits::default()
        },
        ..KernelSettings::default()
    }
}

/// Parses rules in order: `deny q/*`.
fn rules(text: &str) -> Arc<Policy> {
    let rules = text
        .lines()
        .map(|line| {
            let (decision, tool) = line.trim().split_once(' ').unwrap();
            RuleSpec::new(decision.parse::<Decision>().unwrap(), tool)
        })
        .collect();
    let spec = PolicySpec {
        rules,
        ..PolicySpec::default()
    };
    Arc::new(Policy::new(spec).unwrap())
}

fn request(id: &str, tool: &str, input: Value) -> CallRequest {
    CallRequest::new(CallId(id.to_owned()), tool, input, Principal::default())
}

impl TestKernel {
    async fn call(&self, tool: &str, input: Value) -> Report {
        self.kernel
            .call(request("call", tool, input), Arc::new(NoSink))
            .await
    }

    async fn check(&self, tool: &str, input: Value, expected: Expect) {
        let report = self.call(tool, input).await;
        let tool = report.tool.as_ref().map_or("-", ToolName::as_str);
        let result = match &report.result {
            Ok(outcome) => outcome.model_text(),
            Err(error) => format!("{:?} [{}] {error}", error.class, error.code),
        };
        let cause = report
            .result
            .as_ref()
            .err()
            .and_then(|error| error.cause.as_ref());
        let cause = cause.map_or(String::new(), |cause| format!("\ncause: {cause}"));
        let allowed_by = report.allowed_by.as_deref();
        let shown = format!(
            "{tool}, {:?}, allowed by {allowed_by:?}\n{result}{cause}",
            report.duration
        );
        expected.assert_eq(&shown);
    }

    /// Starts all calls at once and checks when each ran: `id tool seconds`.
    async fn check_order(&self, calls: &str, expected: Expect) {
        let calls = calls.lines().map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            let [id, tool, seconds] = words[..] else {
                panic!("{line}")
            };
            let input = json!({"sleep": seconds.parse::<u64>().unwrap()});
            self.kernel.call(request(id, tool, input), Arc::new(NoSink))
        });
        let reports = join_all(calls).await;
        let durations: Vec<_> = reports
            .iter()
            .map(|r| format!("{} {:?}", r.id, r.duration))
            .collect();
        expected.assert_eq(&format!(
            "{}\n{}",
            self.log.lock().unwrap().join("\n"),
            durations.join(", ")
        ));
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_names_its_reason_and_a_remedy() {
    let settings = KernelSettings {
        policy: rules("deny q/*\nask look"),
        disabled_tools: ["step".to_owned()].into(),
        ..KernelSettings::default()
    };
    let no = Answer::Deny {
        note: Some("not now".to_owned()),
    };
    let house = test_kernel(
        settings,
        [no, Answer::Deny { note: None }, Answer::NoPrompter],
    );
    house
        .check(
            "lock",
            json!({}),
            expect![[r#"
        -, 0ns, allowed by None
        NotRegistered [tool_not_registered] Tool "lock" not found. Did you mean: look?
        - list the tools to see the names"#]],
        )
        .await;
    house
        .check(
            "\u{1b}zz",
            json!({}),
            expect![[r#"
        -, 0ns, allowed by None
        NotRegistered [tool_not_registered] Tool "\u{1b}zz" not found
        - list the tools to see the names"#]],
        )
        .await;
    house
        .check(
            "step",
            json!({}),
            expect![[r#"
        step, 0ns, allowed by None
        Denied [policy_violation] Permission denied: `step` is disabled
        - remove `step` from the disabled tools in the configuration"#]],
        )
        .await;
    house.check("typed", json!({"n": "one"}), expect![[r#"
        typed, 0ns, allowed by None
        InvalidInput [invalid_tool_params] Parameter validation failed: n: expected integer, got "one"
        - schema of n: {"type":"integer","default":1}"#]]).await;
    house
        .check(
            "Walk",
            json!({}),
            expect![[r#"
                walk, 0ns, allowed by None
                Denied [policy_violation] Permission denied: rule user:1 deny `q/*` forbids `walk`
                - to allow it: remove or narrow rule user:1 deny `q/*` (policy)"#]],
        )
        .await;
    house
        .check(
            "erase",
            json!({}),
            expect![[r#"
        erase, 0ns, allowed by None
        Denied [user_denied] Permission denied: the user rejected `erase`: not now"#]],
        )
        .await;
    house
        .check(
            "look",
            json!({}),
            expect![[r#"
        look, 0ns, allowed by None
        Denied [user_denied] Permission denied: the user rejected `look`"#]],
        )
        .await;
    house.check("erase", json!({}), expect![[r#"
        erase, 0ns, allowed by None
        Denied [policy_violation] Permission denied: `erase` requires approval (it may destroy data), and no terminal is available to ask for it
        - to allow it: run host with --allow-tool erase, or put `allow = ["erase"]` under [policy] in toolhost.toml"#]]).await;
    assert!(
        house.log.lock().unwrap().is_empty(),
        "a refused call never starts"
    );
    assert!(house.kernel.registry().stats().calls.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_report_names_who_allowed_the_call_and_counts_only_execution_time() {
    let house = test_kernel(
        KernelSettings {
            policy: rules("allow p/step"),
            ..KernelSettings::default()
        },
        [Answer::once()],
    );
    house
        .check(
            "look",
            json!({"sleep": 1}),
            expect![[r#"
                look, 1s, allowed by Some("mode default: read")
                done"#]],
        )
        .await;
    house
        .check(
            "p/step",
            json!({}),
            expect![[r#"
                step, 0ns, allowed by Some("rule user:1 allow `p/step`")
                done"#]],
        )
        .await;
    house
        .check(
            "erase",
            json!({"sleep": 2}),
            expect![[r#"
                erase, 2s, allowed by Some("the user, once")
                done"#]],
        )
        .await;
    expect![[r#"erase (it may destroy data) for {"sleep":2}"#]]
        .assert_eq(&house.script.questions.lock().unwrap().join("\n"));
}

#[tokio::test(start_paused = true)]
async fn the_tool_gets_the_repaired_input_and_the_caller_gets_the_repairs() {
    let house = test_kernel(KernelSettings::default(), []);
    let report = house
        .call("typed", json!({"n": "2", "description": "x"}))
        .await;
    expect![[r#"
        description: removed, the tool has no such parameter
        n: text read as 2"#]]
    .assert_eq(&report.repairs.join("\n"));
    assert!(report.result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_backend_failure_is_reported_as_a_result() {
    let house = test_kernel(KernelSettings::default(), []);
    house
        .check(
            "look",
            json!({"panic": true}),
            expect![[r#"
                look, 0ns, allowed by Some("mode default: read")
                Internal [internal] internal host error: the backend of `look` panicked
                cause: late, with a \u{1b} in it"#]],
        )
        .await;
    house
        .check(
            "look",
            json!({"panic_early": true}),
            expect![[r#"
                look, 0ns, allowed by Some("mode default: read")
                Internal [internal] internal host error: the backend of `look` panicked
                cause: early"#]],
        )
        .await;
    house
        .check(
            "look",
            json!({"fail": true}),
            expect![[r#"
                look, 0ns, allowed by Some("mode default: read")
                no luck"#]],
        )
        .await;
    house
        .check(
            "look",
            json!({"timeout": true}),
            expect![[r#"
                look, 0ns, allowed by Some("mode default: read")
                TimedOut [timeout] Tool execution timed out after 30000ms
                - narrow the request, or raise the tool's timeout in the configuration"#]],
        )
        .await;
    house
        .check("promising", json!({"value": [1]}), expect![[r#"
            promising, 0ns, allowed by Some("mode default: read")
            Failed [invalid_output] the structured result of `promising` does not fit its output schema: input: expected object, got an array"#]])
        .await;
    house
        .check(
            "promising",
            json!({"value": {}}),
            expect![[r#"
                promising, 0ns, allowed by Some("mode default: read")
                done"#]],
        )
        .await;
    // A backend that ignores its deadline does not hold its permit forever.
    house
        .check(
            "look",
            json!({"sleep": 9_000}),
            expect![[r#"
                look, 35s, allowed by Some("mode default: read")
                TimedOut [timeout] Tool execution timed out after 30000ms
                - narrow the request, or raise the tool's timeout in the configuration"#]],
        )
        .await;
}

#[test]
fn a_kernel_without_slots_is_refused() {
    let built = Kernel::new(slots(0), Arc::new(crate::NoPrompter));
    assert!(built.is_err());
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_ends_it_and_frees_its_place() {
    let house = test_kernel(slots(1), []);
    let call = house.call("step", json!({"sleep": 60}));
    assert!(timeout(Duration::from_secs(1), call).await.is_err());
    house
        .check_order(
            "next step 1",
            expect![[r#"
        0s call starts
        1s call is dropped
        1s next starts
        2s next ends
        next 1s"#]],
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn statistics_survive_a_change_of_the_registry() {
    let house = test_kernel(KernelSettings::default(), []);
    for input in [
        json!({"sleep": 1}),
        json!({"fail": 1}),
        json!({"panic": 1}),
        json!({"sleep": 3}),
    ] {
        house.call("look", input).await;
    }
    house.kernel.set_enabled("look", false).unwrap();
    expect![[r#"
        Stats {
            total: 8,
            by_category: {
                "custom": 8,
            },
            calls: {
                "look": ToolStats {
                    count: 4,
                    failures: 2,
                    avg_duration: 1s,
                },
            },
            variants: [],
        }"#]]
    .assert_eq(&format!("{:#?}", house.kernel.registry().stats()));
}

#[tokio::test(start_paused = true)]
async fn decide_returns_the_decision_without_a_call() {
    let house = test_kernel(KernelSettings::default(), []);
    let registry = house.kernel.registry();
    let decide = |tool| {
        house.kernel.decide(
            registry.get(tool).unwrap(),
            &json!({}),
            &Principal::default(),
        )
    };
    assert!(matches!(decide("look"), Verdict::Allow(_)));
    assert!(matches!(decide("erase"), Verdict::Ask(_)));
}

#[tokio::test(start_paused = true)]
async fn a_decision_without_a_call_includes_inherited_limits() {
    let settings = KernelSettings {
        inherited: Some(Arc::new(Restriction::new((*rules("deny look")).clone()))),
        ..KernelSettings::default()
    };
    let house = test_kernel(settings, []);
    let registry = house.kernel.registry();
    let (entry, caller) = (registry.get("look").unwrap(), Principal::default());
    let verdict = house.kernel.decide(entry, &json!({}), &caller);
    assert!(matches!(verdict, Verdict::Deny(_)));
    let explanation = house.kernel.explain(entry, &json!({}), &caller);
    assert_eq!(explanation.decision(), Decision::Deny);
}

// R-196: an invalid input is an error, and the user is not asked.
#[tokio::test(start_paused = true)]
async fn the_user_is_not_asked_about_an_invalid_call() {
    let settings = KernelSettings {
        policy: rules("ask typed"),
        ..KernelSettings::default()
    };
    let house = test_kernel(settings, [Answer::once()]);
    let report = house.call("typed", json!({"n": "one"})).await;
    let class = report.result.map_err(|error| error.class);
    assert_eq!(class, Err(ErrorClass::InvalidInput));
    assert!(house.script.questions.lock().unwrap().is_empty());
}
