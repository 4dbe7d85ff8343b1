//! Tests of `[[hook]]` tables and their errors.

use super::*;

// R-210, R-211, R-212, R-218
#[test]
fn r_218_a_hook_has_matching_tools_and_events() {
    let config = parse_ok(
        FileFormat::Toml,
        r#"
[[hook]]
command = ["./guard.sh", "-v"]
matcher = "Bash|edit_file"
on = ["before", "PostToolUse", "messages"]
on_failure = "open"
timeout = "1s"
env = ["TOKEN"]

[[hook]]
plugin = "hook-truncate"

[[hook]]
builtin = "read-cache"
ttl = "10s"
"#,
    );
    expect![[r#"
        [
            HookTable {
                name: "guard.sh",
                matcher: Some(
                    MatcherText(
                        "Bash|edit_file",
                    ),
                ),
                on: [
                    BeforeTool,
                    AfterTool,
                    MessagesChanged,
                ],
                target: Command {
                    program: "./guard.sh",
                    args: [
                        "-v",
                    ],
                    env: [
                        Variable(
                            "TOKEN",
                        ),
                    ],
                },
                on_failure: Some(
                    Open,
                ),
                timeout: Some(
                    1s,
                ),
            },
            HookTable {
                name: "hook-truncate",
                matcher: None,
                on: [
                    BeforeTool,
                    AfterTool,
                ],
                target: Plugin(
                    PluginName(
                        "hook-truncate",
                    ),
                ),
                on_failure: None,
                timeout: None,
            },
            HookTable {
                name: "read-cache",
                matcher: None,
                on: [
                    BeforeTool,
                    AfterTool,
                ],
                target: ReadCache {
                    ttl: Some(
                        10s,
                    ),
                },
                on_failure: None,
                timeout: None,
            },
        ]"#]]
    .assert_eq(&format!("{:#?}", config.hook));
}

#[test]
fn an_invalid_hook_is_an_error_with_its_line() {
    check_error(
        FileFormat::Toml,
        "timeout = \"1s\"\n[[hook]]\nname = \"x\"\n",
        &expect![[
            r#"toolhost.toml:2: a hook needs exactly one of `command = ["program"]`, `plugin = "name"` and `builtin = "read-cache"`"#
        ]],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\nplugin = \"y\"\n",
        &expect![[
            r#"toolhost.toml:1: a hook needs exactly one of `command = ["program"]`, `plugin = "name"` and `builtin = "read-cache"`"#
        ]],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = []\n",
        &expect!["toolhost.toml:2: the command has no program"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = \"guard | tee log\"\n",
        &expect![
            "toolhost.toml:2: the command: `|` has no effect without a shell; use a script, or quote it"
        ],
    );
    check_error(
        FileFormat::Yaml,
        "hook:\n  - { command: [x], ttl: 1s }\n",
        &expect![[r#"toolhost.yaml:2: `ttl` requires `builtin = "read-cache"`"#]],
    );
    check_error(
        FileFormat::Yaml,
        "hook:\n  - { plugin: x, env: [A] }\n",
        &expect!["toolhost.yaml:2: `env` requires a hook with a `command`"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\nplugin = \"x\"\non = [\"messages\"]\n",
        &expect!["toolhost.toml:1: a plugin hook only supports `before` and `after`"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\nbuiltin = \"read-cache\"\non = [\"before\"]\n",
        &expect!["toolhost.toml:1: the read-cache always runs before and after calls; omit `on`"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\nbuiltin = \"readcache\"\n",
        &expect!["toolhost.toml:2: unknown value `readcache`; did you mean `read-cache`?"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\non = [\"befor\"]\n",
        &expect!["toolhost.toml:3: `befor` is not a hook event; use before"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\non = []\n",
        &expect!["toolhost.toml:1: `on` is empty, so the hook would never run"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\nmatcher = \"edit(\"\n",
        &expect!["toolhost.toml:3: `edit(` is not a valid tool pattern: error: unclosed group"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\nname = \"a\\u001bb\"\n",
        &expect![[
            r#"toolhost.toml:1: `a\u{1b}b` is not a valid hook name; use at most 64 printable characters"#
        ]],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"x\"]\non_failure = \"shut\"\n",
        &expect!["toolhost.toml:3: unknown value `shut`; expected one of: closed, open"],
    );
    check_error(
        FileFormat::Toml,
        "[[hook]]\ncommand = [\"/a/x\"]\n[[hook]]\ncommand = [\"/b/x\"]\n",
        &expect!["toolhost.toml: two hooks are named `x`; give one a different `name`"],
    );
}
