//! Tests of deferred questions, which are answered after their caller has disconnected.

use std::sync::Arc;

use serde_json::json;
use tempfile::TempDir;
use toolhost_contract::policy::OnHeadlessAsk;
use toolhost_contract::{
    Annotations, Backend, BoxFuture, Call, CallError, Descriptor, Grant, NoSink, Outcome,
    PluginName, Policy, PolicySpec, Principal, Quotas, Sink, ToolName, UserId, UserQuota,
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
    user: UserId,
    questions: UserQuota,
}

impl DeferredFixture {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        Self {
            dir,
            store,
            user: UserId::Local,
            questions: Quotas::default().questions,
        }
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
            quotas: Quotas {
                questions: self.questions,
                ..Quotas::default()
            },
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
            Principal {
                user: self.user.clone(),
                ..Principal::default()
            },
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

/// Otherwise a model could fill the disk, because retention keeps calls that wait.
#[tokio::test]
async fn deferred_calls_of_all_processes_are_limited_per_user() {
    let mut fixture = DeferredFixture::new();
    fixture.questions = UserQuota { user: 2, all: 3 };
    let mut codes = Vec::new();
    for (id, path, user) in [
        ("c1", "/a", UserId::Local),
        ("c2", "/b", UserId::Local),
        ("c3", "/c", UserId::Local),
        ("c4", "/c", UserId::token("ann")),
        ("c5", "/d", UserId::token("ann")),
    ] {
        fixture.user = user;
        codes.push(fixture.write(id, path, "/w").await);
    }
    let (waits, refused) = ("approval_pending", "too_many_questions");
    assert_eq!(codes, [waits, waits, refused, waits, refused]);
    let row = fixture.row("c3");
    assert_eq!((row.state.as_str(), row.deferred), ("denied", false));
    assert_eq!(row.record["error"]["code"], refused);

    deny_deferred(&fixture.store, "c1", "cli", None, AT)
        .await
        .unwrap();
    assert_eq!(fixture.write("c6", "/d", "/w").await, waits);
}

#[tokio::test]
async fn the_same_call_is_deferred_once_with_one_copy_of_its_input() {
    let fixture = DeferredFixture::new();
    fixture.write("c1", "/a", "/w").await;
    let again = fixture
        .call("c2", "write", json!({"path": "/a"}), "/w")
        .await;
    assert_eq!(
        again.result.unwrap_err().message,
        "Permission denied: the call waits for approval as c1"
    );
    assert!(fixture.row("c2").finished && fixture.row("c1").deferred);
    let record = fixture.row("c1").record;
    assert_eq!(
        record[IN_ADVANCE]["approval"]["narrowing"]["input"]["path"],
        "/a"
    );
    assert!(record.get("input").is_none());
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
