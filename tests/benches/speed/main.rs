//! How fast we are, beside floors that are measured in the same run.
//!
//! `cargo xtask bench` builds everything for release and runs this; `--json` prints the rows as JSON. Read the ratios:
//! the absolute numbers depend on the machine and on what else it does. What is not installed is said to be missing.
//! The name of a group (`in-process`, `road`, `stdio`, `start`, `search`) measures that group alone.

mod client;
mod road;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::{root, target};
use serde_json::{Value, json};
use toolhost_contract::{Backend as _, Call, CallId, Caller, Limits, NoSink, policy};
use toolhost_kernel::{CallRequest, Kernel, Nobody, PluginInfo, Settings};
use toolhost_runtime::bench::Bare;
use toolhost_runtime::{Compiler, Plugin, PluginGrants, Runtime, RuntimeSettings};

use client::Client;
use tree::tree_of_100_mb;

/// What the policy gives a tool that needs no asking. Compiled once by the caller: a policy made anew between two
/// timed calls would leave nothing of them in the processor's caches.
fn grant(
    policy: &policy::Policy,
    plugin: &Plugin,
    tool: &toolhost_contract::Descriptor,
    timeout: Option<Duration>,
) -> anyhow::Result<toolhost_contract::Grant> {
    let (input, caller, subject) = (json!({}), Caller::default(), policy::Subject::default());
    let request = policy::Request {
        plugin: plugin.name(),
        name: &tool.name,
        tool,
        aliases: &[],
        executes: false,
        digest: None,
        definition: None,
        input: &input,
        subject: &subject,
        timeout,
        caller: &caller,
        mode: None,
        narrow: None,
        tail: false,
        known: false,
    };
    match policy.decide(request, &policy::HookSaid::default(), &[], 0) {
        policy::Verdict::Allow(grant) => Ok(grant),
        _ => anyhow::bail!("a pure tool is allowed"),
    }
}

fn main() -> anyhow::Result<()> {
    let as_json = std::env::args().any(|argument| argument == "--json");
    let mut rows = Vec::new();
    let groups: [(&str, Group); 5] = [
        ("in-process", in_process),
        ("road", road::road),
        ("stdio", over_stdio),
        ("start", twenty_plugins),
        ("search", search),
    ];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let some = groups
        .iter()
        .any(|(name, _)| wanted.iter().any(|word| word == name));
    for (name, group) in groups {
        if !some || wanted.iter().any(|word| word == name) {
            group(&mut rows)?;
        }
    }
    if as_json {
        println!("{:#}", Value::Array(rows.iter().map(Row::json).collect()));
    } else {
        print(&rows);
    }
    Ok(())
}

/// The same as the program's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Group = fn(&mut Vec<Row>) -> anyhow::Result<()>;

/// One line of the table. A target is a text, because each compares other things.
struct Row {
    what: String,
    value: f64,
    unit: &'static str,
    target: String,
    met: Option<bool>,
}

impl Row {
    fn json(&self) -> Value {
        json!({"what": self.what, "value": self.value, "unit": self.unit, "target": self.target, "met": self.met})
    }
}

fn row(
    rows: &mut Vec<Row>,
    what: &str,
    value: f64,
    unit: &'static str,
    target: &str,
    met: Option<bool>,
) {
    eprintln!("{what}: {value:.1} {unit}");
    rows.push(Row {
        what: what.to_owned(),
        value,
        unit,
        target: target.to_owned(),
        met,
    });
}

fn print(rows: &[Row]) {
    println!("| measure | value | target | met |\n|---|---|---|---|");
    for row in rows {
        let met = match row.met {
            Some(true) => "yes",
            Some(false) => "**no**",
            None => "",
        };
        println!(
            "| {} | {:.1} {} | {} | {met} |",
            row.what, row.value, row.unit, row.target
        );
    }
}

/// The middle of many measurements, in microseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn plugin_file(name: &str) -> PathBuf {
    root().join(format!("plugins/{name}.wasm"))
}

