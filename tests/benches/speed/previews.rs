//! What preview functions and hooks of a plugin add to a call, in a program that embeds the host.

use std::time::{Duration, Instant};

use e2e::target;
use serde_json::json;
use toolhost::{Builder, Durability, Host};

use super::{Row, median, row};

const CALLS: usize = 3_000;
/// The tool of a plugin that has neither previews nor hooks.
const ALONE: &str = "alone";
/// Tools that do the same, what differs, and the greatest ratio to `ALONE`.
const TOOLS: [(&str, &str, f64); 4] = [
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
        let mut alone = Vec::new();
        let mut others = TOOLS.map(|_| Vec::new());
        // The tools alternate, so that machine load affects all.
        for number in 0..CALLS + 200 {
            let time = call(&host, ALONE).await?;
            let mut times = [Duration::ZERO; TOOLS.len()];
            for ((tool, _, _), time) in TOOLS.iter().zip(&mut times) {
                *time = call(&host, tool).await?;
            }
            if number >= 200 {
                alone.push(time);
                for (all, time) in others.iter_mut().zip(times) {
                    all.push(time);
                }
            }
        }
        let alone = median(alone);
        row(
            rows,
            "a call of a tool without previews and hooks, in an embedding program (p50)",
            alone,
            "µs",
            "",
            None,
        );
        for ((_, what, limit), times) in TOOLS.iter().zip(others) {
            let ratio = median(times) / alone;
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
