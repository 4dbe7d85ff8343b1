//! The possible answers to a question, each with a letter, and the parser for a typed line.

use toolhost_contract::policy::Scope;

use super::draft::Draft;

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
    No,
    Tell,
    /// Edit one of the files that the call would write.
    Content {
        files: usize,
    },
    /// Edit the input.
    Edit,
    Cancel,
    Help,
}

/// The selected answer, with the text after the letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick<'a> {
    Offer(usize),
    All,
    No,
    Tell(&'a str),
    Content(&'a str),
    Edit(&'a str),
    Cancel,
    Help,
}

impl Choice {
    pub fn letter(self) -> char {
        match self {
            Choice::Offer { letter, .. } => letter,
            Choice::All { .. } => 'a',
            Choice::No => 'n',
            Choice::Tell => 't',
            Choice::Content { .. } => 'm',
            Choice::Edit => 'e',
            Choice::Cancel => 'c',
            Choice::Help => '?',
        }
    }
}

/// The offers of the question and the fixed choices. `alike` is the number of calls that can be allowed together.
pub fn choices(draft: &Draft, alike: usize) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for (at, offer) in draft.question.offers.iter().enumerate() {
        // Narrow offers come first. The wider offer of the same scope gets the capital letter; there is no third.
        let letter = match offer.scope {
            Scope::Once => 'y',
            Scope::Session => 's',
            Scope::Project => 'p',
            Scope::User => 'u',
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
    let files = draft.files().len();
    if files > 0 {
        choices.push(Choice::Content { files });
    }
    choices.extend([
        Choice::No,
        Choice::Tell,
        Choice::Edit,
        Choice::Cancel,
        Choice::Help,
    ]);
    choices
}

/// Parses a line. Returns `None` if it matches no choice.
pub fn pick<'a>(line: &'a str, choices: &[Choice]) -> Option<Pick<'a>> {
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
        Choice::Tell => return Some(Pick::Tell(rest)),
        Choice::Content { .. } => return Some(Pick::Content(rest)),
        Choice::Edit => return Some(Pick::Edit(rest)),
        Choice::Offer { at, .. } => Pick::Offer(*at),
        Choice::All { .. } => Pick::All,
        Choice::No => Pick::No,
        Choice::Cancel => Pick::Cancel,
        Choice::Help => Pick::Help,
    };
    // `y but not that file` is not an approval.
    rest.is_empty().then_some(pick)
}

/// `y, s, n or ?`
pub fn letters(choices: &[Choice]) -> String {
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
    use super::super::testing::{changing, command, question, write};
    use super::*;

    // once, always, modify, cancel
    #[test]
    fn every_offer_has_a_letter_and_nothing_else_has() {
        let letters = |ask: &str, alike| {
            let (question, _) = if ask == "write" {
                question(&write("src/a.rs", "x"))
            } else {
                question(&command(ask))
            };
            super::letters(&choices(&Draft::new(&question), alike))
        };
        assert_eq!(letters("write", 1), "y, s, p, u, S, P, U, n, t, e, c or ?");
        assert_eq!(
            letters("write", 2),
            "y, s, p, u, S, P, U, a, n, t, e, c or ?"
        );
        assert_eq!(letters("cargo test", 1), "y, s, p, u, n, t, e, c or ?");
        assert_eq!(letters("$(x)", 1), "y, n, t, e, c or ?");
        let (question, _) = changing(&[("/w/a", None, "x")]);
        let letters = super::letters(&choices(&Draft::new(&question), 1));
        assert_eq!(letters, "y, s, p, u, S, P, U, m, n, t, e, c or ?");
    }

    #[test]
    fn a_line_picks_one_choice_or_none() {
        let (question, _) = question(&command("cargo test"));
        let narrow = choices(&Draft::new(&question), 1);
        let alike = [Choice::All { count: 2 }, Choice::No];
        let files = [Choice::Content { files: 2 }, Choice::No];
        for (line, picked) in [
            ("y\n", Some(Pick::Offer(0))),
            (" Y ", Some(Pick::Offer(0))),
            ("yes", Some(Pick::Offer(0))),
            ("s", Some(Pick::Offer(1))),
            ("p", Some(Pick::Offer(2))),
            ("u", Some(Pick::Offer(3))),
            ("S", None),
            ("a", None),
            ("n", Some(Pick::No)),
            ("NO", Some(Pick::No)),
            ("t", Some(Pick::Tell(""))),
            (
                "t  use the other one ",
                Some(Pick::Tell("use the other one")),
            ),
            ("e", Some(Pick::Edit(""))),
            ("e command=ls", Some(Pick::Edit("command=ls"))),
            ("c", Some(Pick::Cancel)),
            ("?", Some(Pick::Help)),
            ("", None),
            ("yy", None),
            ("y n", None),
            ("y\u{200b}", None),
            ("ｙ", None),
            ("\u{1b}[A", None),
        ] {
            assert_eq!(pick(line, &narrow), picked, "{line}");
        }
        assert_eq!(pick("m", &narrow), None);
        assert_eq!(pick("m", &files), Some(Pick::Content("")));
        assert_eq!(pick("M 2", &files), Some(Pick::Content("2")));
        assert_eq!(pick("A", &alike), Some(Pick::All));
    }
}
