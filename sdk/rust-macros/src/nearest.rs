//! Suggestions for unknown options.

use proc_macro2::Ident;
use syn::Error;

/// The error for an option that is not in `known`, with the most similar one or all of them.
pub fn unknown(option: &Ident, known: &[&str]) -> Error {
    let text = option.to_string();
    let nearest = known
        .iter()
        .map(|known| (distance(&text, known), known))
        .min();
    let hint = match nearest {
        Some((distance, known)) if distance <= 2.max(text.len() / 3) => {
            format!("did you mean `{known}`?")
        }
        _ => format!("known words: {}", known.join(", ")),
    };
    Error::new(option.span(), format!("unknown word `{text}`; {hint}"))
}

/// The edit distance of two words.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.bytes().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distance_counts_letters() {
        for (from, to, expected) in [
            ("reads", "reads", 0),
            ("read", "reads", 1),
            ("raeds", "reads", 2),
            ("", "pure", 4),
        ] {
            assert_eq!(distance(from, to), expected, "{from} -> {to}");
        }
    }
}
