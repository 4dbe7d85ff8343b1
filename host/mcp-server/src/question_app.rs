//! The MCP App that shows approval questions: its resource, and the tools that its view calls.
//!
//! Format: <https://github.com/modelcontextprotocol/ext-apps>, version 2026-01-26. See
//! docs/decisions/095-mcp-app.md for what a client could do without its user.

use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResult, ContentBlock, ExtensionCapabilities, JsonObject,
    MetaObject, RequestId, ResourceContents, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use toolhost_contract::policy::Mode;
use toolhost_contract::{CallError, ErrorClass, Principal, text};

use crate::content;
use crate::http::caller;
use crate::prompts::{
    ClientFeatures, QuestionViews, ViewAnswer, ViewError, ViewQuery, ViewedRequest,
};
use crate::server::Server;

mod html;

const EXTENSION_ID: &str = "io.modelcontextprotocol/ui";
const MIME_TYPE: &str = "text/html;profile=mcp-app";
/// Key in the `_meta` of tools and resources.
const META_KEY: &str = "ui";
const URI_PREFIX: &str = "ui://toolhost/question/";

const QUESTION_TOOL: &str = "toolhost_question";
const ANSWER_TOOL: &str = "toolhost_answer";

/// Returns whether a client shows MCP Apps.
pub(crate) fn is_supported(extensions: Option<&ExtensionCapabilities>) -> bool {
    let settings = extensions.and_then(|extensions| extensions.get(EXTENSION_ID));
    let types = settings.and_then(|settings| settings.get("mimeTypes"));
    let types = types.and_then(Value::as_array);
    types.is_some_and(|types| types.iter().any(|one| one == MIME_TYPE))
}

/// Returns whether calls of a listed tool have a view. The others only read what was granted: a mode or a rule can ask
/// about them too, but a frame beside each of their calls would cost more than it helps.
fn has_view(tool: &Tool, mode: Mode) -> bool {
    let hints = tool.annotations.as_ref();
    let only_reads = hints.is_some_and(|hints| {
        hints.read_only_hint == Some(true) && hints.open_world_hint == Some(false)
    });
    !only_reads || mode == Mode::Ask
}

/// The address of the view.
fn uri(views: &QuestionViews) -> String {
    format!("{URI_PREFIX}{}", views.id())
}

impl Server {
    /// Returns the question views, if this client shows them.
    fn question_views(&self, context: &RequestContext<RoleServer>) -> Option<&QuestionViews> {
        let features = self.client_features(context)?;
        let prompter = self.shared.prompter.as_ref()?;
        features.views.then_some(&*prompter.views)
    }

    /// Adds the view and its tools to the tool list of a client that shows views.
    pub(crate) fn add_question_view(
        &self,
        tools: &[Tool],
        context: &RequestContext<RoleServer>,
    ) -> Option<Vec<Tool>> {
        let views = self.question_views(context)?;
        let mode = self.shared.kernel.policy().mode();
        let uri = uri(views);
        let own = [QUESTION_TOOL, ANSWER_TOOL];
        let mut all: Vec<Tool> = tools
            .iter()
            .filter(|tool| !own.contains(&&*tool.name))
            .cloned()
            .collect();
        for tool in &mut all {
            let mut ui = json!({"visibility": ["model"]});
            if has_view(tool, mode) {
                ui["resourceUri"] = json!(uri);
            }
            let meta = tool.meta.get_or_insert_default();
            meta.0.insert(META_KEY.to_owned(), ui);
        }
        all.extend(view_tools());
        Some(all)
    }

    /// Returns the request of a call, if the client shows a view beside it.
    pub(crate) fn viewed_request(
        &self,
        params: &CallToolRequestParams,
        caller: &Principal,
        features: ClientFeatures,
        id: &RequestId,
    ) -> Option<ViewedRequest> {
        if !features.views {
            return None;
        }
        let tools = self.shared.tools();
        let tool = tools.get(&params.name)?;
        has_view(tool, self.shared.kernel.policy().mode()).then(|| {
            let arguments = params.arguments.as_ref();
            ViewedRequest::new(caller.session_key(), id, &params.name, arguments)
        })
    }

