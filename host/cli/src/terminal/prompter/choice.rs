//! The possible answers to a question, each with a key, and the parser for what was typed.

use toolhost_contract::policy::ApprovalScope;

use super::question_draft::QuestionDraft;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// Allow this call only.
    Once,
    /// List the approvals that can be saved.
    Save,
    /// List similar waiting calls, to allow all of them once.
    Group {
        count: usize,
    },
    Deny,
    /// Edit the proposed content if there is one, or else the input.
    Edit,
    /// Show rows that are left out.
    View {
        rows: usize,
    },
    /// List the answers that the line of keys does not have.
    More,
    DenyWithMessage,
    /// Edit one of the files that the call would write.
    EditContent {
        files: usize,
    },
    EditInput,
    /// Show the whole input.
    Details,
    Cancel,
}

/// The selected answer, with the text after the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection<'a> {
    Once,
    Save,
    Group,
    Deny,
    View,
    More,
    DenyWithMessage(&'a str),
    EditContent(&'a str),
    EditInput(&'a str),
    Details,
    Cancel,
}

impl Choice {
    pub fn key(self) -> char {
        match self {
            Choice::Once => 'y',
            Choice::Save => 'a',
            Choice::Group { .. } => 'g',
            Choice::Deny => 'n',
            Choice::Edit => 'e',
            Choice::View { .. } => 'v',
            Choice::More => '?',
            Choice::DenyWithMessage => 't',
            Choice::EditContent { .. } => 'm',
            Choice::EditInput => 'i',
            Choice::Details => 'd',
            Choice::Cancel => 'c',
        }
    }

    /// What the answer does, for the list of all keys.
    pub fn description(self, draft: &QuestionDraft) -> String {
        let question = &draft.question;
        let input = match question.changes {
            Some(_) => "edit the input; the call runs again with it, and you are asked again",
            None => "edit the input; the rules evaluate it again, and you are asked again",
        };
        let text = match self {
            Choice::Once => match question.changes {
                Some(_) => "approve once: apply exactly these changes",
                None => "approve once: run this call",
            },
            Choice::Save => "list the approvals that can be saved, with their scopes",
            Choice::Deny => "deny this call; the turn continues",
            Choice::Edit if draft.editable_files().is_empty() => input,
            Choice::Edit => "edit the proposed content, then decide; the call does not run again",
            Choice::EditInput => input,
            Choice::More => "list the keys",
            Choice::Group { .. }
            | Choice::View { .. }
            | Choice::DenyWithMessage
            | Choice::EditContent { .. }
            | Choice::Details
            | Choice::Cancel => return self.label(),
        };
        text.to_owned()
    }

    /// The text beside the key in the line of keys.
    pub fn label(self) -> String {
        match self {
            Choice::Once => "once".to_owned(),
            Choice::Save => "always…".to_owned(),
            Choice::Group { count } => format!("all {count}…"),
            Choice::Deny => "no".to_owned(),
            Choice::Edit => "edit".to_owned(),
            Choice::View { rows } => format!("{rows} more lines"),
            Choice::More => "more".to_owned(),
            Choice::DenyWithMessage => "no, with a message to the agent".to_owned(),
            Choice::EditContent { files: 1 } => {
                "edit the new content of the file, then decide".to_owned()
            }
            Choice::EditContent { files } => {
                format!("edit the new content of one of {files} files, then decide")
            }
            Choice::EditInput => "edit the input".to_owned(),
            Choice::Details => "show the whole input".to_owned(),
            Choice::Cancel => "no, and cancel what this turn has not run yet".to_owned(),
        }
    }
}

/// The answers in the line of keys. `alike` is the number of calls that can be allowed together, `hidden` the number of
/// rows that are left out.
pub fn main_choices(draft: &QuestionDraft, alike: usize, hidden: usize) -> Vec<Choice> {
    let mut choices = vec![Choice::Once];
    if draft.question.offers.len() > 1 {
        choices.push(Choice::Save);
    }
    if alike > 1 {
        choices.push(Choice::Group { count: alike });
    }
    choices.extend([Choice::Deny, Choice::Edit]);
    if hidden > 0 {
        choices.push(Choice::View { rows: hidden });
    }
    choices.push(Choice::More);
    choices
}

/// The answers behind `?`.
pub fn more_choices(draft: &QuestionDraft) -> Vec<Choice> {
    let mut choices = vec![Choice::DenyWithMessage];
    let files = draft.editable_files().len();
    if files > 0 {
        choices.push(Choice::EditContent { files });
    }
    choices.extend([Choice::EditInput, Choice::Details, Choice::Cancel]);
    choices
}

/// The offers that save an approval, each with its key and its index. Narrow offers come first. Digits, because a wide
/// approval must not be one shift key away from a narrow one.
pub fn saved_offers(draft: &QuestionDraft) -> Vec<(char, usize)> {
    let offers = draft.question.offers.iter().enumerate();
    let saved = offers.filter(|(_, offer)| offer.scope != ApprovalScope::Once);
    ('1'..='9').zip(saved.map(|(at, _)| at)).collect()
}

/// Parses what was typed: a key, or a line that starts with one. Returns `None` if it matches no choice.
pub fn parse_selection<'a>(typed: &'a str, choices: &[Choice]) -> Option<Selection<'a>> {
    let typed = typed.trim();
    let (word, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let rest = rest.trim();
    let key = match word {
        "yes" | "Yes" | "YES" => 'y',
        "no" | "No" | "NO" => 'n',
        word => single_char(word)?.to_ascii_lowercase(),
    };
    let choice = choices.iter().find(|choice| choice.key() == key)?;
    let edits_content = choices
        .iter()
        .any(|choice| matches!(choice, Choice::EditContent { .. }));
    let selection = match choice {
        Choice::DenyWithMessage => return Some(Selection::DenyWithMessage(rest)),
        Choice::EditContent { .. } => return Some(Selection::EditContent(rest)),
        Choice::Edit if rest.is_empty() && edits_content => {
            return Some(Selection::EditContent(""));
        }
        Choice::Edit | Choice::EditInput => return Some(Selection::EditInput(rest)),
        Choice::Once => Selection::Once,
        Choice::Save => Selection::Save,
        Choice::Group { .. } => Selection::Group,
        Choice::Deny => Selection::Deny,
        Choice::View { .. } => Selection::View,
        Choice::More => Selection::More,
        Choice::Details => Selection::Details,
        Choice::Cancel => Selection::Cancel,
    };
    // `y but not that file` is not an approval.
    rest.is_empty().then_some(selection)
}

/// The index of the offer with this key.
pub fn parse_offer(typed: &str, offers: &[(char, usize)]) -> Option<usize> {
    let key = single_char(typed.trim())?;
    let offer = offers.iter().find(|(other, _)| *other == key);
    offer.map(|(_, at)| *at)
}

fn single_char(word: &str) -> Option<char> {
    let mut chars = word.chars();
    chars.next().filter(|_| chars.next().is_none())
}

/// `y, a, n or ?`
pub fn list_keys(choices: &[Choice]) -> String {
    let keys: Vec<String> = choices
        .iter()
        .map(|choice| choice.key().to_string())
        .collect();
    match keys.split_last() {
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
    fn every_answer_has_a_key() {
        let keys = |ask: &str, alike, hidden| {
            let (question, _) = match ask {
                "write" => question(&write("src/a.rs", "x")),
                "staged" => staged_question(&[("/w/a", None, "x")]),
                command_line => question(&command(command_line)),
            };
            let draft = QuestionDraft::new(&question);
            let offers: String = saved_offers(&draft).iter().map(|(key, _)| key).collect();
            let main = list_keys(&main_choices(&draft, alike, hidden));
            format!("{main}; {offers}; {}", list_keys(&more_choices(&draft)))
        };
        assert_eq!(keys("write", 1, 0), "y, a, n, e or ?; 123456; t, i, d or c");
        assert_eq!(
            keys("write", 2, 3),
            "y, a, g, n, e, v or ?; 123456; t, i, d or c"
        );
        assert_eq!(
            keys("cargo test", 1, 0),
            "y, a, n, e or ?; 123; t, i, d or c"
        );
        assert_eq!(keys("$(x)", 1, 0), "y, n, e or ?; ; t, i, d or c");
        assert_eq!(
            keys("staged", 1, 0),
            "y, a, n, e or ?; 123456; t, m, i, d or c"
        );
    }

    #[test]
    fn what_was_typed_selects_one_choice_or_none() {
        let (question, _) = question(&command("cargo test"));
        let draft = QuestionDraft::new(&question);
        let mut narrow = main_choices(&draft, 1, 0);
        narrow.extend(more_choices(&draft));
        let files = [Choice::EditContent { files: 2 }, Choice::Edit, Choice::Deny];
        for (typed, picked) in [
            ("y\n", Some(Selection::Once)),
            (" Y ", Some(Selection::Once)),
            ("yes", Some(Selection::Once)),
            ("a", Some(Selection::Save)),
            // Scopes are chosen behind `a` only.
            ("1", None),
            ("g", None),
            ("n", Some(Selection::Deny)),
            ("NO", Some(Selection::Deny)),
            ("t", Some(Selection::DenyWithMessage(""))),
            (
                "t  use the other one ",
                Some(Selection::DenyWithMessage("use the other one")),
            ),
            ("e", Some(Selection::EditInput(""))),
            ("e command=ls", Some(Selection::EditInput("command=ls"))),
            ("i command=ls", Some(Selection::EditInput("command=ls"))),
            ("d", Some(Selection::Details)),
            ("c", Some(Selection::Cancel)),
            ("?", Some(Selection::More)),
            ("v", None),
            ("", None),
            ("yy", None),
            ("y n", None),
            ("y\u{200b}", None),
            ("ｙ", None),
            ("\u{1b}[A", None),
        ] {
            assert_eq!(parse_selection(typed, &narrow), picked, "{typed}");
        }
        assert_eq!(parse_selection("m", &narrow), None);
        for (typed, picked) in [
            ("m", Selection::EditContent("")),
            ("e", Selection::EditContent("")),
            ("e path=b", Selection::EditInput("path=b")),
            ("M 2", Selection::EditContent("2")),
        ] {
            assert_eq!(parse_selection(typed, &files), Some(picked), "{typed}");
        }
        let offers = saved_offers(&draft);
        for (typed, picked) in [("1", Some(1)), ("2", Some(2)), ("4", None), ("y", None)] {
            assert_eq!(parse_offer(typed, &offers), picked, "{typed}");
        }
    }
}
