//! two versions of one plugin in a folder, from the files to the record of the call.

use std::fs;
use std::path::{Path, PathBuf};

use e2e::{CommandResult, host, run, target};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with the guest `counter` in versions 1.0.0 and 2.0.0, and a store of its own.
struct House(TempDir);

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("plugins")).unwrap();
        let house = Self(dir);
        house.pack("counter", "1.0.0");
        house.pack("counter", "2.0.0");
        house
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn pack(&self, plugin: &str, version: &str) {
        let manifest = self.path("plugin.toml");
        let text =
            format!("name = \"{plugin}\"\nversion = \"{version}\"\ndescription = \"A guest\"\n");
        fs::write(&manifest, text).unwrap();
        let output = self.path(&format!("plugins/{plugin}-{version}.wasm"));
        let packed = run(&[
            "pack",
            &shown(&target().join("guests/counter.wasm")),
            "--manifest",
            &shown(&manifest),
            "--output",
            &shown(&output),
        ]);
        assert_eq!(packed.code, Some(0), "{}", packed.stderr);
    }

    fn run(&self, arguments: &[&str], config: &str) -> CommandResult {
        let file = self.path("toolhost.toml");
        fs::write(&file, config).unwrap();
        let mut command = host(arguments);
        command.env("TOOLHOST_STATE_DIR", self.path("state"));
        command.args(["--config", &shown(&file)]);
        if arguments[0] != "calls" {
            command.args(["--plugins", &shown(&self.path("plugins"))]);
        }
        CommandResult::of(&command.output().unwrap())
    }

    /// The version that answered, by its record.
    fn called(&self, tool: &str, config: &str) -> String {
        let ended = self.run(&["call", tool, "{}", "--json"], config);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        let id = report["id"].as_str().unwrap();
        let record = self.run(&["calls", id, "--json"], "");
        let record: Value = serde_json::from_str(&record.stdout).unwrap();
        assert!(record["toolHash"].as_str().unwrap().starts_with("sha256:"));
        record["toolVersion"].as_str().unwrap().to_owned()
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[test]
fn r_493_two_versions_live_side_by_side() {
    let house = House::new();
    let pin = "[tools.counter]\nversion = \"^1\"\n";
    for (tool, config, version) in [
        ("counter", "", "2.0.0"),
        ("counter@1.0.0", "", "1.0.0"),
        ("counter/counter@^1", "", "1.0.0"),
        ("counter", pin, "1.0.0"),
        ("counter@2", pin, "2.0.0"),
    ] {
        assert_eq!(house.called(tool, config), version, "{tool} {config}");
    }
    let missing = house.run(&["call", "counter@3", "{}"], "");
    assert!(
        missing
            .stderr
            .contains("only these versions are loaded: 2.0.0, 1.0.0"),
        "{missing:?}"
    );
    let deny = "[policy]\ndeny = [\"counter@2\"]\n";
    let denied = house.run(&["call", "counter", "{}"], deny);
    assert!(denied.stderr.contains("forbids `counter`"), "{denied:?}");
    assert_eq!(house.called("counter@1.0.0", deny), "1.0.0");
    let listed = house.run(&["tools", "--json"], "");
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let versions = listed[0]["versions"].as_array().unwrap();
    let served: Vec<_> = versions
        .iter()
        .map(|one| (&one["version"], &one["served"]))
        .collect();
    assert_eq!(
        served,
        [
            (&json!("2.0.0"), &json!(true)),
            (&json!("1.0.0"), &json!(false))
        ]
    );
    let stats = house.run(&["calls", "stats", "--json"], "");
    let stats: Value = serde_json::from_str(&stats.stdout).unwrap();
    let counts: Vec<_> = stats
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["calls"].as_u64())
        .collect();
    assert_eq!(counts, [Some(4), Some(2)]);
}

#[test]
fn r_493_a_pin_that_nothing_fits_leaves_the_tool_out() {
    let house = House::new();
    let ended = house.run(
        &["call", "counter", "{}"],
        "[tools.counter]\nversion = \"3\"\n",
    );
    assert_ne!(ended.code, Some(0));
    assert!(
        ended.stderr.contains(
            "`[tools.counter] version` is `3`, but only these versions are loaded: 2.0.0, 1.0.0"
        ),
        "{ended:?}"
    );
}

#[test]
fn r_495_versions_and_plugins_are_compared() {
    let house = House::new();
    house.pack("counter-next", "5.0.0");
    let test = |second: &str| {
        format!(
            "[[ab_test]]\ntool = \"counter\"\nkey = \"call\"\nvariants = [{{version = \"1.0.0\", weight = 1}}, {second}]\n"
        )
    };
    let both = test("{plugin = \"counter-next\", weight = 1}");
    let versions: Vec<String> = (0..20).map(|_| house.called("counter", &both)).collect();
    for version in ["1.0.0", "5.0.0"] {
        assert!(versions.iter().any(|one| one == version), "{versions:?}");
    }
    assert!(!versions.iter().any(|one| one == "2.0.0"), "{versions:?}");
    let missing = test("{version = \"9\", weight = 1}");
    let ended = house.run(&["call", "counter", "{}"], &missing);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(
        ended.stderr.contains(
            "toolhost.toml:1: ab_test of `counter`: variant 2 (version 9): only these versions are loaded: 2.0.0, 1.0.0"
        ),
        "{ended:?}"
    );
}
