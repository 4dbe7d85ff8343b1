//! MCP clients with sampling support as sub-agents.

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

/// Sub-agent name of the client.
const NAME: &str = "client";
/// Maximum length of the model's answer, in tokens.
const MAX_TOKENS: u32 = 8_192;
/// Length at which the answer is truncated, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// System prompt for the model.
const SYSTEM: &str = "Complete one task for another agent. You have no tools and cannot ask questions. \
                      Answer with the result only: the other agent receives nothing else.";

/// The sub-agents of a host, plus the client of the call if it supports sampling.
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
                "the MCP client of this call does not support sampling; choose another sub-agent",
            ));
        };
        let requests = vec![("task".to_owned(), request(&task.task))];
        let digest = state::digest_of(&requests);
        let answers = client.ask(requests, Some(digest)).await;
        let answer = answers.and_then(|mut answers| answers.pop());
        let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
            return Err(Failure::new(
                "agent_failed",
                "the MCP client declined the sampling request",
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
                description: "The model of your MCP client: a single message, no tools.".to_owned(),
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
        // A tool must not see the rest of the client's conversation.
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
    let odd = |_| {
        Failure::new(
            "agent_failed",
            "the MCP client's answer is not a valid sampling result",
        )
    };
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
