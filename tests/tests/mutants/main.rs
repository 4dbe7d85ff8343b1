//! Mutants of real components. Each is loaded from a directory with a valid plugin, and each of its tools is called
//! once. `TOOLHOST_MUTANTS` sets their number, `TOOLHOST_MUTANT_SEED` the seed.

mod component;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use e2e::{Guest, root, run, target};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use toolhost::{Access, Builder, Compiler, ErrorClass, Host, Mode, ToolName};
use toolhost_contract::text;

use component::{Change, Random, mutant};

const COUNT: u64 = 100;
/// The valid plugin in the directory of each mutant.
const HEALTHY: &str = "environment";
const SEED: u64 = 20_261_123;
/// Characters of the reason why a plugin was not loaded.
const MAX_REASON: usize = 2_000;
/// Limit of the error text of a failed call, in characters.
const MAX_ERROR: usize = 64 << 10;
/// Far beyond all limits of the product together: 120 s to compile, 5 s to describe, and the calls.
const HANG: Duration = Duration::from_mins(10);
const AT_ONCE: usize = 2;
/// Mutants that the program itself lists.
const LISTED: usize = 30;

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// How far a mutant came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Scan,
    Manifest,
    Compile,
    Contract,
    Describe,
    Register,
    CallFailed,
    CallEnded,
}

fn number(name: &str, default: u64) -> u64 {
    let text = std::env::var(name);
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Small components: a shipped plugin, guests and third-party components.
fn sources() -> Vec<(String, Vec<u8>)> {
    let mut sources = vec![root().join("plugins/system.wasm")];
    let guests = ["counter", "rewrite", "nested_json", "services"];
    let guests =
        guests.map(|name| Guest::new(name, &["session", "fs.write"], "memory = \"16MiB\""));
    sources.extend(guests.iter().map(Guest::plugin));
    let foreign = root().join("../shared/foreign/components");
    for name in ["add.wasm", "calculator.composed.wasm"] {
        let file = foreign.join(name);
        if file.is_file() {
            sources.push(file);
        } else {
            println!("skipped: {name} is absent");
        }
    }
    let read = |path: PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read(path).unwrap())
    };
    sources.into_iter().map(read).collect()
}

async fn load(plugins: &Path, cache: &Path) -> (Host, TempDir) {
    let program = std::env::var_os("TOOLHOST_BIN");
    let program = program.map_or_else(|| target().join("debug/host"), PathBuf::from);
    let workspace = tempfile::tempdir().unwrap();
    let builder = Builder::new()
        .plugins(plugins)
        .allow_path(workspace.path(), Access::ReadWrite)
        .cache(cache)
        .mode(Mode::Yolo)
        .timeout(Duration::from_millis(500))
        .compiler(Compiler::Child {
            program,
            args: vec!["compile-worker".into()],
        });
    (builder.build().await.unwrap(), workspace)
}

/// Loads one mutant together with a valid plugin, and calls its tools.
async fn load_and_call(bytes: &[u8], healthy: &Path, cache: &Path) -> (Stage, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mutant.wasm");
    fs::write(&file, bytes).unwrap();
    fs::copy(healthy, folder.path().join("healthy.wasm")).unwrap();
    let (host, _workspace) = load(folder.path(), cache).await;
    let loaded = host.loaded();
    let resolved = match loaded.broken.iter().find(|broken| broken.path == file) {
        Some(broken) => (stage_of(&broken.reason), broken.reason.clone()),
        None => call_all(&host, &file).await,
    };
    let report = host.call(HEALTHY, json!({})).await;
    assert!(report.result.is_ok(), "the healthy plugin: {report:?}");
    host.shut_down().await.unwrap();
    resolved
}

fn stage_of(reason: &str) -> Stage {
    if reason.starts_with("plugin `") {
        return Stage::Register;
    }
    let stages = [
        ("cannot compile ", Stage::Compile),
        (" cannot describe its tools: ", Stage::Describe),
        (" is not valid: ", Stage::Scan),
        (" is not a WebAssembly component: ", Stage::Scan),
        (" is a core WebAssembly module", Stage::Scan),
        ("plugin.toml", Stage::Manifest),
        ("mutant.wasm: ", Stage::Contract),
    ];
    let found = stages.iter().find(|(part, _)| reason.contains(part));
    found.map_or(Stage::Register, |(_, stage)| *stage)
}

async fn call_all(host: &Host, file: &Path) -> (Stage, String) {
    let loaded = host.loaded();
    let served = loaded.plugins.iter().find(|served| served.path == file);
    let served = served.expect("a plugin that is not broken is served");
    let mut resolved = (Stage::CallEnded, String::new());
    for tool in &served.tools {
        let input = input_of(host, tool);
        let report = host.call(tool.as_str(), input).await;
        if let Err(error) = report.result {
            assert_ne!(error.class, ErrorClass::Internal, "{error:?}");
            resolved = (Stage::CallFailed, error.for_model());
        }
    }
    resolved
}

/// An input that the tool gives as an example, or one that its schema allows.
fn input_of(host: &Host, tool: &ToolName) -> Value {
    let tools = host.tools();
    let descriptor = tools.iter().find(|one| one.name == *tool);
    let descriptor = descriptor.expect("a tool that is served is listed");
    let example = descriptor.examples.first();
    example.map_or_else(
        || sample(&descriptor.input_schema, 8),
        |example| example.input.clone(),
    )
}

