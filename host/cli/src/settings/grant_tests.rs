//! Tests of the grants of a plugin by command line and configuration file.

use expect_test::{Expect, expect};
use toolhost::grants::{Granter, Plan, plan};
use toolhost_contract::units::show_size;
use toolhost_contract::{Access, Limits, Manifest};
use toolhost_runtime::Capabilities;

use crate::testing::settings;

fn check(needs: &str, words: &[&str], toml: &str, expect: &Expect) {
    let manifest = format!("name = \"p\"\nversion = \"1.0.0\"\ndescription = \"\"\n{needs}");
    let manifest = Manifest::parse("plugin.toml", &manifest).unwrap();
    let plan = plan(&manifest, &settings(words, toml).unwrap().core, None);
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
        show_size(plan.limits.memory),
    ));
}

const READ: &str = "[[needs]]\ncapability = \"fs.read\"\nwhy = \"x\"\n";
const WRITE: &str = "[[needs]]\ncapability = \"fs.write\"\nwhy = \"x\"\n";
const ENV: &str = "[[needs]]\ncapability = \"env\"\nnames = [\"TZ\", \"LANG\"]\nwhy = \"x\"\n";

#[test]
fn a_plugin_gets_what_it_asks_for_and_the_operator_allows() {
    let words = [
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
        &words,
        "",
        &expect!["files none: [], env [], memory 64.0 MiB"],
    );
    check(
        READ,
        &words,
        "",
        &expect![
            "files ro: [/cwd/src as /workspace ro, /cwd/out as /extra/1 rw], env [], memory 64.0 MiB"
        ],
    );
    check(
        WRITE,
        &words,
        "",
        &expect![
            "files rw: [/cwd/src as /workspace ro, /cwd/out as /extra/1 rw], env [], memory 64.0 MiB"
        ],
    );
    check(
        ENV,
        &words,
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
fn what_the_file_says_about_one_plugin_holds_for_it() {
    let words = ["--allow-path", "src", "--allow-env", "TZ"];
    check(
        READ,
        &words,
        "[plugin.p]\nallowed_paths = [\"only\"]",
        &expect!["files ro: [/etc/only as /workspace ro], env [], memory 64.0 MiB"],
    );
    check(
        READ,
        &words,
        "[plugin.p]\nallowed_paths = []",
        &expect!["files ro: [], env [], memory 64.0 MiB"],
    );
    check(
        ENV,
        &words,
        "[plugin.p]\nenv = [\"LANG\"]",
        &expect![[r#"files none: [], env ["LANG"], memory 64.0 MiB"#]],
    );
    check(
        READ,
        &words,
        "[plugin.other]\nallowed_paths = []",
        &expect!["files ro: [/cwd/src as /workspace ro], env [], memory 64.0 MiB"],
    );
    let limits = "[limits]\nmemory = \"128MiB\"\n";
    check(
        limits,
        &words,
        "",
        &expect!["files none: [], env [], memory 128.0 MiB"],
    );
    check(
        limits,
        &words,
        "[plugin.p]\nlimits = { memory = \"16MiB\" }",
        &expect!["files none: [], env [], memory 16.0 MiB"],
    );
}

#[test]
fn folders_are_opened_once_and_our_own_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let mut settings = settings(&["--allow-path", path], "").unwrap().core;
    settings.places.cache = Some(dir.path().join("cache"));
    let mut granter = Granter::new(&settings).unwrap();
    let plan = Plan {
        paths: settings.paths.clone(),
        own: vec![],
        files: Some(Access::ReadOnly),
        env: vec![],
        limits: Limits::default(),
        beyond: vec![],
        capabilities: Capabilities::default(),
    };
    let scope = granter.grant(&plan).unwrap();
    assert_eq!(scope.roots()[0].guest(), "/workspace");
    assert!(
        granter
            .grant(&Plan {
                files: None,
                ..plan
            })
            .unwrap()
            .roots()
            .is_empty()
    );

    settings.places.cache = Some(dir.path().to_owned());
    let error = Granter::new(&settings)
        .err()
        .expect("the cache is not granted")
        .to_string();
    assert!(error.contains("is reserved for the host"), "{error}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = format!("{}/data:wr", dir.path().display());
    let error = Granter::new(&settings(&["--allow-path", &path], "").unwrap().core)
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
