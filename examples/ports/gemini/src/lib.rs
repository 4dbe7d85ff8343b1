//! `EditTool` of Gemini CLI, a `BaseTool`, as a plugin: `validateToolParams`, `getDescription`, `toolLocations` and
//! `shouldConfirmExecute` are functions beside the tool.

use std::fs;
use std::io::ErrorKind::NotFound;

use similar::TextDiff;
use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

/// Replace text in a file, or create a file with an empty `old_string`.
#[tool(
    writes,
    display_name = "Edit",
    icon = "pencil",
    category = "file",
    kind = "edit",
    validate = validate_params,
    describe_call = description,
    locations = locations,
    confirm = confirm,
    render_permission = render_permission
)]
fn replace_text(
    /// File to edit.
    file_path: String,
    /// Exact text to replace.
    old_string: String,
    /// Replacement.
    new_string: String,
    /// Number of places that are replaced.
    #[arg(default = 1, min = 1)]
    expected_replacements: usize,
) -> Result<Outcome> {
    let original = match fs::read_to_string(&file_path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == NotFound && old_string.is_empty() => None,
        Err(error) => return Err(error.into()),
    };
    let new = edited(
        original.as_deref(),
        &old_string,
        &new_string,
        expected_replacements,
    )?;
    fs::write(&file_path, &new)?;
    let verb = if original.is_some() {
        "Modified"
    } else {
        "Created"
    };
    let summary = format!("{verb} {file_path}");
    Ok(Outcome::text(summary.as_str())
        .summary(summary)
        .display(file_diff(file_path, original, new)))
}

/// The new content of the file.
fn edited(original: Option<&str>, old: &str, new: &str, expected: usize) -> Result<String> {
    let Some(original) = original else {
        return Ok(new.to_owned());
    };
    if old.is_empty() {
        let error = Error::invalid_input("the file exists, and `old_string` is empty");
        return Err(error
            .code("file_exists")
            .recommend("name the text to replace"));
    }
    let found = original.matches(old).count();
    if found != expected {
        let message = format!("`old_string` occurs {found} times, not {expected} times");
        let error = Error::invalid_input(message).code("occurrence_mismatch");
        return Err(error.recommend("read the file, and use its exact text"));
    }
    Ok(original.replace(old, new))
}

fn file_diff(file_name: String, original: Option<String>, new: String) -> Display {
    let old = original.as_deref().unwrap_or_default();
    let diff = TextDiff::from_lines(old, &new).unified_diff().to_string();
    Display::diff(FileDiff {
        file_name,
        diff,
        original,
        new,
    })
}

fn validate_params(
    _file_path: String,
    old_string: String,
    new_string: String,
    expected_replacements: usize,
) -> Result<()> {
    if old_string == new_string {
        let error = Error::invalid_input("`old_string` and `new_string` are equal");
        return Err(error.code("no_change"));
    }
    if old_string.is_empty() && expected_replacements > 1 {
        let error = Error::invalid_input("an empty `old_string` creates one file");
        return Err(error.recommend("omit `expected_replacements`"));
    }
    Ok(())
}

fn description(path: String, old: String, new: String, _expected: usize) -> String {
    match old.as_str() {
        "" => format!("Create {path}"),
        old => format!("{path}: {} => {}", inline(old, 30), inline(&new, 30)),
    }
}

fn locations(path: String, _old: String, _new: String, _expected: usize) -> Vec<Location> {
    vec![Location::write(path)]
}

fn confirm(path: String, _old: String, _new: String, expected: usize) -> Option<String> {
    (expected > 1).then(|| format!("it replaces {expected} places in {path}"))
}

fn render_permission(path: String, old: String, new: String, expected: usize) -> Vec<Display> {
    let row = vec![
        path,
        inline(&old, 80),
        inline(&new, 80),
        expected.to_string(),
    ];
    vec![Display::table(
        &["file", "text", "replacement", "places"],
        &[row],
    )]
}

export_tools![replace_text];
export_previews![replace_text];

#[cfg(test)]
mod tests;
