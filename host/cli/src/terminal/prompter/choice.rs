//! The possible answers to a question, each with a letter, and the parser for a typed line.

use toolhost_contract::policy::ApprovalScope;

use super::question_draft::QuestionDraft;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// One of the question's offers.
    Offer {
        letter: char,
        at: usize,
    },
    /// Allow each of `count` similar waiting calls once.
    All {
        count: usize,
    },
    Deny,
    DenyWithMessage,
    /// Edit one of the files that the call would write.
    EditContent {
        files: usize,
    },
    /// Edit the input.
    EditInput,
    Cancel,
    Help,
}

/// The selected answer, with the text after the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection<'a> {
    Offer(usize),
    All,
    Deny,
    DenyWithMessage(&'a str),
    EditContent(&'a str),
    EditInput(&'a str),
    Cancel,
    Help,
}

impl Choice {
    pub fn letter(self) -> char {
        match self {
            Choice::Offer { letter, .. } => letter,
            Choice::All { .. } => 'a',
            Choice::Deny => 'n',
            Choice::DenyWithMessage => 't',
            Choice::EditContent { .. } => 'm',
            Choice::EditInput => 'e',
            Choice::Cancel => 'c',
            Choice::Help => '?',
        }
    }
}

/// The offers of the question and the fixed choices. `alike` is the number of calls that can be allowed together.
pub fn available_choices(draft: &QuestionDraft, alike: usize) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for (at, offer) in draft.question.offers.iter().enumerate() {
        // Narrow offers come first. The wider offer of the same scope gets the capital letter; there is no third.
        let letter = match offer.scope {
            ApprovalScope::Once => 'y',
            ApprovalScope::Session => 's',
            ApprovalScope::Project => 'p',
            ApprovalScope::User => 'u',
        };
        let taken = |letter: char| choices.iter().any(|choice| choice.letter() == letter);
        let letters = [letter, letter.to_ascii_uppercase()];
        if let Some(letter) = letters.into_iter().find(|letter| !taken(*letter)) {
            choices.push(Choice::Offer { letter, at });
        }
    }
    if alike > 1 {
        choices.push(Choice::All { count: alike });
    }
    let files = draft.editable_files().len();
    if files > 0 {
        choices.push(Choice::EditContent { files });
    }
    choices.extend([
        Choice::Deny,
        Choice::DenyWithMessage,
        Choice::EditInput,
        Choice::Cancel,
        Choice::Help,
    ]);
    choices
}

/// Parses a line. Returns `None` if it matches no choice.
pub fn parse_selection<'a>(line: &'a str, choices: &[Choice]) -> Option<Selection<'a>> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let letter = match word {
        "yes" | "Yes" | "YES" => 'y',
        "no" | "No" | "NO" => 'n',
        word => {
            let mut chars = word.chars();
            chars.next().filter(|_| chars.next().is_none())?
        }
    };
    // `S` is wider than `s`, so case matters for these letters only.
    let letter = match letter {
        'S' | 'P' | 'U' => letter,
        letter => letter.to_ascii_lowercase(),
    };
    let choice = choices.iter().find(|choice| choice.letter() == letter)?;
    let pick = match choice {
        Choice::DenyWithMessage => return Some(Selection::DenyWithMessage(rest)),
        Choice::EditContent { .. } => return Some(Selection::EditContent(rest)),
        Choice::EditInput => return Some(Selection::EditInput(rest)),
        Choice::Offer { at, .. } => Selection::Offer(*at),
        Choice::All { .. } => Selection::All,
        Choice::Deny => Selection::Deny,
        Choice::Cancel => Selection::Cancel,
        Choice::Help => Selection::Help,
    };
    // `y but not that file` is not an approval.
    rest.is_empty().then_some(pick)
}

/// `y, s, n or ?`
pub fn list_letters(choices: &[Choice]) -> String {
    let letters: Vec<String> = choices
        .iter()
        .map(|choice| choice.letter().to_string())
        .collect();
    match letters.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{command, question, staged_question, write};
    use super::*;

    // once, always, modify, cancel
    #[test]
    fn every_offer_has_a_letter() {
        let letters = |ask: &str, alike| {
            let (question, _) = if ask == "write" {
                question(&write("src/a.rs", "x"))
            } else {
                question(&command(ask))
            };
            super::list_letters(&available_choices(&QuestionDraft::new(&question), alike))
        };
        assert_eq!(letters("write", 1), "y, s, p, u, S, P, U, n, t, e, c or ?");
        assert_eq!(
            letters("write", 2),
            "y, s, p, u, S, P, U, a, n, t, e, c or ?"
        );
        assert_eq!(letters("cargo test", 1), "y, s, p, u, n, t, e, c or ?");
        assert_eq!(letters("$(x)", 1), "y, n, t, e, c or ?");
        let (question, _) = staged_question(&[("/w/a", None, "x")]);
        let letters = super::list_letters(&available_choices(&QuestionDraft::new(&question), 1));
        assert_eq!(letters, "y, s, p, u, S, P, U, m, n, t, e, c or ?");
    }

    #[test]
    fn a_line_selects_one_choice_or_none() {
        let (question, _) = question(&command("cargo test"));
        let narrow = available_choices(&QuestionDraft::new(&question), 1);
        let alike = [Choice::All { count: 2 }, Choice::Deny];
        let files = [Choice::EditContent { files: 2 }, Choice::Deny];
        for (line, picked) in [
            ("y\n", Some(Selection::Offer(0))),
            (" Y ", Some(Selection::Offer(0))),
            ("yes", Some(Selection::Offer(0))),
            ("s", Some(Selection::Offer(1))),
            ("p", Some(Selection::Offer(2))),
            ("u", Some(Selection::Offer(3))),
            ("S", None),
            ("a", None),
            ("n", Some(Selection::Deny)),
            ("NO", Some(Selection::Deny)),
            ("t", Some(Selection::DenyWithMessage(""))),
            (
                "t  use the other one ",
                Some(Selection::DenyWithMessage("use the other one")),
            ),
            ("e", Some(Selection::EditInput(""))),
            ("e command=ls", Some(Selection::EditInput("command=ls"))),
            ("c", Some(Selection::Cancel)),
            ("?", Some(Selection::Help)),
            ("", None),
            ("yy", None),
            ("y n", None),
            ("y\u{200b}", None),
            ("ｙ", None),
            ("\u{1b}[A", None),
        ] {
            assert_eq!(parse_selection(line, &narrow), picked, "{line}");
        }
        assert_eq!(parse_selection("m", &narrow), None);
        assert_eq!(
            parse_selection("m", &files),
            Some(Selection::EditContent(""))
        );
        assert_eq!(
            parse_selection("M 2", &files),
            Some(Selection::EditContent("2"))
        );
        assert_eq!(parse_selection("A", &alike), Some(Selection::All));
    }
}
