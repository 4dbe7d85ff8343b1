//! Elicitation requests of a server as questions to the user. The question states the server first; requests that
//! cannot be expressed as plain questions are declined. Answers that do not fit are asked for once more.

use std::collections::BTreeMap;

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};
use toolhost_contract::{AnswerOption, UserAnswer, UserQuestion, UserQuestionKind, text};

use crate::log::ServerLogger;
use crate::running_calls::RunningCall;

const MAX_MESSAGE: usize = 2_000;
const MAX_LABEL: usize = 200;
/// Maximum number of fields of a form.
const MAX_FIELDS: usize = 12;
/// Maximum number of questions that are shown to the user at once.
const MAX_QUESTIONS: usize = 4;

/// A question, and how to read its answer.
#[derive(Debug, PartialEq)]
struct FormField {
    name: String,
    query: UserQuestion,
    read: AnswerFormat,
    default: Option<Value>,
    required: bool,
    limits: AnswerLimits,
}

/// Limits of a number, of the length of a text, or of the number of choices.
#[derive(Debug, Default, PartialEq)]
struct AnswerLimits {
    least: Option<f64>,
    most: Option<f64>,
    unit: &'static str,
}

/// Why a form has no content.
#[derive(Debug, PartialEq)]
enum FormError {
    Declined,
    /// What is wrong with the answers, by the index of the field.
    Invalid(BTreeMap<usize, String>),
}

#[derive(Debug, PartialEq)]
enum AnswerFormat {
    YesNo,
    Text,
    Number,
    Integer,
    /// Label and value of each option.
    One(Vec<(String, Value)>),
    Many(Vec<(String, Value)>),
}

