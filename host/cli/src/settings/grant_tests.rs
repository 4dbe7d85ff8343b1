//! Tests of the grants of a plugin by command line and configuration file.

use expect_test::{Expect, expect};
use toolhost::grants::{GrantPlan, ScopeOpener, plan_grants};
use toolhost_contract::units::format_size;
use toolhost_contract::{Access, Limits, Manifest};
use toolhost_runtime::Capabilities;

use crate::testing::settings;

fn check(needs: &str, arguments: &[&str], toml: &str, expect: &Expect) {
    let manifest = format!("name = \"p\"\nversion = \"1.0.0\"\ndescription = \"\"\n{needs}");
    let manifest = Manifest::parse("plugin.toml", &manifest).unwrap();
    let plan = plan_grants(&manifest, &settings(arguments, toml).unwrap().core, None);
    let paths: Vec<String> = plan
        .paths
        .iter()
        .map(|path| {
            format!(
                "{} as {} {}",
                path.host.display(),
                path.guest,
                path.access.as_str()
            )
        })
        .collect();
    expect.assert_eq(&format!(
        "files {}: [{}], env {:?}, memory {}",
        plan.files.map_or("none", Access::as_str),
        paths.join(", "),
        plan.env,
        format_size(plan.limits.memory),
    ));
}

const READ: &str = "[[needs]]\ncapability = \"fs.read\"\nwhy = \"x\"\n";
const WRITE: &str = "[[needs]]\ncapability = \"fs.write\"\nwhy = \"x\"\n";
const ENV: &str = "[[needs]]\ncapability = \"env\"\nnames = [\"TZ\", \"LANG\"]\nwhy = \"x\"\n";

#[test]
fn grants_are_the_intersection_of_requests_and_settings() {
    let arguments = [
        "--allow-path",
        "src",
        "--allow-path",
        "out:rw",
        "--allow-env",
        "TZ",
        "--allow-env",
        "SECRET",
    ];
    check(
        "",
        &arguments,
        "",
        &expect!["files none: [], env [], memory 64.0 MiB"],
    );
    check(
        READ,
        &arguments,
        "",
        &expect![
            "files ro: [/cwd/src as /workspace ro, /cwd/out as /extra/1 rw], env [], memory 64.0 MiB"
        ],
    );
    check(
        WRITE,
        &arguments,
        "",
        &expect![
            "files rw: [/cwd/src as /workspace ro, /cwd/out as /extra/1 rw], env [], memory 64.0 MiB"
        ],
    );
    check(
        ENV,
        &arguments,
        "",
        &expect![[r#"files none: [], env ["TZ"], memory 64.0 MiB"#]],
    );
    check(
        &format!("{READ}{ENV}"),
        &[],
        "",
        &expect!["files ro: [], env [], memory 64.0 MiB"],
    );
}

#[test]
fn settings_of_a_plugin_override_global_ones() {
    let arguments = ["--allow-path", "src", "--allow-env", "TZ"];
    check(
        READ,
        &arguments,
        "[plugin.p]\nallowed_paths = [\"only\"]",
        &expect!["files ro: [/etc/only as /workspace ro], env [], memory 64.0 MiB"],
    );
    check(
        READ,
        &arguments,
        "[plugin.p]\nallowed_paths = []",
        &expect!["files ro: [], env [], memory 64.0 MiB"],
    );
    check(
        ENV,
        &arguments,
        "[plugin.p]\nenv = [\"LANG\"]",
        &expect![[r#"files none: [], env ["LANG"], memory 64.0 MiB"#]],
    );
    check(
        READ,
        &arguments,
        "[plugin.other]\nallowed_paths = []",
        &expect!["files ro: [/cwd/src as /workspace ro], env [], memory 64.0 MiB"],
    );
    let limits = "[limits]\nmemory = \"128MiB\"\n";
    check(
        limits,
        &arguments,
        "",
        &expect!["files none: [], env [], memory 128.0 MiB"],
    );
    check(
        limits,
        &arguments,
        "[plugin.p]\nlimits = { memory = \"16MiB\" }",
        &expect!["files none: [], env [], memory 16.0 MiB"],
    );
}

#[test]
fn directories_are_opened_once_and_the_cache_is_never_granted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut settings = settings(&["--allow-path", path], "").unwrap().core;
    settings.host_paths.cache = Some(dir.path().join("cache"));
    let mut granter = ScopeOpener::new(&settings).unwrap();
    let plan = GrantPlan {
        paths: settings.paths.clone(),
        provided: vec![],
        files: Some(Access::ReadOnly),
        env: vec![],
        limits: Limits::default(),
        capability_names: vec![],
        capabilities: Capabilities::default(),
    };
    let scope = granter.grant(&plan).unwrap();
    assert_eq!(scope.roots()[0].guest(), "/workspace");
    assert!(
        granter
            .grant(&GrantPlan {
                files: None,
                ..plan
            })
            .unwrap()
            .roots()
            .is_empty()
    );

    settings.host_paths.cache = Some(dir.path().to_owned());
    let error = ScopeOpener::new(&settings)
        .err()
        .expect("the cache is not granted")
        .to_string();
    assert!(error.contains("is reserved for the host"), "{error}");
}

#[test]
fn a_path_overrides_the_same_directory_under_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("data/sub")).unwrap();
    std::os::unix::fs::symlink("data", root.join("link")).unwrap();
    let shown = |typed: &[&str], written: &str| {
        let typed: Vec<String> = typed
            .iter()
            .map(|path| root.join(path).display().to_string())
            .collect();
        let arguments: Vec<&str> = typed
            .iter()
            .flat_map(|path| ["--allow-path", path])
            .collect();
        let written = root.join(written);
        let toml = format!("allowed_paths = [\"{}\"]", written.display());
        let paths = settings(&arguments, &toml).unwrap().core.paths;
        let paths = paths.iter().map(|path| {
            let host = path.host.strip_prefix(&root).unwrap().display();
            format!("{host}:{}", path.access.as_str())
        });
        paths.collect::<Vec<_>>().join(" ")
    };
    for (typed, written, expected) in [
        (&["data:rw"][..], "data", "data:rw"),
        (&["data/sub/..:ro"], "data:rw", "data/sub/..:ro"),
        (&["link:rw"], "data", "link:rw"),
        (&["data:ro"], "link:rw", "data:ro"),
        (
            &["data:ro", "link:rw"],
            "data/sub:ro",
            "link:ro data/sub:ro",
        ),
        (&["missing:rw"], "data", "missing:rw data:ro"),
    ] {
        assert_eq!(shown(typed, written), expected, "{typed:?} {written}");
    }
}

#[test]
fn a_missing_directory_is_named_in_the_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{}/data:wr", dir.path().display());
    let error = ScopeOpener::new(&settings(&["--allow-path", &path], "").unwrap().core)
        .err()
        .expect("no such folder");
    assert!(
        error.to_string().contains("data:wr` does not exist"),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .ends_with("(the access is `:ro` or `:rw`)"),
        "{error}"
    );
}
