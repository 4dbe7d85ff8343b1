//! Contents of approval forms for each kind of call.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_contract::{
    Backend, BoxFuture, Call, CallError, Descriptor, Grant, Outcome, PluginName, Sink, ToolName,
};
use toolhost_kernel::PluginInfo;

use crate::approvals::{forms, input_required};
use crate::harness::{Client, call, with_capabilities};

struct One(Vec<Descriptor>);

impl Backend for One {
    fn tools(&self) -> &[Descriptor] {
        &self.0
    }

    fn runs_commands(&self) -> bool {
        self.0[0].kind == "execute"
    }

    fn invoke(
        &self,
        _call: Call,
        _grant: Grant,
        _sink: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        Box::pin(async { Ok(Outcome::text("done")) })
    }
}

/// Returns the message of the form for a call of a tool of this kind.
async fn form(name: &str, kind: &str, schema: Value, input: Value) -> String {
    let mut client = Client::with_prompts(None);
    let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "does something");
    kind.clone_into(&mut tool.kind);
    tool.input_schema = schema;
    let plugin = PluginInfo {
        name: PluginName::parse("kinds").unwrap(),
        version: "1.0.0".to_owned(),
        digest: None,
        timeout: None,
    };
    client
        .kernel
        .register(plugin, Arc::new(One(vec![tool])))
        .unwrap();
    let question = input_required(&mut client, call(1, name, input)).await;
    let message = &question["inputRequests"]["permission"]["params"]["message"];
    message.as_str().unwrap().to_owned()
}

fn check(message: &str, lines: &[&str]) {
    for line in lines {
        assert!(message.lines().any(|one| one == *line), "{line}: {message}");
    }
}

//
#[tokio::test(start_paused = true)]
async fn a_form_shows_the_command_that_would_run() {
    let schema = json!({"type": "object", "properties": {"command": {"type": "string"}}});
    let input = json!({"command": "cat a | sort > b"});
    let message = form("shell", "execute", schema, input).await;
    check(
        &message,
        &[
            "command:",
            "  │ cat a | sort > b",
            "runs: cat a",
            "runs: sort",
            "writes: b",
        ],
    );
}

//
#[tokio::test(start_paused = true)]
async fn a_form_shows_the_file_that_would_change() {
    let schema =
        json!({"type": "object", "properties": {"path": {"type": "string", "x-path": "write"}}});
    let message = form("put", "edit", schema, json!({"path": "/workspace/a"})).await;
    check(&message, &["changes: /workspace/a"]);
}

//
#[tokio::test(start_paused = true)]
async fn a_form_shows_the_address_that_would_be_reached() {
    let schema =
        json!({"type": "object", "properties": {"url": {"type": "string", "format": "uri"}}});
    let input = json!({"url": "https://example.org/a"});
    let message = form("get", "fetch", schema, input).await;
    check(&message, &["Allow this call?", "tool: get"]);
    assert!(message.contains("https://example.org/a"), "{message}");
}

//
#[tokio::test(start_paused = true)]
async fn a_form_shows_the_mcp_server_of_a_tool() {
    let schema = json!({"type": "object"});
    let message = form("mcp__github__merge", "other", schema, json!({})).await;
    check(&message, &["server: github", "server tool: merge"]);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_prompted_for_its_own_calls_only() {
    let mut client = Client::with_prompts(None);
    let mut other = Client::with_prompts(None);
    let question = input_required(&mut client, call(1, "wipe", json!({}))).await;
    assert_eq!(other.kernel.pending().len(), 0);
    let answer = other
        .request(&with_capabilities(
            call(1, "echo", json!({"text": "hi"})),
            forms(),
        ))
        .await;
    assert_eq!(answer["result"]["content"][0]["text"], json!("hi"));
    assert!(question["requestState"].is_string());
}
