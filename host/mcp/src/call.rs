//! Handling of `tools/call` requests.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, InputRequiredResult, ProtocolVersion,
    TASKS_EXTENSION_ID,
};
use rmcp::service::RequestContext;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use toolhost_contract::profile::Profile;
use toolhost_contract::{CallError, ErrorClass, Principal};
use toolhost_kernel::CallRequest;

use crate::answer::Answering;
use crate::ask::{Abilities, Bound, Ended, Flow, Going, Returned, push_all};
use crate::events::Events;
use crate::http::{caller, fairly, share};
use crate::roots::{Ground, Held};
use crate::server::{Server, is_modern};
use crate::{Readiness, ask, content};

const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

impl Server {
    pub(crate) async fn call(
        &self,
        mut params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(_place) = self.line.enter().await else {
            return Ok(content::failed(&busy()).into());
        };
        self.shared.reached(Readiness::Loaded).await;
        if !self.shared.knows(&params.name) {
            self.shared.reached(Readiness::Settled).await;
        }
        let caller = caller(&self.session, &context);
        if !is_modern(&context) {
            let abilities = self.abilities(&context);
            let (going, answering) = self.begin(params, caller, &context, abilities, false).await;
            return Ok(answering.answer(pushing(going, &context).await)?.into());
        }
        let state = params.request_state.take();
        let answers = params.input_responses.take();
        let abilities = self.abilities(&context);
        // Hashes all arguments, so it is computed only for calls that can prompt or carry an answer.
        let bound = (state.is_some() || abilities.is_some()).then(|| Bound::to(&caller, &params));
        let mut known = Vec::new();
        if let (Some(state), Some(bound)) = (state, &bound) {
            let desk = self.shared.desk.as_ref().ok_or_else(ask::refused)?;
            match desk.come_back(&state, answers, bound)? {
                Returned::Call(going) => {
                    going.events.listen(&context.meta, self.log_level(&context));
                    let answering = self.answering(&caller, going.asked.clone(), true);
                    return self.go_on(*going, answering, Some(bound), &context).await;
                }
                Returned::Again(again) => return Ok(self.asks(*again, &context)),
                Returned::Anew(said) => known = said,
            }
        }
        let (mut going, answering) = self.begin(params, caller, &context, abilities, true).await;
        going.known = known;
        self.go_on(going, answering, bound.as_ref(), &context).await
    }

    /// Returns the features of the client that may be used.
    fn abilities(&self, context: &RequestContext<RoleServer>) -> Option<Abilities> {
        let desk = self.shared.desk.as_ref()?;
        let version = context.protocol_version();
        let titles = version.is_some_and(|version| version >= ProtocolVersion::V_2025_11_25);
        desk.abilities(context.client_capabilities(), titles)
    }

    async fn begin(
        &self,
        params: CallToolRequestParams,
        caller: Principal,
        context: &RequestContext<RoleServer>,
        abilities: Option<Abilities>,
        modern: bool,
    ) -> (Going, Answering) {
        let mut request = self.request(params, caller);
        let held = self.held(context).await;
        request.within.restriction = held.as_ref().map(|held| Arc::clone(&held.restriction));
        let desk = self.shared.desk.as_ref();
        let opened = desk.zip(abilities).map(|(desk, abilities)| {
            let client = context.client_info();
            let name = client.as_ref().map(|client| client.name.as_str());
            desk.open(request.id.clone(), name, abilities)
        });
        let asked = (self.shared.profile != Profile::Native)
            .then(|| (request.tool.clone(), request.input.clone()));
        let answering = self.answering(&request.caller, asked.clone(), modern);
        let events = Arc::new(Events::new(
            &request.tool,
            &context.meta,
            self.log_level(context),
        ));
        let (kernel, sink) = (Arc::clone(&self.shared.kernel), Arc::clone(&events));
        // The kernel catches panics of backends. This catches those of the pipeline, after which rmcp would not answer.
        let call = AssertUnwindSafe(async move {
            let mut report = kernel.call(request, sink as _).await;
            if let Some(held) = held {
                report.result = report.result.map_err(|error| held.explain(error));
            }
            report
        });
        // Workers are limited here because the call may continue in a separate task.
        let call = fairly(share(context), call.catch_unwind());
        let call = call.map(|report| report.map_err(drop));
        let going = Going {
            flow: Flow::Here(Box::pin(call)),
            opened,
            events,
            asked,
            said: Vec::new(),
            known: Vec::new(),
        };
        (going, answering)
    }

