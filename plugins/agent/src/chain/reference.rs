//! References to results of earlier steps in the input of later ones: `${steps.0.structured.files.0.path}`.

use std::collections::BTreeSet;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json::Map;
use toolhost_sdk::text::{inline, list};

const REFERENCE_START: &str = "${steps.";
/// Size limit of one step's input after substitution, in bytes.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// The stored result of an earlier step.
pub struct StepResult {
    /// `None` if it was too large to keep.
    pub text: Option<String>,
    /// Like `text`.
    pub structured: Option<Value>,
    pub summary: String,
}

impl StepResult {
    /// The text of this result, which is that of step `step`.
    pub fn text(&self, step: usize) -> Result<String, String> {
        let text = self.text.clone();
        text.ok_or_else(|| format!("the text of step {step} was too large to keep"))
    }
}

/// A JSON value whose strings can contain references.
pub enum Template {
    Plain(Value),
    /// The pieces of one string. A string that is a single reference keeps the type of the referenced value.
    Text(Vec<Piece>),
    List(Vec<Template>),
    Members(Vec<(String, Template)>),
}

pub enum Piece {
    Text(String),
    Reference(Reference),
}

pub struct Reference {
    step: usize,
    part: ValueKind,
    path: Vec<String>,
    written: String,
}

#[derive(Clone, Copy)]
enum ValueKind {
    Text,
    Structured,
    Summary,
}

impl Template {
    pub fn parse(value: &Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) if text.contains(REFERENCE_START) => Self::Text(pieces(text)?),
            Value::Array(items) => {
                Self::List(items.iter().map(Self::parse).collect::<Result<_, _>>()?)
            }
            Value::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, value)| Ok((name.clone(), Self::parse(value)?)));
                Self::Members(members.collect::<Result<_, String>>()?)
            }
            plain => Self::Plain(plain.clone()),
        })
    }

    /// The steps it refers to.
    pub fn referenced_steps(&self) -> BTreeSet<usize> {
        match self {
            Self::Plain(_) => BTreeSet::new(),
            Self::Text(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Text(_) => None,
                    Piece::Reference(reference) => Some(reference.step),
                })
                .collect(),
            Self::List(items) => items.iter().flat_map(Self::referenced_steps).collect(),
            Self::Members(members) => members
                .iter()
                .flat_map(|(_, value)| value.referenced_steps())
                .collect(),
        }
    }

    /// The value with all references replaced by the results in `left`.
    pub fn fill(&self, left: &[Option<StepResult>]) -> Result<Value, String> {
        self.put(left, &mut { MAX_INPUT_BYTES })
    }

    fn put(&self, left: &[Option<StepResult>], room: &mut usize) -> Result<Value, String> {
        Ok(match self {
            Self::Plain(value) => value.clone(),
            Self::Text(pieces) => {
                if let [Piece::Reference(reference)] = pieces.as_slice() {
                    let value = reference.value(left)?;
                    take(room, value.to_string().len())?;
                    return Ok(value);
                }
                let mut text = String::new();
                for piece in pieces {
                    let more = match piece {
                        Piece::Text(text) => text.clone(),
                        Piece::Reference(reference) => plain(reference.value(left)?),
                    };
                    take(room, more.len())?;
                    text.push_str(&more);
                }
                Value::String(text)
            }
            Self::List(items) => items
                .iter()
                .map(|item| item.put(left, room))
                .collect::<Result<_, _>>()?,
            Self::Members(members) => {
                let mut filled = Map::new();
                for (name, value) in members {
                    filled.insert(name.clone(), value.put(left, room)?);
                }
                Value::Object(filled)
            }
        })
    }
}

fn take(room: &mut usize, size: usize) -> Result<(), String> {
    *room = room
        .checked_sub(size)
        .ok_or_else(|| format!("its references insert more than {MAX_INPUT_BYTES} bytes"))?;
    Ok(())
}

fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Splits text at its references. `$${steps.` is an escape for `${steps.`; other `${…}` are left for the shell.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(REFERENCE_START) {
        let (before, found) = rest.split_at(start);
        if let Some(before) = before.strip_suffix('$') {
            literal.push_str(before);
            literal.push_str(REFERENCE_START);
            rest = &found[REFERENCE_START.len()..];
            continue;
        }
        let end = found
            .find('}')
            .ok_or_else(|| format!("the reference {:?} has no closing brace", inline(found, 80)))?;
        literal.push_str(before);
        if !literal.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut literal)));
        }
        pieces.push(Piece::Reference(Reference::parse(&found[..=end])?));
        rest = &found[end + 1..];
    }
    literal.push_str(rest);
    if !literal.is_empty() {
        pieces.push(Piece::Text(literal));
    }
    Ok(pieces)
}

