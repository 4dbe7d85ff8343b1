//! Questions of a tool to the user, marked as text of the tool and with the tool's name above.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use toolhost_contract::{Interview, Query, QueryKind, Reply, text};

use super::desk::Waits;
use super::hear::hear;
use super::keys::{Heard, Keys};
use super::margin::{self, Look};
use crate::terminal::screen::SCREEN;
use crate::terminal::style::Paint;

/// Maximum number of attempts to answer one question.
const PATIENCE: usize = 5;

/// Tells the asking thread whether the interview is still pending.
#[derive(Default)]
pub struct Ticket(AtomicBool);

impl Ticket {
    pub fn leave(&self) {
        self.0.store(true, Relaxed);
    }
}

impl Waits for Ticket {
    fn waits(&self) -> bool {
        !self.0.load(Relaxed)
    }
}

/// Asks all questions. Returns `None` if the user declines or the terminal is gone.
pub fn interview(
    keys: &mut impl Keys,
    interview: &Interview,
    ticket: &Ticket,
) -> Option<Vec<Reply>> {
    let _asking = SCREEN.ask();
    let queries = interview.queries.iter().enumerate();
    queries
        .map(|(at, query)| one(keys, interview, at, query, ticket))
        .collect()
}

fn one(
    keys: &mut impl Keys,
    interview: &Interview,
    at: usize,
    query: &Query,
    ticket: &Ticket,
) -> Option<Reply> {
    let mut remark = None;
    for _ in 0..PATIENCE {
        let heard = hear(keys, ticket, |look| match &remark {
            None => question(interview, at, query, look),
            Some(remark) => format!("  {remark}\n  answer: "),
        })?;
        let Heard::Line(line) = heard else {
            remark = None;
            continue;
        };
        let line = line.trim();
        if line.is_empty() {
            return None;
        }
        match read(query, line) {
            Ok(reply) => return Some(reply),
            Err(error) => remark = Some(error),
        }
    }
    None
}

fn question(interview: &Interview, at: usize, query: &Query, look: Look) -> String {
    let mut out = String::new();
    let of = interview.queries.len();
    let title = look.style.paint(Paint::Bold, "Question from a tool");
    let count = if of > 1 {
        format!("  ({} of {of})", at + 1)
    } else {
        String::new()
    };
    let _ = writeln!(out, "\n  {title}{count}");
    out += &margin::fact("plugin", &interview.plugin, look);
    out += &margin::fact("tool", &interview.tool, look);
    if let Some(agent) = &interview.agent {
        out += &margin::fact("agent", agent, look);
    }
    if !query.header.is_empty() {
        out += &margin::fact("about", &query.header, look);
    }
    out += &margin::fenced(&query.question, look);
    for (number, option) in query.options.iter().enumerate() {
        let words = if option.description.is_empty() {
            option.label.clone()
        } else {
            format!("{}: {}", option.label, option.description)
        };
        out += &margin::broken(&format!("[{}]", number + 1), &words, look);
        if let Some(preview) = &option.preview {
            out += &margin::fenced(preview, look);
        }
    }
    let how = match (query.kind, query.multi_select) {
        (QueryKind::YesNo, _) => "y or n",
        (QueryKind::Text, _) => "text",
        (QueryKind::Choice, false) => "a number or text",
        (QueryKind::Choice, true) => "comma-separated numbers or text",
    };
    let _ = writeln!(out, "  {how}; Enter alone declines");
    out + "  answer: "
}

/// Parses an answer. The error is shown to the user.
fn read(query: &Query, line: &str) -> Result<Reply, String> {
    let count = query.options.len();
    let label = |word: &str| -> Result<Option<String>, String> {
        let by_name = query
            .options
            .iter()
            .find(|option| option.label.eq_ignore_ascii_case(word));
        if let Some(option) = by_name {
            return Ok(Some(option.label.clone()));
        }
        match word.parse::<usize>() {
            Ok(number) if (1..=count).contains(&number) => {
                Ok(Some(query.options[number - 1].label.clone()))
            }
            Ok(number) => Err(format!("no option {number}; choose 1 to {count}")),
            Err(_) => Ok(None),
        }
    };
    match query.kind {
        QueryKind::YesNo => match line.to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(Reply::YesNo(true)),
            "n" | "no" => Ok(Reply::YesNo(false)),
            _ => Err("answer with y or n".to_owned()),
        },
        QueryKind::Text => Ok(Reply::Text(line.to_owned())),
        QueryKind::Choice if query.multi_select => {
            let words: Vec<&str> = line.split(',').map(str::trim).collect();
            let labels = words
                .into_iter()
                .map(label)
                .collect::<Result<Option<Vec<_>>, _>>()?;
            Ok(labels.map_or_else(|| Reply::Text(line.to_owned()), Reply::Labels))
        }
        QueryKind::Choice => {
            let label = label(line)?;
            Ok(Reply::Text(
                label.unwrap_or_else(|| text::head(line, 4_000).to_owned()),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::terminal::style::Style;

    fn query(json: &str) -> Query {
        Query::parse(&format!("[{json}]")).unwrap().remove(0)
    }

    const COLOURS: &str = r#"{"question": "Which?\u001b[2J", "header": "colour",
        "options": [{"label": "red", "description": "warm"}, {"label": "blue"}]}"#;

    fn check(json: &str, line: &str, expected: Expect) {
        expected.assert_eq(&format!("{:?}", read(&query(json), line)));
    }

    #[test]
    fn a_line_is_a_number_a_label_or_words() {
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
        let sure = r#"{"question": "Sure?", "type": "yesno"}"#;
        check(sure, "Y", expect!["Ok(YesNo(true))"]);
        check(sure, "maybe", expect![[r#"Err("answer with y or n")"#]]);
    }

    #[test]
    fn the_tools_words_stand_behind_a_mark_and_are_escaped() {
        let interview = Interview {
            call: toolhost_contract::CallId("1".to_owned()),
            plugin: "agent".to_owned(),
            tool: "ask_user".to_owned(),
            agent: None,
            queries: vec![query(COLOURS)],
        };
        let look = Look {
            width: 60,
            height: 24,
            style: Style::PLAIN,
        };
        expect![[r#"
            screen:

              Question from a tool
                plugin   agent
                tool     ask_user
                about    colour
                │ Which?\u{1b}[2J
              [1] red: warm
              [2] blue
              a number or text; Enter alone declines
              answer: "#]]
        .assert_eq(&format!(
            "screen:\n{}",
            question(&interview, 0, &interview.queries[0], look)
        ));
    }
}
