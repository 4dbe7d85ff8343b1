//! A tool that only calls other tools needs no approval, because its calls need theirs.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::policy::Mode;
use toolhost_contract::{AgentInfo, BoxFuture, CallId, Failure, NoSink, PluginName, Principal};

use super::scripted_tools::{ScriptedTools, tools};
use super::{ServicesFixtureBuilder, shown};
use crate::{AgentTask, Agents, CallRequest, Kernel, KernelSettings, PluginInfo};

async fn check(plan: ServicesFixtureBuilder, tool: &str, expected: &str) {
    let house = plan.build();
    let input = json!({"calls": [{"path": "/workspace/.git/config"}], "path": "src/a"});
    let report = house.request(house.requested_call(tool, input)).await;
    assert!(
        shown(&report).starts_with(expected),
        "{tool}: {}",
        shown(&report)
    );
}

#[tokio::test(start_paused = true)]
async fn a_delegating_tool_is_evaluated_as_read_only() {
    // No user is available to approve `act`, which names the same paths.
    check(ServicesFixtureBuilder::default(), "relay", "ok: ").await;
    check(
        ServicesFixtureBuilder::default(),
        "act",
        "Denied [policy_violation]",
    )
    .await;
    let plan = ServicesFixtureBuilder::policy(|spec| spec.mode = Mode::Plan);
    check(plan, "relay", "ok: ").await;
    check(
        ServicesFixtureBuilder::rules("deny relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
    check(
        ServicesFixtureBuilder::rules("ask relay"),
        "relay",
        "Denied [policy_violation]",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_delegating_tool_are_evaluated_separately() {
    let plan = ServicesFixtureBuilder::policy(|spec| spec.mode = Mode::Plan);
    let house = plan.build();
    let output = house.call("relay", "call act {}\ncall look {}").await;
    assert!(
        output.starts_with("Denied [") && output.ends_with("; ()"),
        "{output}"
    );
}

/// A sub-agent that delegates its task to itself.
#[derive(Default)]
struct RecursiveAgent(OnceLock<Weak<Kernel>>);

impl Agents for RecursiveAgent {
    fn agents(&self) -> Vec<AgentInfo> {
        vec![AgentInfo {
            name: "general".to_owned(),
            description: String::new(),
        }]
    }

    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>> {
        Box::pin(async move {
            let kernel = self.0.get().and_then(Weak::upgrade).unwrap();
            let request = CallRequest {
                context: task.context,
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
async fn m_10_a_recursive_agent_is_stopped_without_deadlock() {
    let again = Arc::new(RecursiveAgent::default());
    let builder = Kernel::builder(KernelSettings::default()).agents(Arc::clone(&again) as _);
    let kernel = builder.build().unwrap().share();
    again.0.set(Arc::downgrade(&kernel)).unwrap();
    let plugin = PluginInfo {
        name: PluginName::parse("p").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    kernel
        .register(plugin, ScriptedTools::new(tools(), false))
        .unwrap();
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
