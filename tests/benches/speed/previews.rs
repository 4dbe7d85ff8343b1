//! What preview functions and hooks of a plugin add to a call, in a program that embeds the host and over stdio.

use std::time::{Duration, Instant};

use e2e::target;
use serde_json::json;
use toolhost::{Builder, Durability, Host};

use super::client::Client;
use super::{Row, host, median, row};

const CALLS: usize = 3_000;
/// Tools that do the same, what differs, and the greatest ratio to the first one, whose plugin has neither previews nor
/// hooks.
const TOOLS: [(&str, &str, f64); 5] = [
    ("alone", "", 1.0),
    ("plain", "without them, in a plugin that has both", 1.02),
    ("described", "with four preview functions", 1.3),
    ("guarded_before", "with a hook before the call", 1.3),
    ("guarded", "with hooks before and after the call", 1.3),
];

pub fn previews(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    in_program(rows)?;
    over_stdio(rows)
}

fn in_program(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let state = tempfile::tempdir()?;
    let host = tokio.block_on(
        Builder::new()
            .cache(target().join("bench-cache"))
            .store(state.path(), Durability::Effects)
            .plugins(target().join("guests/bench_plain.wasm"))
            .plugins(target().join("guests/bench_previews.wasm"))
            .build(),
    )?;
    let times = measure(|tool| tokio.block_on(call(&host, tool)))?;
    add_rows(rows, "in an embedding program", times);
    tokio.block_on(host.shut_down())?;
    Ok(())
}

async fn call(host: &Host, tool: &str) -> anyhow::Result<()> {
    let report = host.call(tool, json!({"text": "hello"})).await;
    report.result.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(())
}

fn over_stdio(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let plugin = |name: &str| format!("{}/guests/{name}.wasm", target().display());
    let mut client = Client::start(host(&[
        "run",
        "--plugins",
        &plugin("bench_plain"),
        "--plugins",
        &plugin("bench_previews"),
    ]))?;
    let times = measure(|tool| {
        let params = json!({"name": tool, "arguments": {"text": "hello"}});
        let result = client.request("tools/call", &params)?;
        anyhow::ensure!(result["isError"] != json!(true), "{result}");
        Ok(())
    })?;
    add_rows(rows, "over stdio", times);
    Ok(())
}

/// Returns the median time of each tool. The tools alternate, so that machine load affects all. Each follows every other one
/// equally often, because work after a call affects the next call.
fn measure(mut call: impl FnMut(&str) -> anyhow::Result<()>) -> anyhow::Result<[f64; TOOLS.len()]> {
    let mut times: [Vec<Duration>; TOOLS.len()] = TOOLS.map(|_| Vec::new());
    for round in 0..CALLS + 200 {
        let step = 1 + round % (TOOLS.len() - 1);
        for place in 0..TOOLS.len() {
            let index = (round + place * step) % TOOLS.len();
            let start = Instant::now();
            call(TOOLS[index].0)?;
            if round >= 200 {
                times[index].push(start.elapsed());
            }
        }
    }
    Ok(times.map(median))
}

fn add_rows(rows: &mut Vec<Row>, place: &str, [alone, others @ ..]: [f64; TOOLS.len()]) {
    let label = format!("a call of a tool without previews and hooks, {place} (p50)");
    row(rows, &label, alone, "µs", "", None);
    for ((_, what, limit), time) in TOOLS[1..].iter().zip(others) {
        let ratio = time / alone;
        row(
            rows,
            &format!("the same tool {what}, {place}, beside it"),
            ratio,
            "×",
            &format!("≤ {limit} ×"),
            Some(ratio <= *limit),
        );
    }
}
