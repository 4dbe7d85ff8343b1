//! Two ordinary tools that execute file operations from their input step by step and report what they observed.

use std::fs;
use std::io::Write;

use toolhost_sdk::prelude::*;

/// Reads and lists files.
#[tool(reads)]
fn look(
    /// `read PATH`, `list PATH` or `stat PATH`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    Ok(steps.iter().map(|step| run_step(step)).collect())
}

/// Does everything that `look` does, and changes files.
#[tool(writes)]
fn script(
    /// `write PATH TEXT`, `append PATH TEXT`, `copy PATH PATH`, `rename PATH PATH`, `remove PATH`, `mkdir PATH`,
    /// `rmdir PATH`, `fail`.
    steps: Vec<String>,
) -> Result<Vec<String>> {
    let mut results = Vec::new();
    for step in &steps {
        if step == "fail" {
            return Err(Error::failed(results.join("; ")));
        }
        results.push(run_step(step));
    }
    Ok(results)
}

fn run_step(step: &str) -> String {
    match done(step) {
        Ok(result) => result,
        Err(error) => format!("{:?}", error.kind()),
    }
}

fn done(step: &str) -> std::io::Result<String> {
    let mut parts = step.splitn(3, ' ');
    let mut next = || parts.next().unwrap_or_default();
    let (verb, path, rest) = (next(), next(), next());
    match verb {
        "read" => return fs::read_to_string(path),
        "list" => {
            let mut names = Vec::new();
            for entry in fs::read_dir(path)? {
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort();
            return Ok(names.join(" "));
        }
        "stat" => {
            let metadata = fs::metadata(path)?;
            return Ok(if metadata.is_dir() {
                "a directory".to_owned()
            } else {
                metadata.len().to_string()
            });
        }
        "write" => fs::write(path, rest)?,
        "append" => fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?
            .write_all(rest.as_bytes())?,
        "copy" => fs::write(rest, fs::read(path)?)?,
        "rename" => fs::rename(path, rest)?,
        "remove" => fs::remove_file(path)?,
        "mkdir" => fs::create_dir(path)?,
        "rmdir" => fs::remove_dir(path)?,
        other => return Err(std::io::Error::other(format!("no such step: {other}"))),
    }
    Ok("done".to_owned())
}

export_tools![look, script];
