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
use toolhost_kernel::{AgentTask, Agents};

use super::{ElicitationPrompter, request_state};

/// Sub-agent name of the client.
const CLIENT_AGENT: &str = "client";
/// Maximum length of the model's answer, in tokens.
const MAX_TOKENS: u32 = 8_192;
/// Length at which the answer is truncated, in bytes.
const MAX_ANSWER: usize = 1 << 20;
/// System prompt for the model.
const SYSTEM_PROMPT: &str = "Complete one task for another agent. You have no tools and cannot ask questions. \
                      Answer with the result only: the other agent receives nothing else.";

/// The sub-agents of a host, plus the client of the call if it supports sampling.
pub struct ClientAgents {
    prompter: Arc<ElicitationPrompter>,
    inner: Arc<dyn Agents>,
}

impl ClientAgents {
    pub fn new(prompter: Arc<ElicitationPrompter>, own: Arc<dyn Agents>) -> Self {
        Self {
            prompter,
            inner: own,
        }
    }

    fn is_inner(&self, name: &str) -> bool {
        self.inner.agents().iter().any(|agent| agent.name == name)
    }

    async fn sample(&self, task: AgentTask) -> Result<Value, Failure> {
        let client = self.prompter.client(&task.call);
        let Some(client) = client.filter(|client| client.features.sampling) else {
            return Err(Failure::new(
                "agent_not_found",
                "the MCP client of this call does not support sampling; choose another sub-agent",
            ));
        };
        let requests = vec![("task".to_owned(), sampling_request(&task.task))];
        let digest = request_state::digest_of(&requests);
        let answers = client.send(requests, Some(digest)).await;
        let answer = answers.and_then(|mut answers| answers.pop());
        let Some(answer) = answer.filter(|answer| !answer.is_null()) else {
            return Err(Failure::new(
                "agent_failed",
                "the MCP client declined the sampling request",
            ));
        };
        parse_sampling_result(answer)
    }
}

impl Agents for ClientAgents {
    fn agents(&self) -> Vec<AgentInfo> {
        self.inner.agents()
    }

    fn agents_for(&self, call: &CallId) -> Vec<AgentInfo> {
        let mut agents = self.inner.agents_for(call);
        let client = self.prompter.client(call);
        if client.is_some_and(|client| client.features.sampling) && !self.is_inner(CLIENT_AGENT) {
            agents.push(AgentInfo {
                name: CLIENT_AGENT.to_owned(),
                description: "The model of your MCP client: a single message, no tools.".to_owned(),
            });
        }
        agents
    }

    fn run(&self, task: AgentTask) -> BoxFuture<'_, Result<Value, Failure>> {
        if task.agent == CLIENT_AGENT && !self.is_inner(CLIENT_AGENT) {
            Box::pin(self.sample(task))
        } else {
            self.inner.run(task)
        }
    }
}

#[expect(deprecated, reason = "see the use above")]
fn sampling_request(task: &Value) -> InputRequest {
    let text = |name: &str| task[name].as_str().filter(|text| !text.trim().is_empty());
    let mut message_text = String::new();
    if let Some(context) = text("context") {
        message_text.push_str(context);
        message_text.push_str("\n\n");
    }
    message_text.push_str(text("prompt").unwrap_or_default());
    let message = SamplingMessage::user_text(message_text);
    let mut params = CreateMessageRequestParams::new(vec![message], MAX_TOKENS)
        .with_system_prompt(SYSTEM_PROMPT)
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
fn parse_sampling_result(answer: Value) -> Result<Value, Failure> {
    let invalid = |_| {
        Failure::new(
            "agent_failed",
            "the MCP client's answer is not a valid sampling result",
        )
    };
    let answer: CreateMessageResult = serde_json::from_value(answer).map_err(invalid)?;
    let parts = answer.message.content.iter();
    let parts: Vec<&str> = parts
        .filter_map(|part| match part {
            SamplingMessageContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        })
        .collect();
    let answer_text = parts.join("\n");
    Ok(json!({
        "text": text::head(&answer_text, MAX_ANSWER),
        "model": text::escape_line(&answer.model, 200),
        "stop_reason": answer.stop_reason,
    }))
}
