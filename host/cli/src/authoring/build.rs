//! Runs the build command of a project and embeds the manifest in the component.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::Command;
use toolhost_authoring::{Project, missing_tools};
use toolhost_contract::text;
use toolhost_contract::units::format_duration;
use toolhost_hostfiles::{read_regular, replace_file};

use crate::commands::pack::MAX_INPUT;
use crate::exit::{CliError, Exit, OrExit as _};
use crate::terminal::note;

/// Longer lines of a build's output are read in parts, and each part is shortened.
const MAX_LINE: u64 = 8 << 10;
const SHOWN_LINE: usize = 1_000;

/// Builds the component of a project. Shows the output of the build on standard error.
pub async fn build(project: &Project) -> Result<(), CliError> {
    let missing = missing_tools(&project.requires, std::env::var_os("PATH").as_deref());
    if !missing.is_empty() {
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(CliError::new(Exit::Usage, missing.join("\n")));
    }
    let shown = text::escape_line(&project.command.join(" "), 400);
    note(&format!("building: {shown}"));
    let start = Instant::now();
    let mut words = project.command.iter();
    let program = words.next().map_or("", String::as_str);
    // A relative path is one in the project.
    let program = if program.contains('/') {
        project.root.join(program)
    } else {
        program.into()
    };
    let mut child = Command::new(&program)
        .args(words)
        .current_dir(&project.root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| {
            CliError::new(
                Exit::Usage,
                format!("cannot start {}: {error}", program.display()),
            )
        })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (status, (), ()) = tokio::join!(child.wait(), show(stdout), show(stderr));
    let status = status.or_exit(Exit::Internal)?;
    if !status.success() {
        return Err(CliError::new(
            Exit::ToolFailed,
            format!("the build failed ({status})"),
        ));
    }
    note(&format!("built in {}", format_duration(start.elapsed())));
    Ok(())
}

/// Shows lines of output as notes, so that they do not mix with a prompt.
async fn show(output: Option<impl AsyncRead + Unpin>) {
    let Some(output) = output else { return };
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while (&mut output)
        .take(MAX_LINE)
        .read_until(b'\n', &mut line)
        .await
        .is_ok_and(|read| read > 0)
    {
        let shown = String::from_utf8_lossy(&line);
        let shown = shown.trim_end();
        if !shown.is_empty() {
            note(&format!("  {}", text::escape_line(shown, SHOWN_LINE)));
        }
        line.clear();
    }
}

/// Writes the plugin of a project that was built. The plugin does not describe its tools, so that it need not be compiled
/// now. Returns whether the file changed.
pub fn pack_project(project: &Project, output: &Path) -> Result<bool, CliError> {
    let (_, manifest) = project.manifest().or_exit(Exit::Config)?;
    let component = read_regular(&project.component, MAX_INPUT).map_err(|error| {
        let message = format!(
            "the build wrote no component to {}: {error}; `component` in {} names the file",
            project.component.display(),
            toolhost_authoring::PROJECT_FILE
        );
        CliError::new(Exit::Config, message)
    })?;
    let file = project.manifest.display().to_string();
    let packed = toolhost_runtime::pack(&project.component, &component, &file, &manifest, None)
        .or_exit(Exit::NoPlugin)?;
    if read_regular(output, MAX_INPUT).is_ok_and(|existing| existing == packed) {
        return Ok(false);
    }
    replace_file(output, &packed)
        .with_context(|| output.display().to_string())
        .or_exit(Exit::Internal)?;
    Ok(true)
}
