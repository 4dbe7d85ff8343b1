//! What serde says of a file that a person wrote, in words about the file and not about our types.

use crate::{nearest, text};

/// Characters of a wrong value that are shown.
const SHOWN: usize = 80;
/// Characters of a message.
const MESSAGE: usize = 600;

/// The message of a parser without its place: one line, whatever the file holds.
pub fn serde(message: &str) -> String {
    let message = message.lines().next().unwrap_or(message);
    let told = unknown(message)
        .or_else(|| wrong(message))
        .or_else(|| missing(message));
    text::inline(told.as_deref().unwrap_or(message), MESSAGE)
}

/// A word that is none of ours, with the nearest one.
fn unknown(message: &str) -> Option<String> {
    let what = match message.split_once(" `")?.0 {
        "unknown field" => "key",
        "unknown variant" => "value",
        _ => return None,
    };
    let mut ticks = message.split('`').skip(1).step_by(2);
    let word = ticks.next()?;
    let known: Vec<&str> = ticks.collect();
    let shown = text::inline(word, SHOWN);
    Some(match nearest(word, known.iter().copied(), 1).first() {
        Some(near) => format!("unknown {what} `{shown}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{shown}`; known here: {}", known.join(", ")),
    })
}

/// A value of another kind than is wanted.
fn wrong(message: &str) -> Option<String> {
    let rest = ["invalid type: ", "invalid value: "]
        .iter()
        .find_map(|start| message.strip_prefix(start))?;
    // The last one: a text that was found may hold these words too.
    let (found, wanted) = rest.rsplit_once(", expected ")?;
    let shown = shown(found);
    let (wanted, written) = match wanted {
        "a string" | "a borrowed string" | "a character" => ("a text", None),
        "a sequence" => ("a list", quoted(found).map(|text| format!("[{text}]"))),
        "a boolean" => ("`true` or `false`", None),
        "a map" => ("a table", None),
        _ if wanted.starts_with("struct ") => ("a table", None),
        "f32" | "f64" => ("a number", None),
        _ if is_integer(wanted) => ("a whole number from 0 on", None),
        _ if wanted.strip_prefix("a nonzero ").is_some_and(is_integer) => {
            ("a whole number from 1 on", None)
        }
        "i8" | "i16" | "i32" | "i64" | "isize" => ("a whole number", None),
        _ => (wanted, None),
    };
    let written = written.filter(|written| written.len() <= SHOWN);
    let written = written.map_or_else(String::new, |written| format!("; write `{written}`"));
    Some(format!("{wanted} is wanted, not {shown}{written}"))
}

fn missing(message: &str) -> Option<String> {
    let key = message.strip_prefix("missing field ")?;
    Some(format!("the key {key} is missing"))
}

fn is_integer(kind: &str) -> bool {
    matches!(kind, "u8" | "u16" | "u32" | "u64" | "u128" | "usize")
}

/// The text that was found, in its quotes.
fn quoted(found: &str) -> Option<&str> {
    found.strip_prefix("string ")
}

/// The number that was found.
fn number(found: &str) -> Option<&str> {
    let number = ["integer `", "floating point `"]
        .iter()
        .find_map(|start| found.strip_prefix(start))?;
    number.strip_suffix('`')
}

fn shown(found: &str) -> String {
    if let Some(number) = number(found) {
        return format!("the number {number}");
    }
    match found {
        "map" => "a table".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" | "Option value" => "nothing".to_owned(),
        _ => {
            let found = found.strip_prefix("boolean ").unwrap_or(found);
            let found =
                quoted(found).map_or_else(|| found.to_owned(), |text| format!("the text {text}"));
            text::inline(&found, SHOWN)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serde_is_put_into_words_about_the_file() {
        for (said, told) in [
            (
                "unknown field `tols`, expected one of `tools`, `mcp`",
                "unknown key `tols`; did you mean `tools`?",
            ),
            (
                "unknown variant `x`, expected `one` or `two`",
                "unknown value `x`; known here: one, two",
            ),
            (
                "invalid type: integer `3`, expected a sequence",
                "a list is wanted, not the number 3",
            ),
            (
                "invalid type: string \"src\", expected a sequence",
                "a list is wanted, not the text \"src\"; write `[\"src\"]`",
            ),
            (
                "invalid type: integer `30`, expected a string",
                "a text is wanted, not the number 30",
            ),
            (
                "invalid type: boolean `true`, expected a map",
                "a table is wanted, not `true`",
            ),
            (
                "invalid type: map, expected a boolean",
                "`true` or `false` is wanted, not a table",
            ),
            (
                "invalid type: sequence, expected struct Tools",
                "a table is wanted, not a list",
            ),
            (
                "invalid value: integer `-1`, expected u64",
                "a whole number from 0 on is wanted, not the number -1",
            ),
            (
                "invalid value: integer `0`, expected a nonzero usize",
                "a whole number from 1 on is wanted, not the number 0",
            ),
            (
                "invalid type: floating point `1.5`, expected i64",
                "a whole number is wanted, not the number 1.5",
            ),
            (
                "invalid type: null, expected a path",
                "a path is wanted, not nothing",
            ),
            (
                "invalid type: string \"a, expected b\", expected f64",
                "a number is wanted, not the text \"a, expected b\"",
            ),
            ("missing field `name`", "the key `name` is missing"),
            (
                "`fast` is not a duration\nand more",
                "`fast` is not a duration",
            ),
        ] {
            assert_eq!(serde(said), told);
        }
    }

    #[test]
    fn a_long_value_is_cut() {
        let said = format!(
            "invalid type: string \"{}\", expected a sequence",
            "x".repeat(5000)
        );
        assert!(serde(&said).chars().count() < 200, "{}", serde(&said));
    }
}
