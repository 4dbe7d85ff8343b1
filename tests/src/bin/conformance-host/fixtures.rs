//! Fixtures for the official conformance suite: prompts, resources, completions and the few tools that a component
//! cannot implement.
//!
//! All other requests are passed to the real server, so that the suite tests the complete call path with components.

mod elicitation;
mod input_required;
mod list_changes;
mod prompts;
mod resources;
mod task_tools;

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;

use toolhost_mcp_server::Server;

/// The server, with the fixtures taking precedence.
pub struct WithFixtures(Arc<Server>);

impl WithFixtures {
    pub fn new(server: Server) -> Self {
        Self(Arc::new(server))
    }
}

/// Parses a fixture, which is written as protocol JSON like in the documentation of the suite.
fn from_json<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a fixture is valid protocol JSON")
}

/// Marks a result as complete. rmcp removes the field for older protocols.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result
}

/// A tool without parameters.
fn tool(name: &str, description: &str) -> Value {
    serde_json::json!({
        "name": name,
        "description": description,
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
    })
}

/// The protocol error for an unknown name.
fn unknown_name(kind: &str, name: &str) -> ErrorData {
    let name = toolhost_contract::text::escape_line(name, 80);
    ErrorData::invalid_params(format!("unknown {kind} {name}"), None)
}

fn tools() -> Vec<Tool> {
    let of_rounds = input_required::tools().into_iter();
    let others = elicitation::tools()
        .into_iter()
        .chain(list_changes::tools());
    of_rounds
        .chain(others)
        .chain(task_tools::tools())
        .map(from_json)
        .collect()
}

#[expect(
    deprecated,
    reason = "the suite tests the older protocols too, and these are what they have"
)]
impl ServerHandler for WithFixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.0.get_info();
        info.capabilities = capabilities(info.capabilities);
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.0.supported_protocol_versions()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut result = self.0.initialize(request, context).await?;
        result.capabilities = capabilities(result.capabilities);
        Ok(result)
    }

    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let mut result = self.0.discover(context).await?;
        result.capabilities = capabilities(result.capabilities);
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut page = self.0.list_tools(request, context).await?;
        if page.next_cursor.is_none() {
            page.tools.extend(tools());
        }
        // The suite calls the first tool without parameters to check headers, and expects success.
        page.tools
            .sort_by_key(|tool| !tool.name.starts_with("test_simple"));
        Ok(page)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0
            .get_tool(name)
            .or_else(|| tools().into_iter().find(|tool| tool.name == name))
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(response) = input_required::call(&params, &context) {
            return response;
        }
        if let Some(response) = list_changes::call(&params.name) {
            return Ok(response);
        }
        if let Some(response) = elicitation::call(&params.name, &context).await {
            return response;
        }
        match task_tools::call(&self.0, &params, &context) {
            Some(response) => response,
            None => self.0.call_tool(params, context).await,
        }
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.0.set_level(request, context).await
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request)
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(from_json(complete(serde_json::json!({
            "completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": false},
        }))))
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(
            resources::templates(),
        ))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        if let Some(result) = resources::read(&request.uri) {
            return Ok(result.into());
        }
        // Large results of the real server are resources too. The suite expects a specific error.
        let uri = request.uri.clone();
        let read = self.0.read_resource(request, context).await;
        read.map_err(|_| resources::not_found(&uri))
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        list_changes::listen(context).await
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.0.on_custom_request(request, context).await
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.0.on_initialized(context).await;
    }

    async fn on_cancelled(
        &self,
        notification: CancelledNotificationParam,
        context: NotificationContext<RoleServer>,
    ) {
        self.0.on_cancelled(notification, context).await;
    }

    async fn on_roots_list_changed(&self, context: NotificationContext<RoleServer>) {
        self.0.on_roots_list_changed(context).await;
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        match task_tools::get(&request) {
            Ok(result) => Ok(result),
            Err(_) => self.0.get_task(request, context).await,
        }
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match task_tools::update(&request) {
            Ok(()) => Ok(()),
            Err(_) => self.0.update_task(request, context).await,
        }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        match task_tools::cancel(&request) {
            Ok(()) => Ok(()),
            Err(_) => self.0.cancel_task(request, context).await,
        }
    }
}

/// Adds the capabilities of the fixtures to those of the server.
fn capabilities(of_server: ServerCapabilities) -> ServerCapabilities {
    let mut all = serde_json::to_value(of_server).expect("capabilities are JSON");
    all["prompts"] = serde_json::json!({"listChanged": true});
    all["resources"] = serde_json::json!({"subscribe": true, "listChanged": true});
    all["completions"] = serde_json::json!({});
    all["tools"]["listChanged"] = true.into();
    all["extensions"]["io.modelcontextprotocol/tasks"] = serde_json::json!({});
    from_json(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fixture_is_valid_protocol_json() {
        let mut names: Vec<_> = tools().into_iter().map(|tool| tool.name).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all);
        for prompt in prompts::list() {
            let arguments =
                serde_json::json!({"arg1": "a", "arg2": "b", "resourceUri": "test://static-text"});
            let request = GetPromptRequestParams::new(prompt.name)
                .with_arguments(arguments.as_object().unwrap().clone());
            prompts::get(&request).unwrap();
        }
        for resource in resources::list() {
            assert!(resources::read(&resource.uri).is_some());
        }
        assert!(resources::read("test://template/7/data").is_some());
        assert!(resources::read("test://else").is_none());
        assert_eq!(resources::templates().len(), 1);
        let all = capabilities(ServerCapabilities::default());
        assert!(all.supports_tasks() && all.prompts.is_some() && all.resources.is_some());
    }
}
