//! A custom tool of Sema as a plugin: `validateInput`, `genToolPermission`, `genToolResultMessage` and `getDisplayTitle`
//! are functions beside the tool.

use std::fs;
use std::io::ErrorKind::NotFound;

use toolhost_sdk::prelude::*;

/// The file with the notes, in the workspace.
const NOTES: &str = "notes.md";

/// A note that was added.
#[data]
struct Added {
    /// The file that contains it.
    file: String,
    /// Its line, from 1.
    line: usize,
}

/// Append a note to notes.md in the workspace.
#[tool(
    writes,
    display_name = "Add note",
    category = "custom",
    kind = "edit",
    output = Added,
    validate = validate,
    describe_call = title,
    locations = locations,
    render_permission = render_permission,
    render_result = render_result
)]
fn add_note(
    /// One line of text.
    text: String,
    /// From 1, the most urgent, to 5.
    #[arg(min = 1, max = 5)]
    priority: Option<u8>,
) -> Result<Outcome> {
    let mut notes = match fs::read_to_string(NOTES) {
        Ok(notes) => notes,
        Err(error) if error.kind() == NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    if !notes.is_empty() && !notes.ends_with('\n') {
        notes.push('\n');
    }
    notes += &note(&text, priority);
    fs::write(NOTES, &notes)?;
    let added = Added {
        file: NOTES.to_owned(),
        line: notes.lines().count(),
    };
    Ok(Outcome::text(format!("added line {} to {NOTES}", added.line)).structured(&added))
}

fn note(text: &str, priority: Option<u8>) -> String {
    match priority {
        Some(priority) => format!("- [{priority}] {text}\n"),
        None => format!("- {text}\n"),
    }
}

fn validate(text: String, _priority: Option<u8>) -> Result<()> {
    if text.trim().is_empty() {
        return Err(Error::invalid_input("`text` is blank").code("blank_note"));
    }
    if text.contains('\n') {
        let error = Error::invalid_input("`text` has several lines").code("note_too_long");
        return Err(error.recommend("add one note for each line"));
    }
    Ok(())
}

fn title(text: String, _priority: Option<u8>) -> String {
    format!("Add note: {text}")
}

/// The input names no path, so rules about paths need this.
fn locations(_text: String, _priority: Option<u8>) -> Vec<Location> {
    vec![Location::write(NOTES)]
}

fn render_permission(text: String, priority: Option<u8>) -> Vec<Display> {
    vec![
        Display::text("This line will be appended to notes.md:"),
        Display::code("markdown", note(&text, priority)),
    ]
}

fn render_result(text: String, _priority: Option<u8>, outcome: &Outcome) -> Vec<Display> {
    // A call that failed has an error instead.
    let Some(added) = &outcome.structured else {
        return Vec::new();
    };
    let row = vec![added["line"].to_string(), text];
    vec![
        Display::text("Note added"),
        Display::table(&["line", "note"], &[row]),
    ]
}

export_tools![add_note];
export_previews![add_note];

#[cfg(test)]
mod tests;
