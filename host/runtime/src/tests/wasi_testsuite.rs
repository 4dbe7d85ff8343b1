//! Runs the modules of WebAssembly/wasi-testsuite as components in the sandbox of a call, directly and staged.
//!
//! The modules are not part of the repository. The test looks for them in `../shared/foreign/wasi-testsuite`,
//! relative to the checkout, and prints a line if they are absent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use toolhost_contract::Limits;
use toolhost_vfs::{Access, PathGrant, Scope, Stage, StageLimits};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
};
use wasmtime::component::Component;
use wasmtime_wasi::p2::bindings::Command;

use super::runtime;
use crate::files::Files;
use crate::instance::{self, CallEnvironment};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Direct,
    Staged,
}

/// A module that is expected to fail, the modes in which it fails, and the reason.
struct Known {
    module: &'static str,
    modes: &'static [Mode],
    reason: &'static str,
}

const BOTH: &[Mode] = &[Mode::Direct, Mode::Staged];

const KNOWN: &[Known] = &[
    Known {
        module: "assemblyscript/proc_exit-failure",
        modes: BOTH,
        reason: "wasi:cli/exit of WASI 0.2 carries success or failure and no code",
    },
    Known {
        module: "assemblyscript/args_get-multiple-arguments",
        modes: BOTH,
        reason: "an assertion in the preview 1 adapter fails, before the host is involved",
    },
    Known {
        module: "assemblyscript/environ_get-multiple-variables",
        modes: BOTH,
        reason: "an assertion in the preview 1 adapter fails, before the host is involved",
    },
];

/// The environment and result that a module expects, from its JSON file.
#[derive(Default)]
struct Expected {
    args: Vec<String>,
    env: Vec<(String, String)>,
    exit_code: i64,
    root: Option<PathBuf>,
}

impl Expected {
    fn read(module: &Path) -> Self {
        let Ok(text) = fs::read_to_string(module.with_extension("json")) else {
            return Self::default();
        };
        let json: Value = serde_json::from_str(&text).expect("a JSON file of the suite");
        for key in json.as_object().expect("an object").keys() {
            assert!(
                ["args", "env", "exit_code", "root"].contains(&key.as_str()),
                "{}: unknown key `{key}`",
                module.display()
            );
        }
        let text = |value: &Value| value.as_str().expect("a string").to_owned();
        Self {
            args: json["args"]
                .as_array()
                .map(|args| args.iter().map(text).collect())
                .unwrap_or_default(),
            env: json["env"]
                .as_object()
                .map(|env| env.iter().map(|(key, value)| (key.clone(), text(value))))
                .map(Iterator::collect)
                .unwrap_or_default(),
            exit_code: json["exit_code"].as_i64().unwrap_or(0),
            root: json["root"]
                .as_str()
                .map(|root| module.with_file_name(root)),
        }
    }
}

fn component(module: &Path) -> Vec<u8> {
    let bytes = fs::read(module).expect("a module of the suite");
    wit_component::ComponentEncoder::default()
        .module(&bytes)
        .and_then(|encoder| {
            encoder
                .adapter(
                    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                    WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
                )?
                .encode()
        })
        .unwrap_or_else(|error| panic!("{}: {error:#}", module.display()))
}

fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_name() != ".keep" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The granted directory of one run, and the directory of its stage.
fn files(root: Option<&Path>, dir: &Path, mode: Mode) -> Files {
    let Some(root) = root else {
        return Files::none();
    };
    let (granted, stages) = (dir.join("root"), dir.join("stages"));
    copy_dir(root, &granted);
    fs::create_dir(&stages).unwrap();
    let scope = Scope::open(
        &[PathGrant {
            host: granted,
            guest: "/".to_owned(),
            access: Access::ReadWrite,
            dangerous: false,
            exclude: Vec::new(),
        }],
        &[],
    )
    .unwrap();
    let files = Files::new(scope.clone()).unwrap();
    match mode {
        Mode::Direct => files,
        Mode::Staged => {
            let limits = StageLimits {
                bytes: 1 << 30,
                files: 10_000,
            };
            files.staged(Stage::new(scope, stages, limits))
        }
    }
}

/// Runs a module and compares its exit code. The error describes a different end.
async fn run(module: &Path, component: &Component, mode: Mode) -> Result<(), String> {
    let expected = Expected::read(module);
    let dir = tempfile::tempdir().unwrap();
    let (engine, linker) = runtime().engine_and_linker();
    let mut linker = linker.clone();
    // Tools have no arguments, but these modules need some.
    linker.allow_shadowing(true);
    let name = module.file_name().unwrap().to_string_lossy().into_owned();
    let args: Vec<String> = std::iter::once(name).chain(expected.args).collect();
    for (import, _) in component.component_type().imports(engine) {
        if import.starts_with("wasi:cli/environment@") {
            let args = args.clone();
            linker
                .instance(import)
                .and_then(|mut instance| {
                    instance.func_wrap("get-arguments", move |_, (): ()| Ok((args.clone(),)))
                })
                .unwrap();
        }
    }
    let limits = Limits::default();
    let setting = CallEnvironment {
        files: files(expected.root.as_deref(), dir.path(), mode),
        env: &expected.env,
        ..CallEnvironment::without_grants(&limits, Duration::from_mins(2))
    };
    let ended = instance::run(engine, setting, async |store| {
        let command = Command::instantiate_async(&mut *store, component, &linker).await?;
        command.wasi_cli_run().call_run(store).await
    })
    .await;
    let code = match &ended {
        Ok(Ok(())) => 0,
        Ok(Err(())) => 1,
        Err(error) => error
            .message
            .rsplit_once("with code ")
            .and_then(|(_, code)| code.parse().ok())
            .ok_or_else(|| format!("{}; stderr: {:?}", error.message, error.stderr))?,
    };
    let stderr = ended.err().and_then(|error| error.stderr);
    if code == expected.exit_code {
        Ok(())
    } else {
        Err(format!("exit code {code}; stderr: {stderr:?}"))
    }
}

fn modules(suite: &Path) -> Vec<PathBuf> {
    let mut modules: Vec<PathBuf> = ["assemblyscript", "c", "rust"]
        .iter()
        .flat_map(|language| fs::read_dir(suite.join(language)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "wasm")
        })
        .collect();
    modules.sort();
    modules
}

#[tokio::test]
async fn wasi_testsuite_passes_except_known_failures() {
    let suite =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/foreign/wasi-testsuite");
    if !suite.is_dir() {
        println!("skipped: the modules of wasi-testsuite are absent");
        return;
    }
    let (engine, _) = runtime().engine_and_linker();
    let modules = modules(&suite);
    let mut failed: BTreeMap<String, String> = BTreeMap::new();
    let mut passed = [0, 0];
    for module in &modules {
        let name = module.strip_prefix(&suite).unwrap().with_extension("");
        let component = Component::new(engine, component(module)).unwrap();
        for (mode, passed) in [Mode::Direct, Mode::Staged].into_iter().zip(&mut passed) {
            match run(module, &component, mode).await {
                Ok(()) => *passed += 1,
                Err(how) => drop(failed.insert(format!("{} {mode:?}", name.display()), how)),
            }
        }
    }
    let (all, [direct, staged]) = (modules.len(), passed);
    println!("wasi-testsuite: {direct} of {all} modules pass directly, {staged} of {all} staged");
    for known in KNOWN {
        for mode in known.modes {
            let key = format!("{} {mode:?}", known.module);
            assert!(
                failed.remove(&key).is_some(),
                "{key} passes now; it was listed because {}",
                known.reason
            );
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}
