//! Validation errors as one sentence per field, for a model that retries.

use std::fmt::Write as _;

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::paths::{Location, LocationSegment};
use jsonschema::{ValidationError, Validator};
use serde_json::Value;
use toolhost_contract::{CallError, ErrorClass, text};

use super::input_shape::follow;

/// Maximum number of reported problems.
const MAX_PROBLEMS: usize = 5;
const MAX_STEPS_FOR_ALL: u64 = 200_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) path: String,
    pub(super) reason: String,
    /// Schema of the field, for the recommendation.
    pub(super) schema: Option<String>,
}

impl Problem {
    pub(super) fn new(path: &(impl ToString + ?Sized), reason: impl Into<String>) -> Self {
        Self {
            path: text::escape_line(&path.to_string(), 200),
            reason: reason.into(),
            schema: None,
        }
    }
}

/// Adds the errors of the validator to the problems that the repair found.
pub(super) fn explain(
    validator: &Validator,
    schema: &Value,
    value: &Value,
    steps: u64,
    mut problems: Vec<Problem>,
) -> Vec<Problem> {
    // All errors of a large value could fill the memory, so only the first one is reported.
    let (all, first) = if steps <= MAX_STEPS_FOR_ALL {
        (Some(validator.iter_errors(value)), None)
    } else {
        (None, validator.validate(value).err())
    };
    for error in all.into_iter().flatten().chain(first) {
        if problems.len() > MAX_PROBLEMS {
            break;
        }
        match error.kind() {
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let parent = path(error.instance_path());
                for name in unexpected {
                    let problem = Problem::new(&join(&parent, name), "unknown parameter");
                    if problems.iter().all(|old| old.path != problem.path) {
                        problems.push(problem);
                    }
                }
            }
            // If no member is allowed at all, the validator does not name the unexpected one, so it is found here.
            Kind::FalseSchema if !problems.is_empty() => {}
            kind => problems.push(problem(&error, kind, schema)),
        }
    }
    problems
}

/// Creates one error from all problems.
pub(super) fn failed(class: ErrorClass, summary: &str, problems: Vec<Problem>) -> CallError {
    let mut message = format!("{summary}: ");
    let more = problems.len().saturating_sub(MAX_PROBLEMS);
    let mut recommendations = Vec::new();
    for (
        index,
        Problem {
            path,
            reason,
            schema,
        },
    ) in problems.into_iter().take(MAX_PROBLEMS).enumerate()
    {
        let separator = if index == 0 { "" } else { "; " };
        let _ = write!(message, "{separator}{path}: {reason}");
        if let Some(schema) = schema {
            let recommendation = format!("schema of {path}: {schema}");
            if !recommendations.contains(&recommendation) {
                recommendations.push(recommendation);
            }
        }
    }
    if more > 0 {
        message.push_str("; and more");
    }
    CallError {
        recommendations,
        ..CallError::new(class, message)
    }
}

fn problem(error: &ValidationError<'_>, kind: &Kind, root: &Value) -> Problem {
    let location = error.schema_path().as_str();
    let around = location
        .rsplit_once('/')
        .and_then(|(parent, _)| root.pointer(parent));
    let mut path = path(error.instance_path());
    // A `false` schema has no content, and its parent describes something else.
    let mut field = around.filter(|_| !matches!(kind, Kind::FalseSchema));
    if let Kind::Required {
        property: Value::String(name),
    } = kind
    {
        path = join(&path, name);
        field = around.and_then(|schema| schema.get("properties")?.get(name));
    }
    let field = field.map(|schema| follow(root, schema).unwrap_or(schema));
    // The schema of the whole input would be too long to help.
    let field = field.filter(|schema| !std::ptr::eq(*schema, root));
    let path = if path.is_empty() { "input" } else { &path };
    let schema = field.map(|schema| text::escape_line(&for_model(schema).to_string(), 500));
    Problem {
        schema,
        ..Problem::new(path, reason(error, kind))
    }
}

