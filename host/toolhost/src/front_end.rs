//! Front ends of other agent systems: their events with the names of a profile, and their answers to questions.

use std::sync::Arc;

use serde_json::{Value, json};
use toolhost_contract::bus::{BusEvent, EventKind};
use toolhost_contract::lifecycle::Snapshot;
use toolhost_contract::{CallId, Principal};
use toolhost_formats::events::{AnswerError, EventFormat, FrontEnd};
use toolhost_formats::profile::{Profile, ProfiledRegistry};
use toolhost_kernel::{AttributedAnswer, Kernel, QuestionError, RegistryHandle};

use crate::load::Host;
use crate::turn::ProfileView;

/// Converts events to those of a front end. Does not keep the kernel alive.
pub struct FrontEndEvents {
    format: Box<dyn EventFormat>,
    registry: RegistryHandle,
    view: ProfileView,
}

/// Why an answer of a front end was not accepted. The question is still open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrontEndError {
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Question(#[from] QuestionError),
}

impl FrontEndEvents {
    pub fn new(kernel: &Kernel, front_end: FrontEnd, view: ProfileView) -> Self {
        Self {
            format: front_end.format(),
            registry: kernel.registry_handle(),
            view,
        }
    }

    /// Returns the events of the front end, in order. Most events convert to none or one.
    pub fn convert(&mut self, event: &BusEvent) -> Vec<Value> {
        match self.renamed(event) {
            Some(event) => self.format.convert(&event),
            None => self.format.convert(event),
        }
    }

    /// Returns what a front end of Kode-SDK draws for one of its events: the card of a call or of a question. Other
    /// events and other systems have no cards.
    pub fn card(&self, event: &Value) -> Option<Value> {
        self.format.card(event)
    }

    /// Returns the event with the name and input of its call in the profile, if they differ.
    fn renamed(&self, event: &BusEvent) -> Option<BusEvent> {
        if self.view.0 == Profile::Native {
            return None;
        }
        let snapshot = event.snapshot.as_ref()?.json();
        let canonical = snapshot["name"].as_str()?;
        let registry = self.registry.get();
        let (profile, unmapped) = self.view;
        let profiled = ProfiledRegistry::new(profile, unmapped, registry.descriptors());
        let (name, input) = profiled.agent_call(canonical, &snapshot["inputPreview"])?;
        let mut renamed = event.clone();
        let mut members = snapshot.clone();
        members["name"] = json!(name);
        members["inputPreview"] = input;
        renamed.snapshot = Some(Arc::new(Snapshot::from_json(members)));
        match &mut renamed.kind {
            EventKind::PermissionRequest { title, content, .. } => {
                if let Some(display) = title.strip_suffix(&format!("({canonical})")) {
                    *title = format!("{display}({name})");
                }
                if content["tool"] == canonical {
                    content["tool"] = json!(name);
                    let shown = profiled.agent_call(canonical, &content["input"]);
                    if let Some((_, input)) = shown {
                        content["input"] = input;
                    }
                }
            }
            EventKind::CallCompleted { title, .. } if title == canonical => {
                name.clone_into(title);
            }
            _ => {}
        }
        Some(renamed)
    }
}

/// Answers an open question of a call in the session of `caller` with an event of a front end, and returns the call.
/// `by` is the author of the answer in the records.
pub fn answer(
    kernel: &Kernel,
    (front_end, (profile, unmapped)): (FrontEnd, ProfileView),
    caller: &Principal,
    event: &Value,
    by: &str,
) -> Result<CallId, FrontEndError> {
    let answer = front_end.format().parse_answer(event)?;
    let mut pending = kernel.pending();
    pending.retain(|pending| pending.question.is_of(caller));
    let registry = kernel.registry();
    let profiled = ProfiledRegistry::new(profile, unmapped, registry.descriptors());
    let tool = answer.target.tool.as_deref();
    let canonical = tool.map(|tool| profiled.accept(tool, Value::Null).0);
    let waiting = pending
        .iter()
        .map(|pending| (&pending.call, pending.question.tool.as_str()));
    let call = answer.target.find(canonical.as_deref(), waiting)?;
    if let Some(found) = pending.iter().find(|pending| pending.call == call) {
        let question = &found.question;
        let answer = answer
            .decision
            .to_answer(&question.offers, question.changes.as_deref())?;
        let by = by.to_owned();
        kernel.answer(&call, AttributedAnswer { answer, by })?;
    }
    Ok(call)
}

impl Host {
    /// Converts the events of [`Host::events`] to those of a front end.
    pub fn front_end_events(&self, front_end: FrontEnd) -> FrontEndEvents {
        FrontEndEvents::new(&self.kernel, front_end, self.settings.profile_view)
    }

    /// Answers an open question with an event of a front end, and returns its call. The prompter has to leave the
    /// question open until then.
    pub fn answer_event(
        &self,
        front_end: FrontEnd,
        event: &Value,
    ) -> Result<CallId, FrontEndError> {
        let view = self.settings.profile_view;
        let caller = self.caller();
        answer(&self.kernel, (front_end, view), &caller, event, "user")
    }
}
