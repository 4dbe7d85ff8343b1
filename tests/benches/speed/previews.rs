//! What preview functions and hooks of a plugin add to a call, in a program that embeds the host.

use std::time::{Duration, Instant};

use e2e::target;
use serde_json::json;
use toolhost::{Builder, Durability, Host};

use super::{Row, median, row};

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
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let state = tempfile::tempdir()?;
        let host = Builder::new()
            .cache(target().join("bench-cache"))
            .store(state.path(), Durability::Effects)
            .plugins(target().join("guests/bench_plain.wasm"))
            .plugins(target().join("guests/bench_previews.wasm"))
            .build()
            .await?;
        let mut times = TOOLS.map(|_| Vec::new());
        // The tools alternate, so that machine load affects all. Each follows every other one equally often, because work
        // after a call affects the next call.
        for round in 0..CALLS + 200 {
            let step = 1 + round % (TOOLS.len() - 1);
            for place in 0..TOOLS.len() {
                let index = (round + place * step) % TOOLS.len();
                let time = call(&host, TOOLS[index].0).await?;
                if round >= 200 {
                    times[index].push(time);
                }
            }
        }
        let [alone, others @ ..] = times.map(median);
        row(
            rows,
            "a call of a tool without previews and hooks, in an embedding program (p50)",
            alone,
            "µs",
            "",
            None,
        );
        for ((_, what, limit), time) in TOOLS[1..].iter().zip(others) {
            let ratio = time / alone;
            row(
                rows,
                &format!("the same tool {what}, beside it"),
                ratio,
                "×",
                &format!("≤ {limit} ×"),
                Some(ratio <= *limit),
            );
        }
        host.shut_down().await?;
        Ok(())
    })
}

async fn call(host: &Host, tool: &str) -> anyhow::Result<Duration> {
    let start = Instant::now();
    let report = host.call(tool, json!({"text": "hello"})).await;
    let time = start.elapsed();
    report.result.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(time)
}
