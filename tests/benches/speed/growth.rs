//! How costs grow: `cargo xtask bench growth` measures and draws the charts of docs/benchmarks.md.
//!
//! `--records N` sets the largest number of records (default one million) and `--files N` that of files.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use e2e::http::Server;
use e2e::{root, target};
use serde_json::json;
use toolhost_contract::Limits;
use toolhost_store::CallFilter;

use super::client::Client;
use super::growth_chart::{Chart, Series};
use super::over_mcp::copies;
use super::peers::compile;
use super::pipeline::{self, TOOL};
use super::{Row, argument, host, median, row, shipped};

pub fn growth(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let records = argument("--records", 1_000_000)?;
    let files_limit = argument("--files", 1_000_000)?;
    let (starts, memory) = plugins()?;
    for chart in [
        starts,
        memory,
        in_kernel(|| Box::pin(queued_calls()))?,
        in_kernel(|| Box::pin(payloads()))?,
        files(files_limit)?,
        sessions()?,
        in_kernel(move || Box::pin(stored_records(records)))?,
    ] {
        for series in &chart.series {
            for (x, y) in &series.points {
                let label = format!("growth: {}, {x} {}", series.name, chart.x_label);
                row(rows, &label, *y, chart.unit, "", None);
            }
        }
        chart.draw(&root().join("docs/pictures"))?;
    }
    Ok(())
}

/// The powers of ten from `first` to `last`.
fn decades(first: u32, last: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(first), |number| number.checked_mul(10))
        .take_while(move |number| *number <= last)
}

