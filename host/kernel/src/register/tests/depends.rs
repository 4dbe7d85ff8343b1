//! R-492: a tool is available if all its dependencies are.

use super::versions::{check, kernel};
use super::*;

#[test]
fn r_492_dependencies_may_be_registered_in_any_order() {
    check(
        KernelSettings::default(),
        "a: one>two
         b: two>three
         c: three",
        expect![[r#"
            one = a:1.0.0*
            three = c:1.0.0*
            two = b:1.0.0*
        "#]],
    );
}

#[test]
fn r_492_a_missing_dependency_is_named_with_its_chain() {
    check(
        KernelSettings::default(),
        "a: one>two
         b: two>three
         c: four",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is unavailable: one → two → three: no loaded plugin provides `three`; load one that does
            tool `two` 1.0.0 of plugin `b` is unavailable: two → three: no loaded plugin provides `three`; load one that does
            four = c:1.0.0*
        "#]],
    );
    check(
        KernelSettings::default(),
        "a: one>x/two two>\u{1b}[2J three>two@maybe",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is unavailable: one → x/two: no loaded plugin provides `x/two`; load one that does
            tool `three` 1.0.0 of plugin `a` is unavailable: three → two@maybe: `maybe` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`
            tool `two` 1.0.0 of plugin `a` is unavailable: two → [2J: no loaded plugin provides `[2J`; load one that does
        "#]],
    );
}

#[test]
fn r_492_a_cycle_and_its_dependents_are_unavailable() {
    check(
        KernelSettings::default(),
        "a: one>two self>self
         b: two>one
         c: three>one four",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is unavailable: one → two → one is a cycle; remove one of these dependencies
            tool `self` 1.0.0 of plugin `a` is unavailable: self → self is a cycle; remove one of these dependencies
            tool `three` 1.0.0 of plugin `c` is unavailable: three → one → two → one is a cycle; remove one of these dependencies
            tool `two` 1.0.0 of plugin `b` is unavailable: two → one → two is a cycle; remove one of these dependencies
            four = c:1.0.0*
        "#]],
    );
}

#[test]
fn r_492_a_dependency_must_match_the_version() {
    check(
        KernelSettings::default(),
        "a: one>grep@^2 two>grep@^1 three>GREP
         s 1.4.0: grep=Grep",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is unavailable: one → grep@^2: only these versions are loaded: 1.4.0; load a version that matches `grep@^2`
            grep = s:1.4.0*
            three = a:1.0.0*
            two = a:1.0.0*
        "#]],
    );
    // A version that is not served under the name counts too; one with unmet dependencies does not.
    check(
        KernelSettings::default(),
        "a: one>grep@1.0.0 two>grep@2
         s 1.0.0: grep
         s 1.5.0: grep
         s 2.0.0: grep>nothing",
        expect![[r#"
            warning: several versions of plugin `s` are loaded, and the highest serves `grep` and its other tools; set `[tools.grep] version` to choose one
            tool `grep` 2.0.0 of plugin `s` is unavailable: grep → nothing: no loaded plugin provides `nothing`; load one that does
            tool `two` 1.0.0 of plugin `a` is unavailable: two → grep@2 → nothing: no loaded plugin provides `nothing`; load one that does
            grep = s:1.5.0* s:1.0.0
            one = a:1.0.0*
        "#]],
    );
}

#[test]
fn r_492_a_disabled_tool_does_not_satisfy_a_dependency() {
    let settings = KernelSettings {
        disabled_tools: ["two".to_owned()].into(),
        ..KernelSettings::default()
    };
    let (kernel, shown) = kernel(settings, "a: one>two\nb: two>none three");
    expect![[r#"
        tool `one` 1.0.0 of plugin `a` is unavailable: one → two: `two` is disabled; enable it
        three = b:1.0.0*
        two = -b:1.0.0*
    "#]]
    .assert_eq(&shown);
    expect![[
        r#"Tool "one" not found: it is unavailable: one → two: `two` is disabled; enable it"#
    ]]
    .assert_eq(&kernel.registry().unknown("one").to_string());
    let has = |name| kernel.registry().has(name);
    kernel.set_enabled("two", true).unwrap();
    assert!(!has("two") && !has("one"), "now its own needs count");
    let (info, backend) = plugin("c: none");
    kernel.register(info, backend).unwrap();
    assert!(has("two") && has("one"));
    assert!(kernel.unregister(&super::info("c").name));
    assert!(!has("two") && !has("one"));
    // It cannot be called, but it can be disabled.
    kernel.set_enabled("one", false).unwrap();
    assert!(has("one"));
}

#[test]
fn r_492_a_long_chain_is_shortened() {
    let mut tools: Vec<String> = (0..40).map(|n| format!("t{n}>t{}", n + 1)).collect();
    tools.reverse();
    let (_, shown) = kernel(
        KernelSettings::default(),
        &format!("a: {}", tools.join(" ")),
    );
    let first = shown.lines().next().unwrap();
    expect![["tool `t0` 1.0.0 of plugin `a` is unavailable: t0 → t1 → t2 → t3 → t4 → … → t36 → t37 → t38 → t39 → t40: no loaded plugin provides `t40`; load one that does"]].assert_eq(first);
}
