//! What an MCP client sees: calls over stdio, and how soon the host is there.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use e2e::{root, target};
use serde_json::json;

use super::client::Client;
use super::{Row, host, median, row};

pub fn over_stdio(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLS: usize = 2_000;
    let workspace = target().join("bench-workspace");
    fs::create_dir_all(&workspace)?;
    fs::write(workspace.join("kib.txt"), "0123456789abcde\n".repeat(64))?;
    let plugins = root().join("plugins");
    let mut noop = Client::start(host(&["noop-mcp"]))?;
    let mut ours = Client::start(host(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &workspace.to_string_lossy(),
    ]))?;
    let (mut floor, mut call) = (Vec::new(), Vec::new());
    // Alternating rounds: a busy moment of the machine falls on both.
    for _ in 0..5 {
        floor.push(noop.time(CALLS / 5, "echo", &json!({"text": "hello"}))?);
        call.push(ours.time(CALLS / 5, "base64_encode", &json!({"text": "hello"}))?);
    }
    let middle = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let (floor, call) = (middle(floor), middle(call));
    let sandbox = rows
        .iter()
        .find(|row| row.what.starts_with("bare wasmtime"))
        .map_or(0.0, |row| row.value);
    row(
        rows,
        "no-op rmcp server, tools/call over stdio (p50)",
        floor,
        "µs",
        "",
        None,
    );
    row(
        rows,
        "host, base64_encode over stdio (p50)",
        call,
        "µs",
        "",
        None,
    );
    let ratio = call / (floor + sandbox);
    row(
        rows,
        "the same beside no-op rmcp + bare sandbox call",
        ratio,
        "×",
        "≤ 1.25 ×",
        Some(ratio <= 1.25),
    );

    let read = ours.time(CALLS, "read_file", &json!({"path": "kib.txt"}))?;
    row(
        rows,
        "host, read_file of 1 KiB over stdio (p50)",
        read,
        "µs",
        "",
        None,
    );
    let server = target()
        .join("bench-node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    if server.exists() {
        let mut command = Command::new("node");
        command.arg(&server).arg(&workspace);
        let mut node = Client::start(command)?;
        let path = workspace.join("kib.txt");
        let theirs = node.time(CALLS, "read_text_file", &json!({"path": path}))?;
        row(
            rows,
            "Node's server-filesystem, the same file (p50)",
            theirs,
            "µs",
            "",
            None,
        );
        row(
            rows,
            "read_file beside it",
            read / theirs,
            "×",
            "< 1 ×",
            Some(read < theirs),
        );
    } else {
        eprintln!(
            "skipped: Node's server-filesystem is not in {} (npm install it there)",
            server.display()
        );
    }
    Ok(())
}

/// Twenty plugins, compiled before: how long to the list of tools, and how much memory they take.
pub fn twenty_plugins(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = target().join("bench-twenty");
    fs::create_dir_all(&dir)?;
    let built = target().join("wasm32-wasip2/plugin/data.wasm");
    for number in 0..20 {
        let manifest = dir.join("plugin.toml");
        fs::write(
            &manifest,
            format!("name = \"data-{number}\"\nversion = \"0.1.0\"\ndescription = \"A copy\"\n"),
        )?;
        let output = dir.join(format!("data{number}.wasm"));
        let packed = host(&["pack"])
            .arg(&built)
            .args([
                Path::new("--manifest"),
                &manifest,
                Path::new("--output"),
                &output,
            ])
            .output()?;
        anyhow::ensure!(
            packed.status.success(),
            "{}",
            String::from_utf8_lossy(&packed.stderr)
        );
    }
    let dir = dir.to_string_lossy().into_owned();
    let args = ["run", "--plugins", &dir, "--on-duplicate", "qualify"];
    let mut times = Vec::new();
    let mut memory = 0.0;
    for round in 0..8 {
        let start = Instant::now();
        let mut client = Client::start(host(&args))?;
        let tools = client.request("tools/list", &json!({}))?;
        // The first round compiles.
        if round > 0 {
            times.push(start.elapsed());
        }
        anyhow::ensure!(
            tools["tools"]
                .as_array()
                .is_some_and(|tools| tools.len() == 80),
            "not every tool is listed"
        );
        memory = client.memory()?;
    }
    let start = median(times) / 1e3;
    row(
        rows,
        "start to tools/list with 20 plugins, compiled before (p50)",
        start,
        "ms",
        "≤ 100 ms",
        Some(start <= 100.0),
    );
    row(
        rows,
        "resident memory, idle, 20 plugins",
        memory,
        "MiB",
        "< 80 MiB",
        Some(memory < 80.0),
    );
    Ok(())
}