fn plugins() -> anyhow::Result<(Chart, Chart)> {
    let (mut cold, mut warm, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for number in decades(1, 1_000) {
        let dir = copies(number)?;
        let cache = tempfile::tempdir()?;
        let start = |rounds: usize| {
            let mut times = Vec::new();
            let mut resident = 0.0;
            for _ in 0..rounds {
                let mut command = host(&["run", "--plugins", &dir, "--on-duplicate", "qualify"]);
                command.env("TOOLHOST_CACHE_DIR", cache.path());
                let start = Instant::now();
                let mut client = Client::start(command)?;
                // A client gets the tools that are ready after 25 s.
                while client.list_tools()? < 4 * number as usize {}
                times.push(start.elapsed());
                resident = client.memory()?;
            }
            anyhow::Ok((median(times) / 1e3, resident))
        };
        cold.push((number, start(1)?.0));
        let mut run = host(&["run", "--plugins", &dir, "--on-duplicate", "qualify"]);
        compile(run.env("TOOLHOST_CACHE_DIR", cache.path()))?;
        let (time, resident) = start(5)?;
        warm.push((number, time));
        memory.push((number, resident));
    }
    let starts = Chart {
        file: "growth-plugins.svg",
        title: "Start of the host until all tools are listed",
        x_label: "plugins",
        unit: "ms",
        series: vec![
            Series::new("nothing compiled", cold),
            Series::new("compiled before", warm),
        ],
    };
    let memory = Chart {
        file: "growth-memory.svg",
        title: "Resident memory of the idle host",
        x_label: "plugins",
        unit: "MiB",
        series: vec![Series::new("compiled before", memory)],
    };
    Ok((starts, memory))
}

/// Runs work that makes calls in this process.
fn in_kernel<F>(work: impl FnOnce() -> std::pin::Pin<Box<F>>) -> anyhow::Result<Chart>
where
    F: Future<Output = anyhow::Result<Chart>> + ?Sized,
{
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    tokio.block_on(work())
}

async fn queued_calls() -> anyhow::Result<Chart> {
    let dir = tempfile::tempdir()?;
    let plugin = Arc::new(pipeline::plugin(Limits::default()).await?);
    let kernel = pipeline::kernel(&plugin, dir.path(), Limits::default().input)?;
    let mut times = Vec::new();
    for number in decades(1, 10_000) {
        let mut rounds = Vec::new();
        for round in 0..5 {
            let start = Instant::now();
            pipeline::batch(&kernel, &format!("queued-{number}-{round}"), number).await?;
            rounds.push(start.elapsed());
        }
        times.push((number, median(rounds) / f64::from(number)));
    }
    Ok(Chart {
        file: "growth-queue.svg",
        title: "Time of each call of a batch",
        x_label: "queued calls",
        unit: "µs",
        series: vec![Series::new("time divided by calls", times)],
    })
}

async fn payloads() -> anyhow::Result<Chart> {
    const LARGEST: u32 = 16 << 20;
    let dir = tempfile::tempdir()?;
    let limits = Limits {
        memory: 1 << 30,
        input: u64::from(2 * LARGEST),
        output: u64::from(4 * LARGEST),
        hostcall_bytes: u64::from(4 * LARGEST),
        ..Limits::default()
    };
    let max_input = limits.input;
    let file = target().join("guests/bench_plain.wasm");
    let plugin = Arc::new(pipeline::load(&file, limits).await?);
    let kernel = pipeline::kernel(&plugin, dir.path(), max_input)?;
    let mut times = Vec::new();
    let sizes = std::iter::successors(Some(1_u32), |bytes| bytes.checked_mul(16));
    for bytes in sizes.take_while(|bytes| *bytes <= LARGEST) {
        let input = json!({"text": "x".repeat(bytes as usize)});
        let rounds = if bytes > 1 << 18 { 5 } else { 200 };
        let mut each = Vec::new();
        for round in 0..rounds {
            let start = Instant::now();
            pipeline::call(&kernel, "alone", format!("payload-{bytes}-{round}"), &input).await?;
            each.push(start.elapsed());
        }
        times.push((bytes, median(each)));
    }
    Ok(Chart {
        file: "growth-payload.svg",
        title: "A call of a tool that returns its text",
        x_label: "bytes of text",
        unit: "µs",
        series: vec![Series::new("one call", times)],
    })
}

fn files(limit: u32) -> anyhow::Result<Chart> {
    let (mut glob, mut grep) = (Vec::new(), Vec::new());
    for number in decades(10, limit) {
        let tree = target().join(format!("bench-tree-{number}"));
        plant(&tree, number)?;
        let mut command = shipped(&tree);
        command.args(["--timeout", "10m"]);
        let mut client = Client::start(command)?;
        let mut time = |tool: &str, input| {
            let params = json!({"name": tool, "arguments": input});
            let mut times = Vec::new();
            for round in 0..4 {
                let start = Instant::now();
                let result = client.request("tools/call", &params)?;
                // The first call reads the code of the tool.
                if round > 0 {
                    times.push(start.elapsed());
                }
                anyhow::ensure!(result["isError"] != json!(true), "{result}");
            }
            Ok(median(times) / 1e3)
        };
        glob.push((
            number,
            time("glob", json!({"pattern": "**/*7.txt", "sort": "path"}))?,
        ));
        let pattern = json!({"pattern": "needle", "output_mode": "count"});
        grep.push((number, time("grep", pattern)?));
        fs::remove_dir_all(&tree)?;
    }
    Ok(Chart {
        file: "growth-files.svg",
        title: "Search of a tree of small files",
        x_label: "files",
        unit: "ms",
        series: vec![Series::new("glob", glob), Series::new("grep", grep)],
    })
}

/// Creates a tree of files of 100 bytes, a hundred in each directory.
fn plant(tree: &Path, number: u32) -> anyhow::Result<()> {
    let text = "0123456789".repeat(10);
    for file in 0..number {
        let dir = tree.join(format!("{}/{}", file / 10_000, file / 100));
        if file % 100 == 0 {
            fs::create_dir_all(&dir)?;
        }
        fs::write(dir.join(format!("{file}.txt")), &text)?;
    }
    Ok(())
}

fn sessions() -> anyhow::Result<Chart> {
    let plugins = root().join("plugins");
    let server = Server::start(host(&[
        "run",
        "--http",
        "127.0.0.1:0",
        "--http-no-token",
        "--plugins",
        &plugins.to_string_lossy(),
    ]));
    let mut open = Vec::new();
    let mut times = Vec::new();
    let input = json!({"text": "hello"});
    for number in decades(1, 1_000) {
        while open.len() < number as usize {
            let mut client = server.client();
            client.start_session();
            open.push(client);
        }
        let mut each = Vec::new();
        for id in 0..1_000_u32 {
            let client = &mut open[id as usize % number as usize];
            let start = Instant::now();
            let response = client.call(id, TOOL, &input);
            each.push(start.elapsed());
            anyhow::ensure!(response.status == 200, "{response:?}");
        }
        times.push((number, median(each)));
    }
    Ok(Chart {
        file: "growth-sessions.svg",
        title: "A small call over HTTP, in turn in each session",
        x_label: "open sessions",
        unit: "µs",
        series: vec![Series::new("one call", times)],
    })
}

async fn stored_records(limit: u32) -> anyhow::Result<Chart> {
    /// Calls of one batch.
    const BATCH: u32 = 10_000;
    let dir = tempfile::tempdir_in(target())?;
    let plugin = Arc::new(pipeline::plugin(Limits::default()).await?);
    let kernel = pipeline::kernel(&plugin, dir.path(), Limits::default().input)?;
    let store = kernel.store().context("the kernel has a store")?;
    let (mut calls, mut lists) = (Vec::new(), Vec::new());
    let mut stored = 0;
    for number in decades(100, limit) {
        while stored < number {
            let missing = BATCH.min(number - stored);
            pipeline::batch(&kernel, &format!("stored-{stored}"), missing).await?;
            stored += missing;
        }
        store.flush().await?;
        let (mut call, mut list) = (Vec::new(), Vec::new());
        for round in 0..100 {
            let id = format!("one-{number}-{round}");
            let start = Instant::now();
            pipeline::call(&kernel, TOOL, id, &pipeline::input()).await?;
            call.push(start.elapsed());
            let newest = CallFilter {
                limit: 20,
                ..CallFilter::default()
            };
            let start = Instant::now();
            let found = store.calls(&newest)?;
            list.push(start.elapsed());
            anyhow::ensure!(found.len() == 20);
        }
        calls.push((number, median(call)));
        lists.push((number, median(list)));
    }
    Ok(Chart {
        file: "growth-records.svg",
        title: "With records of earlier calls",
        x_label: "records",
        unit: "µs",
        series: vec![
            Series::new("a call", calls),
            Series::new("list of the 20 newest calls", lists),
        ],
    })
}
