//! Distribution of plugins: components without our interfaces, signatures, and a start with many installed packages.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use e2e::{host, root, target};
use serde_json::json;
use toolhost::{Builder, Durability, Host};
use toolhost_contract::Digest;
use toolhost_packages::{Identity, Signer, SigningKey, SigstoreRoot, sign, verify};

use super::client::Client;
use super::peers::compile;
use super::{Row, median, row};

const CALLS: usize = 3_000;
const INSTALLED: usize = 100;

pub fn packages(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    plain_component(rows)?;
    signatures(rows)?;
    installed(rows)
}

/// The component `plain_functions`, whose function `echo` returns its argument, with a manifest beside it. The function is
/// renamed to `function`, which has the same length, because no two plugins can offer the same one.
fn component(dir: &Path, name: &str, function: &str, tool: &str) -> anyhow::Result<PathBuf> {
    let file = dir.join(format!("{name}.wasm"));
    let mut bytes = fs::read(target().join("guests/plain_functions.wasm"))?;
    for at in 0..bytes.len() - function.len() {
        if bytes[at..].starts_with(b"echo") {
            bytes[at..at + function.len()].copy_from_slice(function.as_bytes());
        }
    }
    fs::write(&file, bytes)?;
    let manifest = format!(
        "name = \"{name}\"\nversion = \"1.0.0\"\ndescription = \"A function\"\n\n\
         [[functions]]\nfunction = \"{function}\"\nname = \"{tool}\"\neffect = \"pure\"\n"
    );
    fs::write(dir.join(format!("{name}.plugin.toml")), manifest)?;
    Ok(file)
}

/// The same function as a component without our interfaces and through the interface `tool`.
fn plain_component(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    tokio.block_on(async {
        let dir = tempfile::tempdir()?;
        let host = Builder::new()
            .cache(target().join("bench-cache"))
            .store(dir.path().join("state"), Durability::Effects)
            .plugins(target().join("guests/bench_plain.wasm"))
            .plugins(component(dir.path(), "functions", "echo", "echo")?)
            .build()
            .await?;
        let mut times = [Vec::new(), Vec::new()];
        for number in 0..CALLS + 200 {
            for (tool, times) in ["alone", "echo"].iter().zip(&mut times) {
                let time = call(&host, tool).await?;
                if number >= 200 {
                    times.push(time);
                }
            }
        }
        let [with_interface, plain] = times.map(median);
        let ratio = plain / with_interface;
        let label =
            "a call of a component without our interfaces, beside the same through the interface (p50)";
        row(rows, label, ratio, "×", "≤ 1.3 ×", Some(ratio <= 1.3));
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

/// The verification of a signature, without the digest of the file, which the host computes for every plugin.
fn signatures(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let key = SigningKey::create(&dir.path().join("ann.key"))?;
    let file = Digest([7; 32]);
    let bundle = sign(&key, "notes.wasm", file);
    let trusted = [Signer::Key(key.public())];
    let no_root = || Ok(SigstoreRoot::default());
    verification(rows, "by a key", &bundle, file, &trusted, no_root)?;

    let fixtures = root().join("host/packages/tests/keyless");
    let bundle = fs::read_to_string(fixtures.join("bundle.json"))?;
    let identity = Identity::new("https://example.org/ann/*", "https://token.example.org");
    let trusted = [Signer::Identity(identity.map_err(anyhow::Error::msg)?)];
    let file = {
        use sha2::Digest as _;
        Digest(sha2::Sha256::digest("a plugin\n").into())
    };
    // A command verifies one signature, so the trusted root is read each time.
    let trusted_root =
        || SigstoreRoot::read(&fixtures.join("trusted_root.json")).map_err(anyhow::Error::msg);
    verification(rows, "without a key", &bundle, file, &trusted, trusted_root)
}

fn verification(
    rows: &mut Vec<Row>,
    kind: &str,
    bundle: &str,
    file: Digest,
    trusted: &[Signer],
    root: impl Fn() -> anyhow::Result<SigstoreRoot>,
) -> anyhow::Result<()> {
    let mut times = Vec::new();
    for _ in 0..200 {
        let start = Instant::now();
        verify(bundle, file, trusted, &root()?)?;
        times.push(start.elapsed());
    }
    let time = median(times) / 1e3;
    let label = format!("verification of a signature {kind} (p50)");
    row(rows, &label, time, "ms", "≤ 5 ms", Some(time <= 5.0));
    Ok(())
}

/// A start with signed packages that are compiled.
fn installed(rows: &mut Vec<Row>) -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let run = |args: &[&str]| {
        let mut command = host(args);
        command
            .env("TOOLHOST_STATE_DIR", dir.path().join("state"))
            .env("TOOLHOST_CACHE_DIR", dir.path().join("cache"))
            .current_dir(dir.path());
        command
    };
    let done = |args: &[&str]| -> anyhow::Result<String> {
        let output = run(args).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "{args:?}: {errors}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    fs::write(dir.path().join("ann.pub"), done(&["key", "new", "ann"])?)?;
    for number in 0..INSTALLED {
        let file = component(
            dir.path(),
            &format!("echo-{number}"),
            &format!("e{number:03}"),
            &format!("echo_{number}"),
        )?;
        let file = file.to_str().context("the path is text")?;
        done(&["sign", file, "--key", "ann"])?;
        done(&["add", file, "--key", "ann.pub", "--yes"])?;
    }
    compile(&run(&["run"]))?;
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        let mut client = Client::start(run(&["run"]))?;
        let listed = client.request("tools/list", &json!({}))?;
        times.push(start.elapsed());
        let tools = listed["tools"].as_array().map_or(0, Vec::len);
        anyhow::ensure!(tools >= INSTALLED, "only {tools} tools are listed");
    }
    let start = median(times) / 1e3;
    let label =
        format!("start to tools/list with {INSTALLED} signed packages, compiled before (p50)");
    row(rows, &label, start, "ms", "≤ 120 ms", Some(start <= 120.0));
    Ok(())
}