/// A full call through the kernel beside a bare one, alternating, so that both see the same machine.
fn in_process(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLS: usize = 3_000;
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let (tool, input) = ("base64_encode", json!({"text": "hello"}));
    let (kernel_us, bare_us, backend_us) = tokio.block_on(async {
        let runtime = runtime()?;
        let load = async || -> anyhow::Result<Plugin> {
            let grants = PluginGrants {
                scope: toolhost_vfs::Scope::empty(),
                env: Vec::new(),
                limits: Limits::default(),
                staging: None,
            };
            Ok(runtime.load(&plugin_file("data")).await?.grant(grants)?)
        };
        let bare_plugin = load().await?;
        let bare = Bare::new(&bare_plugin, tool, &input.to_string())?;
        let plugin: Arc<dyn toolhost_contract::Backend> = Arc::new(load().await?);
        let descriptor = bare_plugin
            .tools()
            .iter()
            .find(|known| known.name.as_str() == tool)
            .expect("tool")
            .clone();
        let kernel = Kernel::new(Settings::default(), Arc::new(Nobody)).expect("default limits");
        let info = PluginInfo {
            name: bare_plugin.name().clone(),
            version: "0".to_owned(),
            digest: None,
            timeout: None,
        };
        kernel
            .register(info, Arc::clone(&plugin))
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        let policy = policy::Policy::default();
        let (mut through_kernel, mut floor, mut backend) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..CALLS + 200 {
            let start = Instant::now();
            bare.call().await.map_err(anyhow::Error::msg)?;
            let bare_time = start.elapsed();

            let id = CallId(number.to_string());
            let request = CallRequest::new(id, tool, input.clone(), Caller::default());
            let start = Instant::now();
            let report = kernel.call(request, Arc::new(NoSink)).await;
            let kernel_time = start.elapsed();
            report.result.map_err(|error| anyhow::anyhow!("{error}"))?;

            let grant = grant(&policy, &bare_plugin, &descriptor, None)?;
            let call = Call {
                id: CallId(number.to_string()),
                tool: descriptor.name.clone(),
                input: input.clone(),
                caller: Caller::default(),
            };
            let start = Instant::now();
            plugin
                .invoke(call, grant, Arc::new(NoSink))
                .await
                .map_err(|error| anyhow::anyhow!("{error}"))?;
            let backend_time = start.elapsed();
            if number >= 200 {
                floor.push(bare_time);
                through_kernel.push(kernel_time);
                backend.push(backend_time);
            }
        }
        anyhow::Ok((median(through_kernel), median(floor), median(backend)))
    })?;
    row(
        rows,
        "bare wasmtime: same component, InstancePre and pool, one typed call (p50)",
        bare_us,
        "µs",
        "",
        None,
    );
    row(
        rows,
        "the runtime's call: limits, both clocks, streams (p50)",
        backend_us,
        "µs",
        "",
        None,
    );
    row(
        rows,
        "Kernel::call of the same tool (p50)",
        kernel_us,
        "µs",
        "< 100 µs",
        Some(kernel_us < 100.0),
    );
    let ratio = kernel_us / bare_us;
    row(
        rows,
        "Kernel::call beside bare wasmtime",
        ratio,
        "×",
        "≤ 1.5 ×",
        Some(ratio <= 1.5),
    );

    let overshoot = tokio.block_on(spinning())?;
    row(
        rows,
        "a spinning guest ends after its deadline by (worst of 10)",
        overshoot,
        "ms",
        "≤ 20 ms",
        Some(overshoot <= 20.0),
    );
    Ok(())
}

fn runtime() -> anyhow::Result<Runtime> {
    let cache_dir = Some(target().join("bench-cache"));
    Ok(Runtime::new(RuntimeSettings {
        cache_dir,
        compiler: Compiler::InProcess,
        max_concurrent: 8,
    })?)
}

async fn spinning() -> anyhow::Result<f64> {
    const TIMEOUT: Duration = Duration::from_millis(200);
    let loaded = runtime()?.load(&target().join("guests/spin.wasm")).await?;
    let grants = PluginGrants {
        scope: toolhost_vfs::Scope::empty(),
        env: Vec::new(),
        limits: Limits::default(),
        staging: None,
    };
    let plugin = loaded.grant(grants)?;
    let tool = &plugin.tools()[0];
    let policy = policy::Policy::default();
    let mut worst = Duration::ZERO;
    for number in 0..10 {
        let grant = grant(&policy, &plugin, tool, Some(TIMEOUT))?;
        let call = Call {
            id: CallId(number.to_string()),
            tool: tool.name.clone(),
            input: json!({}),
            caller: Caller::default(),
        };
        let start = Instant::now();
        anyhow::ensure!(
            plugin.invoke(call, grant, Arc::new(NoSink)).await.is_err(),
            "it ends by itself"
        );
        worst = worst.max(start.elapsed().saturating_sub(TIMEOUT));
    }
    Ok(worst.as_secs_f64() * 1e3)
}

fn host(args: &[&str]) -> Command {
    let mut command = Command::new(target().join("release/host"));
    command
        .args(args)
        .env("TOOLHOST_CACHE_DIR", target().join("bench-cache"))
        .env("TOOLHOST_STATE_DIR", target().join("bench-state"));
    command
}

