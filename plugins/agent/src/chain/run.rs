//! Runs the steps of a chain in order and reports their results.

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{count, inline, truncate};

use super::reference::StepResult;
use super::{OnError, PlannedStep};

const MOST_RESULT_CHARS: usize = 30_000;
const MOST_STEP_CHARS: usize = 4000;
const MOST_STEP_BYTES: usize = 16 << 10;
/// Limit of a step's stored text and structured result, in bytes each.
const MAX_KEPT_BYTES: usize = 1 << 20;

/// How a step ended.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    Completed,
    /// It was not run, or it returned an error.
    Failed,
    /// It depends on a failed step.
    Skipped,
    /// The chain ended before it.
    NotRun,
}

/// One step.
#[data]
pub struct StepReport {
    /// Name of the tool.
    pub tool: String,
    /// How it ended.
    pub status: StepState,
    /// One-line summary.
    pub summary: String,
    /// Its text, cut at 4000 characters.
    pub text: Option<String>,
    /// Its structured output, unless larger than 16 KiB.
    pub structured: Value,
}

/// Result of a chain.
#[data]
pub struct ChainReport {
    /// Steps in order.
    pub steps: Vec<StepReport>,
    /// Number of completed steps.
    pub completed: usize,
    /// Number of failed steps.
    pub failed: usize,
}

pub struct Chain<'a> {
    pub cx: &'a Context,
    pub on_error: OnError,
    pub done: Vec<StepReport>,
}

impl Chain<'_> {
    pub fn run(mut self, plan: &[PlannedStep]) -> Result<Outcome> {
        let mut left: Vec<Option<StepResult>> = Vec::new();
        // The last completed step, whose result is the result of the chain.
        let mut last: Option<(usize, Vec<Part>)> = None;
        for (position, step) in plan.iter().enumerate() {
            self.cx.check()?;
            self.cx.progress(&format!(
                "step {position} of {}: {}",
                plan.len(),
                inline(&step.tool, 64)
            ));
            let stopped = self.on_error == OnError::Stop
                && self
                    .done
                    .iter()
                    .any(|done| done.status == StepState::Failed);
            let missing = step.needs.iter().find(|needed| left[**needed].is_none());
            let (done, leaves) = match missing {
                _ if stopped => (step.ended(StepState::NotRun, "not run"), None),
                Some(missing) => (
                    step.ended(
                        StepState::Skipped,
                        &format!("skipped: it needs step {missing}"),
                    ),
                    None,
                ),
                None => match self.call(step, &left)? {
                    Ok(outcome) => {
                        let (done, leaves) = step.describe_outcome(&outcome);
                        if leaves.is_some() {
                            last = Some((position, outcome.llm));
                        }
                        (done, leaves)
                    }
                    Err(reason) => (step.ended(StepState::Failed, &reason), None),
                },
            };
            self.done.push(done);
            left.push(leaves);
        }
        Ok(self.report(last))
    }

    /// Calls the tool. The outer error ends the chain, the inner one only the step.
    fn call(
        &self,
        step: &PlannedStep,
        left: &[Option<StepResult>],
    ) -> Result<Result<Outcome, String>> {
        let mut args = match step.args.fill(left) {
            Ok(args) => args,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Some(with) = &step.with {
            // The first step has no `with`, and a step without a result skips this one.
            if let Some((Some(before), earlier)) = left.split_last() {
                args[with] = match before.text(earlier.len()) {
                    Ok(text) => text.into(),
                    Err(reason) => return Ok(Err(reason)),
                };
            }
        }
        match self.cx.call_tool(&step.tool, &args) {
            Ok(outcome) => Ok(Ok(outcome)),
            // Cancelling the chain cancels all of its steps.
            Err(error) if error.kind == ErrorKind::Interrupted && self.cx.check().is_err() => {
                Err(error)
            }
            Err(error) => Ok(Err(reason(&error))),
        }
    }

    fn report(self, last: Option<(usize, Vec<Part>)>) -> Outcome {
        let of = |state: StepState| self.done.iter().filter(|done| done.status == state).count();
        let (completed, failed) = (of(StepState::Completed), of(StepState::Failed));
        let undone = self.done.len() - completed - failed;
        let mut line = format!("{}: {completed} completed", count(self.done.len(), "step"));
        for (number, state) in [(failed, "failed"), (undone, "not run")] {
            if number > 0 {
                push!(line, ", {number} {state}");
            }
        }
        let mut lines = vec![line.clone()];
        lines.extend(self.done.iter().enumerate().map(|(position, done)| {
            format!("{position}. {}: {}", inline(&done.tool, 64), done.summary)
        }));
        let first = self
            .done
            .iter()
            .position(|done| done.status == StepState::Failed);
        // The text of the first failed step explains the failure.
        let failure =
            first.and_then(|position| Some((position, self.done[position].text.as_ref()?)));
        if let Some((position, failure)) = failure.filter(|(_, failure)| !failure.is_empty()) {
            lines.push(format!("\nstep {position} returned:\n{failure}"));
        }
        let error = first
            .filter(|_| self.on_error == OnError::Stop || completed == 0)
            .map(|position| {
                let StepReport { tool, summary, .. } = &self.done[position];
                Error::failed(format!("step {position} ({}) {summary}", inline(tool, 64)))
                    .code("chain_step_failed")
            });
        let mut others = Vec::new();
        if let Some((position, parts)) = last {
            let (texts, rest): (Vec<Part>, Vec<Part>) =
                parts.into_iter().partition(|part| part.text.is_some());
            others = rest;
            let text: Vec<String> = texts.into_iter().filter_map(|part| part.text).collect();
            lines.push(format!(
                "\nresult of step {position}:\n{}",
                truncate(&text.join("\n"), MOST_RESULT_CHARS)
            ));
        }
        let mut outcome = Outcome::text(lines.join("\n")).summary(line);
        outcome.llm.extend(others);
        outcome.error = error;
        outcome.structured(&ChainReport {
            steps: self.done,
            completed,
            failed,
        })
    }
}

