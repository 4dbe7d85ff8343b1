//! Tests of registration, name conflicts and listings.

mod compared;
mod depends;
mod versions;

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::json;
use toolhost_contract::{BoxFuture, Call, CallError, Descriptor, Grant, Outcome, Sink};

use super::*;
use crate::{
    Kernel, NoPrompter, OnDuplicate, OnDuplicate::Error, OnDuplicate::Qualify, OnDuplicate::Replace,
};

struct StaticBackend {
    tools: Vec<Descriptor>,
    has_checked_schemas: bool,
}

impl StaticBackend {
    fn new(tools: Vec<Descriptor>) -> Self {
        Self {
            tools,
            has_checked_schemas: false,
        }
    }
}

impl Backend for StaticBackend {
    fn tools(&self) -> &[Descriptor] {
        &self.tools
    }

    fn has_checked_schemas(&self) -> bool {
        self.has_checked_schemas
    }

    fn invoke(
        &self,
        _: Call,
        _: Grant,
        _: Arc<dyn Sink>,
    ) -> BoxFuture<'_, Result<Outcome, CallError>> {
        unreachable!("these tests call nothing")
    }
}

/// `a: read=Read=cat write` is plugin `a` with two tools, the first with two aliases. `a 1.1.0: read@2.0.0>glob@^1` is
/// another version of it, whose tool has its own version and depends on another.
fn plugin(line: &str) -> (PluginInfo, Arc<dyn Backend>) {
    let (name, tools) = line.split_once(':').unwrap();
    let plugin = info(name);
    let tools = tools.split_whitespace().map(|names| {
        let mut needs = names.split('>');
        let mut names = needs.next().unwrap().split('=');
        let (name, version) = split_version(names.next().unwrap());
        let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), format!("does {name}"));
        version
            .unwrap_or(&plugin.version)
            .clone_into(&mut tool.version);
        tool.depends_on = needs.map(str::to_owned).collect();
        tool.aliases = names.map(str::to_owned).collect();
        tool.category = if name.starts_with('r') {
            "file"
        } else if name.starts_with("mcp__") {
            "mcp"
        } else {
            "custom"
        }
        .to_owned();
        tool
    });
    let tools = tools.collect();
    (plugin, Arc::new(StaticBackend::new(tools)))
}

fn info(name: &str) -> PluginInfo {
    let mut words = name.split_whitespace();
    let name = PluginName::parse(words.next().unwrap()).unwrap();
    PluginInfo {
        name,
        version: words.next().unwrap_or("1.0.0").to_owned(),
        digest: None,
        timeout: None,
    }
}

fn kernel(settings: KernelSettings, plugins: &str) -> (Kernel, String) {
    let kernel = Kernel::new(settings, Arc::new(NoPrompter)).unwrap();
    let results = kernel.register_many(plugins.lines().map(plugin).collect());
    let results = results.into_iter().map(|result| match result {
        Ok(names) => names
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(" "),
        Err(error) => format!("error: {error}"),
    });
    let warnings = kernel
        .warnings()
        .into_iter()
        .map(|warning| format!("warning: {warning}"));
    let registry = kernel.registry();
    let entries = registry.list_all().map(|entry| {
        format!(
            "{} of {}, also {}",
            entry.name,
            entry.plugin.name,
            entry.keys.join(" ")
        )
    });
    let shown = results
        .chain(warnings)
        .chain(entries)
        .map(|line| line + "\n")
        .collect();
    (kernel, shown)
}

fn check(on_duplicate: OnDuplicate, plugins: &str, expected: Expect) {
    let (_, shown) = kernel(
        KernelSettings {
            on_duplicate,
            ..KernelSettings::default()
        },
        plugins,
    );
    expected.assert_eq(&shown);
}

