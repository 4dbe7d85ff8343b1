//! Bindings of the interface `preview`, and conversion of its results to host types.

use toolhost_contract::{
    CallError, Display, ErrorClass, FileDiff, Location, exact_integers, text, value_counter,
};

use super::{outcomes, types};

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    world: "previewer",
    exports: { default: async },
    with: {
        "toolhost:plugin/types@0.1.0": super::toolhost::plugin::types,
        "toolhost:plugin/host@0.1.0": super::toolhost::plugin::host,
    },
});

pub use exports::toolhost::plugin::preview::Location as RawLocation;

/// Maximum number of characters of a description, and of the reason of a confirmation.
const MAX_LINE: usize = 200;
const MAX_REASON: usize = 1_000;
const MAX_LOCATIONS: usize = 256;
/// Maximum size of a path in bytes, as on Linux.
const MAX_PATH: usize = 4_096;
const MAX_BLOCKS: usize = 16;

/// One line in the tool's own words; `None` if it is blank.
pub fn line(raw: &str) -> Option<String> {
    bounded(raw, MAX_LINE)
}

/// A reason for the user.
pub fn reason(raw: &str) -> String {
    bounded(raw, MAX_REASON).unwrap_or_else(|| "the tool requires approval".to_owned())
}

fn bounded(raw: &str, max: usize) -> Option<String> {
    let raw = raw.trim();
    (!raw.is_empty()).then(|| text::escape_line(raw, max))
}

/// Converts locations. The error is the reason why they cannot be used.
pub fn locations(raw: Vec<RawLocation>) -> Result<Vec<Location>, String> {
    if raw.len() > MAX_LOCATIONS {
        let count = raw.len();
        return Err(format!(
            "it named {count} locations; the limit is {MAX_LOCATIONS}"
        ));
    }
    let locations = raw.into_iter().map(|RawLocation { path, access, line }| {
        if path.is_empty() || path.len() > MAX_PATH || path.contains('\0') {
            return Err(format!(
                "it named a location that is empty, contains NUL or is longer than {MAX_PATH} bytes"
            ));
        }
        match access.as_str() {
            "read" => Ok(Location {
                path,
                write: false,
                line,
            }),
            "write" => Ok(Location {
                path,
                write: true,
                line,
            }),
            other => Err(format!(
                "`{}` is not an access; use read or write",
                text::escape_line(other, 40)
            )),
        }
    });
    locations.collect()
}

/// Converts content for users of at most `limit` bytes.
pub fn blocks(raw: Vec<types::Display>, limit: u64) -> Result<Vec<Display>, CallError> {
    if raw.len() > MAX_BLOCKS {
        return Err(invalid(format!(
            "{} blocks; the limit is {MAX_BLOCKS}",
            raw.len()
        )));
    }
    let size: u64 = raw.iter().map(outcomes::display_size).sum();
    if size > limit {
        return Err(invalid(format!("{size} bytes; the limit is {limit}")));
    }
    let data = raw.iter().filter_map(|block| block.data.as_deref());
    if !value_counter::are_within_limit(data) {
        return Err(outcomes::too_many_values("the preview"));
    }
    raw.into_iter().map(display).collect()
}

/// Converts content for users, whose JSON values the caller has counted.
pub(super) fn display(raw: types::Display) -> Result<Display, CallError> {
    let data = raw
        .data
        .map(|text| exact_integers::parse_exact(&text))
        .transpose()
        .map_err(|error| invalid(format!("display data that is not JSON: {error}")))?;
    Ok(Display {
        kind: raw.kind,
        text: raw.text,
        diff: raw.diff.map(|diff| FileDiff {
            file_name: diff.file_name,
            diff: diff.diff,
            original: diff.original,
            new: diff.new,
        }),
        data,
    })
}

fn invalid(why: String) -> CallError {
    CallError::new(ErrorClass::Failed, format!("the tool returned {why}")).code("invalid_output")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_escaped() {
        assert_eq!(line(" Write a.txt \n"), Some("Write a.txt".to_owned()));
        assert_eq!(line("a\u{1b}[2Jb\nc"), Some(r"a\u{1b}[2Jb\nc".to_owned()));
        assert_eq!(line(" \n"), None);
        let long = line(&"x".repeat(100_000)).unwrap();
        assert!(long.starts_with(&"x".repeat(MAX_LINE)) && long.len() < MAX_LINE + 50);
        assert_eq!(reason(""), "the tool requires approval");
    }

    #[test]
    fn locations_are_validated() {
        let at = |path: &str, access: &str| RawLocation {
            path: path.to_owned(),
            access: access.to_owned(),
            line: (access == "write").then_some(3),
        };
        assert_eq!(
            locations(vec![at("a", "read"), at("/etc/passwd", "write")]),
            Ok(vec![
                Location {
                    path: "a".to_owned(),
                    write: false,
                    line: None
                },
                Location {
                    path: "/etc/passwd".to_owned(),
                    write: true,
                    line: Some(3)
                },
            ])
        );
        for wrong in [
            vec![at("", "read")],
            vec![at("a\0b", "read")],
            vec![at(&"a".repeat(MAX_PATH + 1), "read")],
            vec![at("a", "rw")],
            vec![at("a", "read"); MAX_LOCATIONS + 1],
        ] {
            assert!(locations(wrong).is_err());
        }
    }

    #[test]
    fn blocks_are_bounded() {
        let text = |size: usize| types::Display {
            kind: "text".to_owned(),
            text: Some("x".repeat(size)),
            diff: None,
            data: None,
        };
        assert_eq!(blocks(vec![text(10); MAX_BLOCKS], 1_000).unwrap().len(), 16);
        assert!(blocks(vec![text(10); MAX_BLOCKS + 1], 10_000).is_err());
        assert!(blocks(vec![text(10 << 20)], 64 << 10).is_err());
        let table = types::Display {
            data: Some("{".to_owned()),
            ..text(1)
        };
        assert!(blocks(vec![table], 1_000).is_err());
    }
}