fn over_stdio(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    const CALLS: usize = 2_000;
    let workspace = target().join("bench-workspace");
    fs::create_dir_all(&workspace)?;
    fs::write(workspace.join("kib.txt"), "0123456789abcde\n".repeat(64))?;
    let plugins = root().join("plugins");
    let mut noop = Client::start(host(&["noop-mcp"]))?;
    let mut ours = Client::start(host(&[
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &workspace.to_string_lossy(),
    ]))?;
    let (mut floor, mut call) = (Vec::new(), Vec::new());
    // Alternating rounds: a busy moment of the machine falls on both.
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
        .find(|row| row.what.starts_with("bare wasmtime"))
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

    let read = ours.time(CALLS, "read_file", &json!({"path": "kib.txt"}))?;
    row(
        rows,
        "host, read_file of 1 KiB over stdio (p50)",
        read,
        "µs",
        "",
        None,
    );
    let server = target()
        .join("bench-node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    if server.exists() {
        let mut command = Command::new("node");
        command.arg(&server).arg(&workspace);
        let mut node = Client::start(command)?;
        let path = workspace.join("kib.txt");
        let theirs = node.time(CALLS, "read_text_file", &json!({"path": path}))?;
        row(
            rows,
            "Node's server-filesystem, the same file (p50)",
            theirs,
            "µs",
            "",
            None,
        );
        row(
            rows,
            "read_file beside it",
            read / theirs,
            "×",
            "< 1 ×",
            Some(read < theirs),
        );
    } else {
        eprintln!(
            "skipped: Node's server-filesystem is not in {} (npm install it there)",
            server.display()
        );
    }
    Ok(())
}

/// Twenty plugins, compiled before: how long to the list of tools, and how much memory they take.
fn twenty_plugins(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = target().join("bench-twenty");
    fs::create_dir_all(&dir)?;
    let built = target().join("wasm32-wasip2/plugin/data.wasm");
    for number in 0..20 {
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
    let dir = dir.to_string_lossy().into_owned();
    let args = ["run", "--plugins", &dir, "--on-duplicate", "qualify"];
    let mut times = Vec::new();
    let mut memory = 0.0;
    for round in 0..8 {
        let start = Instant::now();
        let mut client = Client::start(host(&args))?;
        let tools = client.request("tools/list", &json!({}))?;
        // The first round compiles.
        if round > 0 {
            times.push(start.elapsed());
        }
        anyhow::ensure!(
            tools["tools"]
                .as_array()
                .is_some_and(|tools| tools.len() == 80),
            "not every tool is listed"
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

fn search(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tree = target().join("bench-tree");
    let bytes = tree_of_100_mb(&tree)?;
    row(
        rows,
        "the searched tree",
        f64::from(u32::try_from(bytes / 1_000_000)?),
        "MB",
        "",
        None,
    );
    let plugins = root().join("plugins");
    let args = [
        "run",
        "--plugins",
        &plugins.to_string_lossy(),
        "--allow-path",
        &tree.to_string_lossy(),
    ];
    let mut client = Client::start(host(&args))?;
    let has_rg = Command::new("rg").arg("--version").output().is_ok();
    for (name, pattern) in [
        ("literal", "pub fn unwrap_or_else"),
        ("regex", r"fn [a-z_]+_with\w*\("),
    ] {
        let arguments = json!({"pattern": pattern, "output_mode": "count", "head_limit": 2000, "case_insensitive": false});
        let mut ours = Vec::new();
        let mut theirs = Vec::new();
        for _ in 0..5 {
            let start = Instant::now();
            let result = client.request(
                "tools/call",
                &json!({"name": "grep", "arguments": arguments}),
            )?;
            ours.push(start.elapsed());
            anyhow::ensure!(result["isError"] != json!(true), "{result}");
            if has_rg {
                let start = Instant::now();
                Command::new("rg")
                    .args(["-j1", "-c", "--", pattern])
                    .arg(&tree)
                    .output()?;
                theirs.push(start.elapsed());
            }
        }
        let ours = median(ours) / 1e3;
        row(
            rows,
            &format!("grep of the tree, {name} (p50)"),
            ours,
            "ms",
            "",
            None,
        );
        if has_rg {
            let theirs = median(theirs) / 1e3;
            row(
                rows,
                &format!("rg -j1, {name} (p50)"),
                theirs,
                "ms",
                "",
                None,
            );
            row(
                rows,
                &format!("grep beside rg -j1, {name}"),
                ours / theirs,
                "×",
                "≤ 3 ×",
                Some(ours / theirs <= 3.0),
            );
        } else {
            eprintln!("skipped: rg is not installed");
        }
    }
    Ok(())
}
