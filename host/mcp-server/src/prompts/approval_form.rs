//! Approval questions as elicitation forms, and parsing of the answers.

use rmcp::model::{ElicitRequestParams, ElicitationSchema};
use serde_json::{Map, Value, json};
use toolhost_contract::policy::{ApprovalScope, Offer};
use toolhost_contract::{Answer, Call, FileDiff, Question, text};

use super::{question_text, request_state};

const DENY: &str = "deny";
const STOP: &str = "stop";
/// Maximum length of a note to the model, in characters.
const MAX_NOTE: usize = 2_000;
/// Maximum length of the text of one choice, in bytes.
const MAX_CHOICE_TEXT: usize = 500;

pub(super) fn form(
    question: &Question,
    call: &Call,
    remark: Option<&str>,
    titles: bool,
) -> ElicitRequestParams {
    let choices = choices(question);
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": select_schema("Your answer", &choices, Some(DENY), titles),
            "note": {
                "type": "string", "title": "Note",
                "description": "Optional note: sent to the agent if you deny, otherwise only recorded", "maxLength": MAX_NOTE,
            },
        },
        "required": ["answer"],
    });
    form_request(question_text::approval_text(question, call, remark), schema)
}

/// Returns the values of the possible answers with their texts. Approvals are first, beginning with the narrowest.
pub(super) fn choices(question: &Question) -> Vec<(String, String)> {
    let mut choices: Vec<(String, String)> = choices_of(question)
        .into_iter()
        .map(|(value, _, offer)| (value, text::escape_line(&offer.text, MAX_CHOICE_TEXT)))
        .collect();
    choices.push((DENY.to_owned(), "Deny".to_owned()));
    choices.push((
        STOP.to_owned(),
        "Deny and cancel the rest of the turn".to_owned(),
    ));
    choices
}

/// Schema of a single-select field with a title for each value.
pub(super) fn select_schema(
    title: &str,
    choices: &[(String, String)],
    default: Option<&str>,
    titles: bool,
) -> Value {
    let mut schema = json!({"type": "string", "title": title});
    if titles {
        let options = choices
            .iter()
            .map(|(value, title)| json!({"const": value, "title": title}));
        schema["oneOf"] = options.collect();
    } else {
        let (values, names): (Vec<_>, Vec<_>) = choices.iter().cloned().unzip();
        schema["enum"] = json!(values);
        schema["enumNames"] = json!(names);
    }
    if let Some(default) = default {
        schema["default"] = json!(default);
    }
    schema
}

pub(super) fn form_request(message: String, schema: Value) -> ElicitRequestParams {
    let schema: Map<String, Value> = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::from_json_schema(schema)
            .expect("all fields have primitive types"),
    }
}

/// Returns the possible approvals: the form value, the index in the question's offers, and the offer. The value is
/// the scope (`once`, `session`); a second offer with the same scope is `session_wider`.
///
/// Scopes beyond the session are left out: they would also apply to other clients and users, for whom the user of
/// this client cannot decide.
fn choices_of(question: &Question) -> Vec<(String, usize, &Offer)> {
    let mut values: Vec<(String, usize, &Offer)> = Vec::new();
    let offers = question.offers.iter().enumerate();
    for (index, offer) in offers.filter(|(_, offer)| offer.scope <= ApprovalScope::Session) {
        let mut value = offer.scope.as_str().to_owned();
        while values.iter().any(|(other, ..)| *other == value) {
            value.push_str("_wider");
        }
        values.push((value, index, offer));
    }
    values
}

/// Returns a digest that is equal for equal questions in every process. `None` if a change is shown without its
/// full diff, because different changes would then have the same digest.
pub(super) fn digest(question: &Question, form: &ElicitRequestParams) -> Option<String> {
    if let Some(set) = &question.changes
        && set
            .changes
            .iter()
            .any(|change| change.no_diff_reason.is_some())
    {
        return None;
    }
    let diffs = question.changes.iter().flat_map(|set| &set.changes);
    let diffs: Vec<&str> = diffs
        .filter_map(|change| change.diff.as_ref())
        .map(FileDiff::body)
        .collect();
    Some(request_state::digest_of(&(form, diffs)))
}

/// Parses a client's answer. The error is the text to show when the question is repeated.
pub(super) fn parse_answer(question: &Question, result: Option<&Value>) -> Result<Answer, String> {
    let content = |name: &str| result?.get("content")?.get(name)?.as_str();
    let note = content("note")
        .map(str::trim)
        .filter(|note| !note.is_empty())
        .map(|note| text::escape_lines(note, MAX_NOTE));
    match result
        .and_then(|result| result.get("action"))
        .and_then(Value::as_str)
    {
        Some("decline") => return Ok(Answer::Deny { note }),
        Some("cancel") => return Ok(Answer::Cancel),
        Some("accept") => {}
        _ => return Err("The client sent an invalid answer.".to_owned()),
    }
    let Some(answer) = content("answer") else {
        return Err("The answer is missing.".to_owned());
    };
    match answer {
        DENY => Ok(Answer::Deny { note }),
        STOP => Ok(Answer::Cancel),
        answer => match choices_of(question)
            .iter()
            .find(|(value, ..)| value == answer)
        {
            Some(&(_, offer, _)) => Ok(Answer::Allow { offer, note }),
            None => Err(format!(
                "`{}` is not one of the choices.",
                text::escape_line(answer, 80)
            )),
        },
    }
}
