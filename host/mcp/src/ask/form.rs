//! A question about a permission as a form, and what was filled in as an answer.

use rmcp::model::{ElicitRequestParams, ElicitationSchema};
use serde_json::{Map, Value, json};
use toolhost_contract::policy::{Offer, Scope};
use toolhost_contract::{Answer, Call, FileDiff, Question, text};

use super::{state, words};

const DENY: &str = "deny";
const STOP: &str = "stop";
/// Characters of a word to the model.
const NOTE: usize = 2_000;
/// Bytes of the words of one choice.
const WORDS: usize = 500;

pub(super) fn form(
    question: &Question,
    call: &Call,
    remark: Option<&str>,
    titles: bool,
) -> ElicitRequestParams {
    let mut choices: Vec<(String, String)> = values(question)
        .into_iter()
        .map(|(value, _, offer)| (value, text::inline(&offer.words, WORDS)))
        .collect();
    choices.push((DENY.to_owned(), "No: it does not run".to_owned()));
    choices.push((
        STOP.to_owned(),
        "No, and stop what it is part of".to_owned(),
    ));
    let schema = json!({
        "type": "object",
        "properties": {
            "answer": select("Your answer", &choices, Some(DENY), titles),
            "note": {
                "type": "string", "title": "Note",
                "description": "A word to the model, if you like", "maxLength": NOTE,
            },
        },
        "required": ["answer"],
    });
    request(words::question(question, call, remark), schema)
}

/// One of several values, with words beside each.
pub(super) fn select(
    title: &str,
    choices: &[(String, String)],
    default: Option<&str>,
    titles: bool,
) -> Value {
    let mut schema = json!({"type": "string", "title": title});
    if titles {
        let options = choices
            .iter()
            .map(|(value, words)| json!({"const": value, "title": words}));
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

pub(super) fn request(message: String, schema: Value) -> ElicitRequestParams {
    let schema: Map<String, Value> = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: ElicitationSchema::from_json_schema(schema)
            .expect("our forms have members of plain types"),
    }
}

/// What may be answered: the value, the place in the question's offers, and the offer. `once`, `session`; of two with
/// the same reach the second is `session_wider`.
///
/// Whoever sits at a client answers for what that client does. A yes that lasts longer would be one for other clients,
/// other principals and the operator, and they were not asked.
fn values(question: &Question) -> Vec<(String, usize, &Offer)> {
    let mut values: Vec<(String, usize, &Offer)> = Vec::new();
    let offers = question.offers.iter().enumerate();
    for (place, offer) in offers.filter(|(_, offer)| offer.scope <= Scope::Session) {
        let mut value = offer.scope.as_str().to_owned();
        while values.iter().any(|(other, ..)| *other == value) {
            value.push_str("_wider");
        }
        values.push((value, place, offer));
    }
    values
}

/// The same question has the same one, in every process. None for changes that are not wholly shown: what was said of
/// one of those says nothing of another.
pub(super) fn digest(question: &Question, form: &ElicitRequestParams) -> Option<String> {
    if let Some(set) = &question.changes
        && set.changes.iter().any(|change| change.undiffed.is_some())
    {
        return None;
    }
    let diffs = question.changes.iter().flat_map(|set| &set.changes);
    let diffs: Vec<&str> = diffs
        .filter_map(|change| change.diff.as_ref())
        .map(FileDiff::body)
        .collect();
    Some(state::digest_of(&(form, diffs)))
}

/// What a client's answer means; Err: what to say to the person before they are asked again.
pub(super) fn answer(question: &Question, result: Option<&Value>) -> Result<Answer, String> {
    let content = |name: &str| result?.get("content")?.get(name)?.as_str();
    let note = content("note")
        .map(str::trim)
        .filter(|note| !note.is_empty())
        .map(|note| text::block(note, NOTE));
    match result
        .and_then(|result| result.get("action"))
        .and_then(Value::as_str)
    {
        Some("decline") => return Ok(Answer::Deny { note }),
        Some("cancel") => return Ok(Answer::Cancel),
        Some("accept") => {}
        _ => return Err("The client gave no answer that can be read.".to_owned()),
    }
    let Some(said) = content("answer") else {
        return Err("The answer was missing.".to_owned());
    };
    match said {
        DENY => Ok(Answer::Deny { note }),
        STOP => Ok(Answer::Cancel),
        said => match values(question).iter().find(|(value, ..)| value == said) {
            Some(&(_, offer, _)) => Ok(Answer::Allow { offer, note }),
            None => Err(format!(
                "`{}` was not one of the answers.",
                text::inline(said, 80)
            )),
        },
    }
}
