//! An ordinary third-party tool that replaces a word in every file of the workspace and is not aware of staging.

use std::fs;
use std::path::Path;

use toolhost_sdk::prelude::*;

/// Replaces a word in all files.
#[tool(writes)]
fn rewrite(
    /// The word to replace.
    from: String,
    /// Its replacement.
    to: String,
    /// A file to remove afterwards.
    remove: Option<String>,
    /// `fail` or `trap`, after everything was written.
    end: Option<String>,
) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    rewrite_in(Path::new("."), &from, &to, &mut changed)?;
    if let Some(path) = remove {
        fs::remove_file(path)?;
    }
    fs::create_dir_all("reports")?;
    fs::write("reports/rewrite.txt", changed.join("\n"))?;
    // The tool can read its own writes.
    let report = fs::read_to_string("reports/rewrite.txt")?;
    assert_eq!(report.lines().count(), changed.len());
    match end.as_deref() {
        Some("fail") => return Err(Error::failed("after all, no")),
        Some("trap") => panic!("after all, no"),
        _ => {}
    }
    Ok(changed)
}

fn rewrite_in(dir: &Path, from: &str, to: &str, changed: &mut Vec<String>) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(dir)?.collect::<std::io::Result<_>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            rewrite_in(&path, from, to, changed)?;
        } else if let Ok(text) = fs::read_to_string(&path)
            && text.contains(from)
        {
            fs::write(&path, text.replace(from, to))?;
            changed.push(path.display().to_string());
        }
    }
    Ok(())
}

export_tools![rewrite];
