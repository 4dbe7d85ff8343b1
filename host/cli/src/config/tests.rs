//! Table-driven tests of configuration files and their errors.

use std::path::Path;

use expect_test::{Expect, expect};
use toolhost_contract::Access;
use toolhost_contract::policy::RuleSource;

use super::{Config, FileFormat, UseTools, parse};

mod foreign;
mod hooks;
mod policy;
mod versions;

fn parse_ok(format: FileFormat, text: &str) -> Config {
    let mut config = parse(Path::new("toolhost"), format, text)
        .unwrap_or_else(|error| panic!("{error}\n{text}"));
    // Only TOML provides the positions of rules.
    for rule in &mut config.rules {
        rule.source = RuleSource::default();
    }
    config
}

fn parse_error(format: FileFormat, text: &str) -> String {
    let name = match format {
        FileFormat::Toml => "toolhost.toml",
        FileFormat::Yaml => "toolhost.yaml",
        FileFormat::Json => "toolhost.json",
    };
    parse(Path::new(name), format, text)
        .unwrap_err()
        .to_string()
}

fn check_error(format: FileFormat, text: &str, expect: &Expect) {
    expect.assert_eq(&parse_error(format, text));
}

const TOML: &str = r#"
plugins = ["plugins"]
allowed_paths = ["src", "data:rw", { path = "/srv/x", access = "rw", guest = "/data" }]
env = ["TZ"]
timeout = "20s"
pools = { all = 4, network = 2 }
on_duplicate = "qualify"
use_tools = { shell = false }

[policy]
allow = ["write_file", "files/*"]
ask = ["*"]
deny = ["files/delete_file"]

[[rule]]
tool = "Bash(git *)"
decision = "allow"

[[hook]]
matcher = "Bash"
command = ["guard", "-v"]
timeout = "1s"

[tools.grep]
timeout = "5s"
enabled = true

[plugin.files]
allowed_paths = []
env = ["LANG"]
limits = { memory = "32MiB" }

[cache]
dir = "${HOME}/cache"
"#;

const YAML: &str = r#"
plugins: [plugins]
allowed_paths:
  - src
  - data:rw
  - { path: /srv/x, access: rw, guest: /data }
