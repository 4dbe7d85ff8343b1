//! Doc comments, which become descriptions for models. A missing one is an error.

use proc_macro2::Ident;
use syn::{Attribute, Error, Expr, ExprLit, Lit, Meta};

/// The doc comment among `attributes`, or an error at `owner`. `owner_kind` is what the error calls it, such as "tool".
pub fn required(
    attributes: &[Attribute],
    owner_kind: &str,
    owner: &Ident,
) -> Result<String, Error> {
    read(attributes).ok_or_else(|| {
        let text = format!(
            "{owner_kind} `{owner}` has no doc comment; it is the description for models, so write `/// …` above it"
        );
        Error::new(owner.span(), text)
    })
}

/// The doc comment among `attributes`, unless it is missing or blank.
pub fn read(attributes: &[Attribute]) -> Option<String> {
    let mut lines = Vec::new();
    for attribute in attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("doc"))
    {
        if let Meta::NameValue(meta) = &attribute.meta
            && let Expr::Lit(ExprLit {
                lit: Lit::Str(text),
                ..
            }) = &meta.value
        {
            lines.extend(
                text.value()
                    .lines()
                    .map(|line| line.strip_prefix(' ').unwrap_or(line).to_owned()),
            );
        }
    }
    let text = unwrap_paragraphs(&lines).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Joins wrapped lines, because line breaks of the source are meaningless to a model. Lists, tables, headings, indented
/// lines and fenced code keep their lines.
fn unwrap_paragraphs(lines: &[String]) -> String {
    let mut text = String::new();
    let mut fenced = false;
    let mut joinable = false;
    for line in lines.iter().map(|line| line.trim_end()) {
        let fence = line.trim_start().starts_with("```");
        let own_line = fenced || fence || line.is_empty() || starts_block(line);
        if !text.is_empty() {
            text.push(if joinable && !own_line { ' ' } else { '\n' });
        }
        text.push_str(line);
        fenced ^= fence;
        joinable = !(fenced || fence || line.is_empty() || line.starts_with(['#', '|']));
    }
    text
}

fn starts_block(line: &str) -> bool {
    let after_digits = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let numbered = after_digits.len() < line.len() && after_digits.starts_with(". ");
    numbered
        || line.starts_with([' ', '\t', '|', '#', '>'])
        || line.starts_with("- ")
        || line.starts_with("* ")
}

#[cfg(test)]
mod tests {
    use super::unwrap_paragraphs;

    fn check(comment: &str, expected: &str) {
        let lines: Vec<String> = comment.lines().map(str::to_owned).collect();
        assert_eq!(unwrap_paragraphs(&lines), expected);
    }

    #[test]
    fn wrapped_lines_are_joined() {
        check("one\ntwo", "one two");
    }

    #[test]
    fn paragraphs_stay_apart() {
        check("one\ntwo\n\nthree", "one two\n\nthree");
    }

    #[test]
    fn lists_keep_their_lines() {
        check(
            "these:\n- one\n- two\n1. first\n2. second",
            "these:\n- one\n- two\n1. first\n2. second",
        );
    }

    #[test]
    fn a_list_item_that_was_wrapped_is_joined() {
        check("- one\ntwo", "- one two");
    }

    #[test]
    fn code_and_tables_keep_their_lines() {
        check("see\n```\na\nb\n```\nend", "see\n```\na\nb\n```\nend");
        check("| a |\n|---|\ntext", "| a |\n|---|\ntext");
    }
}
