//! Table-driven tests of command lines and files merged into settings.

use std::time::Duration;

use toolhost::{AllowedPath, HookKind};
use toolhost_contract::Access::{self, ReadOnly, ReadWrite};
use toolhost_contract::{PluginName, ToolName};

use super::*;
use crate::testing::{settings, settings_with_files};

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
fn only_the_unconfined_flag_and_key_disable_confinement() {
    use clap::{ArgAction, CommandFactory as _};
    let wide = "allowed_programs = [\"bash\"]\nprogram_network = true\ndefault_excludes = false\nallowed_hosts = [\"*\"]\n\
                allowed_paths = [{path = \"/\", dangerous = true, access = \"rw\"}]\n[policy]\nmode = \"yolo\"\nallow = [\"*\"]\n";
    let unconfined = |arguments: &[&str], toml: &str| {
        let settings = settings(arguments, toml);
        settings.map(|settings| settings.core.external_access.unconfined)
    };
    for (arguments, toml, expected) in [
        (&["--unconfined"][..], "", true),
        (&[], "unconfined = true", true),
        (&["--unconfined"], "unconfined = false", true),
        (&[], "unconfined = false", false),
        (&[], wide, false),
    ] {
        assert_eq!(
            unconfined(arguments, toml),
            Ok(expected),
            "{arguments:?} {toml}"
        );
    }
    let command = crate::args::Cli::command();
    let run = command.find_subcommand("run").unwrap();
    let switches = run
        .get_arguments()
        .filter(|argument| matches!(argument.get_action(), ArgAction::SetTrue));
    for switch in switches {
        let flag = format!("--{}", switch.get_long().unwrap());
        // Some flags require others; a rejected command line disables nothing.
        let off = unconfined(&["--http", "127.0.0.1:0", "--ui", &flag], wide);
        assert_eq!(off.unwrap_or(false), flag == "--unconfined", "{flag}");
    }
    for table in ["policy", "plugin.shell", "tools.shell", "pools", "mcp"] {
        let toml = format!("[{table}]\nunconfined = true");
        assert!(unconfined(&[], &toml).is_err(), "{toml}");
    }
}

#[test]
fn command_line_paths_precede_and_override_the_file() {
    let settings = settings(
        &["--plugins", "p", "--allow-path", ".", "--allow-path", "/etc/data", "--on-duplicate", "replace"],
        "plugins = [\"more\"]\nallowed_paths = [\"src\", \"data:rw\", {path=\"~/x\", guest=\"/x\"}]\non_duplicate = \"qualify\"",
    )
    .unwrap();
    assert_eq!(
        settings.core.plugins,
        [Path::new("/cwd/p"), Path::new("/etc/more")]
    );
    assert_eq!(
        paths(&settings.core.paths),
        [
            ("/cwd", "/workspace", ReadOnly),
            ("/etc/data", "/extra/1", ReadOnly),
            ("/etc/src", "/extra/2", ReadOnly),
            ("/home/me/x", "/x", ReadOnly),
        ]
    );
    assert_eq!(
        settings.core.on_duplicate,
        toolhost_kernel::OnDuplicate::Replace
    );
}