#[test]
fn plugins_with_different_names_coexist() {
    check(
        Error,
        "b-c: read=Read\na: write=put",
        expect![[r#"
        read
        write
        read of b-c, also b-c/read b_c__read
        write of a, also a/write a__write put
    "#]],
    );
}

#[test]
fn a_duplicate_name_rejects_the_whole_plugin_and_no_other() {
    check(
        Error,
        "a: read\nb: write read\nc: list",
        expect![[r#"
        read
        error: plugin `b` registers the name `read`, which is already used by tool `read` of plugin `a`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `b__read`)
        list
        list of c, also c/list c__list
        read of a, also a/read a__read
    "#]],
    );
    check(
        Error,
        "a: read=Cat\nb: cat",
        expect![[r#"
        read
        error: plugin `b` registers the name `cat`, which is already used by tool `read` of plugin `a`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `b__cat`)
        read of a, also a/read a__read cat
    "#]],
    );
    check(
        Error,
        "a: cat\nb: read=CAT",
        expect![[r#"
        cat
        error: plugin `b` registers the name `cat`, which is already used by tool `cat` of plugin `a`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `b__read`)
        cat of a, also a/cat a__cat
    "#]],
    );
    check(
        Error,
        "a: read=cat\nb: show=Cat",
        expect![[r#"
        read
        error: plugin `b` registers the name `cat`, which is already used by tool `read` of plugin `a`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `b__show`)
        read of a, also a/read a__read cat
    "#]],
    );
    check(
        Error,
        "shell: run\nx: shell__run",
        expect![[r#"
        run
        error: plugin `x` registers the name `shell__run`, which is already used by tool `run` of plugin `shell`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `x__shell__run`)
        run of shell, also shell/run shell__run
    "#]],
    );
}

#[test]
fn names_within_a_plugin_must_be_unique() {
    check(
        Error,
        "a: read read",
        expect![[r#"
            error: plugin `a` uses the name `read` twice; names and aliases of its tools must be unique, ignoring case
        "#]],
    );
    check(
        Replace,
        "a: read=x write=X",
        expect![[r#"
        error: plugin `a` uses the name `x` twice; names and aliases of its tools must be unique, ignoring case
    "#]],
    );
}

#[test]
fn replacing_a_tool_is_a_warning() {
    check(
        Replace,
        "a: read list\nb: read",
        expect![[r#"
        read list
        read
        warning: tool `read` of plugin `b` replaces that of plugin `a`
        list of a, also a/list a__list
        read of b, also b/read b__read
    "#]],
    );
    check(
        Replace,
        "a: read=cat\nb: cat",
        expect![[r#"
        read
        cat
        warning: `cat` is now a tool of plugin `b` and no longer an alias of `read` of plugin `a`
        cat of b, also b/cat b__cat
        read of a, also a/read a__read
    "#]],
    );
    check(
        Replace,
        "a: cat\nb: read=cat",
        expect![[r#"
        cat
        read
        warning: `cat` refers to tool `cat` of plugin `a` and is not an alias of `read` of plugin `b`
        cat of a, also a/cat a__cat
        read of b, also b/read b__read
    "#]],
    );
}

#[test]
fn with_qualify_both_keep_a_name() {
    check(
        Qualify,
        "a: read=cat\nb: read=cat",
        expect![[r#"
        read
        b__read
        warning: plugin `a` already has the name `read`, so the tool of plugin `b` is named `b__read`
        warning: `cat` refers to tool `read` of plugin `a` and is not an alias of `b__read` of plugin `b`
        b__read of b, also b/read
        read of a, also a/read a__read cat
    "#]],
    );
    check(
        Qualify,
        "a: read b__read\nb: read",
        expect![[r#"
        read b__read
        error: plugin `b` registers the name `b__read`, which is already used by tool `b__read` of plugin `a`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `b__read`)
        b__read of a, also a/b__read a__b__read
        read of a, also a/read a__read
    "#]],
    );
}

#[test]
fn a_plugin_is_registered_once() {
    check(
        Error,
        "a: read\na: write",
        expect![[r#"
        read
        error: plugin `a` is already registered; remove one of the two, or set on_duplicate to `replace`
        read of a, also a/read a__read
    "#]],
    );
    check(
        Qualify,
        "a: read\na: write",
        expect![[r#"
        read
        error: plugin `a` is already registered; remove one of the two, or set on_duplicate to `replace`
        read of a, also a/read a__read
    "#]],
    );
    check(
        Replace,
        "a: read list\na: read",
        expect![[r#"
        read list
        read
        warning: plugin `a` was already registered and is replaced
        read of a, also a/read a__read
    "#]],
    );
}

#[test]
fn an_invalid_schema_rejects_only_its_plugin() {
    let kernel = Kernel::new(KernelSettings::default(), Arc::new(NoPrompter)).unwrap();
    let mut tool = Descriptor::new(ToolName::parse("bad").unwrap(), "");
    tool.input_schema = json!({"properties": {"x": {"type": "strnig"}}});
    let unchecked = StaticBackend::new(vec![tool]);
    let checked = StaticBackend {
        tools: unchecked.tools.clone(),
        has_checked_schemas: true,
    };
    let results = kernel.register_many(vec![
        (info("a"), Arc::new(unchecked)),
        plugin("b: read"),
        (info("c"), Arc::new(checked)),
    ]);
    expect![[r#"plugin `a`, tool `bad`: the input schema is not valid: /properties/x/type: "strnig" is not a type; use array, boolean, integer, null, number, object or string"#]].assert_eq(&results[0].as_ref().unwrap_err().to_string());
    assert!(results[1].is_ok());
    // It is not checked a second time.
    assert!(results[2].is_ok());
}

#[test]
fn a_tool_is_found_by_every_name_it_has() {
    let (kernel, _) = kernel(
        KernelSettings {
            on_duplicate: Qualify,
            ..KernelSettings::default()
        },
        "a-b: read=ReadFile\nb: read",
    );
    let registry = kernel.registry();
    for (query, name) in [
        ("read", Some("read")),
        ("READ", Some("read")),
        ("ReadFile", Some("read")),
        ("readfile", Some("read")),
        ("a-b/read", Some("read")),
        ("a_b__read", Some("read")),
        ("b__read", Some("b__read")),
        ("b/read", Some("b__read")),
        ("write", None),
        ("a-b/", None),
        ("", None),
    ] {
        assert_eq!(
            registry.get(query).map(|entry| entry.name.as_str()),
            name,
            "{query}"
        );
        assert_eq!(registry.has(query), name.is_some());
    }
}

#[test]
fn similar_names_are_suggested_once_each() {
    let (kernel, _) = kernel(
        KernelSettings::default(),
        "a: read_file=ReadFile write_file read_dir list grep",
    );
    let nearest = |name| kernel.registry().nearest(name).join(" ");
    expect![[r#"read_file read_dir write_file"#]].assert_eq(&nearest("readfile"));
    expect![[r#"read_file read_dir"#]].assert_eq(&nearest("read"));
    expect![""].assert_eq(&nearest("zzz"));
    expect![[r#"Tool "\u{1b}[2Jgrep" not found"#]]
        .assert_eq(&kernel.registry().unknown("\u{1b}[2Jgrep").to_string());
}

// R-421, R-425
#[test]
fn r_425_tools_of_mcp_servers_have_the_names_of_other_systems() {
    let tools = "x: mcp__my_tools__get_sum mcp__a__b_c mcp__a_b__c mcp__a__d";
    let (kernel, _) = kernel(KernelSettings::default(), tools);
    let registry = kernel.registry();
    for (name, expected) in [
        ("mcp__my_tools__get_sum", Some("mcp__my_tools__get_sum")),
        ("mcp__my-tools__get-sum", Some("mcp__my_tools__get_sum")),
        ("my_tools__get_sum", Some("mcp__my_tools__get_sum")),
        ("My-Tools__get_sum", Some("mcp__my_tools__get_sum")),
        ("mcp__my_tools_get_sum", Some("mcp__my_tools__get_sum")),
        ("a__d", Some("mcp__a__d")),
        ("mcp__a_d", Some("mcp__a__d")),
        // Of two servers.
        ("mcp__a_b_c", None),
        ("mcp__a_x", None),
        ("mcp__", None),
        ("a_d", None),
        ("a__d@1.0.0", None),
    ] {
        let found = registry.get(name).map(|entry| entry.name.as_str());
        assert_eq!(found, expected, "{name}");
    }
    // A client chooses the length; without a limit this would take hours.
    let long = format!("mcp__{}x", "a_".repeat(1 << 20));
    assert!(registry.get(&long).is_none());
}

#[test]
fn listings_are_sorted_and_omit_disabled_tools() {
    let settings = KernelSettings {
        disabled_tools: ["B/Write".to_owned()].into(),
        ..KernelSettings::default()
    };
    let (kernel, _) = kernel(settings, "b: run write\na: read");
    let registry = kernel.registry();
    let names = |entries: &mut dyn Iterator<Item = &ToolEntry>| {
        entries
            .map(|entry| entry.name.to_string())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(names(&mut registry.list()), "read run");
    assert_eq!(names(&mut registry.list_all()), "read run write");
    assert_eq!(names(&mut registry.list_by_category("file")), "read run");
    assert_eq!(
        names(&mut registry.list_by_display_name().into_iter()),
        "read run"
    );
    assert_eq!(names(&mut registry.filter(None).into_iter()), "read run");
    assert_eq!(
        names(
            &mut registry
                .filter(Some(&["run", "Run", "write", "nothing"]))
                .into_iter()
        ),
        "run"
    );
    let infos = registry
        .infos()
        .into_iter()
        .map(|info| format!("{} {} {}\n", info.name, info.description, info.status));
    expect![[r#"
        read does read enable
        run does run enable
        write does write disable
    "#]]
    .assert_eq(&infos.collect::<String>());
    expect![[
        r#"Stats { total: 3, by_category: {"custom": 1, "file": 2}, calls: {}, variants: [] }"#
    ]]
    .assert_eq(&format!("{:?}", registry.stats()));

    kernel.set_enabled("WRITE", true).unwrap();
    kernel.set_enabled("run", false).unwrap();
    assert_eq!(names(&mut kernel.registry().list()), "read write");
    assert_eq!(
        names(&mut registry.list()),
        "read run",
        "a snapshot does not change"
    );
    expect![[r#"Tool "writ" not found. Did you mean: write?"#]]
        .assert_eq(&kernel.set_enabled("writ", true).unwrap_err().to_string());
}

#[test]
fn a_plugin_that_was_turned_off_stays_off_when_it_registers_again() {
    let settings = KernelSettings {
        disabled_tools: ["write".to_owned()].into(),
        ..KernelSettings::default()
    };
    let (kernel, _) = kernel(settings, "a: read write\nb: glob");
    let listed = || {
        let registry = kernel.registry();
        let names: Vec<&str> = registry.list().map(|entry| entry.name.as_str()).collect();
        names.join(" ")
    };
    let a = info("a").name;
    kernel.turn_off_plugin(&a);
    assert_eq!(listed(), "glob");
    let (same, backend) = plugin("a: read write run");
    kernel.replace(&info("a"), same, backend).unwrap();
    assert_eq!(listed(), "glob");
    kernel.unregister(&a);
    let (again, backend) = plugin("a: read write run");
    kernel.register(again, backend).unwrap();
    assert_eq!(listed(), "glob");
    assert!(kernel.registry().is_turned_off(&a));
    // What the configuration has disabled stays disabled.
    kernel.turn_on_plugin(&a);
    assert_eq!(listed(), "glob read run");
}

#[test]
fn unregistering_removes_every_name_of_a_plugin() {
    let (kernel, _) = kernel(KernelSettings::default(), "a: read=cat\nb: write");
    assert!(kernel.unregister(&info("a").name));
    assert!(!kernel.unregister(&info("a").name));
    let registry = kernel.registry();
    assert!(
        !["read", "cat", "a/read", "a__read"]
            .iter()
            .any(|name| registry.has(name))
    );
    let (info, backend) = plugin("c: cat");
    assert!(kernel.register(info, backend).is_ok());
}

#[test]
fn the_most_specific_timeout_applies() {
    let seconds = Duration::from_secs;
    let (tool_timeouts, timeout) = ([("Cat".to_owned(), seconds(1))].into(), Some(seconds(3)));
    let kernel = Kernel::new(
        KernelSettings {
            timeout,
            max_timeout: seconds(5),
            tool_timeouts,
            ..KernelSettings::default()
        },
        Arc::new(NoPrompter),
    )
    .unwrap();
    let (info, backend) = plugin("a: read=cat write");
    kernel
        .register(
            PluginInfo {
                timeout: Some(seconds(2)),
                ..info
            },
            backend,
        )
        .unwrap();
    let (info, backend) = plugin("b: list");
    kernel.register(info, backend).unwrap();
    let (info, backend) = plugin("c: search");
    let timeout = Some(seconds(60));
    kernel
        .register(PluginInfo { timeout, ..info }, backend)
        .unwrap();
    for (tool, timeout) in [("read", 1), ("write", 2), ("list", 3), ("search", 5)] {
        assert_eq!(
            kernel.registry().get(tool).unwrap().timeout,
            seconds(timeout),
            "{tool}"
        );
    }
}

#[test]
fn only_changes_are_announced() {
    let kernel = Kernel::new(KernelSettings::default(), Arc::new(NoPrompter)).unwrap();
    let mut changes = kernel.registry_changes();
    let mut is_announced = |change: &dyn Fn()| {
        changes.mark_unchanged();
        change();
        changes.has_changed().unwrap()
    };
    let (a, none) = (plugin("a: read"), plugin("none:"));
    let register = |(info, backend): &(PluginInfo, Arc<dyn Backend>)| {
        kernel.register(info.clone(), Arc::clone(backend)).is_ok()
    };
    assert!(is_announced(&|| assert!(register(&a))));
    // The same version again, a plugin without tools, and plugins that are not registered.
    assert!(!is_announced(&|| assert!(!register(&a))));
    assert!(!is_announced(&|| assert!(register(&none))));
    let other = info("other");
    assert!(!is_announced(&|| assert!(!kernel.unregister(&other.name))));
    assert!(!is_announced(&|| assert!(
        !kernel.unregister_version(&other)
    )));
    assert!(is_announced(&|| assert!(kernel.unregister(&a.0.name))));
}
