//! Handling of `tools/call` requests.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, InputRequiredResult, ProtocolVersion,
    TASKS_EXTENSION_ID,
};
use rmcp::service::RequestContext;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use toolhost_contract::{CallError, CallerId, ErrorClass, OnlyPaths, Principal, text};
use toolhost_formats::profile::{Profile, ProfiledRegistry};
use toolhost_kernel::CallRequest;

use crate::call_result::ResultBuilder;
use crate::event_relay::EventRelay;
use crate::http::{caller, quota_of, with_worker_quota};
use crate::prompts::{
    CallBinding, CallEnd, CallFuture, CallingClient, ClientFeatures, MAX_CLIENT_NAME, OngoingCall,
    ResumeAction, await_with_requests,
};
use crate::roots::{RootsContext, RootsRestriction};
use crate::server::{Server, is_modern};
use crate::{Readiness, content, prompts};

const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// Members of `_meta` of a request: on whose behalf the client makes the call.
const AGENT_KEY: &str = "dev.toolhost/agent";
const TASK_KEY: &str = "dev.toolhost/task";
/// The directories to which the client narrows the call.
const ONLY_PATHS_KEY: &str = "dev.toolhost/only-paths";

fn stated_caller(
    caller: Principal,
    context: &RequestContext<RoleServer>,
) -> Result<Principal, ErrorData> {
    let stated = |key: &str| -> Result<Option<CallerId>, ErrorData> {
        let Some(value) = context.meta.0.0.get(key) else {
            return Ok(None);
        };
        let text = value.as_str().unwrap_or_default();
        let id = text.parse();
        id.map(Some).map_err(|error: String| {
            ErrorData::invalid_params(format!("_meta {key}: {error}"), None)
        })
    };
    Ok(caller.stated(stated(AGENT_KEY)?, stated(TASK_KEY)?))
}

fn stated_paths(context: &RequestContext<RoleServer>) -> Result<Option<OnlyPaths>, ErrorData> {
    let value = context.meta.0.0.get(ONLY_PATHS_KEY);
    let paths = value.map(OnlyPaths::deserialize).transpose();
    paths.map_err(|error| {
        let message = format!("_meta {ONLY_PATHS_KEY}: {error}");
        ErrorData::invalid_params(text::escape_line(&message, 300), None)
    })
}

impl Server {
    pub(crate) async fn call(
        &self,
        mut params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // Does not wait for a place, because calls that wait for an answer can have all of them.
        if let Some(mut result) = self.call_view_tool(&params, &context).await {
            self.add_server_info(&mut result.meta, &context);
            return Ok(result.into());
        }
        let Some(_place) = self.call_queue.acquire().await else {
            return Ok(content::error_result(&too_many_calls()).into());
        };
        self.shared.wait_for(Readiness::Loaded).await;
        if !self.shared.has_tool(&params.name) {
            self.shared.wait_for(Readiness::Settled).await;
        }
        let caller = stated_caller(caller(&self.run, &context), &context)?;
        let only_paths = stated_paths(&context)?;
        let request = |params| {
            let request = self.call_request(params, caller.clone());
            match only_paths.clone() {
                Some(only_paths) => request.only_paths(only_paths),
                None => request,
            }
        };
        let client = self.calling_client(&params, &caller, &context);
        if !is_modern(&context) {
            let (going, answering) = self
                .start_call(request(params), &context, client, false)
                .await;
            return Ok(answering
                .build(drive_in_session(going, &context).await)?
                .into());
        }
        let state = params.request_state.take();
        let answers = params.input_responses.take();
        // Hashes all arguments, so it is computed only for calls that can prompt or carry an answer.
        let bound = (state.is_some() || client.is_some()).then(|| {
            let only_paths = context.meta.0.0.get(ONLY_PATHS_KEY);
            CallBinding::new(&caller, &params, only_paths)
        });
        let mut known = Vec::new();
        if let (Some(state), Some(bound)) = (state, &bound) {
            let prompter = self
                .shared
                .prompter
                .as_ref()
                .ok_or_else(prompts::unexpected_state)?;
            match prompter.resume(&state, answers, bound)? {
                ResumeAction::Continue(going) => {
                    going
                        .events
                        .subscribe(&context.meta, self.log_level(&context));
                    let answering =
                        self.result_builder(&caller, going.canonical_call.clone(), true);
                    return self.drive(*going, answering, Some(bound), &context).await;
                }
                ResumeAction::AskAgain(again) => return Ok(self.input_required(*again, &context)),
                ResumeAction::Restart(replayed) => known = replayed,
            }
        }
        let (mut going, answering) = self
            .start_call(request(params), &context, client, true)
            .await;
        going.replayed = known;
        self.drive(going, answering, bound.as_ref(), &context).await
    }

