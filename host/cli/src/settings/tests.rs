//! Tables of what was typed and what a file says, and what they mean together.

use toolhost_contract::Access::{ReadOnly, ReadWrite};

use super::*;
use crate::testing::settings;

fn paths(paths: &[AllowedPath]) -> Vec<(&str, &str, Access)> {
    paths
        .iter()
        .map(|path| {
            (
                path.host.to_str().unwrap(),
                path.guest.as_str(),
                path.access,
            )
        })
        .collect()
}

#[test]
fn what_was_typed_comes_before_the_file_and_wins() {
    let settings = settings(
        &["--plugins", "p", "--allow-path", ".", "--allow-path", "/etc/data", "--on-duplicate", "replace"],
        "plugins = [\"more\"]\nallowed_paths = [\"src\", \"data:rw\", {path=\"~/x\", guest=\"/x\"}]\non_duplicate = \"qualify\"",
    )
    .unwrap();
    assert_eq!(
        settings.plugins,
        [Path::new("/cwd/p"), Path::new("/etc/more")]
    );
    assert_eq!(
        paths(&settings.paths),
        [
            ("/cwd", "/workspace", ReadOnly),
            ("/etc/data", "/extra/1", ReadOnly),
            ("/etc/src", "/extra/2", ReadOnly),
            ("/home/me/x", "/x", ReadOnly),
        ]
    );
    assert_eq!(settings.on_duplicate, OnDuplicate::Replace);
}

#[test]
fn rules_of_both_add_up() {
    let settings = settings(
        &["--allow-tool", "a", "--deny-tool", "p/*"],
        "[policy]\nallow = [\"b\"]\nask = [\"c\"]\ndeny = [\"d\"]",
    )
    .unwrap();
    assert_eq!(settings.lists.allow, ["a", "b"]);
    assert_eq!(settings.lists.ask, ["c"]);
    assert_eq!(settings.lists.deny, ["p/*", "d"]);
}

#[test]
fn a_plugin_with_its_own_list_gets_that_list() {
    let settings = settings(
        &["--allow-path", "."],
        "[plugin.files]\nallowed_paths = [\"only:rw\"]\nenv = []",
    )
    .unwrap();
    let files = &settings.per_plugin[&PluginName::parse("files").unwrap()];
    assert_eq!(
        paths(files.paths.as_deref().unwrap()),
        [("/etc/only", "/workspace", ReadWrite)]
    );
    assert_eq!(files.env, Some(BTreeSet::new()));
}

#[test]
fn tools_are_switched_and_timed() {
    let settings = settings(
        &["--timeout", "10s"],
        "timeout = \"20s\"\nuse_tools = {a = false, b = true}\n[tools.c]\nenabled = false\ntimeout = \"5s\"\n[tools.d]\ntimeout = \"60s\"\n\
         [plugin.p]\nlimits = {timeout = \"8s\"}",
    )
    .unwrap();
    let kernel = settings.kernel();
    assert_eq!(
        kernel.disabled_tools,
        BTreeSet::from(["a".to_owned(), "c".to_owned()])
    );
    let seconds = Duration::from_secs;
    assert_eq!(kernel.timeout, Some(seconds(10)));
    assert_eq!(
        kernel.tool_timeouts,
        BTreeMap::from([("c".to_owned(), seconds(5)), ("d".to_owned(), seconds(10))])
    );
    let of =
        |plugin: &str, wish| settings.plugin_timeout(&PluginName::parse(plugin).unwrap(), wish);
    assert_eq!(of("p", Some(seconds(90))), Some(seconds(8)));
    assert_eq!(of("q", Some(seconds(90))), Some(seconds(10)));
    assert_eq!(of("q", Some(seconds(3))), Some(seconds(3)));
    assert_eq!(of("q", None), None);
}

#[test]
fn the_cache_is_where_the_file_says() {
    assert_eq!(
        settings(&[], "[cache]\ndir = \"c\"").unwrap().places.cache,
        Some(PathBuf::from("/etc/c"))
    );
    assert_eq!(
        settings(&[], "").unwrap().places.cache,
        Some(PathBuf::from("/home/me/.cache/toolhost"))
    );
}

#[test]
fn a_path_that_needs_a_missing_variable_is_an_error_of_the_file() {
    let error = settings(&[], "plugins = [\"${NOWHERE}/x\"]").unwrap_err();
    assert_eq!(
        error,
        "/etc/t.toml: `${NOWHERE}/x` needs $NOWHERE, which is not set; set it or write `${NOWHERE:-default}`"
    );
}
