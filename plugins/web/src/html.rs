//! Pages for models: Markdown or plain text, without what only browsers need, and whatever a page does to be slow.

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

pub fn convert(html: &str, address: &Url, form: Form) -> Page {
    let cut = html.len() > MOST;
    let html = &html[..html.floor_char_boundary(MOST)];
    if depth(html) > DEPTH {
        return Page {
            title: None,
            text: squeeze(&strip(html)),
            note: Some(
                "its elements are nested too deep to be read as a page; all markup was taken out",
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
        Form::Markdown => converter.tree_to_markdown(main.as_ref().unwrap_or(&root)),
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

/// How deep elements are nested, roughly: those whose end may be left out do not count.
fn depth(html: &str) -> usize {
    const OPEN_ENDED: &[&str] = &[
        "area", "base", "body", "br", "col", "colgroup", "dd", "dt", "embed", "head", "hr", "html",
        "img", "input", "li", "link", "meta", "optgroup", "option", "p", "param", "rp", "rt",
        "source", "tbody", "td", "tfoot", "th", "thead", "tr", "track", "wbr",
    ];
    let (mut now, mut most) = (0_usize, 0_usize);
    for (at, _) in html.match_indices('<') {
        let rest = &html[at + 1..];
        let (closes, rest) = match rest.strip_prefix('/') {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let end = rest
            .find(|c: char| !c.is_ascii_alphanumeric())
            .unwrap_or(rest.len())
            .min(12);
        let name = rest.get(..end).unwrap_or_default();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic())
            || OPEN_ENDED
                .iter()
                .any(|known| known.eq_ignore_ascii_case(name))
        {
            continue;
        }
        if closes {
            now = now.saturating_sub(1);
        } else {
            now += 1;
            most = most.max(now);
        }
    }
    most
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
mod tests;
