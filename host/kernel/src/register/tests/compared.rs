//! R-495: which plugins can be compared in an A/B test, and the errors if they cannot.

use super::versions::{check, kernel};
use super::*;
use crate::{AbKey, AbTest, Variant};

/// `grep: 1.0.0 search-next search-next@2`
pub(super) fn compared(text: &str) -> KernelSettings {
    let (tool, variants) = text.split_once(':').unwrap();
    let variants = variants.split_whitespace().map(|word| {
        let (plugin, version) = match split_version(word) {
            (version, None) if version.starts_with(|c: char| c.is_ascii_digit()) => {
                ("", Some(version))
            }
            both => both,
        };
        Variant {
            version: version.map(|version| VersionReq::parse(version).unwrap()),
            plugin: PluginName::parse(plugin).ok(),
            weight: 1,
        }
    });
    let test = AbTest {
        tool: ToolName::parse(tool).unwrap(),
        variants: variants.collect(),
        key: AbKey::Session,
        at: "t.toml:7".to_owned(),
    };
    KernelSettings {
        ab_tests: vec![test],
        ..KernelSettings::default()
    }
}

#[test]
fn r_495_versions_and_plugins_are_compared_in_any_order() {
    check(
        compared("grep: 1.0.0 2.0.0"),
        "s 1.0.0: grep
         s 2.0.0: grep",
        expect![[r#"
            grep = s:2.0.0* s:1.0.0
        "#]],
    );
    check(
        compared("grep: 1.0.0 next"),
        "s 1.0.0: grep=Grep
         next 7.0.0: grep=Grep
         other: glob",
        expect![[r#"
            glob = other:1.0.0*
            grep = next:7.0.0 s:1.0.0*
        "#]],
    );
    // If all are named, the first is listed.
    check(
        compared("grep: next s"),
        "s 1.0.0: grep
         next 7.0.0: grep",
        expect![[r#"
            grep = next:7.0.0* s:1.0.0
        "#]],
    );
}

#[test]
fn r_495_only_named_plugins_take_part_in_an_ab_test() {
    check(
        compared("grep: 1.0.0 next"),
        "s 1.0.0: grep
         next 7.0.0: grep
         evil 9.0.0: grep",
        expect![[r#"
            error: plugin `evil` registers the name `grep`, which is already used by tool `grep` of plugin `s`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `evil__grep`)
            grep = next:7.0.0 s:1.0.0*
        "#]],
    );
    check(
        compared("grep: 1.0.0 next"),
        "s 1.0.0: grep glob
         next 7.0.0: grep glob",
        expect![[r#"
            error: plugin `next` registers the name `glob`, which is already used by tool `glob` of plugin `s`; remove one of the two plugins, or set on_duplicate to `replace` (the later tool takes the name) or `qualify` (the later tool is named `next__glob`)
            t.toml:7: ab_test of `grep`: variant 2 (plugin next): tool `next/grep` is not loaded or unavailable
            glob = s:1.0.0*
            grep = s:1.0.0*
        "#]],
    );
}

#[test]
fn r_495_an_invalid_ab_test_is_reported_with_its_line() {
    for (test, plugins, expected) in [
        (
            "grep: 1.0.0 2.0.0",
            "s 1.0.0: grep",
            expect![
                "t.toml:7: ab_test of `grep`: variant 2 (version 2.0.0): only these versions are loaded: 1.0.0"
            ],
        ),
        (
            "grepp: 1.0.0",
            "s 1.0.0: grep",
            expect![[
                r#"t.toml:7: ab_test of `grepp`: Tool "grepp" not found. Did you mean: grep?"#
            ]],
        ),
        (
            "cat: 1.0.0",
            "s 1.0.0: read=cat",
            expect!["t.toml:7: ab_test of `cat`: the tool is named `read`; use that name"],
        ),
        (
            "grep: 1.0.0 1.0.*",
            "s 1.0.0: grep",
            expect![
                "t.toml:7: ab_test of `grep`: variant 2 (version 1.0.*): another variant already selects the same tool"
            ],
        ),
        (
            "grep: 1.0.0 next",
            "s 1.0.0: grep\nnext: grep>none",
            expect![
                "t.toml:7: ab_test of `grep`: variant 2 (plugin next): tool `next/grep` is not loaded or unavailable"
            ],
        ),
    ] {
        let (kernel, _) = kernel(compared(test), plugins);
        expected.assert_eq(&kernel.registry().ab_test_problems().join("\n"));
        assert!(kernel.registry().trials.is_empty());
    }
}

#[test]
fn r_495_a_variant_with_another_schema_is_refused() {
    let kernel = Kernel::new(compared("grep: 1.0.0 next"), Arc::new(NoPrompter)).unwrap();
    for (line, schema) in [
        (
            "s 1.0.0: grep",
            json!({"type": "object", "properties": {"pattern": {"type": "string"}}}),
        ),
        (
            "next: grep",
            json!({"type": "object", "properties": {"regex": {"type": "string"}}}),
        ),
    ] {
        let (info, backend) = plugin(line);
        let mut tool = backend.tools()[0].clone();
        tool.input_schema = schema;
        kernel
            .register(info, Arc::new(StaticBackend::new(vec![tool])))
            .unwrap();
    }
    expect![[r#"t.toml:7: ab_test of `grep`: variant 2 (plugin next): callers see `grep` 1.0.0 of plugin `s`, but its input schema differs at /properties/pattern: {"type":"string"} there, nothing here"#]]
        .assert_eq(&kernel.registry().ab_test_problems().join("\n"));
}

#[test]
fn r_495_a_variant_has_the_names_of_the_listed_tool() {
    let (kernel, _) = kernel(
        compared("grep: 1.0.0 next"),
        "s 1.0.0: grep=Find\nnext 7.0.0: grep=Own",
    );
    let registry = kernel.registry();
    let mut keys = registry.get("next/grep").unwrap().keys.clone();
    keys.sort();
    // Its own alias is not used; those of the listed tool refer to it through the A/B test. `Grep` is the name itself.
    assert_eq!(keys, ["find", "next/grep", "next__grep"]);
    for (query, version) in [
        ("grep", Some("1.0.0")),
        ("s/grep", Some("1.0.0")),
        ("next/grep", Some("7.0.0")),
        ("next__grep@7", Some("7.0.0")),
        ("grep@7", None),
        ("own", None),
    ] {
        let found = registry.get(query).map(|entry| entry.tool.version.as_str());
        assert_eq!(found, version, "{query}");
    }
    // Disabled together, and individually.
    kernel.set_enabled("next/grep", false).unwrap();
    assert!(kernel.registry().get("grep").unwrap().enabled);
    kernel.set_enabled("next/grep", true).unwrap();
    kernel.set_enabled("grep", false).unwrap();
    assert!(!kernel.registry().get("next/grep").unwrap().enabled);
}
