//! Results in the text format of Gemini CLI, which its model is trained on.

use std::fmt::Write as _;

use serde_json::Value;

use super::shape::ShapeContext;
use super::{RenderedResult, is_media, lines, render_unchanged};
use toolhost_contract::{CallError, Outcome, Part};

pub(super) fn render(
    canonical: &str,
    facts: &ShapeContext,
    result: &Result<Outcome, CallError>,
) -> RenderedResult {
    let mut rendered = render_unchanged(result);
    let Ok(outcome) = result else {
        return rendered;
    };
    if outcome.error.is_some() {
        return rendered;
    }
    let structured = outcome.structured.as_ref();
    match (canonical, structured) {
        ("grep", Some(found)) => {
            if let Some(text) = grep(facts.input, found) {
                rendered.parts = vec![Part::Text(text)];
            }
        }
        // Gemini CLI puts the note first, so that the model does not assume that it has read the whole file.
        ("read_file", Some(page)) => {
            if let Some(note) = lines::continuation_hint(facts.name, "start_line", page) {
                rendered.parts.insert(0, Part::Text(note));
            }
        }
        ("write_file" | "edit_file", Some(changed)) => {
            if let Some(line) = changed_line(changed) {
                rendered.parts.insert(0, Part::Text(line));
            }
        }
        _ => {}
    }
    // A function response contains only text; the media it describes follows.
    if !rendered
        .parts
        .iter()
        .any(|part| matches!(part, Part::Text(_) | Part::Json(_)))
        && let Some(media_type) = rendered.parts.iter().find_map(media_type)
    {
        let placeholder = format!("Binary content of type {media_type}");
        rendered.parts.insert(0, Part::Text(placeholder));
    }
    rendered
}

fn media_type(part: &Part) -> Option<&str> {
    match part {
        Part::Image { media_type, .. }
        | Part::Audio { media_type, .. }
        | Part::File { media_type, .. } => Some(media_type),
        _ if is_media(part) => Some("application/octet-stream"),
        _ => None,
    }
}

/// Returns the first line of a result that changed a file.
fn changed_line(changed: &Value) -> Option<String> {
    let path = changed["path"].as_str()?;
    if changed["changed"] == false || changed["dry_run"] == true {
        return None;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let verb = if changed["created"].as_bool()? {
        "Created"
    } else {
        "Modified"
    };
    Some(format!("{verb} {name}"))
}

/// Formats search results: `File: path`, then `L12: text` for matches and `L11- text` for context lines.
/// Returns `None` if the result has no lines, in which case the tool's own text is more helpful.
fn grep(input: &Value, found: &Value) -> Option<String> {
    let files = found["files"].as_array()?;
    if found["mode"] != "content" || files.is_empty() {
        return None;
    }
    let total = found["total_matches"].as_u64()?;
    let matches = if total == 1 { "match" } else { "matches" };
    let pattern = input["pattern"].as_str().unwrap_or_default();
    let mut text = format!("Found {total} {matches} for pattern \"{pattern}\":\n---\n");
    for file in files {
        let path = file["path"].as_str().unwrap_or_default();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "File: {path}");
        for (number, (matched, line)) in lines::numbered_lines(file) {
            let mark = if matched { ':' } else { '-' };
            let _ = writeln!(text, "L{number}{mark} {line}");
        }
        text.push_str("---\n");
    }
    if found["truncated"] == true {
        let shown: usize = files
            .iter()
            .map(|file| lines::list(&file["matches"]).count())
            .sum();
        let _ = writeln!(
            text,
            "(only {shown} are shown; narrow the search, or raise total_max_matches)"
        );
    }
    if found["timed_out"] == true {
        text.push_str("(timed out before all files were searched)\n");
    }
    text.truncate(text.trim_end().len());
    Some(text)
}
