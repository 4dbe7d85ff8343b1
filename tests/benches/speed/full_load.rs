//! The host at full load for a while: do its times or its memory drift? `cargo xtask bench load [--minutes N]`.
//!
//! After each minute the host idles while a no-op server gets the same load for a few seconds. The drift of a time is that of its ratio to the
//! time of this server, because the speed of a shared machine varies.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use e2e::target;
use serde_json::{Value, json};

use super::argument;
use super::client::Client;
use super::{Row, noop, percentile, row, shipped};

const IN_FLIGHT: usize = 16;
const WINDOW: Duration = Duration::from_mins(1);
const BASELINE_WINDOW: Duration = Duration::from_secs(5);
const MAX_DRIFT: f64 = 1.05;

/// The measurements of one window of a server.
struct Window {
    median: f64,
    tail: f64,
    rate: f64,
    memory: f64,
}

/// The host, and the no-op server after it.
type Windows = (Window, Window);
type Select = fn(&Window) -> f64;

pub fn full_load(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let minutes = argument("--minutes", 30)?;
    let workspace = target().join("bench-load");
    fs::create_dir_all(&workspace)?;
    fs::write(workspace.join("kib.txt"), "0123456789abcde\n".repeat(64))?;
    let state = tempfile::tempdir_in(target())?;
    let mut command = shipped(&workspace);
    command.env("TOOLHOST_STATE_DIR", state.path());
    let mut client = Client::start(command)?;
    let mut baseline = Client::start(noop(&[]))?;
    let calls = [
        json!({"name": "base64_encode", "arguments": {"text": "hello"}}),
        json!({"name": "read_file", "arguments": {"path": "kib.txt"}}),
    ];
    let echo = [json!({"name": "echo", "arguments": {"text": "hello"}})];
    let mut windows = Vec::new();
    // The first window is the warm-up.
    for number in 0..=minutes {
        let window = measure(&mut client, &calls, WINDOW)?;
        let floor = measure(&mut baseline, &echo, BASELINE_WINDOW)?;
        eprintln!(
            "{number} min: p50 {:.0} µs, p99 {:.0} µs, {:.0} calls/s, {:.1} MiB; no-op server: p50 {:.0} µs, p99 {:.0} µs",
            window.median, window.tail, window.rate, window.memory, floor.median, floor.tail
        );
        if number > 0 {
            windows.push((window, floor));
        }
    }
    let fifth = (windows.len() / 5).max(1);
    let early = &windows[..fifth];
    let late = &windows[windows.len() - fifth..];
    let measures: [(&str, &str, Select); 4] = [
        ("p50", "µs", |window| window.median),
        ("p99", "µs", |window| window.tail),
        ("throughput", "calls/s", |window| window.rate),
        ("resident memory", "MiB", |window| window.memory),
    ];
    for (name, unit, select) in measures {
        let of_host = |(host, _): &Windows| select(host);
        let label = |when: &str| format!("full load for {minutes} min: {name}, {when} fifth");
        row(
            rows,
            &label("first"),
            middle(early, of_host),
            unit,
            "",
            None,
        );
        row(rows, &label("last"), middle(late, of_host), unit, "", None);
        let beside_baseline = |(host, baseline): &Windows| select(host) / select(baseline);
        let (what, drift) = match name {
            "throughput" => continue,
            "resident memory" => (
                name.to_owned(),
                middle(late, of_host) / middle(early, of_host),
            ),
            _ => (
                format!("{name} beside the no-op server"),
                middle(late, beside_baseline) / middle(early, beside_baseline),
            ),
        };
        let label = format!("full load for {minutes} min: drift of {what}");
        let target = format!("≤ {MAX_DRIFT} ×");
        row(rows, &label, drift, "×", &target, Some(drift <= MAX_DRIFT));
    }
    Ok(())
}

fn middle(windows: &[Windows], select: impl Fn(&Windows) -> f64) -> f64 {
    let mut values: Vec<f64> = windows.iter().map(select).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Makes these calls in turn, always as many in flight.
fn measure(client: &mut Client, calls: &[Value], window: Duration) -> anyhow::Result<Window> {
    let mut started = HashMap::new();
    let mut times = Vec::new();
    let start = Instant::now();
    let mut sent = 0;
    loop {
        while started.len() < IN_FLIGHT && start.elapsed() < window {
            let id = client.send("tools/call", &calls[sent % calls.len()])?;
            started.insert(id, Instant::now());
            sent += 1;
        }
        if started.is_empty() {
            break;
        }
        let id = client.receive_success()?;
        if let Some(sent) = started.remove(&id) {
            times.push(sent.elapsed());
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    Ok(Window {
        rate: f64::from(u32::try_from(times.len())?) / seconds,
        median: percentile(times.clone(), 50),
        tail: percentile(times, 99),
        memory: client.memory()?,
    })
}