/// Answers an elicitation request. `running` is the call that the request belongs to.
pub async fn answer_elicitation(
    server: &str,
    running: &RunningCall,
    request: ElicitRequestParams,
    log: &ServerLogger,
) -> ElicitResult {
    let decline = ElicitResult::new(ElicitationAction::Decline);
    let ElicitRequestParams::FormElicitationParams {
        message,
        requested_schema,
        ..
    } = request
    else {
        return decline;
    };
    let schema = serde_json::to_value(requested_schema).unwrap_or_default();
    let Some(fields) = fields(server, &message, &schema) else {
        return decline;
    };
    let queries = if fields.is_empty() {
        vec![query(server, &message, "", UserQuestionKind::YesNo)]
    } else {
        fields.iter().map(|field| field.query.clone()).collect()
    };
    let Some(mut replies) = ask_all(running, &queries).await else {
        return decline;
    };
    let mut content = form_content(&fields, &replies);
    if let Err(FormError::Invalid(problems)) = &content {
        let again = problems.iter().map(|(at, problem)| {
            let mut query = queries[*at].clone();
            query.question = format!("{}\n{problem}", query.question);
            query
        });
        let Some(corrected) = ask_all(running, &again.collect::<Vec<_>>()).await else {
            return decline;
        };
        for (at, reply) in problems.keys().zip(corrected) {
            replies[*at] = reply;
        }
        content = form_content(&fields, &replies);
    }
    match content {
        Ok(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        Err(FormError::Declined) => decline,
        Err(FormError::Invalid(problems)) => {
            for (at, problem) in problems {
                let name = text::escape_line(&fields[at].name, MAX_LABEL);
                log.line(&format!(
                    "a question was declined, because the answer for `{name}` does not fit: {problem}"
                ));
            }
            decline
        }
    }
}

/// `None`: the user does not answer.
async fn ask_all(running: &RunningCall, queries: &[UserQuestion]) -> Option<Vec<UserAnswer>> {
    let mut replies = Vec::new();
    for page in queries.chunks(MAX_QUESTIONS) {
        replies.extend(running.ask(page.to_vec()).await.ok()?);
    }
    (replies.len() == queries.len()).then_some(replies)
}

/// Returns `None` if the form cannot be expressed as plain questions.
fn fields(server: &str, message: &str, schema: &Value) -> Option<Vec<FormField>> {
    let nothing = Map::new();
    let properties = schema["properties"].as_object().unwrap_or(&nothing);
    if properties.len() > MAX_FIELDS {
        return None;
    }
    let required = |name: &str| {
        let list = schema["required"].as_array();
        list.is_some_and(|list| list.iter().any(|one| one == name))
    };
    properties
        .iter()
        .map(|(name, property)| field(server, message, name, property, required(name)))
        .collect()
}

fn field(
    server: &str,
    message: &str,
    name: &str,
    property: &Value,
    required: bool,
) -> Option<FormField> {
    let caption = property["title"].as_str().unwrap_or(name);
    let more = property["description"].as_str().unwrap_or_default();
    let caption = if more.is_empty() {
        caption.to_owned()
    } else {
        format!("{caption}: {more}")
    };
    let (kind, read) = match property["type"].as_str()? {
        "boolean" => (UserQuestionKind::YesNo, AnswerFormat::YesNo),
        "string" => match options(property)? {
            Some(options) => (UserQuestionKind::Choice, AnswerFormat::One(options)),
            None => (UserQuestionKind::Text, AnswerFormat::Text),
        },
        "number" => (UserQuestionKind::Text, AnswerFormat::Number),
        "integer" => (UserQuestionKind::Text, AnswerFormat::Integer),
        "array" => (
            UserQuestionKind::Choice,
            AnswerFormat::Many(options(&property["items"])??),
        ),
        _ => return None,
    };
    let limits = AnswerLimits::of(property, &read);
    let caption = format!("{caption}{}", limits.hint(property, required));
    let mut query = query(server, message, &caption, kind);
    if let AnswerFormat::One(options) | AnswerFormat::Many(options) = &read {
        query.options = options
            .iter()
            .map(|(label, _)| AnswerOption {
                label: label.clone(),
                description: String::new(),
                preview: None,
            })
            .collect();
        query.multi_select = matches!(read, AnswerFormat::Many(_));
    }
    let default = property.get("default").cloned();
    if let Some(default) = &default {
        let shown = default
            .as_str()
            .map_or_else(|| default.to_string(), str::to_owned);
        query.placeholder = Some(text::escape_line(&shown, MAX_LABEL));
    }
    Some(FormField {
        name: name.to_owned(),
        query,
        read,
        default,
        required,
        limits,
    })
}

/// `None`: the options cannot be asked for. `Some(None)`: there are no options.
#[expect(clippy::option_option, reason = "two different ways to have none")]
fn options(schema: &Value) -> Option<Option<Vec<(String, Value)>>> {
    let titled = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    let options: Vec<(String, Value)> = if let Some(list) = titled {
        let option = |one: &Value| {
            let value = one.get("const")?;
            let title = one["title"].as_str().or(value.as_str())?;
            Some((text::escape_line(title, MAX_LABEL), value.clone()))
        };
        list.iter().map(option).collect::<Option<_>>()?
    } else if let Some(list) = schema["enum"].as_array() {
        let names = schema["enumNames"].as_array();
        let option = |(at, value): (usize, &Value)| {
            let name = names.and_then(|names| names.get(at)?.as_str());
            let label = name.or(value.as_str())?;
            Some((text::escape_line(label, MAX_LABEL), value.clone()))
        };
        list.iter().enumerate().map(option).collect::<Option<_>>()?
    } else {
        return Some(None);
    };
    // Valid options of a question: a choice with unique labels.
    let mut labels: Vec<&str> = options.iter().map(|(label, _)| label.as_str()).collect();
    labels.sort_unstable();
    labels.dedup();
    let fits = (2..=16).contains(&options.len()) && labels.len() == options.len();
    fits.then_some(Some(options))
}

fn query(server: &str, message: &str, caption: &str, kind: UserQuestionKind) -> UserQuestion {
    let mut question = format!(
        "The server {server} asks: {}",
        text::escape_lines(message, MAX_MESSAGE)
    );
    if !caption.is_empty() {
        question.push('\n');
        question.push_str(&text::escape_line(caption, MAX_MESSAGE));
    }
    UserQuestion {
        question,
        header: text::escape_line(server, 40),
        kind,
        options: Vec::new(),
        multi_select: false,
        placeholder: None,
    }
}

fn form_content(fields: &[FormField], replies: &[UserAnswer]) -> Result<Value, FormError> {
    if fields.is_empty() {
        return match replies {
            [UserAnswer::YesNo(true)] => Ok(json!({})),
            _ => Err(FormError::Declined),
        };
    }
    if fields.len() != replies.len() {
        return Err(FormError::Declined);
    }
    let mut content = Map::new();
    let mut problems = BTreeMap::new();
    for (at, (field, reply)) in fields.iter().zip(replies).enumerate() {
        match field.value(reply) {
            Ok(Some(value)) => drop(content.insert(field.name.clone(), value)),
            Ok(None) => {}
            Err(problem) => drop(problems.insert(at, problem)),
        }
    }
    if problems.is_empty() {
        Ok(Value::Object(content))
    } else {
        Err(FormError::Invalid(problems))
    }
}

impl AnswerLimits {
    fn of(property: &Value, read: &AnswerFormat) -> Self {
        let (least, most, unit) = match read {
            AnswerFormat::Number | AnswerFormat::Integer => ("minimum", "maximum", ""),
            AnswerFormat::Text => ("minLength", "maxLength", " characters"),
            AnswerFormat::Many(_) => ("minItems", "maxItems", " choices"),
            AnswerFormat::YesNo | AnswerFormat::One(_) => return Self::default(),
        };
        Self {
            least: property[least].as_f64(),
            most: property[most].as_f64(),
            unit,
        }
    }

    /// Type, limits and whether an answer is optional, for the user.
    fn hint(&self, property: &Value, required: bool) -> String {
        let unit = self.unit;
        let plain = |kind: &&str| matches!(*kind, "number" | "integer");
        let parts = [
            property["type"].as_str().filter(plain).map(str::to_owned),
            property["format"].as_str().map(str::to_owned),
            self.least.map(|least| format!("at least {least}{unit}")),
            self.most.map(|most| format!("at most {most}{unit}")),
            (!required).then(|| "optional".to_owned()),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() {
            String::new()
        } else {
            format!(" ({})", parts.join(", "))
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "lengths are short")]
    fn check(&self, value: &Value) -> Result<(), String> {
        let size = match value {
            Value::String(text) => text.chars().count() as f64,
            Value::Array(items) => items.len() as f64,
            value => value.as_f64().unwrap_or_default(),
        };
        let unit = self.unit;
        match (self.least, self.most) {
            (Some(least), _) if size < least => Err(format!("It must be at least {least}{unit}.")),
            (_, Some(most)) if size > most => Err(format!("It must be at most {most}{unit}.")),
            _ => Ok(()),
        }
    }
}

impl FormField {
    /// The value of an answer; none for an optional field that the user leaves empty. An error is a sentence.
    fn value(&self, reply: &UserAnswer) -> Result<Option<Value>, String> {
        let is_empty = match reply {
            UserAnswer::Text(text) => text.is_empty(),
            UserAnswer::Labels(labels) => {
                labels.is_empty() && (self.default.is_some() || !self.required)
            }
            UserAnswer::YesNo(_) => false,
        };
        if is_empty {
            return match &self.default {
                None if self.required => Err("It must not be empty.".to_owned()),
                default => Ok(default.clone()),
            };
        }
        let value = self.parse(reply).ok_or_else(|| {
            let expected = match self.read {
                AnswerFormat::YesNo => "yes or no",
                AnswerFormat::Text => "a text",
                AnswerFormat::Number => "a number",
                AnswerFormat::Integer => "an integer",
                AnswerFormat::One(_) | AnswerFormat::Many(_) => "one of the options",
            };
            format!("It must be {expected}.")
        })?;
        self.limits.check(&value)?;
        Ok(Some(value))
    }

    fn parse(&self, reply: &UserAnswer) -> Option<Value> {
        let of_label = |options: &[(String, Value)], chosen: &str| {
            let found = options.iter().find(|(label, _)| label == chosen)?;
            Some(found.1.clone())
        };
        match (&self.read, reply) {
            (AnswerFormat::YesNo, UserAnswer::YesNo(approved)) => Some(json!(approved)),
            (AnswerFormat::Text, UserAnswer::Text(text)) => Some(json!(text)),
            (AnswerFormat::Number, UserAnswer::Text(text)) => {
                let number = text
                    .trim()
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite());
                number.map(|number| json!(number))
            }
            (AnswerFormat::Integer, UserAnswer::Text(text)) => {
                text.trim().parse().ok().map(|number: i64| json!(number))
            }
            (AnswerFormat::One(options), UserAnswer::Text(text)) => of_label(options, text),
            (AnswerFormat::One(options), UserAnswer::Labels(labels)) => {
                of_label(options, labels.first()?)
            }
            (AnswerFormat::Many(options), UserAnswer::Labels(labels)) => {
                let values = labels.iter().map(|label| of_label(options, label));
                values.collect::<Option<Vec<_>>>().map(Value::Array)
            }
            (AnswerFormat::Many(options), UserAnswer::Text(text)) => {
                of_label(options, text).map(|one| json!([one]))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(schema: Value, replies: &[UserAnswer], expected: Option<Value>) {
        let shown = schema.to_string();
        let found = fields("one", "Tell me", &schema)
            .and_then(|fields| form_content(&fields, replies).ok());
        assert_eq!(found, expected, "{shown}");
    }

    fn text(text: &str) -> UserAnswer {
        UserAnswer::Text(text.to_owned())
    }

    #[test]
    fn forms_that_are_not_plain_questions_are_declined() {
        let of = |property: Value| json!({"type": "object", "properties": {"a": property}, "required": ["a"]});
        check(
            json!({"type": "object", "properties": {}}),
            &[UserAnswer::YesNo(true)],
            Some(json!({})),
        );
        check(
            json!({"type": "object", "properties": {}}),
            &[UserAnswer::YesNo(false)],
            None,
        );
        check(
            of(json!({"type": "boolean"})),
            &[UserAnswer::YesNo(false)],
            Some(json!({"a": false})),
        );
        check(
            of(json!({"type": "string"})),
            &[text("x")],
            Some(json!({"a": "x"})),
        );
        check(
            of(json!({"type": "string", "default": "d"})),
            &[text("")],
            Some(json!({"a": "d"})),
        );
        check(of(json!({"type": "string"})), &[text("")], None);
        check(
            of(json!({"type": "integer"})),
            &[text(" 7 ")],
            Some(json!({"a": 7})),
        );
        check(of(json!({"type": "integer"})), &[text("seven")], None);
        check(
            of(json!({"type": "number"})),
            &[text("1.5")],
            Some(json!({"a": 1.5})),
        );
        check(
            of(
                json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}, {"const": "b", "title": "Blue"}]}),
            ),
            &[text("Blue")],
            Some(json!({"a": "b"})),
        );
        check(
            of(json!({"type": "string", "enum": ["r", "b"]})),
            &[text("green")],
            None,
        );
        check(
            of(json!({"type": "array", "items": {"type": "string", "enum": ["r", "b"]}})),
            &[UserAnswer::Labels(vec!["r".to_owned(), "b".to_owned()])],
            Some(json!({"a": ["r", "b"]})),
        );
        check(of(json!({"type": "object"})), &[text("x")], None);
        let many: Map<String, Value> = (0..13)
            .map(|at| (at.to_string(), json!({"type": "string"})))
            .collect();
        check(json!({"properties": many}), &[], None);
    }

    #[test]
    fn an_answer_that_does_not_fit_is_a_problem_that_is_stated() {
        let problem = |property: Value, answer: &str| {
            let schema = json!({"properties": {"a": property}});
            let fields = fields("one", "Tell me", &schema).unwrap();
            match form_content(&fields, &[text(answer)]) {
                Ok(content) => content.to_string(),
                Err(FormError::Invalid(problems)) => problems[&0].clone(),
                Err(FormError::Declined) => "declined".to_owned(),
            }
        };
        let integer = json!({"type": "integer", "minimum": 0, "maximum": 9});
        assert_eq!(problem(integer.clone(), "abc"), "It must be an integer.");
        assert_eq!(problem(integer.clone(), "-5"), "It must be at least 0.");
        assert_eq!(problem(integer.clone(), "10"), "It must be at most 9.");
        assert_eq!(problem(integer.clone(), "7"), r#"{"a":7}"#);
        assert_eq!(problem(integer.clone(), ""), "{}");
        let name = json!({"type": "string", "maxLength": 2});
        assert_eq!(problem(name, "abc"), "It must be at most 2 characters.");
        let schema = json!({"properties": {"a": integer}});
        let fields = fields("one", "Tell me", &schema).unwrap();
        assert!(
            fields[0]
                .query
                .question
                .ends_with("a (integer, at least 0, at most 9, optional)"),
            "{}",
            fields[0].query.question
        );
    }

    #[test]
    fn questions_name_the_server_and_are_escaped() {
        let query = query("one", "Give\u{1b}[2J me", "a", UserQuestionKind::Text);
        assert_eq!(query.question, "The server one asks: Give\\u{1b}[2J me\na");
    }
}