env: [TZ]
timeout: 20s
pools: { all: 4, network: 2 }
on_duplicate: qualify
use_tools: { shell: false }
policy:
  allow: [write_file, files/*]
  ask: ["*"]
  deny: [files/delete_file]
rule:
  - { tool: Bash(git *), decision: allow }
hook:
  - { matcher: Bash, command: [guard, -v], timeout: 1s }
tools:
  grep: { timeout: 5s, enabled: true }
plugin:
  files:
    allowed_paths: []
    env: [LANG]
    limits: { memory: 32MiB }
cache: { dir: "${HOME}/cache" }
"#;

const JSON: &str = r#"{
  "plugins": ["plugins"],
  "allowed_paths": ["src", "data:rw", {"path": "/srv/x", "access": "rw", "guest": "/data"}],
  "env": ["TZ"],
  "timeout": "20s",
  "pools": {"all": 4, "network": 2},
  "on_duplicate": "qualify",
  "use_tools": {"shell": false},
  "policy": {"allow": ["write_file", "files/*"], "ask": ["*"], "deny": ["files/delete_file"]},
  "rule": [{"tool": "Bash(git *)", "decision": "allow"}],
  "hook": [{"matcher": "Bash", "command": ["guard", "-v"], "timeout": "1s"}],
  "tools": {"grep": {"timeout": "5s", "enabled": true}},
  "plugin": {"files": {"allowed_paths": [], "env": ["LANG"], "limits": {"memory": "32MiB"}}},
  "cache": {"dir": "${HOME}/cache"}
}"#;

#[test]
fn equivalent_files_in_all_formats_parse_equally() {
    let config = parse_ok(FileFormat::Toml, TOML);
    assert_eq!(config, parse_ok(FileFormat::Yaml, YAML));
    assert_eq!(config, parse_ok(FileFormat::Json, JSON));
    let paths: Vec<_> = config
        .allowed_paths
        .iter()
        .flatten()
        .map(|entry| (entry.path.as_str(), entry.access))
        .collect();
    assert_eq!(
        paths,
        [
            ("src", Access::ReadOnly),
            ("data", Access::ReadWrite),
            ("/srv/x", Access::ReadWrite)
        ]
    );
    assert_eq!(
        config.allowed_paths.as_ref().unwrap()[2].guest.as_deref(),
        Some("/data")
    );
}

#[test]
fn examples_of_the_documentation_are_valid() {
    let pages = [
        include_str!("../../../../docs/configuration.md"),
        include_str!("../../../../docs/permissions.md"),
        include_str!("../../../../docs/hooks.md"),
        include_str!("../../../../docs/versions.md"),
    ];
    let mut count = 0;
    for (kind, format) in [
        ("toml", FileFormat::Toml),
        ("yaml", FileFormat::Yaml),
        ("json", FileFormat::Json),
    ] {
        let start = format!("```{kind}\n");
        let blocks = pages
            .iter()
            .flat_map(|page| page.split(start.as_str()).skip(1));
        for block in blocks {
            let text = block.split("```").next().unwrap();
            parse_ok(format, text);
            count += 1;
        }
    }
    assert!(count >= 7, "{count} examples");
}

/// Found by fuzzing: a deny rule under `[[Rule]]` was ignored in TOML.
#[test]
fn rules_are_read_from_keys_in_any_spelling() {
    let json = r#"{"Rule": [{"tool": "Bash(rm *)", "decision": "deny"}], "Policy": {"Deny": ["Bash(dd *)"]}}"#;
    let yaml = "Rule:\n- {tool: Bash(rm *), decision: deny}\nPolicy:\n  Deny: [Bash(dd *)]\n";
    let toml =
        "[[Rule]]\ntool = \"Bash(rm *)\"\ndecision = \"deny\"\n[Policy]\nDeny = [\"Bash(dd *)\"]\n";
    for (format, text) in [
        (FileFormat::Json, json),
        (FileFormat::Yaml, yaml),
        (FileFormat::Toml, toml),
    ] {
        let config = parse_ok(format, text);
        assert_eq!(
            (config.rules.len(), config.policy.deny.len()),
            (1, 1),
            "{text}"
        );
    }
    check_error(
        FileFormat::Toml,
        "[[Rule]]\ntol = \"grep\"\ndecision = \"deny\"\n",
        &expect!["toolhost.toml:2:1: error: unknown key `tol`; did you mean `tool`?"],
    );
}

#[test]
fn an_empty_file_configures_nothing() {
    for (format, text) in [
        (FileFormat::Toml, ""),
        (FileFormat::Yaml, "\n"),
        (FileFormat::Yaml, "# nothing yet\n"),
        (FileFormat::Json, "{}"),
    ] {
        assert_eq!(parse_ok(format, text), Config::default());
    }
}

#[test]
fn use_tools_accepts_a_list() {
    let config = parse_ok(FileFormat::Toml, "use_tools = [\"grep\", \"glob\"]");
    assert!(matches!(config.use_tools, Some(UseTools::Only(names)) if names.len() == 2));
}

#[test]
fn an_unknown_key_is_an_error_with_its_line_and_the_nearest_name() {
    check_error(
        FileFormat::Toml,
        "\nallowed_path = []\n",
        &expect!["toolhost.toml:2: unknown key `allowed_path`; did you mean `allowed_paths`?"],
    );
    check_error(
        FileFormat::Yaml,
        "\nallowed_path: []\n",
        &expect!["toolhost.yaml:2: unknown key `allowed_path`; did you mean `allowed_paths`?"],
    );
    check_error(
        FileFormat::Json,
        "{\n\"allowed_path\": []\n}",
        &expect!["toolhost.json:2: unknown key `allowed_path`; did you mean `allowed_paths`?"],
    );
    check_error(
        FileFormat::Toml,
        "[tools.grep]\ntimout = \"5s\"\n",
        &expect!["toolhost.toml:2: unknown key `timout`; did you mean `timeout`?"],
    );
    check_error(
        FileFormat::Yaml,
        "plugin:\n  files:\n    memory: 5\n",
        &expect![
            "toolhost.yaml:3: unknown key `memory`; expected one of: allowed_paths, env, limits, exclusive"
        ],
    );
    check_error(
        FileFormat::Toml,
        "allowed_paths = [\n  { pth = \"x\" },\n]\n",
        &expect!["toolhost.toml:2: unknown key `pth`; did you mean `path`?"],
    );
    check_error(
        FileFormat::Json,
        "{\"on_duplicate\": \"replce\"}",
        &expect!["toolhost.json:1: unknown value `replce`; did you mean `replace`?"],
    );
}

#[test]
fn a_type_mismatch_is_reported_in_terms_of_the_file() {
    for (format, text, expected) in [
        (
            FileFormat::Toml,
            "allowed_paths = \"src\"\n",
            "toolhost.toml:1: expected a list, found the string \"src\"; write `[\"src\"]`",
        ),
        (
            FileFormat::Json,
            "{\"plugins\": 3}",
            "toolhost.json:1: expected a list, found the number 3",
        ),
        (
            FileFormat::Yaml,
            "env: []\nplugins: 3\n",
            "toolhost.yaml:2: expected a list",
        ),
        (
            FileFormat::Yaml,
            "tools: [1]\n",
            "toolhost.yaml:1: expected a table",
        ),
        (
            FileFormat::Yaml,
            "mcp:\n  ask: perhaps\n",
            "toolhost.yaml:2: expected `true` or `false`",
        ),
        (
            FileFormat::Toml,
            "[[rule]]\ntool = 3\ndecision = \"allow\"\n",
            "toolhost.toml:2:8: error: expected a string or a list of strings",
        ),
    ] {
        assert_eq!(parse_error(format, text).lines().next(), Some(expected));
    }
}

#[test]
fn an_invalid_value_is_an_error_with_its_line() {
    check_error(
        FileFormat::Toml,
        "timeout = 30\n",
        &expect![[r#"toolhost.toml:1: expected a duration such as "30s", found the number 30"#]],
    );
    check_error(
        FileFormat::Toml,
        "env = []\ntimeout = \"30\"\n",
        &expect!["toolhost.toml:2: `30` is not a duration such as `500ms` or `30s`"],
    );
    check_error(
        FileFormat::Yaml,
        "env: []\ntimeout: thirty\n",
        &expect!["toolhost.yaml:2: `thirty` is not a duration such as `500ms` or `30s`"],
    );
    check_error(
        FileFormat::Toml,
        "[tools.a]\ntimeout = \"0s\"\n",
        &expect!["toolhost.toml:2: `0s` is not a duration of at least `1ms`"],
    );
    check_error(
        FileFormat::Toml,
        "toolTimeoutMs = \"0ms\"\n",
        &expect!["toolhost.toml:1: `0ms` is not a duration of at least `1ms`"],
    );
    check_error(
        FileFormat::Json,
        "{\n\"concurrency\": 0}",
        &expect!["toolhost.json:2: expected a positive integer, found the number 0"],
    );
    check_error(
        FileFormat::Toml,
        "[policy]\ndeny = [\"Files/\"]\n",
        &expect!["toolhost.toml:2: `Files/` is not a name; write `plugin/tool` or `plugin/*`"],
    );
    check_error(
        FileFormat::Yaml,
        "policy:\n  deny:\n    - a b\n",
        &expect![
            "toolhost.yaml:3: `a b` is not a tool name; write one such as `read_file`, `plugin/tool` or `Bash(git *)`"
        ],
    );
    check_error(
        FileFormat::Toml,
        "env = [\"AWS_*\"]\n",
        &expect![
            "toolhost.toml:1: `AWS_*` is not a variable name; wildcards and values are not accepted"
        ],
    );
    check_error(
        FileFormat::Toml,
        "allowed_paths = [{ path = \"x\", access = \"rwx\" }]\n",
        &expect!["toolhost.toml:1: `rwx` is not an access mode; use `ro` or `rw`"],
    );
    check_error(
        FileFormat::Toml,
        "allowed_paths = [{ path = \"x\", guest = \"../y\" }]\n",
        &expect!["toolhost.toml:1: `../y` is not a valid guest path such as `/data`"],
    );
    check_error(
        FileFormat::Toml,
        "allowed_paths = [5]\n",
        &expect![[
            r#"toolhost.toml:1: expected a path such as "src" or "data:rw", or a table { path, access, guest, exclude }, found the number 5"#
        ]],
    );
    check_error(
        FileFormat::Toml,
        "[tools.Grep]\nenabled = true\n",
        &expect![
            "toolhost.toml:1: tool name `Grep` is not valid: a lower-case letter followed by up to 63 lower-case letters, digits or underscores"
        ],
    );
}

#[test]
fn a_duplicate_key_is_an_error() {
    check_error(
        FileFormat::Toml,
        "timeout = \"1s\"\ntimeout = \"2s\"\n",
        &expect!["toolhost.toml:2: duplicate key"],
    );
    check_error(
        FileFormat::Yaml,
        "timeout: 1s\ntimeout: 2s\n",
        &expect!["toolhost.yaml:2: duplicate key `timeout`; keep one"],
    );
    check_error(
        FileFormat::Json,
        "{\"timeout\": \"1s\",\n\"timeout\": \"2s\"}",
        &expect!["toolhost.json:2: duplicate key `timeout`; keep one"],
    );
    check_error(
        FileFormat::Json,
        "{\"tools\": {\"a\": {},\n\"a\": {}}}",
        &expect!["toolhost.json:2: duplicate key `a`; keep one"],
    );
    check_error(
        FileFormat::Json,
        "{\"use_tools\": {\"a\": false,\n\"a\": true}}",
        &expect!["toolhost.json:2: duplicate key `a`; keep one"],
    );
}

#[test]
fn a_syntax_error_is_reported() {
    check_error(
        FileFormat::Toml,
        "timeout = \n",
        &expect!["toolhost.toml:1: string values must be quoted, expected literal string"],
    );
    check_error(
        FileFormat::Yaml,
        "timeout: [\n",
        &expect!["toolhost.yaml:1: expected string scalar"],
    );
    check_error(
        FileFormat::Json,
        "{\"timeout\"",
        &expect!["toolhost.json:1: EOF while parsing an object"],
    );
}