    /// Returns how this call can ask its client, if it can.
    fn calling_client(
        &self,
        params: &CallToolRequestParams,
        caller: &Principal,
        context: &RequestContext<RoleServer>,
    ) -> Option<CallingClient> {
        let features = self.client_features(context)?;
        let client = context.client_info();
        Some(CallingClient {
            name: client.map(|client| text::escape_line(&client.name, MAX_CLIENT_NAME)),
            features,
            viewed: self.viewed_request(params, caller, features, &context.id),
        })
    }

    /// Returns the features of the client that may be used.
    pub(crate) fn client_features(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Option<ClientFeatures> {
        let prompter = self.shared.prompter.as_ref()?;
        let version = context.protocol_version();
        let titles = version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25);
        prompter.features_of(context.client_capabilities(), titles)
    }

    async fn start_call(
        &self,
        mut request: CallRequest,
        context: &RequestContext<RoleServer>,
        client: Option<CallingClient>,
        modern: bool,
    ) -> (OngoingCall, ResultBuilder) {
        let held = self.roots_restriction(context).await;
        request.context.restriction = held.as_ref().map(|held| Arc::clone(&held.restriction));
        let prompter = self.shared.prompter.as_ref();
        let opened = prompter
            .zip(client)
            .map(|(prompter, client)| prompter.register(request.id.clone(), client));
        let canonical_call = (self.shared.profile != Profile::Native)
            .then(|| (request.tool.clone(), request.input.clone()));
        let answering = self.result_builder(&request.caller, canonical_call.clone(), modern);
        let registry = self.shared.kernel.registry();
        let entry = registry.get(&request.tool);
        let events = Arc::new(EventRelay::new(
            &request.tool,
            entry.is_some_and(|entry| entry.tool.can_stream),
            &context.meta,
            self.log_level(context),
        ));
        let (kernel, sink) = (Arc::clone(&self.shared.kernel), Arc::clone(&events));
        // The kernel catches panics of backends. This catches those of the pipeline, after which rmcp would not answer.
        let call = AssertUnwindSafe(async move {
            let mut report = kernel.call(request, sink as _).await;
            if let Some(held) = held {
                report.result = report.result.map_err(|error| held.add_advice(error));
            }
            report
        });
        // Workers are limited here because the call may continue in a separate task.
        let call = call.catch_unwind().map(|report| report.map_err(drop));
        let call = with_worker_quota(quota_of(context), Box::pin(call));
        let going = OngoingCall {
            future: CallFuture::Inline(call),
            registration: opened,
            events,
            running: self.shared.running.clone(),
            canonical_call,
            answered: Vec::new(),
            replayed: Vec::new(),
        };
        (going, answering)
    }

    fn result_builder(
        &self,
        caller: &Principal,
        canonical_call: Option<(String, Value)>,
        modern: bool,
    ) -> ResultBuilder {
        ResultBuilder {
            shared: Arc::clone(&self.shared),
            owner: caller.user.clone(),
            canonical_call,
            modern,
        }
    }

