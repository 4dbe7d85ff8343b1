//! Something to search.

use std::fs;
use std::path::Path;
use std::process::Command;

use e2e::root;
use serde_json::Value;

/// Source files, as an agent would search them: copies of this workspace's dependencies, up to 100 MB.
pub fn tree_of_100_mb(tree: &Path) -> anyhow::Result<u64> {
    const SIZE: u64 = 100_000_000;
    let mark = tree.join(".complete");
    if let Ok(size) = fs::read_to_string(&mark) {
        return Ok(size.parse()?);
    }
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1"])
        .current_dir(root())
        .output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let mut total = 0;
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(dir) = package["manifest_path"]
            .as_str()
            .and_then(|path| Path::new(path).parent())
        else {
            continue;
        };
        if package["source"].is_null() || total >= SIZE {
            continue;
        }
        let name = dir.file_name().unwrap_or_default();
        copy_text(dir, &tree.join(name), &mut total, SIZE)?;
    }
    fs::write(mark, total.to_string())?;
    Ok(total)
}

fn copy_text(from: &Path, to: &Path, total: &mut u64, size: u64) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, copy) = (entry.path(), to.join(entry.file_name()));
        if *total >= size {
            break;
        } else if entry.file_type()?.is_dir() {
            copy_text(&source, &copy, total, size)?;
        } else if source.extension().is_some_and(|kind| {
            ["rs", "md", "toml", "wit", "c", "h", "txt", "json"]
                .iter()
                .any(|known| kind == *known)
        }) {
            *total += fs::copy(&source, &copy)?;
        }
    }
    Ok(())
}
