//! How secrets look.

use std::sync::LazyLock;

use regex_lite::{Captures, Regex};

/// A pattern whose group `secret` is one, if `is_secret` agrees.
pub struct Secret {
    pub pattern: Regex,
    pub is_secret: fn(&Captures) -> bool,
}

/// Ends of the names of secrets.
const NAMES: &str = "password|passwd|passphrase|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key(?:[_-]?base)?|private[_-]?key|credentials?";

pub fn all() -> &'static [Secret] {
    static ALL: LazyLock<Vec<Secret>> = LazyLock::new(make);
    &ALL
}

/// Is a member of this name a secret?
pub fn names_a_secret(name: &str) -> bool {
    static PATTERN: LazyLock<Regex> =
        LazyLock::new(|| regex(&format!(r"(?i)^[\w.-]*(?:{NAMES})\d*$")));
    PATTERN.is_match(name)
}

fn make() -> Vec<Secret> {
    let always: fn(&Captures) -> bool = |_| true;
    let table: [(String, fn(&Captures) -> bool); 6] = [
        // A header, whatever its scheme is called.
        (
            r#"(?i)\bauthorization\\?["']?\s*[:=]\s*\\?["']?(?:bearer|basic|token|digest|apikey)\s+(?<secret>[^\s"'\\,]+)"#.into(),
            always,
        ),
        (r"(?i)\b(?:bearer|basic)\s+(?<secret>[a-z0-9._~+/=-]{16,})".into(), has_digit),
        // A user and a password in an address.
        (r"://[^\s/:@]+:(?<secret>[^\s/@]+)@".into(), always),
        // Quotes around the value, which may be escaped ones.
        (
            format!(r#"(?i)\b(?<name>[\w.-]*(?:{NAMES})\d*)\\?["']?\s*[:=]\s*\\?["'](?<secret>[^"'\\\n]+)"#),
            always,
        ),
        (
            format!(r#"(?i)\b(?<name>[\w.-]*(?:{NAMES})\d*)(?<between>["']?\s*[:=]\s*)(?<secret>[^\s"',;&<>(){{}}\[\]\\=]+)(?<after>\S?)"#),
            is_plain_value,
        ),
        (
            [
                r"\b(?<secret>(?:sk|pk|rk)[-_](?:(?:live|test|proj|ant)[-_])?[A-Za-z0-9_-]{16,}",
                r"gh[opusr]_[A-Za-z0-9]{20,}",
                r"github_pat_[A-Za-z0-9_]{20,}",
                r"glpat-[A-Za-z0-9_-]{16,}",
                r"(?:AKIA|ASIA)[A-Z0-9]{16}",
                r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
                r"AIza[A-Za-z0-9_-]{30,}",
                r"npm_[A-Za-z0-9]{30,}",
                r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)",
            ]
            .join("|"),
            has_digit,
        ),
    ];
    table
        .into_iter()
        .map(|(pattern, is_secret)| Secret {
            pattern: regex(&pattern),
            is_secret,
        })
        .collect()
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are fixed, and every test compiles them")
}

fn has_digit(found: &Captures) -> bool {
    found["secret"].contains(|letter: char| letter.is_ascii_digit())
}

/// Without quotes, code looks much like a secret: a type after a colon, a call after an equals sign. What is written
/// close together is a value, and so is a word after a colon or an equals sign that no program would use as a name.
fn is_plain_value(found: &Captures) -> bool {
    let (name, between, secret) = (&found["name"], &found["between"], &found["secret"]);
    // The shell's own variables, and the like.
    if name.to_ascii_lowercase().ends_with("pwd") && secret.starts_with('/') {
        return false;
    }
    if matches!(&found["after"], "(" | "<" | "=" | ">") {
        return false;
    }
    let close = !between.contains(char::is_whitespace) && between.ends_with('=');
    let like_a_secret = secret.len() >= 6
        && !secret.starts_with('&')
        && secret.contains(|letter: char| letter.is_ascii_digit());
    close || like_a_secret
}
