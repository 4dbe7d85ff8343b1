//! Pages for models: Markdown or plain text, without what only browsers need, and whatever a page does to be slow.

use std::collections::HashMap;

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use url::Url;

use crate::tree::{self, Tree};

/// A page in words.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub title: Option<String>,
    pub text: String,
    /// What a reader should know was done to it.
    pub note: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Markdown,
    Text,
}

/// Pages of more markup than this are read up to here.
const MOST: usize = 4 << 20;

/// Elements inside each other. The parser's time grows with the square of it, and no page needs more.
const DEPTH: usize = 1000;
/// Words and quotes in one tag.
const ATTRIBUTES: usize = 2000;
/// Tags of `html` and `body`, first and last.
const BODIES: usize = 100;
/// Elements that the parser may have to repeat: what formats text goes on behind the end of the paragraph around it.
const REPEATED: usize = 1_000_000;

pub fn convert(html: &str, address: &Url, form: Form) -> Page {
    let cut = html.len() > MOST;
    let html = &html[..html.floor_char_boundary(MOST)];
    if is_knotted(html) || has_long_tag(html) {
        return Page {
            title: None,
            text: squeeze(&strip(html)),
            note: Some(
                "its elements are nested too deep, or have too many attributes, to be read as a page; all markup was taken out",
            ),
        };
    }
    let converter = HtmlToMarkdown::builder()
        .options(Options {
            bullet_list_marker: BulletListMarker::Dash,
            ul_bullet_spacing: 1,
            ol_number_spacing: 1,
            ..Options::default()
        })
        .scripting_enabled(false)
        .build();
    let Ok(root) = converter.html_to_tree(html) else {
        return Page {
            text: squeeze(&strip(html)),
            ..Page::default()
        };
    };
    let Tree {
        title,
        main,
        cut: pruned,
    } = tree::prepare(&root, address);
    let text = match form {
        Form::Markdown => {
            let root = main.as_ref().unwrap_or(&root);
            tree::plain_code(root);
            converter.tree_to_markdown(root)
        }
        Form::Text => tree::text(main.as_ref().unwrap_or(&root)),
    };
    let note = if cut {
        Some("only its first 4 MiB were read")
    } else if pruned {
        Some("it is larger or deeper than is read; some of it was left out")
    } else if main.is_some() {
        Some("only its main part is shown; for all of it use `format` = `raw`")
    } else {
        None
    };
    Page {
        title,
        text: squeeze(&text),
        note,
    }
}

/// Whether the parser would take its time: what it does for an element grows with the number of those that are open, and
/// for a further `<body>` with the attributes of all before.
fn is_knotted(html: &str) -> bool {
    const OPEN_ENDED: &[&str] = &[
        "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html",
        "img", "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt",
        "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
    ];
    const FORMATTING: &[&str] = &[
        "a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt",
        "u",
    ];
    let mut open: HashMap<String, usize> = HashMap::new();
    let (mut depth, mut bodies) = (0_usize, 0_usize);
    let (mut formatting, mut repeated) = (0_usize, 0_usize);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        let (closes, rest) = match rest.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len());
        let name = &rest[..end];
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let name = name.get(..12).unwrap_or(name).to_ascii_lowercase();
        if matches!(&*name, "body" | "html") {
            bodies += 1;
        }
        repeated += formatting;
        if bodies > BODIES || repeated > REPEATED {
            return true;
        }
        if OPEN_ENDED.contains(&&*name) {
            continue;
        }
        let formats = usize::from(FORMATTING.contains(&&*name));
        if !closes {
            *open.entry(name).or_default() += 1;
            depth += 1;
            formatting += formats;
        } else if let Some(opened) = open.get_mut(&name).filter(|opened| **opened > 0) {
            // The end of what was never begun ends nothing.
            *opened -= 1;
            depth -= 1;
            formatting -= formats;
        }
        if depth > DEPTH {
            return true;
        }
    }
    false
}

/// Whether a tag has more words than any page needs. Goes through the page as the parser does: what is quoted, a comment
/// or a script is no tag.
fn has_long_tag(html: &str) -> bool {
    const RAW: &[&str] = &[
        "iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp",
    ];
    let mut rest = html;
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = after_comment(comment);
            continue;
        }
        if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
            rest = tag;
            continue;
        }
        let (mut words, mut inside, mut last) = (0, tag, None);
        let after = loop {
            let Some(at) = inside.find(|c: char| c.is_ascii_whitespace() || "\"'>".contains(c))
            else {
                // It has no end, and so the parser drops it.
                return false;
            };
            last = inside[..at].bytes().next_back().or(last);
            let next = &inside[at + 1..];
            match inside.as_bytes()[at] {
                b'>' => break next,
                // Anywhere else than behind `=` it is a letter.
                quote @ (b'"' | b'\'') if last == Some(b'=') => {
                    let Some((_, unquoted)) = next.split_once(char::from(quote)) else {
                        return false;
                    };
                    last = Some(quote);
                    inside = unquoted;
                }
                letter @ (b'"' | b'\'') => {
                    last = Some(letter);
                    inside = next;
                }
                _ => inside = next,
            }
            words += 1;
            if words > ATTRIBUTES {
                return true;
            }
        };
        let name = tag.split(|c: char| !c.is_ascii_alphanumeric()).next();
        let raw = RAW
            .iter()
            .find(|raw| name.is_some_and(|name| raw.eq_ignore_ascii_case(name)));
        rest = raw.map_or(after, |raw| after_raw(after, raw));
    }
    false
}

fn after_comment(comment: &str) -> &str {
    for end in [">", "->"] {
        if let Some(rest) = comment.strip_prefix(end) {
            return rest;
        }
    }
    let ends = ["-->", "--!>"].map(|end| comment.find(end).map(|at| at + end.len()));
    let end = ends.into_iter().flatten().min();
    end.map_or("", |end| &comment[end..])
}

/// What follows the text of an element that has no elements in it, with its end.
fn after_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut ends = text.match_indices("</").map(|(at, _)| &text[at + 2..]);
    let end = ends.find(|end| {
        let own = end.get(..name.len());
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    });
    end.unwrap_or_default()
}

/// Without anything between `<` and `>`.
fn strip(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some((before, tag)) = rest.split_once('<') {
        text.push_str(before);
        rest = tag.split_once('>').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    text
}

/// At most one empty line at a time, and no blanks at the ends of lines.
fn squeeze(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        // Two blanks are a line break in Markdown, and only before a line that goes on.
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty < 2 {
            squeezed.push_str(line);
            squeezed.push('\n');
        }
    }
    squeezed.trim_matches('\n').to_owned()
}

#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;
