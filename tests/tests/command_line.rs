//! Command lines and their output: `tests/specs/*.args` contains the arguments, one per line, and `*.out` the output.
//! `UPDATE_EXPECT=1` (`cargo xtask bless`) writes the output anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::LazyLock;

use e2e::test_env::TestEnv;
use e2e::{CommandResult, host, root, target};
use regex::Regex;

#[test]
fn command_lines_have_the_expected_output() {
    let specs = root().join("tests/specs");
    let mut specs_found: Vec<_> = fs::read_dir(&specs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "args")
        })
        .collect();
    specs_found.sort();
    assert!(specs_found.len() > 20, "the specs are gone");
    twin();
    for spec in specs_found {
        let output = run_spec(&specs, &spec);
        expect_test::expect_file![spec.with_extension("out")].assert_eq(&output);
    }
}

#[test]
fn a_bench_measures_a_tool_and_leaves_no_records() {
    let env = TestEnv::new("");
    let data = root()
        .join("plugins/data.wasm")
        .to_string_lossy()
        .into_owned();
    let bench = [
        "bench",
        "--calls",
        "50",
        "--in-flight",
        "4",
        "--json",
        "--plugins",
        &data,
    ];
    let results = env.run_json(&bench);
    assert_eq!(results["tool"], "base64_encode");
    assert_eq!(results["calls"], 50);
    for figure in [
        "start_ms",
        "p50_us",
        "p99_us",
        "longest_us",
        "calls_per_second",
        "peak_memory_bytes",
    ] {
        assert!(
            results[figure].as_f64().unwrap() > 0.0,
            "{figure}: {results}"
        );
    }
    assert!(results["p50_us"].as_f64() <= results["longest_us"].as_f64());
    assert!(!env.database().exists(), "the calls were recorded");
}

/// A second plugin with the tools of the first: what happens is up to `--on-duplicate`.
fn twin() {
    let dir = target().join("twin");
    fs::create_dir_all(&dir).unwrap();
    let manifest = dir.join("plugin.toml");
    fs::write(
        &manifest,
        "name = \"twin\"\nversion = \"0.1.0\"\ndescription = \"A twin of data\"\n",
    )
    .unwrap();
    let packed = host(&["pack"])
        .arg(target().join("wasm32-wasip2/plugin-dev/data.wasm"))
        .arg("--manifest")
        .arg(&manifest)
        .arg("--output")
        .arg(dir.join("twin.wasm"))
        .output()
        .unwrap();
    assert!(
        packed.status.success(),
        "{}",
        String::from_utf8_lossy(&packed.stderr)
    );
}

fn run_spec(specs: &Path, spec: &Path) -> String {
    let arguments = fs::read_to_string(spec).unwrap();
    // A copy, because specs may write.
    let scratch = tempfile::tempdir().unwrap();
    copy(&specs.join("workspace"), &scratch.path().join("workspace"));
    let substitutions = [
        ("[SCRATCH]", scratch.path().to_string_lossy().into_owned()),
        ("[TARGET]", target().to_string_lossy().into_owned()),
        ("[SPECS]", specs.to_string_lossy().into_owned()),
        ("[ROOT]", root().to_string_lossy().into_owned()),
    ];
    let args: Vec<String> = arguments
        .lines()
        .map(|argument| {
            substitutions
                .iter()
                .fold(argument.to_owned(), |argument, (name, value)| {
                    argument.replace(name, value)
                })
        })
        .collect();
    let mut command = host(&args.iter().map(String::as_str).collect::<Vec<_>>());
    // A separate state directory, so that unfinished calls of other tests have no effect.
    command.env("TOOLHOST_STATE_DIR", scratch.path().join("state"));
    if let Ok(input) = fs::File::open(spec.with_extension("in")) {
        command.stdin(Stdio::from(input));
    }
    let ended = CommandResult::of(&command.output().unwrap());
    let mut report = format!("exit code {}\n", ended.code.unwrap_or(-1));
    for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
        if !text.is_empty() {
            let shown = substitutions
                .iter()
                .fold(text.clone(), |text, (name, value)| {
                    text.replace(value.as_str(), name)
                });
            let _ = write!(report, "--- {name}\n{}", without_build_details(&shown));
        }
    }
    report
}

/// Leaves out what differs from build to build.
fn without_build_details(text: &str) -> String {
    static BUILD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?m)^(  (?:size|digest)  ).*$|(sha256:)[0-9a-f]+").unwrap());
    let shown = BUILD.replace_all(text.trim_end_matches('\n'), "$1$2…");
    format!("{shown}\n")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let copied = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &copied);
        } else {
            fs::copy(entry.path(), copied).unwrap();
        }
    }
}
