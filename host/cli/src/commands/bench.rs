//! `host bench`: measures calls of a tool on this machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use toolhost_contract::{CallId, Effect, NoSink, Principal, SessionKey, text};
use toolhost_kernel::{CallRequest, Kernel, NoPrompter};

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::load::{LoadPurpose, load_without_servers};
use crate::settings::CliSettings;
use crate::terminal::print;
use crate::{input, json as shapes};

pub const HELP: &str = "\
Measures the time of single calls, the throughput with several calls in flight, the start and the memory of this host.
The tool runs a few thousand times, so tools that write or destroy are refused. The records of these calls are kept in a
temporary directory.

Examples:
  host bench --plugins ./plugins
  host bench read_file path=README.md --plugins ./plugins --allow-path .";

/// The call that is measured if none is given.
const DEFAULT_TOOL: &str = "base64_encode";
const DEFAULT_INPUT: &str = "text=hello";
/// Number of calls before the measurement.
const WARM_UP: u32 = 20;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Name of the tool [default: base64_encode]
    pub tool: Option<String>,

    /// Its input, as for `host call`
    #[arg(value_name = "INPUT")]
    pub input: Vec<String>,

    /// Number of calls of each measurement
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub calls: u32,

    /// Number of calls in flight for the throughput
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub host: HostArgs,
}

pub async fn bench(args: BenchArgs) -> Result<Exit, CliError> {
    let started = Instant::now();
    let mut settings = CliSettings::load(&args.host)?;
    let records = tempfile::tempdir().or_exit(Exit::Store)?;
    settings.core.store = settings.core.store.map(|_| records.path().join("store"));
    let prompter = Arc::new(NoPrompter);
    let host = load_without_servers(settings, prompter, LoadPurpose::Run, |_| {}).await?;
    host.require_plugins()?;
    let start = started.elapsed();

    let (tool, words) = match args.tool {
        Some(tool) => (tool, args.input),
        None => (DEFAULT_TOOL.to_owned(), vec![DEFAULT_INPUT.to_owned()]),
    };
    let registry = host.kernel.registry();
    let entry = registry.get(&tool);
    if let Some(entry) = entry
        && entry.tool.effect() > Effect::Reads
    {
        let message = format!(
            "`{tool}` {}, and would run thousands of times: choose a tool that only reads",
            entry.tool.effect().as_str()
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    let schema = entry.map(|entry| &entry.tool.input_schema);
    let limit = host.kernel.settings().max_input_bytes;
    let input = input::parse(&words, schema, std::io::stdin(), limit).or_exit(Exit::Usage)?;
    let bench = Arc::new(Bench {
        session: SessionKey::local(format!("s-{}", toolhost_kernel::id::random())),
        kernel: Arc::clone(&host.kernel),
        tool,
        input,
        number: AtomicU32::default(),
    });
    host.kernel.open_session(&bench.session, "host bench");
    let measured = tokio::select! {
        measured = measure(&bench, args.calls, args.in_flight) => measured,
        _ = tokio::signal::ctrl_c() => Err(CliError::new(Exit::ToolFailed, "interrupted")),
    };
    host.kernel.close_session(&bench.session, "host bench");
    host.shut_down().await?;
    let results = Results {
        tool: &bench.tool,
        start,
        calls: args.calls,
        in_flight: args.in_flight,
        measured: measured?,
        peak_memory: peak_memory(),
    };
    let shown = if args.json {
        shapes::pretty(&results.json()).or_exit(Exit::Internal)?
    } else {
        results.text()
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// A call that is repeated.
struct Bench {
    kernel: Arc<Kernel>,
    session: SessionKey,
    tool: String,
    input: Value,
    number: AtomicU32,
}

impl Bench {
    async fn call(&self) -> Result<(), CliError> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let id = CallId(format!("bench-{number}"));
        let caller = Principal::in_session(&self.session);
        let request = CallRequest::new(id, &self.tool, self.input.clone(), caller);
        let report = self.kernel.call(request, Arc::new(NoSink)).await;
        let (exit, reason) = match &report.result {
            Ok(outcome) => match &outcome.error {
                Some(failure) => (Exit::ToolFailed, failure.for_model()),
                None => return Ok(()),
            },
            Err(error) => (error.class.into(), error.for_model()),
        };
        Err(CliError::new(exit, reason))
    }
}

struct Measured {
    /// The times of single calls, shortest first.
    times: Vec<Duration>,
    calls_per_second: f64,
}

async fn measure(bench: &Arc<Bench>, calls: u32, in_flight: u32) -> Result<Measured, CliError> {
    for _ in 0..WARM_UP {
        bench.call().await?;
    }
    let mut times = Vec::with_capacity(calls as usize);
    for _ in 0..calls {
        let start = Instant::now();
        bench.call().await?;
        times.push(start.elapsed());
    }
    times.sort();
    let started = Arc::new(AtomicU32::default());
    let mut workers = JoinSet::new();
    let start = Instant::now();
    for _ in 0..in_flight {
        let (bench, started) = (Arc::clone(bench), Arc::clone(&started));
        workers.spawn(async move {
            while started.fetch_add(1, Ordering::Relaxed) < calls {
                bench.call().await?;
            }
            Ok::<_, CliError>(())
        });
    }
    while let Some(ended) = workers.join_next().await {
        ended.or_exit(Exit::Internal)??;
    }
    Ok(Measured {
        times,
        calls_per_second: f64::from(calls) / start.elapsed().as_secs_f64(),
    })
}

struct Results<'a> {
    tool: &'a str,
    /// The time until the tools were listed.
    start: Duration,
    calls: u32,
    in_flight: u32,
    measured: Measured,
    /// The largest amount of resident memory, in bytes.
    peak_memory: Option<u64>,
}

impl Results<'_> {
    /// The time that `percent` of the calls did not exceed, in microseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let times = &self.measured.times;
        let last = times.len() - 1;
        times[last * percent / 100].as_secs_f64() * 1e6
    }

    fn text(&self) -> String {
        let memory = self
            .peak_memory
            .map(|bytes| format!("\nmemory        at most {} MiB", bytes >> 20));
        format!(
            "{}, {} calls of each kind\n\
             start         {:.0} ms until the tools were listed\n\
             one at a time p50 {:.0} µs, p90 {:.0} µs, p99 {:.0} µs, longest {:.0} µs\n\
             {:<13} {:.0} calls/s{}",
            text::escape_line(self.tool, 80),
            self.calls,
            self.start.as_secs_f64() * 1e3,
            self.percentile(50),
            self.percentile(90),
            self.percentile(99),
            self.percentile(100),
            format!("{} in flight", self.in_flight),
            self.measured.calls_per_second,
            memory.unwrap_or_default()
        )
    }

    fn json(&self) -> Value {
        json!({
            "tool": self.tool,
            "calls": self.calls,
            "start_ms": self.start.as_secs_f64() * 1e3,
            "p50_us": self.percentile(50),
            "p90_us": self.percentile(90),
            "p99_us": self.percentile(99),
            "longest_us": self.percentile(100),
            "in_flight": self.in_flight,
            "calls_per_second": self.measured.calls_per_second,
            "peak_memory_bytes": self.peak_memory,
        })
    }
}

fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}
