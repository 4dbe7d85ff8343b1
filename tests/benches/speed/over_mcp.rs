//! Calls over stdio, and start time of the host.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::{root, target};
use serde_json::json;

use super::client::Client;
use super::peers::compile;
use super::pipeline::FULL_PIPELINE;
use super::{Row, host, median, noop, row, shipped};

pub fn over_stdio(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLS: usize = 2_000;
    let workspace = target().join("bench-workspace");
    fs::create_dir_all(&workspace)?;
    fs::write(workspace.join("kib.txt"), "0123456789abcde\n".repeat(64))?;
    let mut noop = Client::start(noop(&[]))?;
    let mut ours = Client::start(shipped(&workspace))?;
    let (mut floor, mut call) = (Vec::new(), Vec::new());
    // Rounds alternate, so that machine load affects both.
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
        .find(|row| row.label.starts_with("bare wasmtime"))
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
    if let Some(pipeline) = rows.iter().find(|row| row.label == FULL_PIPELINE) {
        let ratio = (call - pipeline.value) / floor;
        row(
            rows,
            "what the protocol adds to the full pipeline, beside no-op rmcp",
            ratio,
            "×",
            "≤ 1.25 ×",
            Some(ratio <= 1.25),
        );
    }

    let long = Duration::from_secs(5);
    let floor = noop.rate(16, long, "echo", &json!({"text": "hello"}))?;
    let label = "no-op rmcp server over stdio, 16 in flight";
    row(rows, label, floor, "calls/s", "", None);
    let rate = ours.rate(16, long, "base64_encode", &json!({"text": "hello"}))?;
    row(
        rows,
        "host, base64_encode over stdio, 16 in flight",
        rate,
        "calls/s",
        "≥ 15000 calls/s",
        Some(rate >= 15_000.0),
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
    Ok(())
}

/// File tools on a file of 1 MiB.
pub fn large_file(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLS: usize = 200;
    let workspace = target().join("bench-large");
    fs::create_dir_all(&workspace)?;
    let line = "0123456789abcdef".repeat(32) + " the end\n";
    let text = line.repeat((1 << 20) / line.len() + 1);
    fs::write(workspace.join("mib.txt"), &text)?;
    fs::write(
        workspace.join("edited.txt"),
        format!("the first line\n{text}"),
    )?;
    let plugins = root().join("plugins");
    let mut client = Client::start(host(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &format!("{}:rw", workspace.display()),
        "--allow-tool",
        "edit_file",
    ]))?;
    let read = client.time(CALLS, "read_file", &json!({"path": "mib.txt"}))? / 1e3;
    let mut native = Vec::new();
    for _ in 0..CALLS {
        let start = Instant::now();
        let output = Command::new("cat")
            .arg(workspace.join("mib.txt"))
            .output()?;
        anyhow::ensure!(
            output.stdout.len() == text.len(),
            "the file was not read completely"
        );
        native.push(start.elapsed());
    }
    let native = median(native) / 1e3;
    row(
        rows,
        "read_file of 1 MiB over stdio (p50)",
        read,
        "ms",
        "",
        None,
    );
    row(
        rows,
        "`cat` of it, a process each time (p50)",
        native,
        "ms",
        "",
        None,
    );
    let ratio = read / native;
    row(
        rows,
        "read_file beside `cat`",
        ratio,
        "×",
        "< 3 ×",
        Some(ratio < 3.0),
    );

    client.time(1, "read_file", &json!({"path": "edited.txt"}))?;
    let mut times = Vec::new();
    for number in 0..CALLS {
        let (old, new) = [("first", "other"), ("other", "first")][number % 2];
        let edit = json!({
            "path": "edited.txt",
            "old_string": format!("the {old} line"),
            "new_string": format!("the {new} line"),
        });
        let start = Instant::now();
        let params = json!({"name": "edit_file", "arguments": edit});
        let result = client.request("tools/call", &params)?;
        times.push(start.elapsed());
        anyhow::ensure!(result["isError"] != json!(true), "{result}");
    }
    let edit = median(times) / 1e3;
    row(
        rows,
        "edit_file in 1 MiB over stdio, on disk (p50)",
        edit,
        "ms",
        "< 20 ms",
        Some(edit < 20.0),
    );
    Ok(())
}

/// Creates copies of a plugin with four tools, each with a different name.
pub fn copies(number: u32) -> anyhow::Result<String> {
    let dir = target().join(format!("bench-copies-{number}"));
    fs::create_dir_all(&dir)?;
    let built = target().join("wasm32-wasip2/plugin/data.wasm");
    for number in 0..number {
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
    Ok(dir.to_string_lossy().into_owned())
}

/// Start time and memory with twenty plugins that are already compiled.
pub fn twenty_plugins(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = copies(20)?;
    let args = ["run", "--plugins", &dir, "--on-duplicate", "qualify"];
    compile(&host(&args))?;
    let mut times = Vec::new();
    let mut memory = 0.0;
    for _ in 0..7 {
        let start = Instant::now();
        let mut client = Client::start(host(&args))?;
        let tools = client.request("tools/list", &json!({}))?;
        times.push(start.elapsed());
        anyhow::ensure!(
            tools["tools"]
                .as_array()
                .is_some_and(|tools| tools.len() == 80),
            "some tools are not listed"
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

pub fn many_tools(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = copies(50)?;
    let args = ["run", "--plugins", &dir, "--on-duplicate", "qualify"];
    let mut client = Client::start(host(&args))?;
    let mut times = Vec::new();
    for round in 0..220 {
        let start = Instant::now();
        let listed = client.list_tools()?;
        anyhow::ensure!(listed == 200, "{listed} tools are listed");
        if round >= 20 {
            times.push(start.elapsed());
        }
    }
    let list = median(times) / 1e3;
    row(
        rows,
        "tools/list of 200 tools over stdio, all pages (p50)",
        list,
        "ms",
        "< 5 ms",
        Some(list < 5.0),
    );
    Ok(())
}
