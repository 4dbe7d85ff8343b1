//! Removal of clauses about tools and parameters that the model cannot use.

/// Marks a part of a text that names something the model cannot use.
pub(super) const UNUSABLE: &str = "\u{0}";

/// Removes the clauses and sentences of a line that contain [`UNUSABLE`]. Returns `None` if nothing remains.
pub(super) fn usable_text(text: &str) -> Option<String> {
    if !text.contains(UNUSABLE) {
        return Some(text.to_owned());
    }
    // The user's way remains if the model has none.
    let text = text.replace(&format!("use {UNUSABLE}, or "), "");
    let (open, inner, close) = unwrapped(&text);
    let mut kept = String::new();
    for (separator, clause) in clauses(inner) {
        if let Some(clause) = usable(clause) {
            if !kept.is_empty() {
                kept.push_str(separator);
            }
            kept.push_str(clause);
        }
    }
    if inner.ends_with('.') && !kept.is_empty() && !kept.ends_with('.') {
        kept.push('.');
    }
    (!kept.is_empty()).then(|| format!("{open}{kept}{close}"))
}

/// The text between the brackets that enclose it, if there are any.
fn unwrapped(text: &str) -> (&str, &str, &str) {
    for (open, close) in [("(", ")"), ("[", "]")] {
        let inner = text.strip_prefix(open);
        if let Some(inner) = inner.and_then(|inner| inner.strip_suffix(close)) {
            return (open, inner, close);
        }
    }
    ("", text, "")
}

/// The clauses of a text, each with the separator before it.
pub(super) fn clauses(text: &str) -> Vec<(&'static str, &str)> {
    let mut found = Vec::new();
    let (mut separator, mut rest) = ("", text);
    loop {
        let mut ends = rest.match_indices([';', '.']);
        let Some((at, mark)) = ends.find(|(at, _)| rest[at + 1..].starts_with(' ')) else {
            found.push((separator, rest));
            return found;
        };
        found.push((separator, &rest[..at]));
        rest = &rest[at + 2..];
        separator = if mark == ";" { "; " } else { ". " };
    }
}

/// The part of a clause that the model can use: all of it, or the statement before the advice.
pub(super) fn usable(clause: &str) -> Option<&str> {
    if !clause.contains(UNUSABLE) {
        return Some(clause);
    }
    let statement = |separator: &str| {
        let (head, _) = clause.split_once(separator)?;
        (!head.contains(UNUSABLE)).then_some(head)
    };
    // `To stop it` and `read it` are advice without a statement.
    let is_advice = |head: &&str| {
        ["to ", "To ", "read ", "stop ", "list ", "look "]
            .iter()
            .any(|start| head.starts_with(start))
    };
    statement(": ")
        .filter(|head| !is_advice(head))
        .or_else(|| statement(", or "))
        .or_else(|| statement(", because "))
}