impl PlannedStep {
    fn ended(&self, status: StepState, summary: &str) -> StepReport {
        let (tool, summary) = (inline(&self.tool, 64), inline(summary, 400));
        let summary = if status == StepState::Failed {
            format!("failed: {summary}")
        } else {
            summary
        };
        StepReport {
            tool,
            status,
            summary,
            text: None,
            structured: Value::Null,
        }
    }

    /// Converts an outcome. An outcome that is an error leaves no result for later steps.
    fn describe_outcome(&self, outcome: &Outcome) -> (StepReport, Option<StepResult>) {
        let texts: Vec<&str> = outcome
            .llm
            .iter()
            .filter_map(|part| part.text.as_deref())
            .collect();
        let structured = outcome.structured.clone().unwrap_or_default();
        let mut text = texts.join("\n");
        if texts.is_empty() && !structured.is_null() {
            text = structured.to_string();
        }
        let shown = Some(truncate(&text, MOST_STEP_CHARS));
        let size = structured.to_string().len();
        let data = if size <= MOST_STEP_BYTES {
            structured.clone()
        } else {
            Value::Null
        };
        if let Some(error) = &outcome.error {
            let done = self.ended(StepState::Failed, &reason(error));
            return (
                StepReport {
                    text: shown,
                    structured: data,
                    ..done
                },
                None,
            );
        }
        let summary = match &outcome.summary {
            Some(summary) => summary.clone(),
            None => text
                .lines()
                .find(|line| !line.trim().is_empty())
                .unwrap_or("done")
                .to_owned(),
        };
        let summary = inline(&summary, 200);
        let structured = (size <= MAX_KEPT_BYTES).then_some(structured);
        let done = self.ended(StepState::Completed, &summary);
        (
            StepReport {
                text: shown,
                structured: data,
                ..done
            },
            Some(StepResult {
                text: (text.len() <= MAX_KEPT_BYTES).then_some(text),
                structured,
                summary,
            }),
        )
    }
}

fn reason(error: &Error) -> String {
    match &error.code {
        Some(code) => format!("{} ({code})", error.message),
        None => error.message.clone(),
    }
}
