//! Markdown of tools, with its headings, emphasis and code in colours. The text itself stays as it is.

use pulldown_cmark::{Event, Parser, Tag};
use toolhost_contract::text;

use super::style::{Paint, Style};

/// Maximum length in bytes of a text that is parsed; a longer one is shown without colours.
const MAX_PARSED: usize = 256 << 10;

/// Escapes a Markdown text and paints its structure.
pub fn render(markdown: &str, style: Style) -> String {
    let escaped = text::escape_lines(markdown, usize::MAX);
    if !style.has_colours() || escaped.len() > MAX_PARSED {
        return escaped;
    }
    let mut shown = String::with_capacity(escaped.len());
    let mut done = 0;
    for (event, range) in Parser::new(&escaped).into_offset_iter() {
        let paint = match event {
            Event::Start(Tag::Heading { .. } | Tag::Strong) => Paint::Bold,
            Event::Start(Tag::CodeBlock(_)) | Event::Code(_) => Paint::Cyan,
            Event::Start(Tag::BlockQuote(_)) | Event::Rule => Paint::Dim,
            _ => continue,
        };
        // Inside of a part that is painted already.
        if range.start < done {
            continue;
        }
        shown.push_str(&escaped[done..range.start]);
        for line in escaped[range.clone()].split_inclusive('\n') {
            let (line, end) = line
                .strip_suffix('\n')
                .map_or((line, ""), |line| (line, "\n"));
            shown.push_str(&style.paint(paint, line));
            shown.push_str(end);
        }
        done = range.end;
    }
    shown.push_str(&escaped[done..]);
    shown
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn structure_is_painted_and_control_characters_are_escaped() {
        let text = "# Result\nThree **new** files, see `a.txt`:\n\n```\nx = 1\n```\n> quoted\nend\u{1b}[2J\n";
        expect![[r"
            <1># Result<0>
            Three <1>**new**<0> files, see <36>`a.txt`<0>:

            <36>```<0>
            <36>x = 1<0>
            <36>```<0>
            <2>> quoted<0>
            <2>end\u{1b}[2J<0>
        "]]
        .assert_eq(&codes(&render(text, Style::COLOURS)));
        assert_eq!(render("# a", Style::PLAIN), "# a");
    }

    #[test]
    fn deeply_nested_and_long_texts_are_shown_whole() {
        for text in [
            "**a ".repeat(20_000),
            "> ".repeat(20_000),
            "`".repeat(MAX_PARSED + 1),
        ] {
            let shown = codes(&render(&text, Style::COLOURS));
            let plain: String = ["<1>", "<2>", "<36>", "<0>"]
                .iter()
                .fold(shown, |text, code| text.replace(code, ""));
            assert_eq!(plain, text);
        }
    }

    fn codes(text: &str) -> String {
        ["1", "2", "36", "0"]
            .iter()
            .fold(text.to_owned(), |text, code| {
                text.replace(&format!("\u{1b}[{code}m"), &format!("<{code}>"))
            })
    }
}
