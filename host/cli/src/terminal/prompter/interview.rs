//! Questions of a tool to the user, marked as text of the tool and with the tool's name above.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use toolhost_contract::{QuestionForm, UserAnswer, UserQuestion, UserQuestionKind, text};

use super::answer_line::{read_answer, read_choice};
use super::prompt_queue::PromptState;
use super::terminal_io::{LineEvent, TerminalIo};
use super::untrusted_text::{self, TerminalLayout};
use crate::terminal::screen::SCREEN;
use crate::terminal::style::Paint;

/// Maximum number of attempts to answer one question.
const MAX_ATTEMPTS: usize = 5;

/// Tells the asking thread whether the interview is still pending.
#[derive(Default)]
pub struct InterviewState(AtomicBool);

impl InterviewState {
    pub fn cancel(&self) {
        self.0.store(true, Relaxed);
    }
}

impl PromptState for InterviewState {
    fn is_pending(&self) -> bool {
        !self.0.load(Relaxed)
    }
}

/// Asks all questions. Returns `None` if the user declines or the terminal is gone.
pub fn interview(
    keys: &mut impl TerminalIo,
    interview: &QuestionForm,
    ticket: &InterviewState,
) -> Option<Vec<UserAnswer>> {
    let _asking = SCREEN.begin_question();
    let queries = interview.questions.iter().enumerate();
    queries
        .map(|(at, query)| ask_query(keys, interview, at, query, ticket))
        .collect()
}

fn ask_query(
    keys: &mut impl TerminalIo,
    interview: &QuestionForm,
    at: usize,
    query: &UserQuestion,
    ticket: &InterviewState,
) -> Option<UserAnswer> {
    let mut remark = None;
    for _ in 0..MAX_ATTEMPTS {
        let shown = |look: TerminalLayout| match &remark {
            None => format_query(interview, at, query, look),
            Some(remark) => format!("  {remark}\n  answer: "),
        };
        let answer = match query.kind {
            UserQuestionKind::YesNo => read_choice(keys, ticket, shown)?,
            UserQuestionKind::Text | UserQuestionKind::Choice => read_answer(keys, ticket, shown)?,
        };
        let LineEvent::Line(line) = answer else {
            remark = None;
            continue;
        };
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        match parse_reply(query, line) {
            Ok(reply) => return Some(reply),
            Err(error) => remark = Some(error),
        }
    }
    None
}

fn format_query(
    interview: &QuestionForm,
    at: usize,
    query: &UserQuestion,
    look: TerminalLayout,
) -> String {
    let mut out = String::new();
    let of = interview.questions.len();
    let title = look.style.paint(Paint::Bold, "Question from a tool");
    let count = if of > 1 {
        format!("  ({} of {of})", at + 1)
    } else {
        String::new()
    };
    let _ = writeln!(out, "\n  {title}{count}");
    out += &untrusted_text::fact("plugin", &interview.plugin, look);
    out += &untrusted_text::fact("tool", &interview.tool, look);
    if let Some(agent) = &interview.agent {
        out += &untrusted_text::fact("agent", agent, look);
    }
    if !query.header.is_empty() {
        out += &untrusted_text::fact("about", &query.header, look);
    }
    out += &untrusted_text::marked(&query.question, look);
    for (number, option) in query.options.iter().enumerate() {
        let label = if option.description.is_empty() {
            option.label.clone()
        } else {
            format!("{}: {}", option.label, option.description)
        };
        out += &untrusted_text::wrapped(&format!("[{}]", number + 1), &label, look);
        if let Some(preview) = &option.preview {
            out += &untrusted_text::marked(preview, look);
        }
    }
    let how = match (query.kind, query.multi_select) {
        (UserQuestionKind::YesNo, _) => "y or n",
        (UserQuestionKind::Text, _) => "text",
        (UserQuestionKind::Choice, false) => "a number or text",
        (UserQuestionKind::Choice, true) => "comma-separated numbers or text",
    };
    let declined = if of > 1 {
        format!(" to decline all {of} questions")
    } else {
        " to decline".to_owned()
    };
    let _ = writeln!(out, "  {how}; press Enter alone{declined}");
    out + "  answer: "
}

