//! Checks whether `awk` and `sed` scripts only read and print.

use std::sync::LazyLock;

use regex::Regex;

use super::Word;

/// The options of a program that takes a script, as far as they decide which word is the script.
pub(super) struct ScriptOptions {
    /// Short options without and with a value. `e` has the script as its value.
    flags: &'static str,
    values: &'static str,
    long_flags: &'static [&'static str],
    long_values: &'static [&'static str],
    is_harmless: fn(&str) -> bool,
}

pub(super) const AWK: ScriptOptions = ScriptOptions {
    flags: "bcCgIkMnNOPrsStV",
    values: "Fv",
    long_flags: &["posix", "re-interval", "sandbox", "traditional"],
    long_values: &["assign", "field-separator"],
    is_harmless: is_harmless_awk,
};

pub(super) const SED: ScriptOptions = ScriptOptions {
    flags: "inrEszub",
    values: "l",
    long_flags: &[
        "null-data",
        "posix",
        "quiet",
        "regexp-extended",
        "sandbox",
        "separate",
        "silent",
        "unbuffered",
    ],
    long_values: &["line-length"],
    is_harmless: is_harmless_sed,
};

/// What an option says about the words after it.
enum ScriptOption<'a> {
    Flag,
    /// The next word is its value.
    Value,
    /// The script, or `None` if it is the next word.
    Script(Option<&'a str>),
    Unknown,
}

impl ScriptOptions {
    fn classify<'a>(&self, option: &'a str) -> ScriptOption<'a> {
        if let Some(long) = option.strip_prefix("--") {
            return match long.split_once('=') {
                Some((name, value)) if "expression".starts_with(name) => {
                    ScriptOption::Script(Some(value))
                }
                Some(_) => ScriptOption::Flag,
                None if long == "expression" => ScriptOption::Script(None),
                None if self.long_flags.contains(&long) => ScriptOption::Flag,
                None if self.long_values.contains(&long) => ScriptOption::Value,
                // It can be an abbreviation, and its value the next word.
                None => ScriptOption::Unknown,
            };
        }
        let cluster = option.trim_start_matches('-');
        for (at, letter) in cluster.char_indices() {
            let attached = &cluster[at + letter.len_utf8()..];
            match letter {
                'e' => return ScriptOption::Script((!attached.is_empty()).then_some(attached)),
                letter if self.flags.contains(letter) => {}
                letter if self.values.contains(letter) && attached.is_empty() => {
                    return ScriptOption::Value;
                }
                letter if self.values.contains(letter) => return ScriptOption::Flag,
                _ => return ScriptOption::Unknown,
            }
        }
        ScriptOption::Flag
    }

    /// The script and the index of its word, unless it is harmless. `false` means that it is not known. After an option
    /// that is not known, any word may be the script.
    pub(super) fn find_unsafe(&self, words: &[Word]) -> Option<(usize, String, bool)> {
        let (mut has_script, mut has_unknown) = (false, false);
        let mut left = words.iter().enumerate();
        while let Some((at, word)) = left.next() {
            let Some(text) = word.literal() else {
                if has_unknown || !has_script {
                    return Some((at, word.as_written().to_owned(), false));
                }
                continue;
            };
            let (at, script) = if text.starts_with('-') && text.len() > 1 && !has_unknown {
                match self.classify(text) {
                    ScriptOption::Flag => continue,
                    ScriptOption::Value => {
                        left.next();
                        continue;
                    }
                    ScriptOption::Unknown => {
                        has_unknown = true;
                        continue;
                    }
                    ScriptOption::Script(Some(attached)) => (at, attached),
                    ScriptOption::Script(None) => match left.next() {
                        Some((at, Word::Literal(next))) => (at, next.as_str()),
                        Some((at, next)) => {
                            return Some((at, next.as_written().to_owned(), false));
                        }
                        None => continue,
                    },
                }
            } else if has_unknown || !has_script {
                (at, text)
            } else {
                // A file.
                continue;
            };
            has_script = true;
            if !(self.is_harmless)(script) {
                return Some((at, script.to_owned(), true));
            }
        }
        None
    }
}

/// Whether the script has no call of `system`, pipe, redirection, `getline` or `@load`. Source: gawk(1).
fn is_harmless_awk(text: &str) -> bool {
    let joined = text.replace("||", "");
    !joined.contains(['|', '>', '@'])
        && !["system", "getline", "close", "fflush"]
            .iter()
            .any(|word| joined.contains(word))
}

/// Whether the script only selects, substitutes and prints. It may not contain the commands `e`, `w`, `W`, `r`, `R` or
/// the flags `e` and `w` of `s`. Source: sed(1), COMMAND SYNOPSIS.
fn is_harmless_sed(text: &str) -> bool {
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
