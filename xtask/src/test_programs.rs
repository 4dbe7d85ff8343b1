//! Runs all test programs of the workspace, several at a time: cargo runs one after the other, and many tests wait for
//! other programs.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use crate::job::{Job, string_member};
use crate::shell;
use anyhow::{Context as _, Result, bail};

/// Programs at a time. Each runs one test per processor.
const AT_A_TIME: usize = 2;
/// Those that take longest, so that they do not run alone at the end.
const FIRST: [&str; 5] = [
    "authoring",
    "conformance",
    "sdk_packages",
    "languages",
    "ports",
];

struct TestProgram {
    /// The name of its target, and its source for the report.
    name: String,
    source: String,
    executable: PathBuf,
    package: PathBuf,
}

/// `list` is the command that builds the tests; it is asked for the programs. `settings` adds what tests need.
pub fn run(job: &Job, mut list: Command, settings: impl Fn(&mut Command) + Sync) -> Result<()> {
    list.arg("--message-format=json-render-diagnostics");
    let messages = shell::capture(&mut list)?;
    let mut programs: Vec<TestProgram> = messages
        .lines()
        .filter_map(|line| program(job, line))
        .collect();
    programs.sort_by_key(|program| {
        let first = FIRST.iter().position(|name| *name == program.name);
        first.unwrap_or(FIRST.len())
    });
    if programs.is_empty() {
        bail!("cargo listed no test programs");
    }
    let number = programs.len();
    let queue = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let work = || {
        while let Some(program) = next() {
            if let Err(error) = program.run(&settings) {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(format!("{}: {error:#}", program.source));
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!(
            "{} of {number} test programs failed:\n{}",
            failed.len(),
            failed.join("\n")
        );
    }
    shell::note(&format!("{number} test programs passed"));
    Ok(())
}

/// The test program that a message of cargo describes.
fn program(job: &Job, message: &str) -> Option<TestProgram> {
    // The target has a member `test` too.
    if !message.contains(r#""test":true},"features":"#) {
        return None;
    }
    let source = PathBuf::from(string_member(message, "src_path")?);
    let source = source.strip_prefix(&job.root).unwrap_or(&source);
    let manifest = PathBuf::from(string_member(message, "manifest_path")?);
    Some(TestProgram {
        name: string_member(message, "name")?,
        source: source.display().to_string(),
        executable: string_member(message, "executable")?.into(),
        package: manifest.parent()?.to_owned(),
    })
}

impl TestProgram {
    /// Runs it as `cargo test` does, and prints its output when it has ended.
    fn run(&self, settings: impl Fn(&mut Command)) -> Result<()> {
        // A file, so that a process that outlives the program does not keep a pipe open.
        let mut output = tempfile::tempfile().context("create a temporary file")?;
        let mut command = Command::new(&self.executable);
        settings(&mut command);
        let started = Instant::now();
        let status = command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .status()
            .with_context(|| format!("start {}", self.executable.display()))?;
        self.print(&mut output, started.elapsed().as_secs())?;
        if !status.success() {
            bail!("{status}");
        }
        Ok(())
    }

    fn print(&self, output: &mut File, seconds: u64) -> Result<()> {
        output.rewind()?;
        let mut terminal = io::stderr().lock();
        writeln!(terminal, "     Running {} ({seconds} s)", self.source)?;
        io::copy(output, &mut terminal).context("print the output of a test program")?;
        Ok(())
    }
}