    async fn roots_restriction(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Option<RootsRestriction> {
        if !self.roots.are_declared() {
            return None;
        }
        let roots_context = RootsContext {
            policy: self.shared.kernel.policy(),
            own_folders: self.shared.own_folders(),
        };
        self.roots.restriction(&context.peer, &roots_context).await
    }

    /// Drives a call until it ends or needs input, either of which ends the request. A slow call becomes a task if the
    /// client supports tasks.
    async fn drive(
        &self,
        mut going: OngoingCall,
        mut answering: ResultBuilder,
        bound: Option<&CallBinding>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut late = self.task_deadline(context);
        loop {
            let events = Arc::clone(&going.events);
            let next_request = {
                let next = pin!(async {
                    let late = async {
                        match late {
                            Some(late) => sleep_until(late).await,
                            None => std::future::pending().await,
                        }
                    };
                    tokio::select! {
                        biased;
                        next = going.next_requests() => Some(next),
                        () = late => None,
                    }
                });
                events.relay(&context.peer, next).await
            };
            let next_request = match next_request {
                Some(Ok(next_request)) => next_request,
                Some(Err(ended)) => return Ok(answering.build(ended)?.into()),
                None => {
                    match self.shared.tasks.spawn(going, answering) {
                        Ok(mut task) => {
                            self.add_server_info(&mut task.meta, context);
                            return Ok(task.into());
                        }
                        Err(back) => (going, answering) = *back,
                    }
                    late = None;
                    events.subscribe(&context.meta, self.log_level(context));
                    continue;
                }
            };
            events.subscribe(&context.meta, self.log_level(context));
            let Some(next_request) = going.answer_from_replay(next_request) else {
                continue;
            };
            let (Some(prompter), Some(bound)) = (&self.shared.prompter, bound) else {
                continue;
            };
            events.unsubscribe();
            match prompter.suspend(going, next_request, bound) {
                Ok(question) => return Ok(self.input_required(question, context)),
                Err(back) => going = *back,
            }
            events.subscribe(&context.meta, self.log_level(context));
        }
    }

    /// Returns when the call becomes a task, if the client supports tasks. Reads only this capability, without parsing
    /// all of them, because it runs on every call.
    fn task_deadline(&self, context: &RequestContext<RoleServer>) -> Option<Instant> {
        let after = self.shared.tasks_after?;
        let capabilities = context.meta.0.0.get(CAPABILITIES_KEY)?;
        capabilities.get("extensions")?.get(TASKS_EXTENSION_ID)?;
        Some(Instant::now() + after)
    }

    fn input_required(
        &self,
        mut question: InputRequiredResult,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        self.add_server_info(&mut question.meta, context);
        question.into()
    }

    fn call_request(&self, params: CallToolRequestParams, caller: Principal) -> CallRequest {
        let shared = &self.shared;
        let id = shared.next_call_id(&self.run);
        let name = params.name.into_owned();
        let input = Value::Object(params.arguments.unwrap_or_default());
        let (name, input) = if shared.profile == Profile::Native {
            (name, input)
        } else {
            let registry = shared.kernel.registry();
            ProfiledRegistry::new(shared.profile, shared.others, registry.descriptors())
                .accept(&name, input)
        };
        CallRequest::new(id, name, input, caller)
    }
}

/// Drives a call of a client with a session, to which prompts are sent while the call runs.
async fn drive_in_session(mut going: OngoingCall, context: &RequestContext<RoleServer>) -> CallEnd {
    let peer = &context.peer;
    let end = pin!(going.future.wait());
    match &mut going.registration {
        None => going.events.relay(peer, end).await,
        Some(opened) => {
            let end = Box::pin(await_with_requests(&mut opened.requests, peer, end));
            going.events.relay(peer, end).await
        }
    }
}

fn too_many_calls() -> CallError {
    let mut error = CallError::new(ErrorClass::Unavailable, "too many calls are waiting")
        .code("too_many_calls")
        .recommend("wait for results before the next call");
    error.retryable = true;
    error
}
