//! Formatting of untrusted text.

/// One line of at most `most` characters, trimmed: line breaks and tabs become spaces, and control characters,
/// bidirectional overrides and invisible characters become `\u{…}`. Longer text ends in `…`.
///
/// ```
/// use toolhost_sdk::text::inline;
///
/// assert_eq!(inline("a name\nwith \u{1b}[31mcolour", 80), r"a name with \u{1b}[31mcolour");
/// assert_eq!(inline("much too long", 8), "much too…");
/// ```
pub fn inline(text: &str, most: usize) -> String {
    let mut line = String::new();
    for (count, letter) in text.trim().chars().enumerate() {
        if count == most {
            line.push('…');
            break;
        }
        match letter {
            '\n' | '\r' | '\t' => line.push(' '),
            letter if letter.is_control() || is_invisible(letter) => {
                line.extend(letter.escape_unicode());
            }
            letter => line.push(letter),
        }
    }
    line
}

/// Bidirectional overrides and invisible characters, which can disguise text. The same characters as escaped by the
/// host (`toolhost_contract::text`), except for variation selectors of emoji.
fn is_invisible(letter: char) -> bool {
    matches!(letter,
        '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0d}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        for (text, line) in [
            (" a\nb\u{1b}c\u{202e} ", r"a b\u{1b}c\u{202e}"),
            ("x\u{2028}y\u{e0041}", r"x\u{2028}y\u{e0041}"),
            ("äöü", "äöü"),
        ] {
            assert_eq!(inline(text, 20), line);
        }
        assert_eq!(inline("äöü", 2), "äö…");
    }

    #[test]
    fn m_04_every_character_that_is_not_seen_is_escaped() {
        let unseen = "\u{34f}\u{115f}\u{17b4}\u{180b}\u{2065}\u{3164}\u{fe00}\u{ffa0}\u{fff0}\u{1bca0}\u{1d173}\u{e0100}";
        assert!(inline(unseen, 100).is_ascii());
        assert_eq!(inline("✂\u{fe0f}", 100), "✂\u{fe0f}");
    }
}