fn reason(error: &ValidationError<'_>, kind: &Kind) -> String {
    let got = show(error.instance());
    let size = || match &**error.instance() {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    match kind {
        Kind::Required { .. } => "is required".to_owned(),
        Kind::Type {
            kind: TypeKind::Single(kind),
        } => format!("expected {kind}, got {got}"),
        Kind::Type {
            kind: TypeKind::Multiple(kinds),
        } => {
            let kinds: Vec<_> = kinds.iter().map(|kind| kind.to_string()).collect();
            format!("expected {}, got {got}", kinds.join(" or "))
        }
        Kind::Enum { options } => {
            let options: Vec<_> = options.as_array().into_iter().flatten().map(show).collect();
            format!(
                "expected one of {}, got {got}",
                list(options.iter().map(String::as_str))
            )
        }
        Kind::Constant { expected_value } => {
            format!("expected {}, got {got}", show(expected_value))
        }
        Kind::Minimum { limit } => format!("expected at least {limit}, got {got}"),
        Kind::Maximum { limit } => format!("expected at most {limit}, got {got}"),
        Kind::ExclusiveMinimum { limit } => format!("expected more than {limit}, got {got}"),
        Kind::ExclusiveMaximum { limit } => format!("expected less than {limit}, got {got}"),
        Kind::MultipleOf { multiple_of } => {
            format!("expected a multiple of {multiple_of}, got {got}")
        }
        Kind::MinLength { limit } => {
            format!("expected at least {limit} characters, got {}", size())
        }
        Kind::MaxLength { limit } => format!("expected at most {limit} characters, got {}", size()),
        Kind::MinItems { limit } => format!("expected at least {limit} items, got {}", size()),
        Kind::MaxItems { limit } => format!("expected at most {limit} items, got {}", size()),
        Kind::MinProperties { limit } => {
            format!("expected at least {limit} members, got {}", size())
        }
        Kind::MaxProperties { limit } => {
            format!("expected at most {limit} members, got {}", size())
        }
        Kind::Not { .. } => format!("matches a form that its schema forbids, got {got}"),
        Kind::Contains => "expected an item that matches `contains` in its schema".to_owned(),
        Kind::UniqueItems => "expected unique items".to_owned(),
        Kind::Pattern { pattern } => {
            format!(
                "expected text that matches the pattern {}, got {got}",
                text::escape_line(pattern, 100)
            )
        }
        Kind::AnyOf { .. } | Kind::OneOfNotValid { .. } => {
            format!("matches none of the forms that its schema allows, got {got}")
        }
        Kind::OneOfMultipleValid { .. } => {
            "matches more than one of the forms in `oneOf`".to_owned()
        }
        Kind::FalseSchema => "is not allowed".to_owned(),
        _ => text::escape_line(&error.masked_with("the value").to_string(), 200),
    }
}

/// Formats a value briefly; text is quoted, escaped and shortened.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", text::escape_line(text, 60)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Joins up to ten names with commas.
pub(super) fn list<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names = names.map(|name| text::escape_line(name, 60));
    let mut text = names.by_ref().take(10).collect::<Vec<_>>().join(", ");
    let more = names.count();
    if more > 0 {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// Formats a member as `a.b`, or as `a["odd name"]` if it could be misread.
pub(super) fn member(first: bool, name: &str) -> String {
    let plain = !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$' | '@'));
    match (plain, first) {
        (true, true) => text::escape_line(name, 80),
        (true, false) => format!(".{}", text::escape_line(name, 80)),
        (false, _) => format!("[\"{}\"]", text::escape_line(name, 80)),
    }
}

fn join(parent: &str, name: &str) -> String {
    format!("{parent}{}", member(parent.is_empty(), name))
}

fn path(location: &Location) -> String {
    location
        .segments()
        .fold(String::new(), |path, segment| match segment {
            LocationSegment::Property(name) => join(&path, &name),
            LocationSegment::Index(index) => format!("{path}[{index}]"),
        })
}

/// Returns the schema without keywords that only the host uses.
fn for_model(schema: &Value) -> Value {
    let mut shown = schema.clone();
    if let Some(keywords) = shown.as_object_mut() {
        keywords.retain(|keyword, _| !keyword.starts_with("x-"));
    }
    shown
}