    /// Handles a call of a tool of the view. `None`: it is another tool.
    pub(crate) async fn call_view_tool(
        &self,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallToolResult> {
        if ![QUESTION_TOOL, ANSWER_TOOL].contains(&&*params.name) {
            return None;
        }
        let views = self.question_views(context)?;
        let session = caller(&self.run, context).session_key();
        let arguments = params.arguments.clone().unwrap_or_default();
        let result = if params.name == QUESTION_TOOL {
            match parse::<ViewQuery>(arguments) {
                Ok(query) => views.poll(&session, &query).await.map(question_result),
                Err(error) => Err(error),
            }
        } else {
            parse::<ViewAnswer>(arguments)
                .and_then(|given| views.answer(&session, &given))
                .map(|()| CallToolResult::success(vec![ContentBlock::text("answered")]))
        };
        Some(result.unwrap_or_else(|error| refusal(&error)))
    }

    /// Returns the content of the view, if the client shows views and this is its address.
    pub(crate) fn read_question_view(
        &self,
        address: &str,
        context: &RequestContext<RoleServer>,
    ) -> Option<ResourceContents> {
        if !address.starts_with(URI_PREFIX) {
            return None;
        }
        let views = self.question_views(context)?;
        (address == uri(views)).then(|| ResourceContents::TextResourceContents {
            uri: address.to_owned(),
            mime_type: Some(MIME_TYPE.to_owned()),
            text: html::document(views.key()),
            meta: Some(ui_meta(json!({
                "csp": {"connectDomains": [], "resourceDomains": [], "frameDomains": [], "baseUriDomains": []},
                "prefersBorder": false,
            }))),
        })
    }
}

fn ui_meta(value: Value) -> MetaObject {
    MetaObject(Map::from_iter([(META_KEY.to_owned(), value)]))
}

fn parse<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, ViewError> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        let message = format!("invalid arguments: {error}");
        ViewError::Invalid(text::escape_line(&message, 300))
    })
}

/// Only the view uses the value, so the text does not repeat it.
fn question_result(value: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text("a question for the view")]);
    result.structured_content = Some(value);
    result
}

fn refusal(error: &ViewError) -> CallToolResult {
    let (class, code) = match error {
        ViewError::Key => (ErrorClass::Denied, "question_key"),
        ViewError::Closed => (ErrorClass::NotFound, "question_closed"),
        ViewError::TooEarly => (ErrorClass::Denied, "question_too_early"),
        ViewError::Invalid(_) => (ErrorClass::InvalidInput, "invalid_answer"),
    };
    content::error_result(&CallError::new(class, error.to_string()).code(code))
}

/// The tools that the view calls. Clients do not show them to models.
fn view_tools() -> [Tool; 2] {
    let string = json!({"type": "string"});
    let tool = |name: &'static str, description: &'static str, schema: Value| {
        let Value::Object(schema) = schema else {
            unreachable!("schemas are objects")
        };
        // Clients may ask their user before calls of tools that do more than read.
        let hints = ToolAnnotations::new()
            .read_only(name == QUESTION_TOOL)
            .destructive(false)
            .open_world(false);
        Tool::new(name, description, Arc::new(schema))
            .with_annotations(hints)
            .with_meta(ui_meta(json!({"visibility": ["app"]})))
    };
    [
        tool(
            QUESTION_TOOL,
            "For the view of approval questions only: returns the question of a call.",
            json!({
                "type": "object",
                "properties": {
                    "key": string, "arguments": {"type": "object"}, "tool": string,
                    "request": {"type": ["integer", "string"]}, "shown": string,
                },
                "required": ["key"],
            }),
        ),
        tool(
            ANSWER_TOOL,
            "For the view of approval questions only: gives the user's answer to a question.",
            json!({
                "type": "object",
                "properties": {"ticket": string, "answer": string, "note": {"type": "string", "maxLength": 2_000}},
                "required": ["ticket", "answer"],
            }),
        ),
    ]
}
