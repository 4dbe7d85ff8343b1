//! R-492: a tool is there when everything that it depends on is.

use super::versions::{check, kernel};
use super::*;

#[test]
fn r_492_a_tool_comes_with_what_it_depends_on_in_any_order() {
    check(
        Settings::default(),
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
fn r_492_what_is_missing_is_named_with_the_way_to_it() {
    check(
        Settings::default(),
        "a: one>two
         b: two>three
         c: four",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is left out: one → two → three, and no loaded plugin has `three`; load one that has
            tool `two` 1.0.0 of plugin `b` is left out: two → three, and no loaded plugin has `three`; load one that has
            four = c:1.0.0*
        "#]],
    );
    check(
        Settings::default(),
        "a: one>x/two two>\u{1b}[2J three>two@maybe",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is left out: one → x/two, and no loaded plugin has `x/two`; load one that has
            tool `three` 1.0.0 of plugin `a` is left out: three → two@maybe, and `maybe` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`
            tool `two` 1.0.0 of plugin `a` is left out: two → [2J, and no loaded plugin has `[2J`; load one that has
        "#]],
    );
}

#[test]
fn r_492_a_circle_is_left_out_with_whoever_depends_on_it() {
    check(
        Settings::default(),
        "a: one>two self>self
         b: two>one
         c: three>one four",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is left out: one → two → one, and that goes in a circle; one of them has to do without
            tool `self` 1.0.0 of plugin `a` is left out: self → self, and that goes in a circle; one of them has to do without
            tool `three` 1.0.0 of plugin `c` is left out: three → one → two → one, and that goes in a circle; one of them has to do without
            tool `two` 1.0.0 of plugin `b` is left out: two → one → two, and that goes in a circle; one of them has to do without
            four = c:1.0.0*
        "#]],
    );
}

#[test]
fn r_492_a_version_has_to_fit() {
    check(
        Settings::default(),
        "a: one>grep@^2 two>grep@^1 three>GREP
         s 1.4.0: grep=Grep",
        expect![[r#"
            tool `one` 1.0.0 of plugin `a` is left out: one → grep@^2, and loaded is only 1.4.0; load a version that fits `grep@^2`
            grep = s:1.4.0*
            three = a:1.0.0*
            two = a:1.0.0*
        "#]],
    );
    // A version that does not answer to the name counts too, and one whose own needs are not met does not.
    check(
        Settings::default(),
        "a: one>grep@1.0.0 two>grep@2
         s 1.0.0: grep
         s 1.5.0: grep
         s 2.0.0: grep>nothing",
        expect![[r#"
            warning: plugin `s` is loaded in several versions, and the highest serves `grep` and its other tools; `[tools.grep] version` chooses one
            tool `grep` 2.0.0 of plugin `s` is left out: grep → nothing, and no loaded plugin has `nothing`; load one that has
            tool `two` 1.0.0 of plugin `a` is left out: two → grep@2 → nothing, and no loaded plugin has `nothing`; load one that has
            grep = s:1.5.0* s:1.0.0
            one = a:1.0.0*
        "#]],
    );
}

#[test]
fn r_492_what_is_disabled_is_not_there() {
    let settings = Settings {
        disabled_tools: ["two".to_owned()].into(),
        ..Settings::default()
    };
    let (kernel, shown) = kernel(settings, "a: one>two\nb: two>none three");
    expect![[r#"
        tool `one` 1.0.0 of plugin `a` is left out: one → two, and `two` is disabled; enable it
        three = b:1.0.0*
        two = -b:1.0.0*
    "#]]
    .assert_eq(&shown);
    expect![[
        r#"Tool "one" not found: it is left out: one → two, and `two` is disabled; enable it"#
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
    // Nobody can call it, and it can be switched off all the same.
    kernel.set_enabled("one", false).unwrap();
    assert!(has("one"));
}

#[test]
fn r_492_a_long_way_is_cut() {
    let mut tools: Vec<String> = (0..40).map(|n| format!("t{n}>t{}", n + 1)).collect();
    tools.reverse();
    let (_, shown) = kernel(Settings::default(), &format!("a: {}", tools.join(" ")));
    let first = shown.lines().next().unwrap();
    expect![["tool `t0` 1.0.0 of plugin `a` is left out: t0 → t1 → t2 → t3 → t4 → … → t36 → t37 → t38 → t39 → t40, and no loaded plugin has `t40`; load one that has"]].assert_eq(first);
}
