//! A client with a model as a sub-agent: it completes a task in one message.

use std::sync::Arc;

#[expect(
    deprecated,
    reason = "2026-07-28 keeps sampling for a year, older clients know nothing else"
)]
use rmcp::model::{
    ContextInclusion, CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult,
    InputRequest, ModelHint, ModelPreferences, SamplingMessage, SamplingMessageContentBlock,
};
use serde_json::{Value, json};
use toolhost_contract::{AgentInfo, BoxFuture, CallId, Failure, text};
use toolhost_kernel::{Agents, Task};

use super::{Desk, state};

/// The name of the client among the sub-agents.
const NAME: &str = "client";
/// The most that the client's model may write, in tokens.
const MAX_TOKENS: u32 = 8_192;
/// Bytes of its answer that count.
const MAX_ANSWER: usize = 1 << 20;
/// What the model is told before the task.
const SYSTEM: &str = "You do one task for another agent. You have no tools and cannot ask back. \
                      Answer with the result alone: it is all that the other agent gets.";

/// The sub-agents of a host, and beside them the client that makes the call, if it has a model.
pub struct ClientAgents {
    desk: Arc<Desk>,
    own: Arc<dyn Agents>,
}

impl ClientAgents {
    pub fn new(desk: Arc<Desk>, own: Arc<dyn Agents>) -> Self {
        Self { desk, own }
    }

    fn is_own(&self, name: &str) -> bool {
        self.own.agents().iter().any(|agent| agent.name == name)
    }

    async fn complete(&self, task: Task) -> Result<Value, Failure> {
        let client = self.desk.client(&task.call);
        let Some(client) = client.filter(|client| client.abilities.samples) else {
            return Err(Failure::new(
                "agent_not_found",
                "the MCP client of this call lends no model; name another sub-agent",
            ));
        };
        let requests = vec![("task".to_owned(), request(&task.task))];
        let digest = state::digest_of(&requests);
        let answers = client.ask(requests, Some(digest)).await;
        let answer = answers.and_then(|mut answers| answers.pop());
        let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
            return Err(Failure::new(
                "agent_failed",
                "the MCP client did not let its model do the task",
            ));
        };
        read(answer)
    }
}

impl Agents for ClientAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        self.own.agents()
    }

    fn agents_for(&self, call: &CallId) -> Vec<AgentInfo> {
        let mut agents = self.own.agents_for(call);
        let client = self.desk.client(call);
        if client.is_some_and(|client| client.abilities.samples) && !self.is_own(NAME) {
            agents.push(AgentInfo {
                name: NAME.to_owned(),
                description: "The model of your own client, in one message and without tools."
                    .to_owned(),
            });
        }
        agents
    }

    fn run(&self, task: Task) -> BoxFuture<'_, Result<Value, Failure>> {
        if task.agent == NAME && !self.is_own(NAME) {
            Box::pin(self.complete(task))
        } else {
            self.own.run(task)
        }
    }
}

#[expect(deprecated, reason = "see the use above")]
fn request(task: &Value) -> InputRequest {
    let text = |name: &str| task[name].as_str().filter(|text| !text.trim().is_empty());
    let mut words = String::new();
    if let Some(context) = text("context") {
        words.push_str(context);
        words.push_str("\n\n");
    }
    words.push_str(text("prompt").unwrap_or_default());
    let message = SamplingMessage::user_text(words);
    let mut params = CreateMessageRequestParams::new(vec![message], MAX_TOKENS)
        .with_system_prompt(SYSTEM)
        // What else the client talks about is no business of a tool.
        .with_include_context(ContextInclusion::None);
    let model = text("model").or_else(|| task["model"]["model"].as_str());
    if let Some(model) = model {
        let hint = ModelHint::new(text::head(model, 200));
        params = params.with_model_preferences(ModelPreferences::new().with_hints(vec![hint]));
    }
    InputRequest::CreateMessage(CreateMessageRequest::new(params))
}

#[expect(deprecated, reason = "see the use above")]
fn read(answer: Value) -> Result<Value, Failure> {
    let odd = |_| Failure::new("agent_failed", "the MCP client's answer is no message");
    let answer: CreateMessageResult = serde_json::from_value(answer).map_err(odd)?;
    let parts = answer.message.content.iter();
    let parts: Vec<&str> = parts
        .filter_map(|part| match part {
            SamplingMessageContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let words = parts.join("\n");
    Ok(json!({
        "text": text::head(&words, MAX_ANSWER),
        "model": text::inline(&answer.model, 200),
        "stop_reason": answer.stop_reason,
    }))
}
