//! What a server may say to us unasked. It may report progress, say that its tools changed, and put a question through
//! a call that is running; it is lent neither our model nor the names of our folders.
#![expect(
    deprecated,
    reason = "servers of earlier revisions still log by the protocol"
)]

use std::sync::Arc;

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationCapability, FormElicitationCapability, Implementation,
    LoggingMessageNotificationParam, ProgressNotificationParam,
};
use rmcp::service::{InboundStreamOrigin, NotificationContext, RequestContext, RoleClient};
use tokio::sync::Notify;
use toolhost_contract::text;

use crate::ask;
use crate::calls::Calls;
use crate::log::Log;

const MAX_LOG: usize = 1_000;

#[derive(Clone)]
pub struct Handler {
    pub server: String,
    pub calls: Arc<Calls>,
    /// Its tools are not what they were.
    pub changed: Arc<Notify>,
    pub log: Arc<Log>,
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
        let running = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.calls.of(id),
            _ => self.calls.only(),
        };
        tokio::select! {
            answer = ask::answer(&self.server, running.as_deref(), request) => Ok(answer),
            // Nobody is asked any longer what nobody wants to know any more.
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
        let said = match &params.data {
            serde_json::Value::String(said) => said.clone(),
            other => other.to_string(),
        };
        self.log.line(&text::inline(&said, MAX_LOG));
    }

    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.notify_one();
    }
}
