//! Complete call pipeline: records on disk, 200 rules and an event subscriber.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolhost_contract::policy::{
    Decision, HookDecisions, Policy, PolicyRequest, PolicySpec, RuleSpec, Subject,
};
use toolhost_contract::{Backend, CallId, Limits, NoSink, Principal};
use toolhost_kernel::schedule::{self, Strategy};
use toolhost_kernel::{
    BatchCall, BatchRequest, CallContext, CallRequest, Durability, Kernel, KernelSettings,
    PluginInfo,
};
use toolhost_runtime::bench::DirectCaller;
use toolhost_runtime::{Plugin, PluginGrants};
use toolhost_store::Store;

use super::memory::peak;
use super::{Row, median, plugin_file, row, runtime};

pub const TOOL: &str = "base64_encode";
/// Row label: time of a call in an embedding program.
pub const FULL_PIPELINE: &str = "Kernel::call over the full pipeline (p50)";
const IN_FLIGHT: usize = 16;

pub fn pipeline(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let plugin = Arc::new(plugin(Limits::default()).await?);
        let dir = tempfile::tempdir()?;
        let kernel = Arc::new(kernel(&plugin, dir.path(), Limits::default().input)?);
        // With a subscriber, every event is created and queued.
        let mut listener = kernel.subscribe(None, None);
        let listening = tokio::spawn(async move {
            loop {
                let _ = listener.next().await;
            }
        });
        sequential(rows, &plugin, &kernel).await?;
        concurrent(rows, &plugin, &kernel).await?;
        ten_thousand(rows, &kernel).await?;
        listening.abort();
        decision(rows, &plugin);
        Ok(())
    })
}

pub async fn plugin(limits: Limits) -> anyhow::Result<Plugin> {
    load(&plugin_file("data"), limits).await
}

pub async fn load(file: &Path, limits: Limits) -> anyhow::Result<Plugin> {
    let grants = PluginGrants {
        session_dirs: None,
        capabilities: toolhost_runtime::Capabilities::default(),
        scope: toolhost_vfs::Scope::empty(),
        env: Vec::new(),
        limits,
        staging: None,
    };
    Ok(runtime()?.load(file).await?.grant(grants)?)
}

pub fn input() -> Value {
    json!({"text": "hello"})
}

/// Typical rules, none of which matches the called tool.
fn rules(count: usize) -> Vec<RuleSpec> {
    (0..count)
        .map(|number| match number % 4 {
            0 => RuleSpec::new(Decision::Deny, format!("Bash(prog{number} *)")),
            1 => RuleSpec::new(Decision::Allow, format!("tool_{number}")),
            2 => RuleSpec::new(Decision::Ask, format!("Edit(/src/{number}/**)")),
            _ => RuleSpec::new(Decision::Deny, format!("mcp__server{number}")),
        })
        .collect()
}

fn policy(count: usize) -> anyhow::Result<Policy> {
    let spec = PolicySpec {
        rules: rules(count),
        ..PolicySpec::default()
    };
    Policy::new(spec).map_err(|wrong| anyhow::anyhow!("{wrong:?}"))
}

pub fn kernel(plugin: &Arc<Plugin>, dir: &Path, max_input_bytes: u64) -> anyhow::Result<Kernel> {
    let settings = KernelSettings {
        max_input_bytes,
        policy: Arc::new(policy(200)?),
        pools: schedule::PoolLimits {
            all: IN_FLIGHT,
            ..schedule::PoolLimits::default()
        },
        ..KernelSettings::default()
    };
    let store = Store::open(&dir.join("store"))?;
    let kernel = Kernel::builder(settings)
        .store(store, Durability::Effects)
        .build()?;
    let info = PluginInfo {
        name: plugin.name().clone(),
        version: "0".to_owned(),
        digest: None,
        timeout: None,
    };
    kernel
        .register(info, Arc::clone(plugin) as Arc<dyn Backend>)
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(kernel)
}

pub async fn call(kernel: &Kernel, tool: &str, id: String, input: &Value) -> anyhow::Result<()> {
    let request = CallRequest::new(CallId(id), tool, input.clone(), Principal::default());
    let report = kernel.call(request, Arc::new(NoSink)).await;
    report.result.map_err(|error| anyhow::anyhow!("{error}"))?;
    Ok(())
}

async fn sequential(rows: &mut Vec<Row>, plugin: &Plugin, kernel: &Kernel) -> anyhow::Result<()> {
    let bare = DirectCaller::new(plugin, TOOL, &input().to_string())?;
    let (mut floor, mut full) = (Vec::new(), Vec::new());
    for number in 0..3_200 {
        let start = Instant::now();
        bare.call().await.map_err(anyhow::Error::msg)?;
        let bare_time = start.elapsed();
        let start = Instant::now();
        call(kernel, TOOL, format!("one-{number}"), &input()).await?;
        let full_time = start.elapsed();
        if number >= 200 {
            floor.push(bare_time);
            full.push(full_time);
        }
    }
    let full = median(full);
    row(rows, FULL_PIPELINE, full, "µs", "", None);
    let added = full - median(floor);
    row(
        rows,
        "the full pipeline (records, 200 rules, a listener, a store) adds to a bare call (p50)",
        added,
        "µs",
        "≤ 50 µs",
        Some(added <= 50.0),
    );
    Ok(())
}