    fn answering(
        &self,
        caller: &Principal,
        asked: Option<(String, Value)>,
        modern: bool,
    ) -> Answering {
        Answering {
            shared: Arc::clone(&self.shared),
            owner: caller.user.clone(),
            asked,
            modern,
        }
    }

    async fn held(&self, context: &RequestContext<RoleServer>) -> Option<Held> {
        if !self.roots.are_declared() {
            return None;
        }
        let ground = Ground {
            policy: self.shared.kernel.policy(),
            own: self.shared.own_folders(),
        };
        self.roots.held(&context.peer, &ground).await
    }

    /// Drives a call until it ends or needs input, either of which ends the request. A slow call becomes a task if the
    /// client supports tasks.
    async fn go_on(
        &self,
        mut going: Going,
        mut answering: Answering,
        bound: Option<&Bound>,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut late = self.late(context);
        loop {
            let events = Arc::clone(&going.events);
            let next = async {
                let late = async {
                    match late {
                        Some(late) => sleep_until(late).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    biased;
                    next = going.next() => Some(next),
                    () = late => None,
                }
            };
            let wish = match events.relay(&context.peer, next).await {
                Some(Ok(wish)) => wish,
                Some(Err(ended)) => return Ok(answering.answer(ended)?.into()),
                None => {
                    match self.shared.tasks.take(going, answering) {
                        Ok(mut task) => {
                            self.signed(&mut task.meta, context);
                            return Ok(task.into());
                        }
                        Err(back) => (going, answering) = *back,
                    }
                    late = None;
                    events.listen(&context.meta, self.log_level(context));
                    continue;
                }
            };
            events.listen(&context.meta, self.log_level(context));
            let Some(wish) = going.answer_known(wish) else {
                continue;
            };
            let (Some(desk), Some(bound)) = (&self.shared.desk, bound) else {
                continue;
            };
            events.mute();
            match desk.park(going, wish, bound) {
                Ok(question) => return Ok(self.asks(question, context)),
                Err(back) => going = *back,
            }
            events.listen(&context.meta, self.log_level(context));
        }
    }

    /// Returns when the call becomes a task, if the client supports tasks. Reads only this capability, without parsing
    /// all of them, because it runs on every call.
    fn late(&self, context: &RequestContext<RoleServer>) -> Option<Instant> {
        let after = self.shared.tasks_after?;
        let capabilities = context.meta.0.0.get(CAPABILITIES)?;
        capabilities.get("extensions")?.get(TASKS_EXTENSION_ID)?;
        Some(Instant::now() + after)
    }

    fn asks(
        &self,
        mut question: InputRequiredResult,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResponse {
        self.signed(&mut question.meta, context);
        question.into()
    }

    fn request(&self, params: CallToolRequestParams, caller: Principal) -> CallRequest {
        let shared = &self.shared;
        let id = shared.next_call(&self.session);
        let name = params.name.into_owned();
        let input = Value::Object(params.arguments.unwrap_or_default());
        let (name, input) = if shared.profile == Profile::Native {
            (name, input)
        } else {
            let registry = shared.kernel.registry();
            registry
                .lens(shared.profile, shared.others)
                .accept(&name, input)
        };
        CallRequest::new(id, name, input, caller)
    }
}

/// Drives a call of a client with a session, to which prompts are sent while the call runs.
async fn pushing(mut going: Going, context: &RequestContext<RoleServer>) -> Ended {
    let peer = &context.peer;
    let end = going.flow.end();
    match &mut going.opened {
        None => going.events.relay(peer, end).await,
        Some(opened) => {
            let end = push_all(&mut opened.wishes, peer, end);
            going.events.relay(peer, end).await
        }
    }
}

fn busy() -> CallError {
    let mut error = CallError::new(ErrorClass::Unavailable, "too many calls are waiting")
        .code("too_many_calls")
        .recommend("wait for results before the next call");
    error.retryable = true;
    error
}
