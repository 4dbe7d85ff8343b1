//! Rendering of call results in the format of a profile.

mod gemini;
mod kode;
mod lines;
mod pegasus;
mod shape;

use std::borrow::Cow;

use serde_json::Value;

use super::Profile;
use super::mapping::ToolMapping;
use super::notes::has_notes;
use super::params::property;
use super::problems::ErrorNames;
use super::profiled_registry::ProfiledRegistry;
use crate::events;
use toolhost_contract::{CallError, Outcome, Part};

use shape::{ResultShape, ShapeBody, ShapeContext};

/// Tools whose text output marks untrusted content. Their structured value would present that content without the mark.
const UNTRUSTED_TEXT_TOOLS: &[&str] = &["web_fetch"];

/// A result for the model and for the client that forwards it.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedResult {
    pub parts: Vec<Part>,
    pub structured: Option<Value>,
    pub is_error: bool,
}

/// Returns whether the profile changes the structure of this tool's results.
pub(super) fn has_shape(profile: Profile, tool: &str) -> bool {
    let shapes = shapes(profile);
    let is_marked = !shapes.is_empty() && UNTRUSTED_TEXT_TOOLS.contains(&tool);
    is_marked || shapes.iter().any(|shape| shape.tool == tool)
}

fn shapes(profile: Profile) -> &'static [ResultShape] {
    match profile {
        Profile::Native | Profile::Claude | Profile::Sema | Profile::Gemini => &[],
        Profile::Kode => kode::SHAPES,
        Profile::Pegasus => pegasus::SHAPES,
    }
}

