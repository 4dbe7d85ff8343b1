//! R-493: several versions of one plugin, and which of them is served.

use super::*;

/// Formats the results, the warnings, and for each name the served entry and the others.
fn shown(kernel: &Kernel, results: &[Result<Vec<ToolName>, RegisterError>]) -> String {
    let errors = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(|error| format!("error: {error}\n"));
    let warnings = kernel.warnings();
    let warnings = warnings
        .iter()
        .map(|warning| format!("warning: {warning}\n"));
    let registry = kernel.registry();
    let left_out = registry.unavailable().iter().map(|one| format!("{one}\n"));
    let problems = registry
        .ab_test_problems()
        .iter()
        .map(|one| format!("{one}\n"));
    let entries = registry.list_all().map(|entry| {
        let versions = registry.versions(&entry.name).map(|one| {
            let served = if registry.is_served(one) { "*" } else { "" };
            let off = if one.enabled { "" } else { "-" };
            format!("{off}{}:{}{served}", one.plugin.name, one.version)
        });
        let versions: Vec<String> = versions.collect();
        format!("{} = {}\n", entry.name, versions.join(" "))
    });
    errors
        .chain(warnings)
        .chain(left_out)
        .chain(problems)
        .chain(entries)
        .collect()
}

pub(super) fn kernel(settings: KernelSettings, plugins: &str) -> (Kernel, String) {
    let kernel = Kernel::new(settings, Arc::new(NoPrompter)).unwrap();
    let lines = plugins
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty());
    let results: Vec<_> = lines
        .map(|line| {
            let (info, backend) = plugin(line);
            kernel.register(info, backend)
        })
        .collect();
    let shown = shown(&kernel, &results);
    (kernel, shown)
}

/// Checks every order of registration. Only the warnings may differ.
pub(super) fn check(settings: KernelSettings, plugins: &str, expected: Expect) {
    let without = |shown: &str| -> String {
        let lines = shown.lines().filter(|line| !line.starts_with("warning"));
        lines.map(|line| line.to_owned() + "\n").collect()
    };
    let (_, shown) = kernel(settings.clone(), plugins);
    expected.assert_eq(&shown);
    if !shown.contains("error: ") {
        let mut lines: Vec<&str> = plugins.lines().collect();
        for _ in 0..lines.len() {
            lines.rotate_left(1);
            let (_, other) = kernel(settings.clone(), &lines.join("\n"));
            assert_eq!(without(&other), without(&shown), "{lines:?}");
            lines.reverse();
            let (_, other) = kernel(settings.clone(), &lines.join("\n"));
            assert_eq!(without(&other), without(&shown), "{lines:?}");
            lines.reverse();
        }
    }
}

fn pinned(tool: &str, version: &str) -> KernelSettings {
    KernelSettings {
        tool_versions: [(tool.to_owned(), VersionReq::parse(version).unwrap())].into(),
        ..KernelSettings::default()
    }
}

