//! In-process call benchmarks, without records and rules.

use std::sync::Arc;
use std::time::{Duration, Instant};

use e2e::target;
use serde_json::json;
use toolhost_contract::{Backend as _, Call, CallId, Limits, NoSink, Principal, policy};
use toolhost_kernel::{CallRequest, Kernel, KernelSettings, NoPrompter, PluginInfo};
use toolhost_runtime::bench::DirectCaller;
use toolhost_runtime::{Plugin, PluginGrants};

use super::grant::grant;
use super::{Row, median, plugin_file, row, runtime};

/// Compares a call through the kernel with a bare one. They alternate, so that machine load affects both.
pub fn in_process(rows: &mut Vec<Row>) -> anyhow::Result<()> {
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
                session_dirs: None,
                capabilities: toolhost_runtime::Capabilities::default(),
                scope: toolhost_vfs::Scope::empty(),
                env: Vec::new(),
                limits: Limits::default(),
                staging: None,
            };
            Ok(runtime.load(&plugin_file("data")).await?.grant(grants)?)
        };
        let bare_plugin = load().await?;
        let bare = DirectCaller::new(&bare_plugin, tool, &input.to_string())?;
        let plugin: Arc<dyn toolhost_contract::Backend> = Arc::new(load().await?);
        let descriptor = bare_plugin
            .tools()
            .iter()
            .find(|known| known.name.as_str() == tool)
            .expect("tool")
            .clone();
        let kernel =
            Kernel::new(KernelSettings::default(), Arc::new(NoPrompter)).expect("default limits");
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
            let request = CallRequest::new(id, tool, input.clone(), Principal::default());
            let start = Instant::now();
            let report = kernel.call(request, Arc::new(NoSink)).await;
            let kernel_time = start.elapsed();
            report.result.map_err(|error| anyhow::anyhow!("{error}"))?;

            let grant = grant(&policy, &bare_plugin, &descriptor, &input, None)?;
            let call = Call::new(number.to_string(), descriptor.name.clone(), input.clone());
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

async fn spinning() -> anyhow::Result<f64> {
    const TIMEOUT: Duration = Duration::from_millis(200);
    let loaded = runtime()?.load(&target().join("guests/spin.wasm")).await?;
    let grants = PluginGrants {
        session_dirs: None,
        capabilities: toolhost_runtime::Capabilities::default(),
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
        let grant = grant(&policy, &plugin, tool, &json!({}), Some(TIMEOUT))?;
        let call = Call::new(number.to_string(), tool.name.clone(), json!({}));
        let start = Instant::now();
        anyhow::ensure!(
            plugin.invoke(call, grant, Arc::new(NoSink)).await.is_err(),
            "the guest ended by itself"
        );
        worst = worst.max(start.elapsed().saturating_sub(TIMEOUT));
    }
    Ok(worst.as_secs_f64() * 1e3)
}
