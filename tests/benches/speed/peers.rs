//! The shipped plugins beside comparable programs, in one run: `cargo xtask bench --peers`.
//!
//! Three rounds in which the programs take turns, on an idle machine and on one whose processors are all busy.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use e2e::client_kits::kit;
use e2e::{root, target};
use serde_json::{Value, json};

use super::client::Client;
use super::over_mcp::copies;
use super::{Row, host, noop, percentile, shipped, spread_row};

const ROUNDS: usize = 3;
const CALLS: usize = 700;
const IN_FLIGHT: u64 = 16;
const RATE_TIME: Duration = Duration::from_secs(3);
/// Number of 4 KiB blocks that the calibration hashes.
const CALIBRATION_BLOCKS: usize = 32 << 10;

/// An MCP server over stdio.
struct Peer {
    name: &'static str,
    command: Box<dyn Fn() -> Command>,
    small: Option<(&'static str, Value)>,
    read: Option<(&'static str, Value)>,
}

type Select = fn(&Peer) -> Option<&(&'static str, Value)>;

pub fn peers(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let workspace = target().join("bench-peers");
    fs::create_dir_all(&workspace)?;
    fs::write(workspace.join("kib.txt"), "0123456789abcde\n".repeat(64))?;
    let peers = servers(&workspace);
    calibration(rows, "before");
    for busy in [false, true] {
        let _load = busy.then(Load::start);
        calls(rows, &peers, busy)?;
    }
    starts(rows, &peers)?;
    many_plugins(rows)?;
    calibration(rows, "after");
    Ok(())
}

fn servers(workspace: &Path) -> Vec<Peer> {
    let file = workspace.join("kib.txt");
    let text = json!({"text": "hello"});
    let owned = workspace.to_path_buf();
    let mut peers = vec![
        Peer {
            name: "host",
            command: Box::new(move || shipped(&owned)),
            small: Some(("base64_encode", text.clone())),
            read: Some(("read_file", json!({"path": "kib.txt"}))),
        },
        Peer {
            name: "no-op rmcp",
            command: Box::new(|| noop(&[])),
            small: Some(("echo", text.clone())),
            read: None,
        },
        Peer {
            name: "Python echo",
            command: Box::new(|| {
                let mut command = Command::new("python3");
                command.arg(root().join("tests/peers/echo.py"));
                command
            }),
            small: Some(("echo", text.clone())),
            read: None,
        },
    ];
    if let Some(programs) = kit("peers") {
        peers.push(Peer {
            name: "act",
            command: Box::new(move || {
                let mut command = Command::new(programs.join("bin/act"));
                let component = target().join("guests/act_echo.wasm");
                command.args(["run", "--mcp"]).arg(component);
                command
            }),
            small: Some(("echo", text)),
            read: None,
        });
    }
    if let (Some(node), Some(packages)) = (kit("node"), kit("peers-node")) {
        let script =
            packages.join("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
        let allowed = workspace.to_path_buf();
        peers.push(Peer {
            name: "server-filesystem",
            command: Box::new(move || {
                let mut command = Command::new(node.join("program"));
                command.arg(&script).arg(&allowed);
                command
            }),
            small: None,
            read: Some(("read_text_file", json!({"path": file}))),
        });
    }
    peers
}

fn calls(rows: &mut Vec<Row>, peers: &[Peer], busy: bool) -> anyhow::Result<()> {
    let state = if busy { "busy" } else { "idle" };
    let kinds: [(&str, Select); 2] = [
        ("small call", |peer| peer.small.as_ref()),
        ("read_file of 1 KiB", |peer| peer.read.as_ref()),
    ];
    for (kind, select) in kinds {
        let mut measured = Vec::new();
        for peer in peers {
            if let Some((tool, input)) = select(peer) {
                let client = Client::start((peer.command)())?;
                measured.push((peer.name, *tool, input, client, Rounds::default()));
            }
        }
        for _ in 0..ROUNDS {
            for (_, tool, input, client, rounds) in &mut measured {
                let times = client.times(CALLS, tool, input)?;
                rounds.median.push(percentile(times.clone(), 50));
                rounds.tail.push(percentile(times, 99));
                let rate = client.rate(IN_FLIGHT, RATE_TIME, tool, input)?;
                rounds.rate.push(rate);
            }
        }
        for (name, _, _, _, rounds) in measured {
            let label = |what: &str| format!("{kind}, {state}: {name}, {what}");
            spread_row(rows, &label("p50"), rounds.median, "µs");
            spread_row(rows, &label("p99"), rounds.tail, "µs");
            spread_row(rows, &label("16 in flight"), rounds.rate, "calls/s");
        }
    }
    Ok(())
}

/// The results of each round.
#[derive(Default)]
struct Rounds {
    median: Vec<f64>,
    tail: Vec<f64>,
    rate: Vec<f64>,
}

/// Starts of each server: the time to its first response and to the list of its tools.
fn starts(rows: &mut Vec<Row>, peers: &[Peer]) -> anyhow::Result<()> {
    compile(&shipped(&root()))?;
    let mut warm: Vec<_> = peers.iter().map(|_| (Vec::new(), Vec::new())).collect();
    let mut memory = vec![Vec::new(); peers.len()];
    for round in 0..=2 * ROUNDS {
        for (number, peer) in peers.iter().enumerate() {
            let (first, tools, client) = start((peer.command)())?;
            // The first round fills the caches.
            if round > 0 {
                warm[number].0.push(first);
                warm[number].1.push(tools);
                memory[number].push(client.memory()?);
            }
        }
    }
    for ((peer, (first, tools)), memory) in peers.iter().zip(warm).zip(memory) {
        let label = |what: &str| format!("start: {}, {what}", peer.name);
        spread_row(rows, &label("to the first response"), first, "ms");
        spread_row(rows, &label("to the list of tools"), tools, "ms");
        spread_row(rows, &label("resident memory, idle"), memory, "MiB");
    }
    let (mut first, mut tools) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cache = tempfile::tempdir()?;
        let mut command = shipped(&root());
        command.env("TOOLHOST_CACHE_DIR", cache.path());
        let (first_response, list, _) = start(command)?;
        first.push(first_response);
        tools.push(list);
    }
    let label = |what: &str| format!("start, nothing compiled: host, {what}");
    spread_row(rows, &label("to the first response"), first, "ms");
    spread_row(rows, &label("to the list of tools"), tools, "ms");
    Ok(())
}

/// Starts with copies of a small plugin.
fn many_plugins(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = copies(100)?;
    let args = ["run", "--plugins", &dir, "--on-duplicate", "qualify"];
    let (mut cold, mut warm, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let cache = tempfile::tempdir()?;
        let command = || {
            let mut command = host(&args);
            command.env("TOOLHOST_CACHE_DIR", cache.path());
            command
        };
        cold.push(start(command())?.1);
        compile(&command())?;
        let (_, tools, client) = start(command())?;
        warm.push(tools);
        memory.push(client.memory()?);
    }
    spread_row(
        rows,
        "100 plugins, nothing compiled: to the list of tools",
        cold,
        "ms",
    );
    spread_row(
        rows,
        "100 plugins, compiled: to the list of tools",
        warm,
        "ms",
    );
    spread_row(
        rows,
        "100 plugins, compiled: resident memory, idle",
        memory,
        "MiB",
    );
    Ok(())
}

/// Compiles the plugins of a `host run`, because one that is killed after its list has not compiled all.
pub fn compile(run: &Command) -> anyhow::Result<()> {
    let mut host = Command::new(run.get_program());
    let variables = run.get_envs();
    host.envs(variables.filter_map(|(name, value)| Some((name, value?))));
    let output = host.arg("plugins").args(run.get_args().skip(1)).output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "{stderr}");
    Ok(())
}

/// Returns the milliseconds to the first response and to the list of tools.
fn start(command: Command) -> anyhow::Result<(f64, f64, Client)> {
    let start = Instant::now();
    let mut client = Client::start(command)?;
    let first = start.elapsed();
    client.list_tools()?;
    let all = start.elapsed();
    Ok((first.as_secs_f64() * 1e3, all.as_secs_f64() * 1e3, client))
}

/// One thread per processor that computes until the load is dropped.
struct Load(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let threads = (0..processors).map(|_| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self(Arc::clone(&stop), threads.collect())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for thread in self.1.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A fixed amount of work in this process: if it takes longer, the machine is slower.
fn calibration(rows: &mut Vec<Row>, when: &str) {
    use sha2::Digest as _;

    let block = [7_u8; 4096];
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        let mut hash = sha2::Sha256::new();
        for _ in 0..CALIBRATION_BLOCKS {
            hash.update(block);
        }
        std::hint::black_box(hash.finalize());
        rounds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let label = format!("calibration: SHA-256 of 128 MiB, {when} the other rows");
    spread_row(rows, &label, rounds, "ms");
}
