//! Build of the sample plugins in other languages by `sdk/<language>/build-sample` and `examples/<language>/build-sample`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::job::Job;
use crate::shell;

/// Exit code of a script without a toolchain for its language; the last line of output is the reason.
const NO_TOOLCHAIN: i32 = 77;

/// The names of the samples.
pub fn languages(job: &Job) -> Result<Vec<String>> {
    Ok(scripts(job)?.iter().map(|script| name(script)).collect())
}

/// The scripts under `sdk/` and `examples/` that build samples. A sample has the name of its directory.
fn scripts(job: &Job) -> Result<Vec<PathBuf>> {
    let mut scripts = Vec::new();
    for folder in ["sdk", "examples"] {
        let folder = job.root.join(folder);
        if !folder.is_dir() {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let script = entry?.path().join("build-sample");
            if script.is_file() {
                scripts.push(script);
            }
        }
    }
    scripts.sort();
    Ok(scripts)
}

pub fn build(job: &Job) -> Result<()> {
    let folder = job.target.join("samples");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    for script in scripts(job)? {
        build_one(job, &folder, &script)
            .with_context(|| format!("sample of {}", script.display()))?;
    }
    Ok(())
}

/// Prints the samples that were skipped, so that passed tests are not taken for tested languages.
pub fn report_skipped(job: &Job) -> Result<()> {
    for language in languages(job)? {
        let skipped = job.target.join(format!("samples/{language}.skipped"));
        if let Ok(reason) = fs::read_to_string(skipped) {
            shell::note(&format!("skipped {language}: {}", reason.trim()));
        }
    }
    Ok(())
}

fn build_one(job: &Job, folder: &Path, script: &Path) -> Result<()> {
    let language = name(script);
    let component = folder.join(format!("{language}.wasm"));
    let skipped = folder.join(format!("{language}.skipped"));
    let mut command = Command::new(script);
    let mut child = command
        .arg(&job.target)
        .current_dir(&job.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}: is it executable?", script.display()))?;
    let mut last = String::new();
    for line in child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(|output| output.split(b'\n'))
    {
        let line = line.context("read the script's output")?;
        let line = String::from_utf8_lossy(&line);
        shell::note(&format!("{language}: {line}"));
        if !line.trim().is_empty() {
            line.trim().clone_into(&mut last);
        }
    }
    let status = child.wait()?;
    // Exactly one of the two files exists afterwards, regardless of earlier runs.
    match status.code() {
        Some(0) => {
            remove(&skipped)?;
            if !component.is_file() {
                bail!(
                    "{} succeeded but left no {}",
                    script.display(),
                    component.display()
                );
            }
        }
        Some(NO_TOOLCHAIN) => {
            remove(&component)?;
            fs::write(&skipped, format!("{last}\n"))
                .with_context(|| format!("write {}", skipped.display()))?;
            shell::note(&format!("skipped {language}: {last}"));
        }
        _ => bail!(
            "{} failed ({status}), see its messages above",
            script.display()
        ),
    }
    Ok(())
}

/// The name of the directory of a script.
fn name(script: &Path) -> String {
    let directory = script.parent().and_then(Path::file_name);
    directory.unwrap_or_default().to_string_lossy().into_owned()
}

fn remove(file: &Path) -> Result<()> {
    if file.exists() {
        fs::remove_file(file).with_context(|| format!("remove {}", file.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Profile;

    /// Runs `script` as the sample of `tongue` after an earlier run; compares the files afterwards.
    fn check(script: &str, expected: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        let target = root.path().join("target");
        let samples = target.join("samples");
        let sdk = root.path().join("sdk/tongue");
        fs::create_dir_all(&samples).unwrap();
        fs::create_dir_all(&sdk).unwrap();
        fs::write(samples.join("tongue.skipped"), "old").unwrap();
        fs::write(samples.join("tongue.wasm"), "old").unwrap();
        // Written by a child process: a script written by us could still be open in a child of another test's thread
        // and could then not be executed.
        let mut write = Command::new("sh");
        write.args([
            "-c",
            r#"printf '#!/bin/sh\n%s\n' "$1" > "$2" && chmod +x "$2""#,
            "sh",
            script,
        ]);
        shell::run(write.arg(sdk.join("build-sample"))).unwrap();
        let job = Job {
            root: root.path().to_path_buf(),
            target,
            profile: Profile::Dev,
            rest: Vec::new(),
        };
        let mut found = match build(&job) {
            Ok(()) => Vec::new(),
            Err(_) => vec!["failed".to_owned()],
        };
        for file in fs::read_dir(&samples).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            found.push(format!(
                "{name}: {}",
                fs::read_to_string(&path).unwrap().trim()
            ));
        }
        found.sort();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_built_sample_replaces_an_old_skip() {
        check("echo new > $1/samples/tongue.wasm", &["tongue.wasm: new"]);
    }

    #[test]
    fn a_missing_toolchain_is_told_in_the_script_s_last_line() {
        check(
            "echo looking; echo no compiler; exit 77",
            &["tongue.skipped: no compiler"],
        );
    }

    #[test]
    fn output_need_not_be_text() {
        check(
            r"printf '\377\n'; echo new > $1/samples/tongue.wasm",
            &["tongue.wasm: new"],
        );
    }

    #[test]
    fn any_other_end_is_a_failure() {
        check(
            "exit 3",
            &["failed", "tongue.skipped: old", "tongue.wasm: old"],
        );
    }
}
