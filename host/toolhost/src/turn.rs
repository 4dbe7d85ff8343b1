//! Conversion between turns in the format of a model API and calls.

use std::collections::HashSet;

use serde_json::Value;
use toolhost_contract::{CallError, CallId, ErrorClass, ToolName};
use toolhost_formats::model::{
    AnsweredCall, Format, FormatError, FormattedTools, ListedTool, ModelCall, NameMap, restore,
};
use toolhost_formats::profile::{
    Profile, ProfiledRegistry, RenderedResult, ToolFailure, UnmappedTools,
};
use toolhost_kernel::{BatchCall, BatchError, Kernel, Report};

use crate::load::Host;

/// The profile that the model uses, and whether it sees other tools.
pub type ProfileView = (Profile, UnmappedTools);

/// Why a turn was not run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TurnError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Batch(#[from] BatchError),
}

/// What follows a model turn.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnOutcome {
    /// The turn has calls. These are the additions to the next request, with a result for each call.
    Results(Value),
    /// The turn has no calls and ended normally.
    Done,
    /// The turn has no calls and did not end normally, so the model is not done.
    Stopped {
        /// The API's stop reason, escaped and truncated, such as `MAX_TOKENS`.
        reason: String,
    },
}

impl Host {
    /// The tools in the request format of a model API.
    pub fn tools_for(&self, format: Format) -> FormattedTools {
        let registry = self.kernel.registry();
        let (profile, others) = self.settings.profile_view;
        let shown = ProfiledRegistry::new(profile, others, registry.descriptors()).list();
        let tools: Vec<ListedTool> = shown
            .iter()
            .filter_map(|one| {
                let entry = registry.get(one.canonical.as_str())?;
                self.kernel.is_listed(entry).then(|| ListedTool {
                    name: &one.name,
                    tool: &one.descriptor,
                    hints: entry.hints(),
                })
            })
            .collect();
        format.tool_list(&tools, false)
    }

    /// Runs one model turn. Takes the API's response.
    pub async fn turn(&self, format: Format, response: &Value) -> Result<TurnOutcome, TurnError> {
        let wanted = format.read_turn(response)?;
        if wanted.is_empty() {
            return Ok(match format.abnormal_stop_reason(response) {
                Some(reason) => TurnOutcome::Stopped { reason },
                None => TurnOutcome::Done,
            });
        }
        let view = self.settings.profile_view;
        let mut calls = calls_of_turn(&self.kernel, view, format, &wanted);
        for call in &mut calls {
            // Some APIs repeat ids in each turn, but records need unique ids.
            call.id = CallId(format!("c-{}", toolhost_kernel::id::random()));
        }
        let inputs: Vec<_> = calls
            .iter()
            .map(|call| (call.tool.clone(), call.input.clone()))
            .collect();
        let reports = self.batch(calls).await?;
        Ok(TurnOutcome::Results(format_answer(
            &self.kernel,
            view,
            format,
            &wanted,
            &inputs,
            &reports,
        )))
    }
}

/// Maximum length of an API's id that becomes part of the call id.
const MAX_ID_BYTES: usize = 64;

/// The calls to run, in call order, with inputs converted to the tools' schemas.
pub fn calls_of_turn(
    kernel: &Kernel,
    (profile, others): ProfileView,
    format: Format,
    wanted: &[ModelCall],
) -> Vec<BatchCall> {
    let registry = kernel.registry();
    let shown = ProfiledRegistry::new(profile, others, registry.descriptors()).list();
    let names = NameMap::new(format, shown.iter().map(|tool| tool.name.as_str()));
    let mut ids = HashSet::new();
    let mut calls = Vec::new();
    for (index, call) in wanted.iter().enumerate() {
        if call.error.is_some() {
            continue;
        }
        // The API's ids can be missing or duplicate; call ids cannot.
        let label = call.label();
        let id = if label.len() <= MAX_ID_BYTES && ids.insert(label.clone()) {
            label
        } else {
            format!("#{}", index + 1)
        };
        let name = names.to_tool(&call.name).to_owned();
        let mut input = call.input.clone();
        if let Some(tool) = shown.iter().find(|tool| tool.name == name) {
            restore(&tool.descriptor.input_schema, &mut input);
        }
        calls.push(BatchCall {
            id: CallId(id),
            tool: name,
            only_paths: None,
            input,
        });
    }
    calls
}

/// The result of a call as the model of a profile sees it.
pub struct ProfiledResult<'a> {
    /// The canonical name of the tool.
    pub tool: &'a str,
    pub rendered: RenderedResult,
    pub failure: Option<ToolFailure>,
}

impl<'a> ProfiledResult<'a> {
    /// `tool` and `input`: the canonical name and input with which the call was made.
    pub fn new(
        profiled: &ProfiledRegistry<'_>,
        tool: &'a str,
        input: &Value,
        report: &'a Report,
    ) -> Self {
        let tool = report.tool.as_ref().map_or(tool, ToolName::as_str);
        let rendered = profiled.render(tool, input, &report.result);
        let failure = profiled.tool_failure(tool, input, &rendered, &report.result);
        Self {
            tool,
            rendered,
            failure,
        }
    }
}

/// The API's next input. `calls` and `reports` are those of the calls that ran.
pub fn format_answer(
    kernel: &Kernel,
    (profile, others): ProfileView,
    format: Format,
    wanted: &[ModelCall],
    calls: &[(String, Value)],
    reports: &[Report],
) -> Value {
    let registry = kernel.registry();
    let profiled = ProfiledRegistry::new(profile, others, registry.descriptors());
    let mut ran = calls.iter().zip(reports);
    let results: Vec<_> = wanted
        .iter()
        .map(|call| {
            let refused = |reason: &str| {
                let error = CallError::new(ErrorClass::InvalidInput, reason);
                profiled.render(&call.name, &call.input, &Err(error))
            };
            match (&call.error, &mut ran) {
                (Some(reason), _) => refused(reason),
                (None, ran) => match ran.next() {
                    Some(((tool, input), report)) => {
                        ProfiledResult::new(&profiled, tool, input, report).rendered
                    }
                    None => refused("the call did not run"),
                },
            }
        })
        .collect();
    let answered: Vec<AnsweredCall> = wanted
        .iter()
        .zip(&results)
        .map(|(call, result)| AnsweredCall { call, result })
        .collect();
    format.format_results(&answered)
}