/// Parses an answer. The error is shown to the user.
fn parse_reply(query: &UserQuestion, line: &str) -> Result<UserAnswer, String> {
    let count = query.options.len();
    let label = |reply: &str| -> Result<Option<String>, String> {
        let number = reply.parse::<usize>().ok();
        // The number that the host shows before an option comes before labels, which the tool chooses.
        let by_number = number.and_then(|number| query.options.get(number.checked_sub(1)?));
        let mut options = query.options.iter();
        let found =
            by_number.or_else(|| options.find(|option| option.label.eq_ignore_ascii_case(reply)));
        match (found, number) {
            (Some(option), _) => Ok(Some(option.label.clone())),
            (None, Some(number)) => Err(format!("no option {number}; choose 1 to {count}")),
            (None, None) => Ok(None),
        }
    };
    match query.kind {
        UserQuestionKind::YesNo => match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(UserAnswer::YesNo(true)),
            "n" | "no" => Ok(UserAnswer::YesNo(false)),
            _ => Err("answer with y or n".to_owned()),
        },
        UserQuestionKind::Text => Ok(UserAnswer::Text(line.to_owned())),
        UserQuestionKind::Choice if query.multi_select => {
            let replies: Vec<&str> = line.split(',').map(str::trim).collect();
            let labels = replies
                .into_iter()
                .map(label)
                .collect::<Result<Option<Vec<_>>, _>>()?;
            Ok(labels.map_or_else(|| UserAnswer::Text(line.to_owned()), UserAnswer::Labels))
        }
        UserQuestionKind::Choice => {
            let label = label(line)?;
            Ok(UserAnswer::Text(
                label.unwrap_or_else(|| text::head(line, 4_000).to_owned()),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::super::testing::layout;
    use super::*;

    fn query(json: &str) -> UserQuestion {
        UserQuestion::parse(&format!("[{json}]")).unwrap().remove(0)
    }

    const COLOURS: &str = r#"{"question": "Which?\u001b[2J", "header": "colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]}"#;

    fn check(json: &str, line: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", parse_reply(&query(json), line)));
    }

    #[test]
    fn a_reply_is_a_number_a_label_or_text() {
        check(COLOURS, "2", expect![[r#"Ok(Text("blue"))"#]]);
        check(COLOURS, "RED", expect![[r#"Ok(Text("red"))"#]]);
        check(
            COLOURS,
            "rather green",
            expect![[r#"Ok(Text("rather green"))"#]],
        );
        check(
            COLOURS,
            "7",
            expect![[r#"Err("no option 7; choose 1 to 2")"#]],
        );
        let several = COLOURS.replacen('{', r#"{"multi_select": true, "#, 1);
        check(
            &several,
            "1, blue",
            expect![[r#"Ok(Labels(["red", "blue"]))"#]],
        );
        check(&several, "1, green", expect![[r#"Ok(Text("1, green"))"#]]);
        let numbers = r#"{"question": "How many?", "header": "h",
            "options": [{"label": "3"}, {"label": "2"}, {"label": "1"}, {"label": "9"}]}"#;
        check(numbers, "1", expect![[r#"Ok(Text("3"))"#]]);
        check(numbers, "9", expect![[r#"Ok(Text("9"))"#]]);
        let sure = r#"{"question": "Sure?", "type": "yesno"}"#;
        check(sure, "Y", expect!["Ok(YesNo(true))"]);
        check(sure, "maybe", expect![[r#"Err("answer with y or n")"#]]);
    }

    #[test]
    fn text_of_the_tool_is_marked_and_escaped() {
        let interview = QuestionForm {
            call: toolhost_contract::CallId("1".to_owned()),
            plugin: "agent".to_owned(),
            tool: "ask_user".to_owned(),
            agent: None,
            questions: vec![query(COLOURS)],
        };
        let look = layout(60, 24);
        expect![[r#"
            screen:

              Question from a tool
                plugin   agent
                tool     ask_user
                about    colour
                │ Which?\u{1b}[2J
              [1] red: warm
              [2] blue
              a number or text; press Enter alone to decline
              answer: "#]]
        .assert_eq(&format!(
            "screen:\n{}",
            format_query(&interview, 0, &interview.questions[0], look)
        ));
    }
}
