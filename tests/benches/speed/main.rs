//! Speed benchmarks, compared with baselines that are measured in the same run.
//!
//! `cargo xtask bench` builds everything for release and runs this; `--json` prints the rows as JSON. Compare the
//! ratios: absolute numbers depend on the machine and its load. Baselines that are not installed are skipped. Arguments
//! select groups by the names in [`GROUPS`]. `--peers` installs the programs to compare with and adds the group `peers`.

mod checkout;
mod client;
mod files;
mod full_load;
mod grant;
mod growth;
mod growth_chart;
mod in_process;
mod memory;
mod over_http;
mod over_mcp;
mod packages;
mod peers;
mod pipeline;
mod previews;
mod search;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use e2e::{root, target};
use serde_json::{Value, json};
use toolhost_runtime::{Compiler, Runtime, RuntimeSettings};

fn main() -> anyhow::Result<()> {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let is_wanted = |name: &str| wanted.iter().any(|argument| argument == name);
    let some = GROUPS.iter().any(|(name, _, _)| is_wanted(name));
    for (name, runs_by_default, group) in GROUPS {
        let runs = if some {
            is_wanted(name)
        } else {
            runs_by_default || name == "peers" && is_wanted("--peers")
        };
        if runs {
            group(&mut rows)?;
        }
    }
    if as_json {
        println!("{:#}", Value::Array(rows.iter().map(Row::json).collect()));
    } else {
        print(&rows);
    }
    Ok(())
}

/// The allocator of the host binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Group = fn(&mut Vec<Row>) -> anyhow::Result<()>;

/// The names of the groups, and whether they run if no group is named.
const GROUPS: [(&str, bool, Group); 14] = [
    ("in-process", true, in_process::in_process),
    ("pipeline", true, pipeline::pipeline),
    ("previews", true, previews::previews),
    ("files", true, files::files),
    ("stdio", true, over_mcp::over_stdio),
    ("large", true, over_mcp::large_file),
    ("http", true, over_http::over_http),
    ("start", true, over_mcp::twenty_plugins),
    ("list", true, over_mcp::many_tools),
    ("search", true, search::search),
    ("packages", true, packages::packages),
    ("peers", false, peers::peers),
    ("growth", false, growth::growth),
    ("load", false, full_load::full_load),
];

/// A row of the table. The target is text, because targets differ in kind.
struct Row {
    label: String,
    value: f64,
    unit: &'static str,
    target: String,
    met: Option<bool>,
    /// The lowest and the highest round.
    spread: Option<(f64, f64)>,
}

impl Row {
    /// Number of decimals. Some target ratios are within a tenth of one.
    fn decimals(&self) -> usize {
        if self.unit == "×" { 2 } else { 1 }
    }

    fn json(&self) -> Value {
        json!({"what": self.label, "value": self.value, "unit": self.unit, "target": self.target, "met": self.met, "spread": self.spread})
    }
}

fn row(
    rows: &mut Vec<Row>,
    label: &str,
    value: f64,
    unit: &'static str,
    target: &str,
    met: Option<bool>,
) {
    let row = Row {
        label: label.to_owned(),
        value,
        unit,
        target: target.to_owned(),
        met,
        spread: None,
    };
    eprintln!("{label}: {value:.*} {unit}", row.decimals());
    rows.push(row);
}

/// Adds a row with the median of the rounds.
fn spread_row(rows: &mut Vec<Row>, label: &str, mut rounds: Vec<f64>, unit: &'static str) {
    rounds.sort_by(f64::total_cmp);
    let (Some(low), Some(high)) = (rounds.first(), rounds.last()) else {
        return;
    };
    let spread = Some((*low, *high));
    row(rows, label, rounds[rounds.len() / 2], unit, "", None);
    if let Some(row) = rows.last_mut() {
        row.spread = spread;
    }
}

fn print(rows: &[Row]) {
    let (compared, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.spread.is_some());
    if !others.is_empty() {
        println!("| measure | value | target | met |\n|---|---|---|---|");
    }
    for row in others {
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        let (decimals, unit) = (row.decimals(), row.unit);
        println!(
            "| {} | {:.decimals$} {unit} | {} | {met} |",
            row.label, row.value, row.target
        );
    }
    if !compared.is_empty() {
        println!("\n| measure | median of the rounds | lowest and highest |\n|---|---|---|");
    }
    for row in compared {
        let (decimals, unit) = (row.decimals(), row.unit);
        let (low, high) = row.spread.unwrap_or_default();
        println!(
            "| {} | {:.decimals$} {unit} | {low:.decimals$} to {high:.decimals$} |",
            row.label, row.value
        );
    }
}

/// Returns the median, in microseconds.
fn median(times: Vec<Duration>) -> f64 {
    percentile(times, 50)
}

/// Returns a percentile, in microseconds.
fn percentile(mut times: Vec<Duration>, percent: usize) -> f64 {
    times.sort();
    times[times.len() * percent / 100].as_secs_f64() * 1e6
}

fn plugin_file(name: &str) -> PathBuf {
    root().join(format!("plugins/{name}.wasm"))
}

fn runtime() -> anyhow::Result<Runtime> {
    let cache_dir = Some(target().join("bench-cache"));
    Ok(Runtime::new(RuntimeSettings {
        cache_dir,
        compiler: Compiler::InProcess,
        max_concurrent: 8,
        environment: Vec::new(),
    })?)
}

/// The host with the plugins that ship.
fn shipped(workspace: &Path) -> Command {
    let plugins = root().join("plugins");
    host(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &workspace.to_string_lossy(),
    ])
}

/// The integer after a flag.
fn argument(flag: &str, default: u32) -> anyhow::Result<u32> {
    let mut arguments = std::env::args().skip_while(|argument| argument != flag);
    match arguments.nth(1) {
        Some(number) => number
            .parse()
            .with_context(|| format!("{flag} takes an integer")),
        None => Ok(default),
    }
}

/// The baseline: an MCP server whose tool does nothing.
fn noop(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_noop-mcp"));
    command.args(args);
    command
}

fn host(args: &[&str]) -> Command {
    let mut command = Command::new(target().join("release/host"));
    command
        .args(args)
        .env("TOOLHOST_CACHE_DIR", target().join("bench-cache"))
        .env("TOOLHOST_STATE_DIR", target().join("bench-state"));
    command
}