impl Reference {
    fn parse(written: &str) -> Result<Self, String> {
        let shown = inline(written, 120);
        let inner = written
            .trim_start_matches(REFERENCE_START)
            .trim_end_matches('}');
        let mut path = inner.split('.');
        let step = path.next().unwrap_or_default().trim();
        let step = step
            .parse()
            .map_err(|_| format!("{shown} does not start with a step number"))?;
        let part = match path.next().unwrap_or_default().trim() {
            "text" => ValueKind::Text,
            "structured" => ValueKind::Structured,
            "summary" => ValueKind::Summary,
            other => {
                let other = inline(other, 40);
                return Err(format!(
                    "{shown} asks for {other:?}; use `text`, `structured` or `summary`"
                ));
            }
        };
        let path: Vec<String> = path.map(|part| part.trim().to_owned()).collect();
        if !path.is_empty() && !matches!(part, ValueKind::Structured) {
            return Err(format!(
                "{shown} selects a member of a string; only `structured` has members"
            ));
        }
        Ok(Self {
            step,
            part,
            path,
            written: shown,
        })
    }

    fn value(&self, left: &[Option<StepResult>]) -> Result<Value, String> {
        let Some(Some(left)) = left.get(self.step) else {
            return Err(format!("step {} has no result", self.step));
        };
        let mut value = match self.part {
            ValueKind::Text => return Ok(left.text(self.step)?.into()),
            ValueKind::Summary => return Ok(left.summary.clone().into()),
            ValueKind::Structured => left
                .structured
                .as_ref()
                .ok_or_else(|| format!("the data of step {} was too large to keep", self.step))?,
        };
        for part in &self.path {
            let next = match value {
                Value::Object(members) => members.get(part),
                Value::Array(items) => part
                    .parse()
                    .ok()
                    .and_then(|position: usize| items.get(position)),
                _ => None,
            };
            value = next.ok_or_else(|| {
                format!(
                    "{}: no {:?} in {}",
                    self.written,
                    inline(part, 40),
                    kind(value)
                )
            })?;
        }
        Ok(value.clone())
    }
}

/// Describes a value for an error message, so that the next attempt can succeed.
fn kind(value: &Value) -> String {
    match value {
        Value::Object(members) => format!(
            "an object with {}",
            list(members.keys().map(String::as_str), 20)
        ),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Null => "null".to_owned(),
        other => format!("{:?}", inline(&other.to_string(), 40)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(args: Value) -> String {
        let left = [
            Some(StepResult {
                text: Some("two\nlines".to_owned()),
                structured: Some(json!({"files": [{"path": "a.rs", "n": 7}], "none": null})),
                summary: "s".to_owned(),
            }),
            None,
        ];
        match Template::parse(&args).and_then(|template| template.fill(&left)) {
            Ok(value) => value.to_string(),
            Err(reason) => reason,
        }
    }

    #[test]
    fn references() {
        for (given, expected) in [
            (json!("${steps.0.structured.files.0.n}"), "7"),
            (
                json!("${steps.0.structured}"),
                r#"{"files":[{"path":"a.rs","n":7}],"none":null}"#,
            ),
            (json!("${steps.0.structured.none}"), "null"),
            (
                json!("see ${steps.0.structured.files.0.path}:${steps.0.structured.files.0.n}"),
                r#""see a.rs:7""#,
            ),
            (
                json!({"a": ["${steps.0.text}", 1]}),
                r#"{"a":["two\nlines",1]}"#,
            ),
            (json!("${steps.0.summary}!"), r#""s!""#),
            (
                json!("$${steps.0.summary} ${HOME} $"),
                r#""${steps.0.summary} ${HOME} $""#,
            ),
            (json!("${HOME}"), r#""${HOME}""#),
            (
                json!("${steps.0.text"),
                r#"the reference "${steps.0.text" has no closing brace"#,
            ),
            (
                json!("${steps.x.text}"),
                "${steps.x.text} does not start with a step number",
            ),
            (
                json!("${steps.-1.text}"),
                "${steps.-1.text} does not start with a step number",
            ),
            (
                json!("${steps.0}"),
                r#"${steps.0} asks for ""; use `text`, `structured` or `summary`"#,
            ),
            (
                json!("${steps.0.text.x}"),
                "${steps.0.text.x} selects a member of a string; only `structured` has members",
            ),
            (
                json!("${steps.0.structured.fies}"),
                r#"${steps.0.structured.fies}: no "fies" in an object with files, none"#,
            ),
            (
                json!("${steps.0.structured.files.1}"),
                r#"${steps.0.structured.files.1}: no "1" in a list of 1"#,
            ),
            (
                json!("${steps.0.structured.none.x}"),
                r#"${steps.0.structured.none.x}: no "x" in null"#,
            ),
            (json!("${steps.1.text}"), "step 1 has no result"),
            (json!("${steps.9.text}"), "step 9 has no result"),
        ] {
            assert_eq!(fill(given.clone()), expected, "{given}");
        }
    }

    #[test]
    fn substituted_input_is_bounded() {
        let left = [Some(StepResult {
            text: Some("x".repeat(1000)),
            structured: None,
            summary: String::new(),
        })];
        let template = Template::parse(&json!("${steps.0.text}".repeat(1100))).unwrap();
        assert_eq!(
            template.fill(&left).unwrap_err(),
            "its references insert more than 1048576 bytes"
        );
        let template = Template::parse(&json!("${steps.0.structured.x}")).unwrap();
        assert_eq!(
            template.fill(&left).unwrap_err(),
            "the data of step 0 was too large to keep"
        );
    }
}
