//! Conversion of HTML pages to Markdown or plain text, with bounded work.

use std::collections::HashMap;

use htmd::HtmlToMarkdown;
use htmd::options::{BulletListMarker, Options};
use url::Url;

use crate::html_tree::{self, Tree};

/// A converted page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub title: Option<String>,
    pub text: String,
    /// What the reader should know about the conversion.
    pub note: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageFormat {
    Markdown,
    Text,
}

/// Limit of HTML, in bytes.
const MOST: usize = 4 << 20;

/// Depth limit of elements. The parser's time is quadratic in the depth.
const DEPTH: usize = 1000;
/// Limit of words and quotes per tag.
const ATTRIBUTES: usize = 2000;
/// Limit of `html` and `body` tags, opening and closing.
const BODIES: usize = 100;
/// Limit of formatting elements that the parser has to reopen after each paragraph.
const REPEATED: usize = 1_000_000;

pub fn convert(html: &str, address: &Url, form: PageFormat) -> Page {
    let cut = html.len() > MOST;
    let html = &html[..html.floor_char_boundary(MOST)];
    if is_expensive(html) || has_long_tag(html) {
        return Page {
            title: None,
            text: squeeze(&strip(html)),
            note: Some(
                "its elements are nested too deeply or have too many attributes; all markup was removed",
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
    } = html_tree::prepare(&root, address);
    let text = match form {
        PageFormat::Markdown => {
            let root = main.as_ref().unwrap_or(&root);
            html_tree::plain_code(root);
            converter.tree_to_markdown(root)
        }
        PageFormat::Text => html_tree::text(main.as_ref().unwrap_or(&root)),
    };
    let note = if cut {
        Some("only the first 4 MiB were read")
    } else if pruned {
        Some("it exceeds the size or depth limit; parts were omitted")
    } else if main.is_some() {
        Some("only the main part is shown; for everything use `format` = `raw`")
    } else {
        None
    };
    Page {
        title,
        text: squeeze(&text),
        note,
    }
}

/// Whether the parser would be slow: its work per element grows with the number of open elements, and for each further
/// `<body>` with all earlier attributes.
fn is_expensive(html: &str) -> bool {
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
            // An end tag without a start tag closes nothing.
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

/// Whether a tag has too many attributes. Skips quoted text, comments and scripts like the parser.
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
        let (mut parts, mut inside, mut last) = (0, tag, None);
        let after = loop {
            let Some(at) = inside.find(|c: char| c.is_ascii_whitespace() || "\"'>".contains(c))
            else {
                // The parser drops an unterminated tag.
                return false;
            };
            last = inside[..at].bytes().next_back().or(last);
            let next = &inside[at + 1..];
            match inside.as_bytes()[at] {
                b'>' => break next,
                // Elsewhere than after `=`, a quote is a regular character.
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
            parts += 1;
            if parts > ATTRIBUTES {
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

/// The rest after a raw text element, including its end tag.
fn after_raw<'a>(text: &'a str, name: &str) -> &'a str {
    let mut ends = text.match_indices("</").map(|(at, _)| &text[at + 2..]);
    let end = ends.find(|end| {
        let own = end.get(..name.len());
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    });
    end.unwrap_or_default()
}

/// Removes everything between `<` and `>`.
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

/// At most one empty line in a row, without trailing blanks.
fn squeeze(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.lines() {
        // Two trailing blanks are a Markdown line break, which needs a following line.
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
