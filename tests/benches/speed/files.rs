//! File system benchmarks: time compared with stock wasmtime-wasi, and memory of a large staged write.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost_contract::policy::Policy;
use toolhost_contract::{Backend as _, Call, Limits, NoSink, StagedEffects};
use toolhost_runtime::bench::{Blocking, StockWasi};
use toolhost_runtime::{Plugin, PluginGrants, Runtime, Staging};
use toolhost_vfs::{
    Access, BlobStore, DEFAULT_EXCLUDES, PathGrant, ProtectedPath, Protection, Scope,
};

use e2e::target;

use super::grant::grant;
use super::memory::{peak, reset_peak};
use super::{Row, median, row, runtime};

const LOOKS: &str = "bench_files";
const STAGED: &str = "bench_files_staged";
const WRITES: &str = "bench_write";

const GIB: u64 = 1 << 30;

/// A benchmark task: its name for the guest and in the table, its repetitions and its expected answer.
struct Task {
    kind: &'static str,
    path: &'static str,
    title: &'static str,
    rounds: usize,
    answer: u64,
}

const TASKS: [Task; 3] = [
    Task {
        kind: "small",
        path: "small",
        title: "10 000 × open, read, close of 1 KiB",
        rounds: 11,
        answer: 10_000 << 10,
    },
    Task {
        kind: "large",
        path: "large",
        title: "1 GiB read in pieces of 64 KiB",
        rounds: 7,
        answer: GIB,
    },
    Task {
        kind: "list",
        path: "full",
        title: "a directory of 10 000 entries",
        rounds: 21,
        answer: 10_000,
    },
];

pub fn files(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let workspace = target().join("bench-files");
    tree(&workspace)?;
    tokio.block_on(async {
        let state = tempfile::tempdir_in(target())?;
        let runtime = runtime()?;
        let plain = plugin(&runtime, &workspace, state.path(), &[]).await?;
        // The common case: a granted folder that contains a protected path of the host.
        let own = ProtectedPath {
            path: workspace.join("plugins"),
            protection: Protection::ReadOnly,
        };
        let overlapping = plugin(&runtime, &workspace, state.path(), &[own]).await?;
        // First, because memory that the allocator kept from earlier runs would hide the use.
        one_gib(rows, &plain, &workspace).await?;
        for task in &TASKS {
            beside_stock(rows, [&plain, &overlapping], &workspace, task).await?;
        }
        Ok(())
    })
}

/// The large file is sparse, so that the host is measured and not the disk.
fn tree(workspace: &Path) -> anyhow::Result<()> {
    let mark = workspace.join("complete");
    if mark.exists() {
        return Ok(());
    }
    for number in 0..10_000 {
        let dir = workspace.join(format!("small/{}", number / 100));
        fs::create_dir_all(&dir)?;
        fs::write(dir.join((number % 100).to_string()), [b'x'; 1024])?;
    }
    let full = workspace.join("full");
    fs::create_dir_all(&full)?;
    for number in 0..10_000 {
        File::create(full.join(format!("entry-{number}.txt")))?;
    }
    File::create(workspace.join("large"))?.set_len(GIB)?;
    File::create(mark)?;
    Ok(())
}

async fn plugin(
    runtime: &Runtime,
    workspace: &Path,
    state: &Path,
    protected: &[ProtectedPath],
) -> anyhow::Result<Plugin> {
    let grant = PathGrant {
        host: workspace.to_owned(),
        guest: "/workspace".to_owned(),
        access: Access::ReadWrite,
        dangerous: false,
        // The default.
        exclude: DEFAULT_EXCLUDES.iter().map(ToString::to_string).collect(),
    };
    let grants = PluginGrants {
        session_dirs: None,
        capabilities: toolhost_runtime::Capabilities::default(),
        scope: Scope::open(&[grant], protected)?,
        env: Vec::new(),
        limits: Limits::default(),
        staging: Some(Staging {
            stages: state.join("stages"),
            blobs: Arc::new(BlobStore::open(&state.join("blobs"))?),
        }),
    };
    let file = target().join("guests/bench_files.wasm");
    Ok(runtime.load(&file).await?.grant(grants)?)
}

