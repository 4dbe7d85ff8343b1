//! grep and glob over a large checkout, compared with ripgrep and fd.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::target;
use serde_json::{Value, json};

use super::checkout::{NEEDLE, checkout};
use super::client::Client;
use super::{Row, median, row, shipped};

const ROUNDS: usize = 7;

/// A search, as input of the tool and as arguments of another program that uses one thread.
struct Task {
    title: &'static str,
    tool: &'static str,
    input: Value,
    program: &'static str,
    arguments: Vec<&'static str>,
    /// Target time, as a multiple of the program's.
    target: f64,
}

/// The programs, with the kits of `cargo xtask bench --peers` that contain them.
const PROGRAMS: [(&str, &str); 2] = [("rg", "peers"), ("fd", "peers-fd")];

pub fn search(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tree = target().join("bench-checkout");
    let bytes = checkout(&tree)?;
    let size = f64::from(u32::try_from(bytes / 1_000_000)?);
    row(
        rows,
        "the searched tree, 50 000 files",
        size,
        "MB",
        "",
        None,
    );
    let mut client = Client::start(shipped(&tree))?;
    for task in tasks() {
        let program = program(task.program);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round fills the caches of the kernel.
        for round in 0..=ROUNDS {
            let our = ask(&mut client, &task)?;
            let their = match &program {
                Some(program) => time_program(program, &task, &tree)?,
                None => our,
            };
            if round > 0 {
                ours.push(our);
                theirs.push(their);
            }
        }
        let name = format!("{} -j1", task.program);
        let label = |who: &str| format!("{}: {who} (p50)", task.title);
        let (ours, theirs) = (median(ours) / 1e3, median(theirs) / 1e3);
        row(rows, &label(task.tool), ours, "ms", "", None);
        if program.is_none() {
            continue;
        }
        row(rows, &label(&name), theirs, "ms", "", None);
        let ratio = ours / theirs;
        let target = format!("≤ {} ×", task.target);
        let met = Some(ratio <= task.target);
        let label = format!("{}: beside {name}", task.title);
        row(rows, &label, ratio, "×", &target, met);
    }
    Ok(())
}

/// Returns the installed peer, or else the program of the machine. Prints a message if there is neither.
fn program(name: &str) -> Option<PathBuf> {
    let kits = target().join("clients");
    let installed = PROGRAMS
        .iter()
        .filter(|(program, _)| *program == name)
        .map(|(program, kit)| kits.join(kit).join("bin").join(program));
    let found = installed
        .chain([PathBuf::from(name)])
        .find(|program| Command::new(program).arg("--version").output().is_ok());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed; `--peers` installs it");
    }
    found
}

fn tasks() -> Vec<Task> {
    let grep = |pattern: &str| json!({"pattern": pattern, "output_mode": "count", "head_limit": 2000, "stream": false});
    let glob = |pattern: &str, sort: &str| json!({"pattern": pattern, "sort": sort});
    let expression = r"let [a-z_]+_buffer\w*\(";
    let inner = r"[a-z_]+needle_of\w*";
    vec![
        Task {
            title: "grep, a rare literal",
            tool: "grep",
            input: grep(NEEDLE),
            program: "rg",
            arguments: vec!["-c", "--", NEEDLE],
            target: 1.3,
        },
        Task {
            title: "grep, a regular expression",
            tool: "grep",
            input: grep(expression),
            program: "rg",
            arguments: vec!["-c", "--", expression],
            target: 1.5,
        },
        Task {
            title: "grep, a literal after a class",
            tool: "grep",
            input: grep(inner),
            program: "rg",
            arguments: vec!["-c", "--", inner],
            target: 1.5,
        },
        Task {
            title: "grep, in any letter case",
            tool: "grep",
            input: {
                let mut input = grep("THE_NEEDLE_OF");
                input["case_insensitive"] = json!(true);
                input
            },
            program: "rg",
            arguments: vec!["-i", "-c", "--", "THE_NEEDLE_OF"],
            target: 1.5,
        },
        Task {
            title: "glob, all files by name",
            tool: "glob",
            input: glob("**/*", "path"),
            program: "rg",
            arguments: vec!["--files"],
            target: 1.5,
        },
        Task {
            title: "glob, all files, newest first",
            tool: "glob",
            input: glob("**/*", "mtime"),
            program: "rg",
            arguments: vec!["--files", "--sortr", "modified"],
            target: 1.5,
        },
        Task {
            title: "glob, files of one kind",
            tool: "glob",
            input: glob("**/*.rs", "path"),
            program: "fd",
            arguments: vec!["--glob", "*.rs"],
            target: 1.5,
        },
    ]
}

fn ask(client: &mut Client, task: &Task) -> anyhow::Result<Duration> {
    let call = json!({"name": task.tool, "arguments": task.input});
    let start = Instant::now();
    let result = client.request("tools/call", &call)?;
    let time = start.elapsed();
    anyhow::ensure!(result["isError"] != json!(true), "{result}");
    Ok(time)
}

fn time_program(program: &Path, task: &Task, tree: &Path) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let output = Command::new(program)
        .arg("-j1")
        .args(&task.arguments)
        .arg(tree)
        .output()?;
    let time = start.elapsed();
    anyhow::ensure!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}
