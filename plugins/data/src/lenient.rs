//! Conversion of lenient JSON to JSON: removes comments, trailing commas and a surrounding code fence.

/// Replaces removed text with spaces, so that lines and columns do not change.
pub fn plain(text: &str) -> String {
    let mut chars: Vec<char> = text.trim_start_matches('\u{feff}').chars().collect();
    unfence(&mut chars);
    let mut at = 0;
    // The last comma, if only white space follows it so far.
    let mut comma = None;
    while at < chars.len() {
        match (chars[at], chars.get(at + 1)) {
            ('"', _) => {
                comma = None;
                at = end_of_string(&chars, at);
                continue;
            }
            ('/', Some('/')) => {
                let end = chars[at..]
                    .iter()
                    .position(|c| *c == '\n')
                    .map_or(chars.len(), |length| at + length);
                blank(&mut chars[at..end]);
                at = end;
                continue;
            }
            ('/', Some('*')) => {
                let body = chars[at + 2..]
                    .windows(2)
                    .position(|pair| pair == ['*', '/']);
                let end = body.map_or(chars.len(), |length| at + length + 4);
                blank(&mut chars[at..end]);
                at = end;
                continue;
            }
            (',', _) => comma = Some(at),
            (']' | '}', _) => {
                if let Some(comma) = comma.take() {
                    chars[comma] = ' ';
                }
            }
            (c, _) if c.is_whitespace() => {}
            _ => comma = None,
        }
        at += 1;
    }
    chars.into_iter().collect()
}

/// Removes the lines "```json" and "```" around a text.
fn unfence(chars: &mut [char]) {
    const FENCE: [char; 3] = ['`'; 3];
    let Some(first) = chars.iter().position(|c| !c.is_whitespace()) else {
        return;
    };
    let Some(last) = chars.iter().rposition(|c| !c.is_whitespace()) else {
        return;
    };
    if last < first + 6 || !chars[first..].starts_with(&FENCE) || !chars[..=last].ends_with(&FENCE)
    {
        return;
    }
    if let Some(length) = chars[first..last].iter().position(|c| *c == '\n') {
        blank(&mut chars[first..first + length]);
        blank(&mut chars[last - 2..=last]);
    }
}

/// The position after the string that starts at `start`.
fn end_of_string(chars: &[char], start: usize) -> usize {
    let mut at = start + 1;
    while at < chars.len() {
        match chars[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

fn blank(chars: &mut [char]) {
    for c in chars.iter_mut().filter(|c| **c != '\n') {
        *c = ' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let squeezed: Vec<String> = plain(text).split_whitespace().map(str::to_owned).collect();
        assert_eq!(squeezed.join(" "), expected, "{text}");
        assert_eq!(
            plain(text).chars().filter(|c| *c == '\n').count(),
            text.matches('\n').count(),
            "lines of {text}"
        );
    }

    #[test]
    fn comments_go() {
        check("[1, // one\n2]", "[1, 2]");
        check("/* a\nb */ [1] // end", "[1]");
        check("[1 /* never ends", "[1");
        check("[1] /", "[1] /");
    }

    #[test]
    fn commas_that_nothing_follows_go() {
        check("[1, 2, ]", "[1, 2 ]");
        check("{\"a\": [1,], // x\n}", "{\"a\": [1 ] }");
        check("[,]", "[ ]");
        check("[1,,]", "[1, ]");
    }

    #[test]
    fn strings_stay() {
        check(r#"["// a, ]", "\",]"]"#, r#"["// a, ]", "\",]"]"#);
        check(r#"["open, ]"#, r#"["open, ]"#);
        check("[\"a\\", "[\"a\\");
    }

    #[test]
    fn a_fence_goes() {
        check("```json\n[1]\n```\n", "[1]");
        check("```", "```");
        check("``` [1] ```", "``` [1] ```");
        check("  ", "");
    }
}