/// All variants alternate, so that machine load affects all of them. The result is the median of the ratios within a
/// round, which does not depend on the machine's speed changing between rounds.
async fn beside_stock(
    rows: &mut Vec<Row>,
    [plain, overlapping]: [&Plugin; 2],
    workspace: &Path,
    task: &Task,
) -> anyhow::Result<()> {
    let stock = async |blocking| {
        let made = StockWasi::new(plain, workspace, blocking).await;
        made.map_err(anyhow::Error::msg)
    };
    let elsewhere = stock(Blocking::BlockingThread).await?;
    let here = stock(Blocking::GuestThread).await?;
    let input = json!({"what": task.kind, "path": task.path});
    let text = input.to_string();
    let mut times: [Vec<Duration>; 5] = Default::default();
    // The first round fills the caches of the kernel.
    for round in 0..=task.rounds {
        for (who, times) in times.iter_mut().enumerate() {
            let start = Instant::now();
            let answer = match who {
                0 => ours(plain, LOOKS, &input).await?,
                1 => ours(plain, STAGED, &input).await?,
                2 => ours(overlapping, LOOKS, &input).await?,
                3 => theirs(&elsewhere, &text).await?,
                _ => theirs(&here, &text).await?,
            };
            let time = start.elapsed();
            anyhow::ensure!(answer == json!(task.answer), "{} read {answer}", task.kind);
            if round > 0 {
                times.push(time);
            }
        }
    }
    let [reads, writes, walks, elsewhere, here] = times;
    let title = task.title;
    for (times, who) in [
        (&elsewhere, "stock wasmtime-wasi"),
        (&here, "stock, allowed to block the thread"),
        (&reads, "ours"),
    ] {
        let label = format!("{title}: {who} (p50)");
        row(rows, &label, median(times.clone()) / 1e3, "ms", "", None);
    }
    for (times, who) in [
        (&reads, "ours"),
        (&writes, "ours, a stage that nothing was written to"),
        (&walks, "ours, something protected in the folder"),
    ] {
        let (stock, blocking) = (median_ratio(times, &elsewhere), median_ratio(times, &here));
        let label = format!("{title}: {who}, beside stock");
        row(rows, &label, stock, "×", "≤ 1.1 ×", Some(stock <= 1.1));
        let label = format!("{title}: {who}, beside stock that may block");
        row(rows, &label, blocking, "×", "", None);
    }
    Ok(())
}

fn median_ratio(ours: &[Duration], theirs: &[Duration]) -> f64 {
    let pairs = ours.iter().zip(theirs);
    let mut ratios: Vec<f64> = pairs
        .map(|(ours, theirs)| ours.as_secs_f64() / theirs.as_secs_f64())
        .collect();
    ratios.sort_by(f64::total_cmp);
    ratios[ratios.len() / 2]
}

async fn theirs(stock: &StockWasi, input: &str) -> anyhow::Result<Value> {
    let answer = stock.call(LOOKS, input).await.map_err(anyhow::Error::msg)?;
    Ok(serde_json::from_str(&answer.unwrap_or_default())?)
}

async fn ours(plugin: &Plugin, tool: &str, input: &Value) -> anyhow::Result<Value> {
    let (answer, effects) = run(plugin, tool, input).await?;
    anyhow::ensure!(
        matches!(effects, StagedEffects::None),
        "the call changed files"
    );
    Ok(answer)
}

async fn run(plugin: &Plugin, tool: &str, input: &Value) -> anyhow::Result<(Value, StagedEffects)> {
    let tools = plugin.tools().iter();
    let tool = tools.clone().find(|known| known.name.as_str() == tool);
    let tool = tool.expect("the guest has this tool");
    let call = Call::new("bench", tool.name.clone(), input.clone());
    let timeout = Some(Limits::MAX_TIMEOUT);
    let grant = grant(&Policy::default(), plugin, tool, input, timeout)?;
    let ran = plugin.stage(call, grant, Arc::new(NoSink)).await;
    let ran = ran.map_err(|error| anyhow::anyhow!("{error}"))?;
    anyhow::ensure!(ran.outcome.error.is_none(), "{:?}", ran.outcome.error);
    Ok((ran.outcome.structured.unwrap_or_default(), ran.effects))
}

/// Memory of a staged write of 1 GiB to a new file, and then to the same file, whose old content is kept for undo:
/// while the guest writes, and while the changes are computed, stored and committed.
async fn one_gib(rows: &mut Vec<Row>, plugin: &Plugin, workspace: &Path) -> anyhow::Result<()> {
    let written = workspace.join("written");
    // Left over from an interrupted run.
    let _ = fs::remove_file(&written);
    let (mut grown, mut seconds) = (0.0_f64, Vec::new());
    for byte in [1, 2] {
        let input = json!({"path": "written", "mib": 1024, "byte": byte});
        reset_peak()?;
        let (before, start) = (peak()?, Instant::now());
        let (_, effects) = run(plugin, WRITES, &input).await?;
        let StagedEffects::Staged(staged) = effects else {
            anyhow::bail!("nothing was staged");
        };
        let wrong = |error| anyhow::anyhow!("{error:?}");
        staged.prepare().await.map_err(wrong)?;
        staged
            .commit(format!("bench-{byte}"))
            .await
            .map_err(wrong)?;
        seconds.push(start.elapsed().as_secs_f64());
        grown = grown.max(peak()? - before);
    }
    anyhow::ensure!(
        fs::metadata(&written)?.len() == GIB,
        "the file is incomplete"
    );
    fs::remove_file(written)?;
    row(
        rows,
        "memory that 1 GiB written by a staged call and committed takes at most",
        grown,
        "MiB",
        "≤ 32 MiB",
        Some(grown <= 32.0),
    );
    for (seconds, label) in seconds
        .iter()
        .zip(["a new file", "an old one, which is kept"])
    {
        let label = format!("1 GiB written by a staged call and committed: {label}");
        row(rows, &label, *seconds, "s", "", None);
    }
    Ok(())
}
