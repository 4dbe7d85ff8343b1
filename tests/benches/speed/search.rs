//! grep and glob over a large checkout, compared with ripgrep.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{root, target};
use serde_json::{Value, json};

use super::checkout::{NEEDLE, checkout};
use super::client::Client;
use super::{Row, host, median, row};

const ROUNDS: usize = 7;

/// A search, as input of the tool and as arguments of ripgrep.
struct Task {
    title: &'static str,
    tool: &'static str,
    input: Value,
    rg: Vec<&'static str>,
    /// Target time, as a multiple of ripgrep's.
    target: Option<f64>,
}

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
    let plugins = root().join("plugins");
    let args = [
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &tree.to_string_lossy(),
    ];
    let mut client = Client::start(host(&args))?;
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    if !has_rg {
        eprintln!("skipped: rg is not installed");
    }
    for task in tasks() {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first round fills the caches of the kernel.
        for round in 0..=ROUNDS {
            let our = ask(&mut client, &task)?;
            let their = if has_rg { ripgrep(&task, &tree)? } else { our };
            if round > 0 {
                ours.push(our);
                theirs.push(their);
            }
        }
        let label = |who: &str| format!("{}: {who} (p50)", task.title);
        let (ours, theirs) = (median(ours) / 1e3, median(theirs) / 1e3);
        row(rows, &label(task.tool), ours, "ms", "", None);
        if !has_rg {
            continue;
        }
        row(rows, &label("rg -j1"), theirs, "ms", "", None);
        let ratio = ours / theirs;
        let target = task.target.map(|most| format!("≤ {most} ×"));
        let met = task.target.map(|most| ratio <= most);
        let label = format!("{}: beside rg -j1", task.title);
        row(rows, &label, ratio, "×", &target.unwrap_or_default(), met);
    }
    Ok(())
}

fn tasks() -> Vec<Task> {
    let grep = |pattern: &str| json!({"pattern": pattern, "output_mode": "count", "head_limit": 2000, "stream": false});
    let glob = |sort: &str| json!({"pattern": "**/*", "sort": sort});
    let expression = r"let [a-z_]+_buffer\w*\(";
    vec![
        Task {
            title: "grep, a rare literal",
            tool: "grep",
            input: grep(NEEDLE),
            rg: vec!["-c", "--", NEEDLE],
            target: Some(2.5),
        },
        Task {
            title: "grep, a regular expression",
            tool: "grep",
            input: grep(expression),
            rg: vec!["-c", "--", expression],
            target: Some(2.5),
        },
        Task {
            title: "grep, in any letter case",
            tool: "grep",
            input: {
                let mut input = grep("THE_NEEDLE_OF");
                input["case_insensitive"] = json!(true);
                input
            },
            rg: vec!["-i", "-c", "--", "THE_NEEDLE_OF"],
            target: Some(2.5),
        },
        Task {
            title: "glob, all files by name",
            tool: "glob",
            input: glob("path"),
            rg: vec!["--files"],
            target: Some(2.0),
        },
        Task {
            title: "glob, all files, newest first",
            tool: "glob",
            input: glob("mtime"),
            rg: vec!["--files", "--sortr", "modified"],
            target: Some(2.0),
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

fn ripgrep(task: &Task, tree: &Path) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let output = Command::new("rg")
        .arg("-j1")
        .args(&task.rg)
        .arg(tree)
        .output()?;
    let time = start.elapsed();
    anyhow::ensure!(
        output.status.success(),
        "rg: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(time)
}