/// Calls per second with 16 in flight. The variants alternate, so that machine load affects both.
async fn concurrent(
    rows: &mut Vec<Row>,
    plugin: &Arc<Plugin>,
    kernel: &Arc<Kernel>,
) -> anyhow::Result<()> {
    const EACH: usize = 200;
    let (mut floor, mut full) = (Vec::new(), Vec::new());
    for round in 0..7 {
        let plugin = Arc::clone(plugin);
        floor.push(
            all(move |_| {
                let plugin = Arc::clone(&plugin);
                async move {
                    let bare = DirectCaller::new(&plugin, TOOL, &input().to_string())?;
                    for _ in 0..EACH {
                        bare.call().await.map_err(anyhow::Error::msg)?;
                    }
                    Ok(())
                }
            })
            .await?,
        );
        let kernel = Arc::clone(kernel);
        full.push(
            all(move |worker| {
                let kernel = Arc::clone(&kernel);
                async move {
                    for number in 0..EACH {
                        call(
                            &kernel,
                            TOOL,
                            format!("many-{round}-{worker}-{number}"),
                            &input(),
                        )
                        .await?;
                    }
                    Ok(())
                }
            })
            .await?,
        );
    }
    let share = median(floor) / median(full) * 100.0;
    row(
        rows,
        "throughput of the full pipeline beside bare wasmtime, 16 in flight",
        share,
        "%",
        "≥ 60 %",
        Some(share >= 60.0),
    );
    Ok(())
}

async fn all<F>(work: impl Fn(usize) -> F) -> anyhow::Result<Duration>
where
    F: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let start = Instant::now();
    let workers: Vec<_> = (0..IN_FLIGHT)
        .map(|worker| tokio::spawn(work(worker)))
        .collect();
    for worker in workers {
        worker.await??;
    }
    Ok(start.elapsed())
}

/// Runs a batch of calls.
pub async fn batch(kernel: &Kernel, id: &str, calls: u32) -> anyhow::Result<()> {
    let calls = (0..calls)
        .map(|number| BatchCall {
            id: CallId(format!("{id}-{number}")),
            tool: TOOL.to_owned(),
            only_paths: None,
            input: input(),
        })
        .collect();
    let request = BatchRequest {
        id: id.to_owned(),
        caller: Principal::default(),
        calls,
        strategy: Strategy::Waves,
        context: CallContext::default(),
    };
    let reports = kernel.schedule(request, Arc::new(NoSink)).await?;
    anyhow::ensure!(reports.iter().all(|report| report.result.is_ok()));
    Ok(())
}

/// Memory growth with 10 000 waiting calls.
async fn ten_thousand(rows: &mut Vec<Row>, kernel: &Kernel) -> anyhow::Result<()> {
    let before = peak()?;
    batch(kernel, "queued", 10_000).await?;
    let grown = peak()? - before;
    row(
        rows,
        "memory that 10 000 queued calls and their results take at most",
        grown,
        "MiB",
        "≤ 128 MiB",
        Some(grown <= 128.0),
    );
    Ok(())
}

fn decision(rows: &mut Vec<Row>, plugin: &Plugin) {
    const TIMES: u32 = 20_000;
    let policy = policy(1_000).expect("the rules are valid");
    let tool = plugin
        .tools()
        .iter()
        .find(|tool| tool.name.as_str() == TOOL)
        .expect("the tool is there");
    let (input, caller) = (input(), Principal::default());
    let subject = Subject::of(tool, &input);
    let request = PolicyRequest {
        delegates: false,
        plugin: plugin.name(),
        name: &tool.name,
        tool,
        aliases: &[],
        runs_commands: false,
        shell: None,
        variables: &toolhost_contract::variables::NO_VARIABLES,
        background_job: None,
        digest: None,
        definition: None,
        input: &input,
        subject: &subject,
        timeout: tool.default_timeout(),
        caller: &caller,
        mode: None,
        restriction: None,
        is_tail_call: false,
        effects_known: false,
    };
    let hook_decisions = HookDecisions::default();
    let start = Instant::now();
    for _ in 0..TIMES {
        std::hint::black_box(policy.decide(request, &hook_decisions, &[], 0));
    }
    let each = start.elapsed().as_secs_f64() * 1e6 / f64::from(TIMES);
    row(
        rows,
        "one decision with 1 000 rules",
        each,
        "µs",
        "< 20 µs",
        Some(each < 20.0),
    );
}
