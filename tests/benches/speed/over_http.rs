//! Calls over HTTP, sequential and concurrent, compared with a no-op server.

use std::time::{Duration, Instant};

use e2e::http::{Client, HttpResponse, Server};
use e2e::root;
use serde_json::{Value, json};

use super::{Row, host, median, noop, row};

/// Number of sequential calls.
const CALLS: u32 = 2_000;
/// Number of connections, each with one call in flight.
const IN_FLIGHT: usize = 16;
/// Duration of the concurrent measurement.
const DURATION: Duration = Duration::from_secs(5);

pub fn over_http(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let plugins = root().join("plugins");
    let plugins = plugins.to_string_lossy();
    let noop = Server::start(noop(&["--http"]));
    let ours = Server::start(host(&[
        "run",
        "--http",
        "127.0.0.1:0",
        "--http-no-token",
        "--plugins",
        &plugins,
    ]));
    let text = json!({"text": "hello"});
    for (way, modern) in [("2026-07-28", true), ("2025-11-25, in a session", false)] {
        let (mut floors, mut calls) = (Vec::new(), Vec::new());
        // Rounds alternate, so that machine load affects both.
        for _ in 0..5 {
            floors.push(sequential(&noop, modern, "echo", &text)?);
            calls.push(sequential(&ours, modern, "base64_encode", &text)?);
        }
        let (floor, call) = (median_value(floors), median_value(calls));
        let label = format!("no-op rmcp server, tools/call over HTTP, {way} (p50)");
        row(rows, &label, floor, "µs", "", None);
        let label = format!("host, base64_encode over HTTP, {way} (p50)");
        row(rows, &label, call, "µs", "", None);
        let sandbox = rows
            .iter()
            .find(|row| row.label.starts_with("bare wasmtime"))
            .map_or(0.0, |row| row.value);
        let ratio = call / (floor + sandbox);
        let label = format!("the same beside no-op rmcp + bare sandbox call, over HTTP, {way}");
        row(rows, &label, ratio, "×", "≤ 1.25 ×", Some(ratio <= 1.25));
    }
    let floor = concurrent(&noop, "echo", &text)?;
    let label = "no-op rmcp server over HTTP, 16 in flight on as many connections";
    row(rows, label, floor, "calls/s", "", None);
    let rate = concurrent(&ours, "base64_encode", &text)?;
    let label = "host, base64_encode over HTTP, 16 in flight on as many connections";
    row(
        rows,
        label,
        rate,
        "calls/s",
        "≥ 8000 calls/s",
        Some(rate >= 8_000.0),
    );
    Ok(())
}

fn median_value(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Returns the median time of a call on one connection, in microseconds.
fn sequential(server: &Server, modern: bool, tool: &str, arguments: &Value) -> anyhow::Result<f64> {
    let mut client = server.client();
    if !modern {
        client.start_session();
    }
    let mut times = Vec::new();
    for id in 0..CALLS / 5 + 50 {
        let start = Instant::now();
        let answer = if modern {
            client.call_modern(id, tool, arguments)
        } else {
            client.call(id, tool, arguments)
        };
        if id >= 50 {
            times.push(start.elapsed());
        }
        check_response(&answer)?;
    }
    Ok(median(times))
}

/// Returns the calls per second over concurrent connections.
fn concurrent(server: &Server, tool: &str, arguments: &Value) -> anyhow::Result<f64> {
    let work = |mut client: Client, end: Instant| -> anyhow::Result<u32> {
        let mut done = 0;
        while Instant::now() < end {
            check_response(&client.call_modern(done, tool, arguments))?;
            done += 1;
        }
        Ok(done)
    };
    let start = Instant::now();
    let counts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..IN_FLIGHT)
            .map(|_| scope.spawn(|| work(server.client(), start + DURATION)))
            .collect();
        let counts = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker ends"));
        counts.collect::<anyhow::Result<Vec<u32>>>()
    })?;
    let all: u32 = counts.into_iter().sum();
    Ok(f64::from(all) / start.elapsed().as_secs_f64())
}

/// Checks a response without parsing it as JSON, because the client's time is measured too.
fn check_response(answer: &HttpResponse) -> anyhow::Result<()> {
    let good = answer.status == 200 && answer.body.contains("\"result\"");
    anyhow::ensure!(
        good && !answer.body.contains("\"isError\":true"),
        "{answer:?}"
    );
    Ok(())
}