#[test]
fn r_493_the_highest_stable_version_is_served() {
    check(
        KernelSettings::default(),
        "s 1.9.0: grep
         s 1.10.0: grep glob
         s 2.0.0-rc.1: grep",
        expect![[r#"
            warning: several versions of plugin `s` are loaded, and the highest serves `grep` and its other tools; set `[tools.grep] version` to choose one
            glob = s:1.10.0*
            grep = s:1.10.0* s:1.9.0 s:2.0.0-rc.1
        "#]],
    );
    check(
        KernelSettings::default(),
        "s 2.0.0-rc.1: grep
         s 2.0.0-rc.2: grep",
        expect![[r#"
            warning: several versions of plugin `s` are loaded, and the highest serves `grep` and its other tools; set `[tools.grep] version` to choose one
            grep = s:2.0.0-rc.2* s:2.0.0-rc.1
        "#]],
    );
}

#[test]
fn r_493_a_pin_selects_a_version_without_fallback() {
    let plugins = "s 1.0.0: grep=Grep\ns 1.5.0: grep\ns 2.0.0: grep";
    for (tool, pin) in [("grep", "1.5.0"), ("S/Grep", "^1"), ("s__grep", "<2")] {
        check(
            pinned(tool, pin),
            plugins,
            expect![[r#"
                grep = s:2.0.0 s:1.5.0* s:1.0.0
            "#]],
        );
    }
    check(
        pinned("grep", "3"),
        plugins,
        expect![[r#"
            tool `grep` 2.0.0 of plugin `s` is unavailable: `[tools.grep] version` is `3`, but only these versions are loaded: 2.0.0, 1.5.0, 1.0.0; load that version or change the key
        "#]],
    );
}

#[test]
fn r_493_a_higher_version_of_another_plugin_takes_no_name() {
    check(
        KernelSettings::default(),
        "s 1.0.0: grep\nevil 9.0.0: grep",
        expect![[r#"
            error: plugin `evil` registers the name `grep`, which is already used by tool `grep` of plugin `s`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `evil__grep`)
            grep = s:1.0.0*
        "#]],
    );
    check(
        KernelSettings::default(),
        "s 1.0.0: grep\ns 1.0.0: grep@9.0.0",
        expect![[r#"
            error: plugin `s` is already registered; remove one of the two, or set on_duplicate to `replace`
            grep = s:1.0.0*
        "#]],
    );
    let qualify = KernelSettings {
        on_duplicate: Qualify,
        ..KernelSettings::default()
    };
    let (kernel, shown) = kernel(qualify, "s: grep\nt 1.0.0: grep\nt 2.0.0: grep");
    expect![[r#"
        warning: plugin `s` already has the name `grep`, so the tool of plugin `t` is named `t__grep`
        warning: several versions of plugin `t` are loaded, and the highest serves `t__grep` and its other tools; set `[tools.t__grep] version` to choose one
        grep = s:1.0.0*
        t__grep = t:2.0.0* t:1.0.0
    "#]].assert_eq(&shown);
    assert!(kernel.registry().has("t/grep@1.0.0"));
}

#[test]
fn r_493_a_version_is_found_by_name_and_version() {
    let (kernel, _) = kernel(
        KernelSettings::default(),
        "s 1.0.0: grep=Grep\ns 1.1.0: grep\ns 2.0.0-rc.1: grep\nodd one: find@one",
    );
    let registry = kernel.registry();
    for (query, version) in [
        ("grep", Some("1.1.0")),
        ("Grep", Some("1.1.0")),
        ("grep@1.0.0", Some("1.0.0")),
        ("GREP@1.0.0", Some("1.0.0")),
        ("Grep@^1", Some("1.1.0")),
        ("grep@1", Some("1.1.0")),
        ("s/grep@1.0.0", Some("1.0.0")),
        ("s__grep@2.0.0-rc.1", Some("2.0.0-rc.1")),
        ("grep@2.0.0", None),
        ("grep@2", Some("2.0.0-rc.1")),
        ("grep@", None),
        ("grep@@1.0.0", None),
        ("@1.0.0", None),
        ("find@one", Some("one")),
        ("find@1", None),
    ] {
        let found = registry.get(query).map(|entry| entry.tool.version.as_str());
        assert_eq!(found, version, "{query}");
    }
    expect![[
        r#"Tool "grep@3" not found: only these versions are loaded: 1.1.0, 1.0.0, 2.0.0-rc.1"#
    ]]
    .assert_eq(&registry.unknown("grep@3").to_string());
}

#[test]
fn r_493_every_version_has_the_names_of_all_versions() {
    let (kernel, _) = kernel(
        KernelSettings::default(),
        "s 1.0.0: grep=Search\ns 1.1.0: grep=Find",
    );
    let registry = kernel.registry();
    for query in ["grep", "grep@1.0.0", "search", "FIND"] {
        let mut keys = registry.get(query).unwrap().keys.clone();
        keys.sort();
        assert_eq!(keys, ["find", "s/grep", "s__grep", "search"], "{query}");
    }
    assert!(kernel.unregister(&info("s").name));
    assert!(!kernel.registry().has("search"));
}

#[test]
fn r_493_a_tool_that_was_renamed_keeps_its_new_name() {
    check(
        KernelSettings::default(),
        "s 1.0.0: read\ns 2.0.0: read_file=read",
        expect![[r#"
            warning: `read` refers to tool `read` of plugin `s` and is not an alias of `read_file` of plugin `s`
            read = s:1.0.0*
            read_file = s:2.0.0*
        "#]],
    );
}

#[test]
fn r_493_a_version_can_be_disabled_by_itself() {
    let settings = KernelSettings {
        disabled_tools: ["grep@2".to_owned()].into(),
        ..KernelSettings::default()
    };
    let (kernel, shown) = kernel(settings, "s 1.0.0: grep\ns 2.0.0: grep");
    expect![[r#"
        warning: several versions of plugin `s` are loaded, and the highest serves `grep` and its other tools; set `[tools.grep] version` to choose one
        grep = s:1.0.0* -s:2.0.0
    "#]].assert_eq(&shown);
    let versions = || {
        let registry = kernel.registry();
        let served = registry.get("grep").unwrap();
        (served.tool.version.clone(), served.enabled)
    };
    kernel.set_enabled("grep@2.0.0", true).unwrap();
    assert_eq!(versions(), ("2.0.0".to_owned(), true));
    kernel.set_enabled("grep", false).unwrap();
    assert_eq!(versions(), ("2.0.0".to_owned(), false));
    assert!(!kernel.registry().get("grep@1.0.0").unwrap().enabled);
    assert!(kernel.set_enabled("grep@3", true).is_err());
}
