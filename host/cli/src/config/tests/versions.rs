//! tests of version pins and A/B tests in a file.

use toolhost_kernel::AbKey;

use super::*;

const TEST: &str = "[[ab_test]]\ntool = \"grep\"\nvariants = [{version=\"1.0.0\", weight=50}, {plugin=\"search-next\", weight=50}]\n";

#[test]
fn r_495_an_ab_test_has_its_line() {
    let text = format!("[tools.grep]\nversion = \"^1\"\n\n{TEST}key = \"task\"\n");
    let config = parse_ok(FileFormat::Toml, &text);
    let test = &config.ab_test[0];
    assert_eq!(
        (test.line, test.key, test.variants.len()),
        (Some(4), AbKey::Task, 2)
    );
    let tools: Vec<_> = config
        .tools
        .by_name
        .values()
        .map(|tool| tool.version.clone())
        .collect();
    assert_eq!(
        tools.into_iter().flatten().next().unwrap().to_string(),
        "^1"
    );
    let camel = TEST.replace("ab_test", "abTest");
    assert_eq!(parse_ok(FileFormat::Toml, &camel).ab_test[0].line, Some(1));
    let yaml = "ab_test:\n  - tool: grep\n    variants: [{version: 1.0.0, weight: 1}, {plugin: b, version: ^2, weight: 2}]\n";
    let config = parse_ok(FileFormat::Yaml, yaml);
    assert_eq!(
        (config.ab_test[0].line, config.ab_test[0].key),
        (None, AbKey::Session)
    );
}

#[test]
fn r_493_r_495_errors_state_their_line() {
    for (text, expected) in [
        (
            "[tools.grep]\nversion = \"new\"\n".to_owned(),
            expect![
                "toolhost.toml:2: `new` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`"
            ],
        ),
        (
            TEST.replace("version=\"1.0.0\", ", ""),
            expect!["toolhost.toml:1: variant 1 of `grep` has neither `version` nor `plugin`"],
        ),
        (
            TEST.replace("weight=50}]", "weight=0}]"),
            expect![
                "toolhost.toml:1: variant 2 of `grep` has weight 0; use 1 to 1000000, or remove the variant"
            ],
        ),
        (
            TEST.replace(", {plugin=\"search-next\", weight=50}", ""),
            expect!["toolhost.toml:1: ab_test of `grep` has 1 variants; specify 2 to 16"],
        ),
        (
            TEST.replace("plugin=", "plugn="),
            expect!["toolhost.toml:3: unknown key `plugn`; did you mean `plugin`?"],
        ),
        (
            format!("{TEST}key = \"user\"\n"),
            expect!["toolhost.toml:4: unknown value `user`; expected one of: session, task, call"],
        ),
        (
            format!("{TEST}{TEST}"),
            expect![
                "toolhost.toml: two ab_test tables are for `grep`; merge their variants into one"
            ],
        ),
    ] {
        check_error(FileFormat::Toml, &text, &expected);
    }
}