#[test]
fn rules_of_command_line_and_file_are_combined() {
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
fn rooted_paths_in_no_granted_directory_cause_warnings() {
    let toml = "[policy]\ndeny = [\"Read(/srv/a)\"]\nprotected = [\"/srv/b\", \"//srv/b\"]\n";
    let warnings = |toml: &str| settings(&["--allow-path", "/srv"], toml).unwrap().warnings;
    expect_test::expect![[r#"
        /etc/t.toml:2:9: rule user:1 deny `Read(/srv/a)`: `/srv/a` is relative to the configuration file and starts at `/etc/srv/a`, which is in no granted directory; for an absolute path write `//srv/a`
        /etc/t.toml: `protected`: `/srv/b` is relative to the configuration file and starts at `/etc/srv/b`, which is in no granted directory; for an absolute path write `//srv/b`"#]]
    .assert_eq(&warnings(toml).join("\n"));
    let granted = format!("{toml}[plugin.files]\nallowed_paths = [\"srv\"]\n");
    assert_eq!(warnings(&granted), [""; 0]);
}

#[test]
fn a_plugins_own_list_replaces_the_global_one() {
    let settings = settings(
        &["--allow-path", "."],
        "[plugin.files]\nallowed_paths = [\"only:rw\"]\nenv = []",
    )
    .unwrap();
    let files = &settings.core.per_plugin[&PluginName::parse("files").unwrap()];
    assert_eq!(
        paths(files.paths.as_deref().unwrap()),
        [("/etc/only", "/workspace", ReadWrite)]
    );
    assert_eq!(files.env, Some(BTreeSet::new()));
}

#[test]
fn tools_can_be_disabled_and_have_timeouts() {
    let settings = settings(
        &["--timeout", "10s"],
        "timeout = \"20s\"\nuse_tools = {a = false, b = true}\n[tools.c]\nenabled = false\ntimeout = \"5s\"\n[tools.d]\ntimeout = \"60s\"\n\
         [plugin.p]\nlimits = {timeout = \"8s\"}",
    )
    .unwrap();
    let kernel = settings.core.kernel();
    assert_eq!(
        kernel.disabled_tools,
        BTreeSet::from(["a".to_owned(), "c".to_owned()])
    );
    let seconds = Duration::from_secs;
    assert_eq!(kernel.timeout, Some(seconds(20)));
    assert_eq!(kernel.max_timeout, seconds(10));
    assert_eq!(
        kernel.tool_timeouts,
        BTreeMap::from([("c".to_owned(), seconds(5)), ("d".to_owned(), seconds(60))])
    );
    let of = |plugin: &str, request| {
        settings
            .core
            .plugin_timeout(&PluginName::parse(plugin).unwrap(), request)
    };
    assert_eq!(of("p", Some(seconds(90))), Some(seconds(8)));
    assert_eq!(of("q", Some(seconds(90))), Some(seconds(10)));
    assert_eq!(of("q", Some(seconds(3))), Some(seconds(3)));
    assert_eq!(of("q", None), None);
}

#[test]
fn the_cache_directory_is_configurable() {
    assert_eq!(
        settings(&[], "[cache]\ndir = \"c\"")
            .unwrap()
            .core
            .host_paths
            .cache,
        Some(PathBuf::from("/etc/c"))
    );
    assert_eq!(
        settings(&[], "").unwrap().core.host_paths.cache,
        Some(PathBuf::from("/home/me/.cache/toolhost"))
    );
}

#[test]
fn an_unset_variable_in_a_path_is_an_error_of_the_file() {
    let error = settings(&[], "plugins = [\"${NOWHERE}/x\"]").unwrap_err();
    assert_eq!(
        error,
        "/etc/t.toml: `${NOWHERE}/x` needs $NOWHERE, which is not set; set it or write `${NOWHERE:-default}`"
    );
}

/// The decisions about calls, each `tool {input}`.
fn explain_decisions(settings: &CliSettings, calls: &[(&str, serde_json::Value)]) -> Vec<String> {
    use toolhost_contract::policy::{HookDecisions, PolicyRequest, Subject};
    let plugin = PluginName::parse("p").unwrap();
    let caller = toolhost_contract::Principal::default();
    let decide = |(name, input): &(&str, serde_json::Value)| {
        let name = ToolName::parse(name).unwrap();
        let mut tool = toolhost_contract::Descriptor::new(name.clone(), "");
        match name.as_str() {
            "shell" => tool.kind = "execute".to_owned(),
            "read_file" => {
                tool.kind = "read".to_owned();
                tool.annotations.read_only = Some(true);
            }
            _ => tool.kind = "edit".to_owned(),
        }
        let request = PolicyRequest {
            plugin: &plugin,
            name: &name,
            tool: &tool,
            digest: None,
            definition: None,
            input,
            subject: &Subject::of(&tool, input),
            timeout: tool.default_timeout(),
            caller: &caller,
            mode: None,
            restriction: None,
            aliases: &[],
            runs_commands: true,
            shell: None,
            variables: &toolhost_contract::variables::NO_VARIABLES,
            background_job: None,
            delegates: false,
            is_tail_call: false,
            effects_known: false,
        };
        let explanation = settings
            .core
            .policy
            .explain(request, &HookDecisions::default(), &[], 0);
        format!("{name} {input}: {}", explanation.decision())
    };
    calls.iter().map(decide).collect()
}

fn calls() -> Vec<(&'static str, serde_json::Value)> {
    use serde_json::json;
    vec![
        ("shell", json!({"command": "git status"})),
        ("shell", json!({"command": "git status; rm -rf x"})),
        ("read_file", json!({"path": "a"})),
        ("read_file", json!({"path": "/home/me/.ssh/id"})),
        ("write_file", json!({"path": "a"})),
        ("delete_file", json!({"path": "a"})),
    ]
}

#[test]
fn rule_forms_are_equivalent_on_the_command_line_and_in_the_file() {
    let typed = settings(
        &[
            "--allow-tool",
            "Bash(git *)",
            "--deny-tool",
            "Read(~/.ssh/**)",
            "--deny-tool",
            "p/delete_file",
        ],
        "",
    );
    let written = settings(
        &[],
        "[policy]\nallow = [\"Bash(git *)\"]\ndeny = [\"Read(~/.ssh/**)\", \"p/delete_file\"]",
    );
    let rules = settings(
        &[],
        "[[rule]]\ntool = \"Bash\"\ncommand_prefix = \"git\"\ndecision = \"allow\"\n\
         [[rule]]\ntool = \"Read\"\npath = \"~/.ssh/**\"\ndecision = \"deny\"\n\
         [[rule]]\ntool = \"p/delete_file\"\ndecision = \"deny\"\n",
    );
    let expected = expect_test::expect![[r#"
        shell {"command":"git status"}: allow
        shell {"command":"git status; rm -rf x"}: ask
        read_file {"path":"a"}: allow
        read_file {"path":"/home/me/.ssh/id"}: deny
        write_file {"path":"a"}: ask
        delete_file {"path":"a"}: deny"#]];
    for settings in [typed, written, rules] {
        expected.assert_eq(&explain_decisions(&settings.unwrap(), &calls()).join("\n"));
    }
}

// R-197, R-198, R-199: deny before allow before ask before the mode, and a tool on two lists is not asked about.
#[test]
fn r_198_keys_of_kode_have_the_same_meaning_as_in_kode() {
    let inline = settings(
        &[],
        "[permission]\nmode = \"auto\"\nrequireApprovalTools = [\"write_file\", \"shell\"]\n\
         autoAllowTools = [\"shell\", \"delete_file\"]\nautoDenyTools = [\"delete_file\"]\n",
    );
    let config = r#"{"mode": "auto", "requireApprovalTools": ["write_file", "shell"],
        "autoAllowTools": ["shell", "delete_file"], "autoDenyTools": ["delete_file"]}"#;
    let template = format!("{{\"id\": \"a\", \"permission\": {config}}}");
    let import = "[policy]\nimport = [{ kind = \"kode\", file = \"kode.json\" }]\n";
    let imported = settings_with_files(&[], import, &[("/etc/kode.json", config)]);
    let agent = settings_with_files(&[], import, &[("/etc/kode.json", &template)]);
    let expected = expect_test::expect![[r#"
        shell {"command":"git status"}: allow
        shell {"command":"git status; rm -rf x"}: allow
        read_file {"path":"a"}: allow
        read_file {"path":"/home/me/.ssh/id"}: allow
        write_file {"path":"a"}: ask
        delete_file {"path":"a"}: deny"#]];
    for settings in [inline, imported, agent] {
        let settings = settings.unwrap();
        assert_eq!(settings.core.policy.mode(), toolhost_contract::Mode::Auto);
        expected.assert_eq(&explain_decisions(&settings, &calls()).join("\n"));
    }
}

#[test]
fn files_of_other_systems_are_imported() {
    let toml = r#"
[policy]
rules = ["more.toml"]
import = [
  { kind = "gemini", file = "gemini.toml" },
  { kind = "gemini", file = "settings.json" },
  { kind = "sema", file = "sema.json" },
  { kind = "claude", file = "claude.json" },
]
"#;
    let settings = settings_with_files(
        &[],
        toml,
        &[
            ("/etc/more.toml", "[[rule]]\ntool = \"a\"\ndecision = \"deny\"\n"),
            ("/etc/gemini.toml", "[[rule]]\ntoolName = \"b\"\ndecision = \"ask_user\"\npriority = 10\n"),
            ("/etc/settings.json", r#"{"tools": {"core": ["ShellTool(git)", "glob"], "exclude": ["c"]}}"#),
            ("/etc/sema.json", r#"{"allowedTools": ["d"]}"#),
            ("/etc/claude.json", r#"{"permissions": {"allow": ["e"], "additionalDirectories": ["/x"], "defaultMode": "plan"}}"#),
        ],
    )
    .unwrap();
    let rules: Vec<String> = settings
        .core
        .policy
        .rules()
        .iter()
        .map(|rule| format!("{} {} ({})", rule.decision(), rule.tools(), rule.source()))
        .collect();
    expect_test::expect![[r#"
        deny a (/etc/more.toml:2:8)
        ask b (/etc/gemini.toml:1:1)
        deny c (/etc/settings.json)
        allow d (/etc/sema.json)
        allow e (/etc/claude.json)"#]]
    .assert_eq(&rules.join("\n"));
    assert_eq!(settings.core.policy.mode(), toolhost_contract::Mode::Plan);
    assert_eq!(settings.core.only_tools, [["run_shell_command", "glob"]]);
    assert_eq!(
        settings.core.disabled_tools,
        BTreeSet::from(["c".to_owned()])
    );
    assert_eq!(
        settings.warnings,
        [
            "the additional directories of /etc/claude.json are not granted; add them to `allowed_paths`"
        ]
    );
}

#[test]
fn no_imported_rule_and_no_rule_file_overrides_a_deny_of_the_operator() {
    let allow = "[[rule]]\ntoolName = \"a\"\ndecision = \"allow\"\npriority = 999\n";
    let rule = "[[rule]]\ntool = \"a\"\ndecision = \"allow\"\npriority = 999\n";
    let files = [("/etc/g.toml", allow), ("/etc/r.toml", rule)];
    let others = "rules = [\"r.toml\"]\nimport = [{ kind = \"gemini\", file = \"g.toml\" }]\n";
    for (arguments, deny) in [(&["--deny-tool", "a"][..], ""), (&[], "deny = [\"a\"]\n")] {
        let toml = format!("[policy]\n{deny}{others}");
        let settings = settings_with_files(arguments, &toml, &files).unwrap();
        let rules = settings.core.policy.rules();
        let strongest = rules.iter().map(|rule| (rule.priority(), rule.decision()));
        let denies = (999, toolhost_contract::policy::Decision::Deny);
        assert_eq!(strongest.max(), Some(denies), "{arguments:?}");
    }
}

#[test]
fn errors_in_rules_state_their_position() {
    let check = |toml: &str, file: &str, expect: &expect_test::Expect| {
        let files = [("/etc/f.toml", file), ("/etc/g.json", file)];
        expect.assert_eq(&settings_with_files(&[], toml, &files).unwrap_err());
    };
    let rules = "[policy]\nrules = [\"f.toml\"]";
    check(
        rules,
        "[[rule]]\ntool = \"a\"\ndecision = \"maybe\"\n",
        &expect_test::expect![
            "/etc/f.toml:3:12: error: `maybe` is not a decision; write allow, ask or deny"
        ],
    );
    check(
        rules,
        "[[rule]]\ntool = \"Read()\"\ndecision = \"deny\"\n",
        &expect_test::expect![
            "/etc/f.toml:2:8: error: `Read()` has empty parentheses; omit them to match every call"
        ],
    );
    check(
        "[policy]\nrules = [\"missing.toml\"]",
        "",
        &expect_test::expect!["/etc/missing.toml: no such file"],
    );
    // Compiled together with all other rules, and still with its position.
    check(
        "timeout = \"1s\"\n[[rule]]\ntool = \"grep\"\nargs_regex = \"(\"\ndecision = \"deny\"\n",
        "",
        &expect_test::expect![[
            r#"/etc/t.toml:3:8: error: `(` is not a regular expression: regex parse error:\n    (\n    ^\nerror: unclosed group"#
        ]],
    );
    // An example that the rule does not match.
    check(
        "[[rule]]\ntool = \"Bash(git *)\"\ndecision = \"allow\"\nmatch = [\"Bash(ls)\"]\n",
        "",
        &expect_test::expect![
            "/etc/t.toml:2:8: error: the rule allow `Bash(git *)` does not match its example `Bash(ls)`"
        ],
    );
    check(
        "[policy]\nprotected = [\"[\"]",
        "",
        &expect_test::expect![
            "/etc/t.toml: error: protected: pattern `[`: unclosed character class; missing ']'"
        ],
    );
    check(
        "[policy]\nmode = \"yolo\"\ndisable_yolo = true",
        "",
        &expect_test::expect![
            "/etc/t.toml: error: mode yolo is disabled by disable_yolo; choose another mode"
        ],
    );
    check(
        "[policy]\nmode = \"custom\"",
        "",
        &expect_test::expect![
            "/etc/t.toml: error: mode custom requires a hook that decides about calls, but none exists; configure one or choose another mode"
        ],
    );
    check(
        "[policy]\nimport = [{ kind = \"claude\", file = \"g.json\" }]",
        "{\"permissions\": {\"alow\": []}}",
        &expect_test::expect![
            "/etc/g.json: error: `permissions.alow` is not known; did you mean `allow`?"
        ],
    );
    check(
        "[policy]\nimport = [{ kind = \"kode\", file = \"g.json\" }]",
        "{\"mode\": ",
        &expect_test::expect!["/etc/g.json:1: EOF while parsing a value"],
    );
    check(
        "[tools.webSearch]\nprovider = \"bing\"\napiKey = \"${NOWHERE}\"",
        "",
        &expect_test::expect![
            "/etc/t.toml: `${NOWHERE}` needs $NOWHERE, which is not set; set it or write `${NOWHERE:-default}`"
        ],
    );
}

#[test]
fn a_hook_lets_mode_custom_decide() {
    let toml = "[policy]\nmode = \"custom\"\n[[hook]]\ncommand = [\"guard\"]";
    assert!(settings(&[], toml).is_ok());
    let cache = "[policy]\nmode = \"custom\"\n[[hook]]\nbuiltin = \"read-cache\"";
    assert!(settings(&[], cache).is_err());
}

#[test]
fn imports_with_different_modes_require_an_explicit_mode() {
    let import = "import = [{ kind = \"kode\", file = \"a.json\" }, { kind = \"kode\", file = \"b.json\" }]\n";
    let files = [
        ("/etc/a.json", "{\"mode\": \"auto\"}"),
        ("/etc/b.json", "{\"mode\": \"deny\"}"),
    ];
    let error = settings_with_files(&[], &format!("[policy]\n{import}"), &files).unwrap_err();
    assert_eq!(
        error,
        "/etc/a.json sets mode auto and /etc/b.json sets mode dont_ask; set `mode` under [policy]"
    );
    let settings =
        settings_with_files(&[], &format!("[policy]\nmode = \"plan\"\n{import}"), &files).unwrap();
    assert_eq!(settings.core.policy.mode(), toolhost_contract::Mode::Plan);
}

#[test]
fn hooks_run_in_order_and_the_cache_last() {
    let toml = r#"
[[hook]]
builtin = "read-cache"
[[hook]]
command = ["./guard.sh"]
env = ["HOME", "NOWHERE"]
[[hook]]
command = ["python3", "x.py"]
"#;
    let hooks = settings(&[], toml).unwrap().core.hooks;
    let descriptions: Vec<String> = hooks.iter().map(HookSettings::describe).collect();
    assert_eq!(
        descriptions,
        [
            "guard.sh (command /etc/guard.sh)",
            "python3 (command python3)",
            "read-cache (read-cache)"
        ]
    );
    let HookKind::Command(command) = &hooks[0].kind else {
        panic!("{hooks:?}")
    };
    assert_eq!(command.dir, Path::new("/cwd"));
    assert_eq!(command.env, [("HOME".to_owned(), "/home/me".to_owned())]);
}

#[test]
fn pool_sizes_are_configurable() {
    let settings = settings(&[], "concurrency = 9\n[pools]\nnetwork = 2").unwrap();
    assert_eq!(
        (
            settings.core.pools.all,
            settings.core.pools.network,
            settings.core.pools.processes
        ),
        (9, 2, 2)
    );
}

#[test]
fn the_table_of_the_nearest_project_applies() {
    let toml = "plugins = [\"general\"]\nallowed_paths = [\"/srv\", \"/cwd/src:rw\"]\nallowed_hosts = [\"a.org\"]\n\
                policy.mode = \"readonly\"\n\
                [project.\"/\"]\nmode = \"plan\"\nallowed_paths = [\"far\"]\n\
                [project.\"/cwd/\"]\nplugins = [\"own\"]\nallowed_paths = [\".:rw\", \"src\", \"~/x\"]\n\
                allowed_hosts = [\"b.org\"]\nmode = \"accept_edits\"\n\
                [project.\"/cwd2\"]\nmode = \"yolo\"\n[project.\"/cwd/below\"]\nmode = \"yolo\"\n";
    let settings = settings(&[], toml).unwrap();
    assert_eq!(settings.project.as_deref(), Some(Path::new("/cwd")));
    assert_eq!(
        settings.core.plugins,
        [Path::new("/cwd/own"), Path::new("/etc/general")]
    );
    assert_eq!(
        paths(&settings.core.paths),
        [
            ("/cwd", "/workspace", ReadWrite),
            ("/cwd/src", "/workspace/src", ReadOnly),
            ("/home/me/x", "/extra/1", ReadOnly),
            ("/srv", "/extra/2", ReadOnly),
        ]
    );
    assert_eq!(settings.core.external_access.hosts, ["a.org", "b.org"]);
    assert_eq!(settings.core.policy.mode().as_str(), "accept_edits");
}

#[test]
fn the_command_line_overrides_the_table_of_a_project() {
    let toml = "[project.\"/cwd\"]\nallowed_paths = [\".:rw\"]\nmode = \"yolo\"\n";
    let settings = settings(&["--allow-path", ".", "--mode", "plan"], toml).unwrap();
    assert_eq!(
        paths(&settings.core.paths),
        [("/cwd", "/workspace", ReadOnly)]
    );
    assert_eq!(settings.core.policy.mode().as_str(), "plan");
}

#[test]
fn a_project_needs_an_absolute_path() {
    let error = settings(&[], "[project.src]\nmode = \"plan\"\n").unwrap_err();
    assert_eq!(error, "/etc/t.toml: project `src`: use an absolute path");
}

#[test]
fn shipped_plugins_are_used_if_no_others_are_named() {
    let installed = Path::new("/installed");
    for (arguments, toml, expected) in [
        (&[][..], "", &[installed][..]),
        (&[], "shipped_plugins = false", &[]),
        (&["--plugins", "p"], "", &[Path::new("/cwd/p")]),
        (&[], "plugins = [\"q\"]", &[Path::new("/etc/q")]),
        (
            &["--plugins", "p"],
            "shipped_plugins = true",
            &[Path::new("/cwd/p"), installed],
        ),
    ] {
        let settings = settings(arguments, toml).unwrap();
        assert_eq!(settings.core.plugins, expected, "{arguments:?} {toml}");
    }
}
