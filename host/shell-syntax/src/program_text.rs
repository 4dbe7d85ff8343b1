//! Checks whether `awk` and `sed` scripts only read and print.

use std::sync::LazyLock;

use regex::Regex;

/// Whether the script has no call of `system`, pipe, redirection, `getline` or `@load`. Source: gawk(1).
pub(super) fn is_harmless_awk(text: &str) -> bool {
    let joined = text.replace("||", "");
    !joined.contains(['|', '>', '@'])
        && !["system", "getline", "close", "fflush"]
            .iter()
            .any(|word| joined.contains(word))
}

/// Whether the script only selects, substitutes and prints. It may not contain the commands `e`, `w`, `W`, `r`, `R` or
/// the flags `e` and `w` of `s`. Source: sed(1), COMMAND SYNOPSIS.
pub(super) fn is_harmless_sed(text: &str) -> bool {
    static SCRIPT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&sed_pattern()).ok());
    SCRIPT.as_ref().is_some_and(|script| script.is_match(text))
}

fn sed_pattern() -> String {
    // Implementations of `sed` disagree whether a delimiter between brackets ends the pattern.
    let body = |mark: &str| format!(r"(?:[^{mark}\\\n\[]|\\[^\n]|\[\^?[^{mark}\]\[\\\n]+\])*");
    let replacement = |mark: &str| format!(r"(?:[^{mark}\\\n]|\\[^\n])*");
    let substitutions: Vec<String> = ["/", r"\|", ",", "#", ":", "@", "!", "%", "_", "~"]
        .iter()
        .map(|mark| {
            format!(
                "s{mark}{}{mark}{}{mark}[gpiIM0-9]*|y{mark}{}{mark}{}{mark}",
                body(mark),
                replacement(mark),
                body(mark),
                replacement(mark)
            )
        })
        .collect();
    let address = format!(r"(?:[0-9]+(?:~[0-9]+)?|\$|/{}/[IM]*)", body("/"));
    let range = format!(r"(?:{address}(?:\s*,\s*(?:{address}|[+~][0-9]+))?\s*!?\s*)?");
    let command = format!(
        r"(?:[pdDPnNgGhHxl=]|[qQ][0-9]*|{})",
        substitutions.join("|")
    );
    let one = format!(r"[\s;]*{range}(?:{command}|\{{|\}}|)");
    format!(r"\A(?:{one}\s*(?:[;\n{{}}]|\z))*\s*\z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reading_and_printing_scripts_are_harmless() {
        for (text, plain) in [
            ("1p", true),
            ("10,20p", true),
            ("/foo/d;s/a/b/g", true),
            ("s/[a-z]*/x/", true),
            ("$!N; /^\\(.*\\)\\n\\1$/!P; D", true),
            ("/a/,/b/{p;q}", true),
            ("1e id", false),
            ("s/a/id/e", false),
            ("s/a/b/ge", false),
            ("s/a/b/w out", false),
            ("w out", false),
            ("W out", false),
            ("s/[/]/e;id/", false),
            ("/a/e", false),
            ("{e id\n}", false),
            ("r /etc/passwd", false),
            ("s\na\nb\ne", false),
            ("a text\ne id", false),
        ] {
            assert_eq!(is_harmless_sed(text), plain, "{text}");
        }
        for (text, plain) in [
            ("{print $1}", true),
            ("$1 == 2 || $2 < 3 {print}", true),
            ("BEGIN{system(\"id\")}", false),
            ("{print | \"sh\"}", false),
            ("{print > \"out\"}", false),
            ("\"id\" | getline x", false),
            ("@load \"x\"", false),
        ] {
            assert_eq!(is_harmless_awk(text), plain, "{text}");
        }
    }
}
