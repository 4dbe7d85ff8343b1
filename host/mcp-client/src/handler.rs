//! Handles messages that a server sends on its own: progress, changes of its tools, and elicitation requests during a
//! call. Sampling and roots are not supported.
#![expect(
    deprecated,
    reason = "servers of earlier protocol revisions still log through the protocol"
)]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation,
    LoggingMessageNotificationParam, ProgressNotificationParam, RequestId,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;
use toolhost_contract::text;

use crate::elicitation;
use crate::log::ServerLogger;
use crate::running_calls::{RunningCalls, UnassignedQuestion};

const MAX_LOG: usize = 1_000;

#[derive(Clone)]
pub struct Handler {
    pub server: String,
    pub calls: Arc<RunningCalls>,
    /// Notified when the list of tools has changed.
    pub changed: Arc<Notify>,
    /// Set when a server with an address no longer knows the session.
    pub session_expired: Arc<AtomicBool>,
    pub log: Arc<ServerLogger>,
}

impl Handler {
    /// `named` is the request that the question belongs to, if the transport provides it.
    async fn answer(
        &self,
        named: Option<&RequestId>,
        request: ElicitRequestParams,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let asker = match named {
            Some(id) => self.calls.by_request_id(id).await,
            None => self.calls.only_running().await,
        };
        match asker {
            Ok(asker) => tokio::select! {
                answer = elicitation::answer_elicitation(&self.server, &asker.running, request, &self.log) => Ok(answer),
                () = self.calls.ended(&asker) => Ok(ElicitResult::new(ElicitationAction::Cancel)),
            },
            Err(UnassignedQuestion::NoCall) => Ok(ElicitResult::new(ElicitationAction::Decline)),
            Err(unclear @ (UnassignedQuestion::Several(_) | UnassignedQuestion::Abandoned)) => {
                self.log.line(&format!("a question was refused: {unclear}"));
                Err(rmcp::ErrorData::invalid_request(unclear.to_string(), None))
            }
        }
    }
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let form = FormElicitationCapability::default();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        ClientConfig::new(
            capabilities,
            Implementation::new("toolhost", env!("CARGO_PKG_VERSION")),
        )
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, rmcp::ErrorData> {
        let named = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id.clone()),
            _ => None,
        };
        tokio::select! {
            answer = self.answer(named.as_ref(), request) => answer,
            // The question is dropped if the server cancels it.
            () = context.ct.cancelled() => Ok(ElicitResult::new(ElicitationAction::Cancel)),
        }
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.calls.progress(params);
    }

    async fn on_logging_message(
        &self,
        params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let message = match &params.data {
            serde_json::Value::String(message) => message.clone(),
            other => other.to_string(),
        };
        self.log.line(&text::escape_line(&message, MAX_LOG));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
