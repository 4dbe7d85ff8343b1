//! Questions that tools ask the user, as elicitation forms, and parsing of the replies.

use rmcp::model::ElicitRequestParams;
use serde_json::{Map, Value, json};
use toolhost_contract::{QuestionForm, UserAnswer, UserQuestion, UserQuestionKind, text};

use super::approval_form::{form_request, select_schema};
use super::question_text;

/// Maximum length of free text, in characters.
const MAX_FREE_TEXT: usize = 4_000;
/// Maximum length of a label in a form, in characters.
const MAX_LABEL: usize = 200;

/// Returns one named form per question, in order.
pub(super) fn forms(interview: &QuestionForm, titles: bool) -> Vec<(String, ElicitRequestParams)> {
    let queries = interview.questions.iter().enumerate();
    queries
        .map(|(at, query)| {
            let message = question_text::query_text(interview, at, query);
            let form = form_request(message, schema(query, titles));
            (format!("question_{}", at + 1), form)
        })
        .collect()
}

fn schema(query: &UserQuestion, titles: bool) -> Value {
    let text = |title: &str, description: &str| json!({"type": "string", "title": title, "description": description, "maxLength": MAX_FREE_TEXT});
    let other = || text("Other", "Your own answer, if none of the choices fits");
    let labels = labels(query);
    let mut properties = Map::new();
    let mut required = Vec::new();
    match (query.kind, query.multi_select) {
        (UserQuestionKind::YesNo, _) => {
            properties.insert(
                "answer".to_owned(),
                json!({"type": "boolean", "title": "Yes"}),
            );
            required.push("answer");
        }
        (UserQuestionKind::Text, _) => {
            let hint = query.placeholder.as_deref().unwrap_or_default();
            let answer = text("Your answer", &text::escape_line(hint, MAX_LABEL));
            properties.insert("answer".to_owned(), answer);
            required.push("answer");
        }
        (UserQuestionKind::Choice, false) => {
            properties.insert(
                "answer".to_owned(),
                select_schema("Your answer", &labels, None, titles),
            );
            properties.insert("other".to_owned(), other());
        }
        (UserQuestionKind::Choice, true) if titles => {
            let options: Vec<Value> = labels
                .iter()
                .map(|(value, title)| json!({"const": value, "title": title}))
                .collect();
            let answer =
                json!({"type": "array", "title": "Your answers", "items": {"anyOf": options}});
            properties.insert("answer".to_owned(), answer);
            properties.insert("other".to_owned(), other());
        }
        (UserQuestionKind::Choice, true) => {
            for (at, (_, title)) in labels.iter().enumerate() {
                properties.insert(
                    checkbox_name(at),
                    json!({"type": "boolean", "title": title}),
                );
            }
            properties.insert("other".to_owned(), other());
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}

/// Name of the checkbox of one choice, for clients without multi-select support.
fn checkbox_name(at: usize) -> String {
    format!("answer_{:02}", at + 1)
}

/// Returns the form value and the displayed text of each choice. Both are unique.
fn labels(query: &UserQuestion) -> Vec<(String, String)> {
    let mut values: Vec<(String, String)> = Vec::new();
    for (at, option) in query.options.iter().enumerate() {
        let shown = text::escape_line(&option.label, MAX_LABEL);
        let value = if values.iter().any(|(value, _)| *value == shown) {
            // Another label is equal after truncation.
            format!("{} ({shown})", at + 1)
        } else {
            shown
        };
        values.push((value.clone(), value));
    }
    values
}

/// Returns `None` if the user did not answer every question or an answer is invalid.
pub(super) fn parse_replies(
    interview: &QuestionForm,
    answers: &[Value],
    titles: bool,
) -> Option<Vec<UserAnswer>> {
    let queries = interview.questions.iter().enumerate();
    queries
        .map(|(at, query)| parse_reply(query, answers.get(at)?, titles))
        .collect()
}

fn parse_reply(query: &UserQuestion, answer: &Value, titles: bool) -> Option<UserAnswer> {
    if answer.get("action")?.as_str()? != "accept" {
        return None;
    }
    let content = answer.get("content")?;
    let other = content
        .get("other")
        .and_then(Value::as_str)
        .map(str::trim)
        .filter(|answer| !answer.is_empty());
    if let Some(custom) = other.filter(|_| query.kind == UserQuestionKind::Choice) {
        return Some(free_text(custom));
    }
    let labels = labels(query);
    let label = |value: &Value| -> Option<String> {
        let value = value.as_str()?;
        let at = labels.iter().position(|(known, _)| known == value)?;
        Some(query.options[at].label.clone())
    };
    match (query.kind, query.multi_select) {
        (UserQuestionKind::YesNo, _) => content.get("answer")?.as_bool().map(UserAnswer::YesNo),
        (UserQuestionKind::Text, _) => content.get("answer")?.as_str().map(free_text),
        (UserQuestionKind::Choice, false) => label(content.get("answer")?).map(UserAnswer::Text),
        (UserQuestionKind::Choice, true) if titles => {
            let chosen = content.get("answer")?.as_array()?;
            let chosen: Option<Vec<_>> = chosen.iter().map(label).collect();
            chosen.map(UserAnswer::Labels)
        }
        (UserQuestionKind::Choice, true) => {
            let chosen = query.options.iter().enumerate();
            let chosen = chosen
                .filter(|(at, _)| content.get(checkbox_name(*at)) == Some(&Value::Bool(true)))
                .map(|(_, option)| option.label.clone());
            Some(UserAnswer::Labels(chosen.collect()))
        }
    }
}

fn free_text(answer: &str) -> UserAnswer {
    UserAnswer::Text(text::head(answer, MAX_FREE_TEXT * 4).to_owned())
}

#[cfg(test)]
mod tests {
    use toolhost_contract::CallId;

    use super::*;

    const COLOURS: &str =
        r#"{"question": "Which?", "options": [{"label": "red\u001b"}, {"label": "blue"}]}"#;

    fn check(query: &str, titles: bool, content: &Value, expected: Option<UserAnswer>) {
        let queries = UserQuestion::parse(&format!("[{query}]")).unwrap();
        let interview = QuestionForm {
            call: CallId("1".to_owned()),
            plugin: "p".to_owned(),
            tool: "t".to_owned(),
            agent: None,
            questions: queries,
        };
        let answer = json!({"action": "accept", "content": content});
        let replies = parse_replies(&interview, &[answer], titles);
        assert_eq!(
            replies,
            expected.map(|reply| vec![reply]),
            "{query} {content}"
        );
        // Every question has a form.
        assert_eq!(forms(&interview, titles).len(), 1);
    }

    fn labels(labels: &[&str]) -> UserAnswer {
        UserAnswer::Labels(labels.iter().map(|label| (*label).to_owned()).collect())
    }

    fn text_answer(answer: &str) -> UserAnswer {
        UserAnswer::Text(answer.to_owned())
    }

    #[test]
    fn filled_in_forms_are_parsed() {
        let sure = r#"{"question": "Sure?", "type": "yesno"}"#;
        let why = r#"{"question": "Why?", "type": "text", "placeholder": "because"}"#;
        let several = COLOURS.replacen('{', r#"{"multi_select": true, "#, 1);
        for titles in [false, true] {
            check(
                sure,
                titles,
                &json!({"answer": false}),
                Some(UserAnswer::YesNo(false)),
            );
            check(sure, titles, &json!({"answer": "yes"}), None);
            check(
                why,
                titles,
                &json!({"answer": "so"}),
                Some(text_answer("so")),
            );
            check(why, titles, &json!({}), None);
            check(
                COLOURS,
                titles,
                &json!({"answer": "blue"}),
                Some(text_answer("blue")),
            );
            check(
                COLOURS,
                titles,
                &json!({"answer": r"red\u{1b}"}),
                Some(text_answer("red\u{1b}")),
            );
            check(COLOURS, titles, &json!({"answer": "green"}), None);
            check(
                COLOURS,
                titles,
                &json!({"other": " green "}),
                Some(text_answer("green")),
            );
            check(
                &several,
                titles,
                &json!({"other": "green"}),
                Some(text_answer("green")),
            );
        }
        check(
            &several,
            true,
            &json!({"answer": ["blue"]}),
            Some(labels(&["blue"])),
        );
        check(&several, true, &json!({"answer": ["green"]}), None);
        check(
            &several,
            false,
            &json!({"answer_02": true}),
            Some(labels(&["blue"])),
        );
        check(
            &several,
            false,
            &json!({"answer_01": false}),
            Some(labels(&[])),
        );
    }

    #[test]
    fn a_declined_form_gives_no_reply() {
        let query = UserQuestion::parse(&format!("[{COLOURS}]"))
            .unwrap()
            .remove(0);
        for answer in [
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
            json!({"action": "accept"}),
            json!(null),
            json!("yes"),
        ] {
            assert_eq!(parse_reply(&query, &answer, true), None, "{answer}");
        }
    }
}
