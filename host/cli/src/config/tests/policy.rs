//! Tests of rule forms and rules in a file, and of their errors.

use super::*;

#[test]
fn all_rule_forms_are_accepted() {
    let config = parse_ok(
        FileFormat::Toml,
        r#"[policy]
allow = ["Bash(git *)", "mcp__x__*", "plugin/*", "WebFetch(domain:*.example.com)"]
deny = ["Read(~/.ssh/**)"]
"#,
    );
    assert_eq!(config.policy.allow.len(), 4);
    assert_eq!(config.policy.deny[0].position, Some((3, 9)));
    assert_eq!(config.policy.allow[1].position, Some((2, 25)));
}

#[test]
fn an_invalid_rule_form_is_an_error_with_its_line() {
    check_error(
        FileFormat::Toml,
        "[policy]\nallow = [\n  \"Bash(git *)\",\n  \"Bash(git *\",\n]\n",
        &expect!["toolhost.toml:2: `Bash(git *` is missing its closing `)`"],
    );
    check_error(
        FileFormat::Yaml,
        "policy:\n  deny:\n    - Read()\n",
        &expect!["toolhost.yaml:3: `Read()` has empty parentheses; omit them to match every call"],
    );
    check_error(
        FileFormat::Json,
        "{\"policy\":\n{\"ask\": [\"WebFetch(example.com)\"]}}",
        &expect!["toolhost.json:2: `example.com` is not a target; write `domain:example.com`"],
    );
}

#[test]
fn an_unknown_mode_is_an_error_with_its_line() {
    check_error(
        FileFormat::Toml,
        "[policy]\nmode = \"fast\"\n",
        &expect![
            "toolhost.toml:2: `fast` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom"
        ],
    );
    check_error(
        FileFormat::Yaml,
        "permission:\n  mode: fast\n",
        &expect![
            "toolhost.yaml:2: `fast` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom"
        ],
    );
    check_error(
        FileFormat::Toml,
        "[policy]\non_headless_ask = \"maybe\"\n",
        &expect![
            "toolhost.toml:2: `maybe` is not a value of on_headless_ask; write deny, defer or callback"
        ],
    );
}

#[test]
fn an_invalid_rule_is_an_error_with_its_line_and_column() {
    check_error(
        FileFormat::Toml,
        "[[rule]]\ntool = \"grep\"\ndecision = \"alow\"\n",
        &expect!["toolhost.toml:3:12: error: `alow` is not a decision; write allow, ask or deny"],
    );
    check_error(
        FileFormat::Toml,
        "timeout = \"1s\"\n[[rule]]\ntool = \"grep\"\ndecision = \"allow\"\n[[rule]]\ndecision = \"allow\"\n",
        &expect![[
            r#"toolhost.toml:5:1: error: a rule names no tool; write `tool = "…"`, `mcp = "server"`, or `tool = "*"` for all"#
        ]],
    );
    check_error(
        FileFormat::Toml,
        "[[rule]]\ntool = \"grep\"\ndecision = \"allow\"\nmode = [\"plan\"]\n",
        &expect!["toolhost.toml:4:1: error: unknown key `mode`; did you mean `modes`?"],
    );
    check_error(
        FileFormat::Yaml,
        "rule:\n  - { tool: grep, decision: allow }\n  - { tool: grep, decision: allow, priority: 1000 }\n",
        &expect!["toolhost.yaml: error: rule 2: priority 1000 is not between 0 and 999"],
    );
    check_error(
        FileFormat::Json,
        "{\"rule\": [{\"tool\": \"grep\"}]}",
        &expect!["toolhost.json: error: rule 1: missing key `decision`"],
    );
}

#[test]
fn an_import_requires_kind_and_file() {
    check_error(
        FileFormat::Toml,
        "[policy]\nimport = [{ kind = \"kodex\", file = \"x\" }]\n",
        &expect!["toolhost.toml:2: unknown value `kodex`; did you mean `kode`?"],
    );
    check_error(
        FileFormat::Toml,
        "[policy]\nimport = [{ kind = \"kode\" }]\n",
        &expect!["toolhost.toml:2: missing key `file`"],
    );
}
