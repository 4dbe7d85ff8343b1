//! Tests of deferred questions, which are answered after their caller has disconnected.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::policy::OnHeadlessAsk;
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, Descriptor, Grant, NoSink, Outcome,
    PluginName, Policy, PolicySpec, Principal, Sink, ToolName,
};
use toolhost_store::{ApprovalRow, TransitionFilter, Verification};

use super::*;
use crate::kernel::{CallRequest, Kernel, Report};
use crate::{Durability, KernelSettings, PluginInfo};

/// `write` changes a file; `run` runs a command.
struct Tools(Vec<Descriptor>);

impl Backend for Tools {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn invoke(
        &self,
        _: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(std::future::ready(Ok(Outcome::text("done"))))
    }
}

struct DeferredFixture {
    dir: TempDir,
    store: Store,
}

impl DeferredFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Self { dir, store }
    }

    /// Runs a program that makes one call without a user and exits.
    async fn call(&self, id: &str, tool: &str, input: Value, project: &str) -> Report {
        let policy = Policy::new(PolicySpec {
            on_headless_ask: OnHeadlessAsk::Defer,
            ..PolicySpec::default()
        });
        let settings = KernelSettings {
            policy: Arc::new(policy.unwrap()),
            project: Some(project.to_owned()),
            ..KernelSettings::default()
        };
        let store = Store::open(self.dir.path()).unwrap();
        let kernel = Kernel::builder(settings).store(store, Durability::Effects);
        let kernel = kernel.build().unwrap();
        let describe = |name: &str, kind: &str| {
            let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
            tool.kind = kind.to_owned();
            tool.input_schema = json!({"type": "object"});
            tool.annotations = Annotations {
                read_only: Some(false),
                ..Annotations::default()
            };
            tool
        };
        let plugin = PluginInfo {
            name: PluginName::parse("p").unwrap(),
            version: "1.0.0".to_owned(),
            // A tool without a digest is asked about each time.
            digest: (tool != "run").then_some(toolhost_contract::Digest([1; 32])),
            timeout: None,
        };
        let tools = vec![describe("write", "edit"), describe("run", "execute")];
        kernel.register(plugin, Arc::new(Tools(tools))).unwrap();
        let request = CallRequest::new(
            toolhost_contract::CallId(id.to_owned()),
            tool,
            input,
            Principal::default(),
        );
        let report = kernel.call(request, Arc::new(NoSink)).await;
        kernel.flush().await.unwrap();
        report
    }

    async fn write(&self, id: &str, path: &str, project: &str) -> String {
        code(&self.call(id, "write", json!({"path": path}), project).await)
    }

    fn row(&self, id: &str) -> CallRow {
        self.store.call(id).unwrap().unwrap()
    }

    fn steps(&self, id: &str) -> Vec<String> {
        let filter = TransitionFilter {
            call: Some(id.to_owned()),
            ..TransitionFilter::default()
        };
        let lines = self.store.transitions(&filter).unwrap();
        lines.into_iter().map(|line| line.row.state).collect()
    }

    fn approvals(&self) -> Vec<ApprovalRow> {
        self.store.approvals().unwrap()
    }
}

fn code(report: &Report) -> String {
    match &report.result {
        Ok(_) => "ok".to_owned(),
        Err(error) => error.code.clone(),
    }
}

const AT: Timestamp = Timestamp(0);

//
#[tokio::test]
async fn approving_a_deferred_call_allows_one_call_with_this_input_in_this_project() {
    let fixture = DeferredFixture::new();
    assert_eq!(fixture.write("c1", "/a", "/w").await, "approval_pending");
    let row = fixture.row("c1");
    assert_eq!(
        (row.state.as_str(), row.deferred),
        ("awaiting_approval", true)
    );
    assert!(fixture.store.orphans().unwrap().is_empty());

    let id = approve_deferred(&fixture.store, "c1", "cli", Some("fine"), AT)
        .await
        .unwrap();
    let row = fixture.row("c1");
    assert_eq!(
        (row.state.as_str(), row.finished, row.deferred),
        ("sealed", true, false)
    );
    let shown = row.record.to_string();
    assert!(
        shown.contains("it was approved and had not started"),
        "{shown}"
    );
    assert!(row.record.get("input").is_none() && row.record.get(IN_ADVANCE).is_none());
    assert_eq!(
        fixture.steps("c1")[3..],
        ["awaiting_approval", "approved", "sealed"]
    );

    // The approval does not apply to another file or project.
    assert_eq!(fixture.write("c2", "/b", "/w").await, "approval_pending");
    assert_eq!(
        fixture.write("c3", "/a", "/other").await,
        "approval_pending"
    );
    assert_eq!(fixture.write("c4", "/a", "/w").await, "ok");
    assert_eq!(fixture.write("c5", "/a", "/w").await, "approval_pending");
    let approvals = fixture.approvals();
    assert_eq!(
        (
            approvals[0].id.as_str(),
            approvals[0].uses_left,
            approvals[0].used
        ),
        (id.as_str(), Some(0), 1)
    );
    assert!(matches!(
        fixture.store.verify().unwrap(),
        Verification::Verified { .. }
    ));
}

#[tokio::test]
async fn denying_a_deferred_call_ends_it() {
    let fixture = DeferredFixture::new();
    fixture.write("c1", "/a", "/w").await;
    deny_deferred(&fixture.store, "c1", "cli", Some("use /b"), AT)
        .await
        .unwrap();
    let row = fixture.row("c1");
    assert_eq!((row.state.as_str(), row.finished), ("denied", true));
    let message = row.record["error"]["message"].as_str().unwrap();
    assert_eq!(message, "the user rejected `write`: use /b");
    assert_eq!(row.record["approval"]["decision"], "deny");
    assert!(fixture.approvals().is_empty());
}

#[tokio::test]
async fn a_deferred_call_is_answered_once() {
    let fixture = DeferredFixture::new();
    fixture.write("c1", "/a", "/w").await;
    let message = |error: DeferredError| error.to_string();
    let unknown = deny_deferred(&fixture.store, "unknown", "cli", None, AT).await;
    assert_eq!(
        message(unknown.unwrap_err()),
        "no call `unknown`; list the pending calls"
    );
    let (one, two) = tokio::join!(
        approve_deferred(&fixture.store, "c1", "one", None, AT),
        approve_deferred(&fixture.store, "c1", "two", None, AT)
    );
    assert!(one.is_ok());
    // Which of the two errors occurs depends on timing.
    let two = two.unwrap_err();
    assert!(
        matches!(
            two,
            DeferredError::Answer(
                AnswerError::AlreadyAnswered { .. } | AnswerError::Finished { .. }
            )
        ),
        "{two}"
    );
    assert_eq!(fixture.approvals().len(), 1);
    let late = deny_deferred(&fixture.store, "c1", "cli", None, AT).await;
    assert_eq!(
        message(late.unwrap_err()),
        "the call has ended (sealed); there is nothing to answer"
    );
}

#[tokio::test]
async fn a_call_that_must_be_asked_each_time_is_not_deferred() {
    let fixture = DeferredFixture::new();
    let report = fixture
        .call("c1", "run", json!({"command": "$(x)"}), "/w")
        .await;
    assert_eq!(code(&report), "policy_violation");
    assert!(fixture.row("c1").finished);
}
