//! Elicitation requests of a server as questions to the user. The question states the server first; requests that
//! cannot be expressed as plain questions are declined.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction};
use serde_json::{Map, Value, json};
use toolhost_contract::{AnswerOption, UserAnswer, UserQuestion, UserQuestionKind, text};

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
    let mut replies = Vec::new();
    for page in queries.chunks(MAX_QUESTIONS) {
        match running.ask(page.to_vec()).await {
            Ok(more) => replies.extend(more),
            Err(_) => return decline,
        }
    }
    match form_content(&fields, &replies) {
        Some(content) => ElicitResult::new(ElicitationAction::Accept).with_content(content),
        None => decline,
    }
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

/// Returns `None` if a reply is not valid.
fn form_content(fields: &[FormField], replies: &[UserAnswer]) -> Option<Value> {
    if fields.is_empty() {
        return matches!(replies, [UserAnswer::YesNo(true)]).then(|| json!({}));
    }
    if fields.len() != replies.len() {
        return None;
    }
    let mut content = Map::new();
    for (field, reply) in fields.iter().zip(replies) {
        match field.value(reply) {
            Some(value) => {
                content.insert(field.name.clone(), value);
            }
            None if field.required => return None,
            None => {}
        }
    }
    Some(Value::Object(content))
}

impl FormField {
    fn value(&self, reply: &UserAnswer) -> Option<Value> {
        if let UserAnswer::Text(text) = reply
            && text.is_empty()
        {
            return self.default.clone();
        }
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
        let found =
            fields("one", "Tell me", &schema).and_then(|fields| form_content(&fields, replies));
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
    fn questions_name_the_server_and_are_escaped() {
        let query = query("one", "Give\u{1b}[2J me", "a", UserQuestionKind::Text);
        assert_eq!(query.question, "The server one asks: Give\\u{1b}[2J me\na");
    }
}
