//! A tool that only calls other tools needs no approval, because its calls need theirs.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::policy::Mode;
use toolhost_contract::{AgentInfo, BoxFuture, CallId, Failure, NoSink, PluginName, Principal};

use super::desk::{Desk, tools};
use super::{Plan, shown};
use crate::{Agents, CallRequest, Kernel, PluginInfo, Settings, Task};

async fn check(plan: Plan, tool: &str, expected: &str) {
    let house = plan.build();
    let input = json!({"calls": [{"path": "/workspace/.git/config"}], "path": "src/a"});
    let report = house.request(house.wish(tool, input)).await;
    assert!(
        shown(&report).starts_with(expected),
        "{tool}: {}",
        shown(&report)
    );
}

#[tokio::test(start_paused = true)]
async fn what_delegates_is_judged_as_one_that_reads() {
    // No user is available to approve `act`, which names the same paths.
    check(Plan::default(), "relay", "ok: ").await;
    check(Plan::default(), "act", "Denied [policy_violation]").await;
    let plan = Plan::policy(|spec| spec.mode = Mode::Plan);
    check(plan, "relay", "ok: ").await;
    check(
        Plan::rules("deny relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
    check(
        Plan::rules("ask relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_it_calls_is_not() {
    let plan = Plan::policy(|spec| spec.mode = Mode::Plan);
    let house = plan.build();
    let told = house.call("relay", "call act {}\ncall look {}").await;
    assert!(
        told.starts_with("Denied [") && told.ends_with("; ()"),
        "{told}"
    );
}

/// A sub-agent that delegates its task to itself.
#[derive(Default)]
struct Again(OnceLock<Weak<Kernel>>);

impl Agents for Again {
    fn agents(&self) -> Vec<AgentInfo> {
        vec![AgentInfo {
            name: "general".to_owned(),
            description: String::new(),
        }]
    }

    fn run(&self, task: Task) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            let kernel = self.0.get().and_then(Weak::upgrade).unwrap();
            let request = CallRequest {
                within: task.within,
                ..CallRequest::new(
                    CallId(format!("{}+", task.call)),
                    "relay",
                    json!({"do": "task {}"}),
                    task.caller,
                )
            };
            let report = Box::pin(kernel.call(request, Arc::new(NoSink))).await;
            Ok(json!({"text": shown(&report)}))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn m_10_an_agent_that_starts_itself_is_stopped_and_waits_for_nobody() {
    let again = Arc::new(Again::default());
    let builder = Kernel::builder(Settings::default()).agents(Arc::clone(&again) as _);
    let kernel = builder.build().unwrap().share();
    again.0.set(Arc::downgrade(&kernel)).unwrap();
    let plugin = PluginInfo {
        name: PluginName::parse("p").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    kernel.register(plugin, Desk::new(tools(), false)).unwrap();
    // As many as there are permits for calls that work through others.
    let calls = (0..3).map(|number| {
        let id = CallId(format!("c{number}"));
        let input = json!({"do": "task {}"});
        let request = CallRequest::new(id, "relay", input, Principal::default());
        kernel.call(request, Arc::new(NoSink))
    });
    let all = futures::future::join_all(calls);
    let ended = tokio::time::timeout(Duration::from_hours(1), all).await;
    for report in ended.expect("they wait for each other") {
        assert!(shown(&report).contains("too_deep"), "{}", shown(&report));
        assert!(shown(&report).len() < 1_000);
    }
}