fn sample(schema: &Value, levels: usize) -> Value {
    let members = || {
        let names = schema["required"].as_array().into_iter().flatten();
        let names = names.filter_map(Value::as_str);
        names.map(|name| {
            (
                name.to_owned(),
                sample(&schema["properties"][name], levels - 1),
            )
        })
    };
    match schema["type"].as_str().unwrap_or_default() {
        "object" if levels > 0 => Value::Object(members().collect()),
        "array" => json!(["remember a 1", "recall a", "tools", "agents"]),
        "integer" | "number" => json!(3),
        "boolean" => json!(true),
        _ => json!("x"),
    }
}

impl Judged {
    /// The reason why a plugin was not loaded must be a short single line of printable characters.
    fn wrong(&self) -> Option<String> {
        let length = self.reason.chars().count();
        let is_loaded = self.stage >= Stage::CallFailed;
        let escaped = is_loaded || text::escape_line(&self.reason, usize::MAX) == self.reason;
        let most = if is_loaded { MAX_ERROR } else { MAX_REASON };
        (!escaped || length > most).then(|| {
            let Self {
                number,
                source,
                change,
                stage,
                reason,
            } = self;
            let shown = text::escape_line(reason, 300);
            format!("{number} {source} {change:?} {stage:?}: {length} characters: {shown}")
        })
    }
}

fn report(resolved: &[Judged], seed: u64) {
    let mut groups: BTreeMap<(Stage, Change), Vec<&Judged>> = BTreeMap::new();
    for one in resolved {
        groups.entry((one.stage, one.change)).or_default().push(one);
    }
    println!("{} mutants of seed {seed}", resolved.len());
    for ((stage, change), group) in &groups {
        let example = text::escape_line(&group[0].reason, 300);
        println!("{stage:?} {change:?}: {}, such as {example}", group.len());
    }
}

/// The program lists broken plugins: each is named, in text without control characters.
fn the_program_lists(numbers: &[u64], sources: &[(String, Vec<u8>)], seed: u64) {
    let folder = tempfile::tempdir().unwrap();
    for number in numbers {
        let (_, _, bytes) = make(sources, seed, *number);
        fs::write(folder.path().join(format!("mutant-{number}.wasm")), bytes).unwrap();
    }
    let plugins = folder.path().to_string_lossy().into_owned();
    let ended = run(&["plugins", "--plugins", &plugins]);
    for number in numbers {
        let name = format!("mutant-{number}.wasm");
        assert!(ended.stderr.contains(&name), "{name}: {}", ended.stderr);
    }
    for text in [&ended.stdout, &ended.stderr] {
        assert_eq!(&text::escape_lines(text, usize::MAX), text);
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn children() -> String {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.collect()
}

/// What became of one mutant.
struct Judged {
    number: u64,
    source: String,
    change: Change,
    stage: Stage,
    reason: String,
}

/// Mutants are made anew from their number wherever they are needed.
fn make(sources: &[(String, Vec<u8>)], seed: u64, number: u64) -> (String, Change, Vec<u8>) {
    let mut random = Random(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let (source, bytes) = random.pick(sources);
    let (change, bytes) = mutant(bytes, &mut random);
    (source.clone(), change, bytes)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mutants_of_components_break_nothing_but_themselves() {
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("{panic}");
        PANICS.fetch_add(1, Relaxed);
    }));
    let count = number("TOOLHOST_MUTANTS", COUNT);
    let seed = number("TOOLHOST_MUTANT_SEED", SEED);
    let healthy = Guest::new(HEALTHY, &[], "");
    let cache = tempfile::tempdir().unwrap();
    // Whatever is made once is there before the first look.
    drop(load(&healthy.plugin(), cache.path()).await);
    let before = descriptors();
    let shared = Arc::new((sources(), healthy.plugin(), cache.path().to_owned()));
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..AT_ONCE {
        let (shared, next) = (Arc::clone(&shared), Arc::clone(&next));
        workers.spawn(async move {
            let (sources, healthy, cache) = &*shared;
            let mut resolved = Vec::new();
            loop {
                let number = next.fetch_add(1, Relaxed);
                if number >= count {
                    return resolved;
                }
                let (source, change, bytes) = make(sources, seed, number);
                let ended = tokio::time::timeout(HANG, load_and_call(&bytes, healthy, cache)).await;
                let (stage, reason) =
                    ended.unwrap_or_else(|_| panic!("{source} {change:?} {number} hangs"));
                resolved.push(Judged {
                    number,
                    source,
                    change,
                    stage,
                    reason,
                });
            }
        });
    }
    let resolved: Vec<Judged> = workers.join_all().await.into_iter().flatten().collect();
    report(&resolved, seed);
    let wrong: Vec<String> = resolved.iter().filter_map(Judged::wrong).collect();
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    assert_eq!(PANICS.load(Relaxed), 0, "panics");
    let broken = resolved.iter().filter(|one| one.stage < Stage::CallFailed);
    let broken: Vec<u64> = broken.map(|one| one.number).take(LISTED).collect();
    the_program_lists(&broken, &shared.0, seed);
    assert_eq!(children(), "", "processes are left");
    let after = descriptors();
    assert!(after <= before + 8, "{before} descriptors, then {after}");
}