impl ProfiledRegistry<'_> {
    /// Renders a result. `canonical` and `input` are the values that [`ProfiledRegistry::accept`] returned for the
    /// call.
    pub fn render(
        &self,
        canonical: &str,
        input: &Value,
        result: &Result<Outcome, CallError>,
    ) -> RenderedResult {
        if self.profile == Profile::Native {
            return render_unchanged(result);
        }
        let row = self.called_mapping(canonical, input);
        let result = self.with_agent_names(canonical, row, result);
        let result: &Result<Outcome, CallError> = &result;
        let facts = ShapeContext {
            name: row.map_or(canonical, |row| row.name),
            input,
        };
        match self.profile {
            Profile::Native | Profile::Claude | Profile::Sema => render_unchanged(result),
            Profile::Gemini => gemini::render(canonical, &facts, result),
            Profile::Kode | Profile::Pegasus => self.render_shape(canonical, &facts, result),
        }
    }

    /// Returns the mapping that the model called. Several agent tools can map to one canonical tool and differ in their
    /// defaults.
    pub(super) fn called_mapping(
        &self,
        canonical: &str,
        input: &Value,
    ) -> Option<&'static ToolMapping> {
        let schema = &self.tool(canonical)?.input_schema;
        let fits = |row: &&ToolMapping| {
            row.defaults.iter().all(|(name, fill)| {
                match (property(schema, name), fill.constant()) {
                    (Some((name, _)), Some(value)) => input.get(name) == Some(&value),
                    _ => true,
                }
            })
        };
        let mut rows = self.mappings(canonical);
        let first = rows.next()?;
        let rest = rows.find(fits);
        Some(if fits(&first) {
            first
        } else {
            rest.unwrap_or(first)
        })
    }

    /// Replaces tool and parameter names in error messages, recommendations and notes, because the model does not know
    /// the canonical names. Advice about tools that the model cannot call is left out.
    fn with_agent_names<'r>(
        &self,
        canonical: &str,
        row: Option<&ToolMapping>,
        result: &'r Result<Outcome, CallError>,
    ) -> Cow<'r, Result<Outcome, CallError>> {
        if let Ok(Outcome { error: None, .. }) = result
            && !has_notes(canonical)
        {
            return Cow::Borrowed(result);
        }
        Cow::Owned(match result {
            Ok(outcome) => {
                let mut outcome = outcome.clone();
                self.reword_notes(canonical, row, &mut outcome);
                if let Some(error) = &mut outcome.error {
                    let names = self.error_names(row);
                    error.message = names.message(&error.message);
                    let facts = outcome.structured.as_ref().unwrap_or(&Value::Null);
                    error.recommendations = self.advice(row, &names, &error.recommendations, facts);
                }
                Ok(outcome)
            }
            Err(error) => {
                let mut error = error.clone();
                let names = self.error_names(row);
                error.message = names.message(&error.message);
                error.recommendations =
                    self.advice(row, &names, &error.recommendations, &Value::Null);
                Err(error)
            }
        })
    }

    fn advice(
        &self,
        row: Option<&ToolMapping>,
        names: &ErrorNames<'_, '_>,
        recommendations: &[String],
        facts: &Value,
    ) -> Vec<String> {
        let advice = recommendations.iter().filter_map(|text| {
            let schema = names.schema_advice(text);
            schema.or_else(|| self.note(row, text, facts, &names.listed))
        });
        advice.collect()
    }

    /// Renders a result for Kode and Pegasus, which return values instead of prose where possible.
    fn render_shape(
        &self,
        canonical: &str,
        facts: &ShapeContext,
        result: &Result<Outcome, CallError>,
    ) -> RenderedResult {
        let shape = shapes(self.profile)
            .iter()
            .find(|shape| shape.tool == canonical);
        let mut answered = None;
        if let (Some(shape), Ok(outcome)) = (shape, result)
            && (outcome.error.is_none() || shape.includes_failures)
            // The members do not represent images.
            && !(matches!(shape.body, ShapeBody::Content { .. }) && outcome.llm.iter().any(is_media))
        {
            answered = outcome
                .structured
                .as_ref()
                .and_then(|value| shape.apply(facts, value));
            // The members may not contain the reason of the failure.
            if let (Some(Value::Object(answered)), Some(failure)) = (&mut answered, &outcome.error)
                && !failure.recommendations.is_empty()
            {
                let advice = failure.recommendations.as_slice();
                answered.insert("recommendations".to_owned(), advice.into());
            }
        }
        let is_error = match result {
            Ok(outcome) => outcome.is_error(),
            Err(_) => true,
        };
        let value = answered.unwrap_or_else(|| match (self.profile, result) {
            (_, Ok(outcome))
                if outcome.error.is_none()
                    && (UNTRUSTED_TEXT_TOOLS.contains(&canonical)
                        || outcome.llm.iter().any(is_media)) =>
            {
                result_text(outcome).into()
            }
            (Profile::Kode, _) => events::kode::content(facts.name, result, None),
            (_, Ok(outcome)) => match &outcome.error {
                None => outcome
                    .structured
                    .clone()
                    .unwrap_or_else(|| result_text(outcome).into()),
                Some(failure) => failure.for_model().into(),
            },
            (_, Err(error)) => {
                let mut error = error.clone();
                error.message = events::pegasus::tool_error(facts.name, &error).message;
                error.for_model().into()
            }
        });
        // In Kode, a result can itself represent a failure.
        let is_refused = self.profile == Profile::Kode && value["ok"] == false;
        let mut parts = vec![Part::Text(match &value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })];
        if let Ok(outcome) = result {
            parts.extend(outcome.llm.iter().filter(|part| is_media(part)).cloned());
        }
        RenderedResult {
            parts,
            structured: Some(value).filter(Value::is_object),
            is_error: is_error || is_refused,
        }
    }
}

/// Renders a result unchanged: its parts, or the text that represents it.
fn render_unchanged(result: &Result<Outcome, CallError>) -> RenderedResult {
    match result {
        Ok(outcome) => {
            let mut parts = outcome.llm.clone();
            if parts.is_empty() {
                parts.push(Part::Text(outcome.model_text()));
            }
            RenderedResult {
                parts,
                structured: outcome.structured.clone(),
                is_error: outcome.is_error(),
            }
        }
        Err(error) => RenderedResult {
            parts: vec![Part::Text(error.for_model())],
            structured: None,
            is_error: true,
        },
    }
}

fn is_media(part: &Part) -> bool {
    match part {
        Part::Image { .. } | Part::Audio { .. } | Part::File { .. } | Part::ResourceLink { .. } => {
            true
        }
        Part::Text(_) | Part::Json(_) | Part::Other { .. } => false,
    }
}

/// Returns the text of a result without placeholders for media, which follow as parts.
fn result_text(outcome: &Outcome) -> String {
    let texts: Vec<&str> = outcome
        .llm
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    if texts.is_empty() {
        outcome.model_text()
    } else {
        texts.join("\n")
    }
}
