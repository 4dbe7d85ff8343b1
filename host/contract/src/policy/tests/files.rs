//! Tests of rule files: parsing, errors with positions, and warnings.

use std::fmt::Write as _;

use expect_test::expect;

use super::*;

fn compile(text: &str) -> Result<Policy, Vec<Diagnostic>> {
    let rules = RuleFile::parse("rules.toml", text, Tier::User)?;
    Policy::new(PolicySpec { rules, ..spec("") })
}

fn errors(text: &str) -> String {
    let Err(wrong) = compile(text) else {
        return "fine".to_owned();
    };
    wrong
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("\n")
}

const EVERY_KEY: &str = r#"
[[rule]]
name = "everything"
tool = ["Bash", "shell"]
subagent = "helper"
agent = "h*"
task = "t-*"
user = "alice"
version = ">=1"
annotations = { open_world = false }
args = { "/n" = 1, text = "a*" }
args_regex = "x"
command_prefix = ["git status", "git log"]
command_regex = "git (status|log)"
decision = "allow"
priority = 200
modes = ["default", "autoEdit"]
interactive = true
allow_redirection = true
remember = false
reason = "reading history is fine"

[[rule]]
tool = "Edit"
path = "src/frozen/**"
decision = "deny"
deny_message = "frozen until the release"
match = ["Edit(src/frozen/a.rs)", { tool = "write_file", input = { path = "src/frozen/b" } }]
not_match = ["Edit(src/a.rs)", "Read(src/frozen/a.rs)"]

[[rule]]
tool = "WebFetch"
domain = ["*.example.com"]
decision = "allow"
match = ["WebFetch(domain:api.example.com)", "WebFetch(https://x.example.com/a)"]
not_match = ["WebFetch(domain:example.com)", "WebFetch(https://example.com.evil.net)"]

[[rule]]
mcp = "github"
decision = "ask"
match = "mcp__github__create_issue"
"#;

#[test]
fn a_file_of_rules_takes_every_key_of_the_grammar() {
    let text = EVERY_KEY.replace(
        "match = \"mcp__github__create_issue\"",
        "match = [\"mcp__github__create_issue\"]",
    );
    let rules = RuleFile::parse("rules.toml", &text, Tier::Workspace).unwrap();
    expect![[r#"
        RuleSpec {
            name: Some(
                "everything",
            ),
            tier: Workspace,
            priority: 200,
            decision: Allow,
            tools: [
                "Bash",
                "shell",
            ],
            subagent: Some(
                "helper",
            ),
            agent: Some(
                "h*",
            ),
            task: Some(
                "t-*",
            ),
            user: Some(
                "alice",
            ),
            version: Some(
                ">=1",
            ),
            annotations: {
                "open_world": false,
            },
            args: {
                "/n": Number(1),
                "text": String("a*"),
            },
            args_regex: Some(
                "x",
            ),
            command_prefix: [
                "git status",
                "git log",
            ],
            command_regex: Some(
                "git (status|log)",
            ),
            path: [],
            domain: [],
            modes: [
                Default,
                AcceptEdits,
            ],
            interactive: Some(
                true,
            ),
            allow_redirection: true,
            remember: false,
            yields_to_mode: false,
            programs: true,
            deny_message: None,
            reason: Some(
                "reading history is fine",
            ),
            matches: [],
            not_matches: [],
            source: RuleSource {
                file: "rules.toml",
                line: 4,
                column: 8,
            },
        }
    "#]]
    .assert_debug_eq(&rules[0]);
    let policy = Policy::new(PolicySpec { rules, ..spec("") }).unwrap();
    let ids: Vec<String> = policy
        .rules()
        .iter()
        .map(|rule| format!("{} {} {}", rule.source(), rule.id(), rule.tools()))
        .collect();
    expect![[r#"
        rules.toml:4:8 everything Bash, shell
        rules.toml:24:8 workspace:2 Edit
        rules.toml:32:8 workspace:3 WebFetch
        rules.toml:39:7 workspace:4 mcp__github__*"#]]
    .assert_eq(&ids.join("\n"));
    let verdict =
        Fixture::of("files/write_file writes kind=edit path=src/frozen/x").decide(&policy, &[]);
    expect!["deny: frozen until the release"].assert_eq(&show(&verdict));
}

#[test]
fn errors_in_a_file_have_line_and_column() {
    let mut out = String::new();
    for text in [
        "[[rule]]\ntool = \"x\"\ndecison = \"deny\"",
        "[[rule]]\ntool = \"x\"\ndecision = \"denny\"",
        "[[rule]]\ntool = \"x\"",
        "[[rule]]\ndecision = \"deny\"",
        "[[rule]]\ntool = \"Bash(\"\ndecision = \"deny\"",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\npriority = 1000",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\npriority = -1",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\nmodes = [\"default\", \"fast\"]",
        "[[rule]]\ntool = \"x\"\ndecision = \"allow\"\nsafety_checker = { type = \"in-process\" }",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\nargs = { a = [1] }",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\ndecision = \"allow\"",
        "[[rule]]\ntool = \"Bash(git *)\"\ndecision = \"allow\"\nmatch = [\"Bash(gitx)\"]",
        "[[rule]]\ntool = \"Bash(git *)\"\ndecision = \"allow\"\nnot_match = [\"Bash(git status)\"]",
        "[[rule]]\ntool = \"Bash(git *)\"\ndecision = \"allow\"\nmatch = [\"Bash(git status && rm x)\"]",
        "[[rule]]\ntool = \"x\"\ndecision = \"deny\"\nmatch = [\"x(\"]",
        "[[rules]]\ntool = \"x\"",
        "[[rule]\n",
    ] {
        let _ = writeln!(out, "{}", errors(text));
    }
    expect![[r#"
        rules.toml:3:1: error: unknown key `decison`; did you mean `decision`?
        rules.toml:3:12: error: `denny` is not a decision; write allow, ask or deny
        rules.toml:1:1: error: missing key `decision`
        rules.toml:1:1: error: a rule names no tool; write `tool = "…"`, `mcp = "server"`, or `tool = "*"` for all
        rules.toml:2:8: error: `Bash(` is missing its closing `)`
        rules.toml:4:12: error: priority 1000 is not between 0 and 999
        rules.toml:4:12: error: priority -1 is not between 0 and 999
        rules.toml:4:21: error: `fast` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom
        rules.toml:4:18: error: safety_checker is not supported; remove it and use a hook to inspect calls
        rules.toml:2:8: error: the matcher of `a` is not a string, number or boolean
        rules.toml:4:1: error: duplicate key
        rules.toml:2:8: error: the rule allow `Bash(git *)` does not match its example `Bash(gitx)`
        rules.toml:2:8: error: the rule allow `Bash(git *)` matches its example `Bash(git status)`
        rules.toml:2:8: error: the rule allow `Bash(git *)` does not match its example `Bash(git status && rm x)`
        rules.toml:4:10: error: example `x(` is missing its closing `)`
        rules.toml:1:3: error: unknown key `rules`; did you mean `rule`?
        rules.toml:1:8: error: unclosed array table, expected `]`
    "#]].assert_eq(&out);
    let three = "[[rule]]\ntool=\"a b\"\ndecision=\"deny\"\n[[rule]]\ntool=\"ok\"\ndecision=\"deny\"\n[[rule]]\ntool=\"c d\"\ndecision=\"ask\"";
    assert_eq!(errors(three).lines().count(), 2);
    assert!(errors(&"#".repeat(2 << 20)).contains("exceed the limit of"));
    assert_eq!(errors(""), "fine");
}

fn tools() -> Vec<Descriptor> {
    let tool = |name: &str, alias: &str, kind: &str, parameters: &[&str], read_only: bool| {
        let properties: Map<String, Value> = parameters
            .iter()
            .map(|name| ((*name).to_owned(), json!({"type": "string"})))
            .collect();
        let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "a tool");
        tool.aliases
            .extend((!alias.is_empty()).then(|| alias.to_owned()));
        kind.clone_into(&mut tool.kind);
        tool.annotations.read_only = Some(read_only);
        tool.input_schema = json!({"type": "object", "properties": properties});
        tool
    };
    vec![
        tool("read_file", "Read", "read", &["path", "offset"], true),
        tool("write_file", "Write", "edit", &["path", "content"], false),
        tool("edit_file", "Edit", "edit", &["path", "old", "new"], false),
        tool("bash", "Bash", "execute", &["command", "timeout"], false),
        tool("skill", "Skill", "other", &["skill"], true),
        tool("uuid", "", "other", &[], true),
        tool("mcp__github__create_issue", "", "other", &["title"], false),
    ]
}

/// Checks rules against tools of the plugin `tools`, which registers them with their qualified names.
fn check(rules: &str, tools: &[Descriptor]) -> Vec<Diagnostic> {
    let plugin = PluginName::parse("tools").unwrap();
    let aliases: Vec<Vec<String>> = tools
        .iter()
        .map(|tool| {
            let qualified = tool.name.qualified(&plugin).to_string();
            let own = tool.aliases.iter().map(|alias| alias.to_lowercase());
            own.chain([qualified]).collect()
        })
        .collect();
    let known: Vec<NamedTool> = tools
        .iter()
        .zip(&aliases)
        .map(|(tool, aliases)| NamedTool {
            plugin: &plugin,
            name: &tool.name,
            tool,
            aliases,
        })
        .collect();
    policy(rules).check(&known)
}

/// Warnings about rules, one rule per line.
fn warnings(rules: &str) -> String {
    let found = check(rules, &tools());
    found
        .iter()
        .map(|one| one.message.clone())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_tool_that_names_locations_takes_paths() {
    let mut tools = tools();
    let uuid = tools.iter_mut().find(|tool| tool.name.as_str() == "uuid");
    uuid.unwrap().hooks = [crate::ToolHook::Locations].into_iter().collect();
    assert!(check("deny uuid(src/**)", &tools).is_empty());
}

#[test]
fn questionable_rules_cause_warnings() {
    let mut out = String::new();
    for rules in [
        "deny read_fil",
        "deny Raed(src/**)",
        "deny mcp__gitlab",
        "deny mcp__github__creat_issue",
        "deny pl_*",
        "deny tols/uuid",
        "deny tools/uid",
        "allow uuid(src/**)",
        "allow Skill(commit)",
        "allow Bash(comand:rm)",
        "deny Bash(git:*)",
        "deny write_file(content:*)",
        "deny write_file(contents:*)",
        "ask Bash(timeout:*)",
        "allow Bash(timeout:*)",
        "allow bash path=src",
        "allow Read(domain:a.example)",
        "allow read_file arg:ofset=1",
        "deny Write(src/**)",
        "allow Read\nadmin deny Read",
        "allow Read(src/**)\nworkspace deny *",
        "allow Bash(git *)\ndeny Bash(git *)",
        "ask write_file @10\nallow * @20",
        "allow write_file\nallow write_file",
        "workspace ask Write\nuser allow write_file",
        "workspace deny write_file\nuser deny *",
        "allow write_file yields\nallow write_file modes=plan",
    ] {
        let _ = writeln!(
            out,
            "{}\n  → {}",
            rules.replace('\n', "; "),
            warnings(rules).replace('\n', "\n  → ")
        );
    }
    expect![[r#"
        deny read_fil
          → no tool is called `read_fil`; did you mean `read_file`?
        deny Raed(src/**)
          → no tool is called `Raed`; did you mean `Read`?
        deny mcp__gitlab
          → no tool is called `mcp__gitlab`; did you mean `mcp__github__create_issue`?
        deny mcp__github__creat_issue
          → no tool is called `mcp__github__creat_issue`; did you mean `mcp__github__create_issue`?
        deny pl_*
          → no tool is called `pl_*`
        deny tols/uuid
          → no loaded plugin is called `tols`; did you mean `tools`?
        deny tools/uid
          → no tool is called `tools/uid`; did you mean `tools/uuid`?
        allow uuid(src/**)
          → `uuid(src/**)` matches no call: the tool takes no path, command or name
        allow Skill(commit)
          → 
        allow Bash(comand:rm)
          → `Bash(comand:rm)` matches no call: the tool has no parameter `comand`
        deny Bash(git:*)
          → 
        deny write_file(content:*)
          → 
        deny write_file(contents:*)
          → `write_file(contents:*)` matches no call: the tool has no parameter `contents`
        ask Bash(timeout:*)
          → 
        allow Bash(timeout:*)
          → `Bash(timeout:*)` allows commands that start with `timeout`, not calls with the parameter `timeout`; for those, write a rule table with `args = { timeout = "*" }`
        allow bash path=src
          → `bash` matches no call: the tool takes no path
        allow Read(domain:a.example)
          → `Read(domain:a.example)` matches no call: the tool takes no address
        allow read_file arg:ofset=1
          → `read_file` matches no call: the tool has no parameter `ofset`
        deny Write(src/**)
          → `Write(src/**)` applies to one tool; write `Edit(src/**)` to cover every tool that changes files
        allow Read; admin deny Read
          → rule user:1 allow `Read` never allows a call: rule admin:1 deny `Read` (policy) denies it
        allow Read(src/**); workspace deny *
          → rule user:1 allow `Read(src/**)` never allows a call: rule workspace:1 deny `*` (policy) denies it
        allow Bash(git *); deny Bash(git *)
          → rule user:1 allow `Bash(git *)` never allows a call: rule user:2 deny `Bash(git *)` (policy) denies it
        ask write_file @10; allow * @20
          → rule user:1 ask `write_file` never applies: rule user:2 allow `*` (policy) takes precedence
        allow write_file; allow write_file
          → rule user:2 allow `write_file` never applies: rule user:1 allow `write_file` (policy) takes precedence
        workspace ask Write; user allow write_file
          → rule workspace:1 ask `Write` never applies: rule user:1 allow `write_file` (policy) takes precedence
        workspace deny write_file; user deny *
          → 
        allow write_file yields; allow write_file modes=plan
          → 
    "#]].assert_eq(&out);
}

#[test]
fn a_rooted_path_outside_the_granted_directories_causes_a_warning() {
    let warnings = |rules: &str, granted: &[&str]| {
        let mut spec = spec(rules);
        spec.path_context.root = Some("/home/u/.config".to_owned());
        let granted: Vec<String> = granted.iter().map(|path| (*path).to_owned()).collect();
        let found = Policy::new(spec).unwrap().check_rooted_paths(&granted);
        let lines: Vec<String> = found.iter().map(|one| one.message.clone()).collect();
        lines.join("\n")
    };
    expect![[r#"
        rule user:1 deny `Read(/etc/*.key)`: `/etc/*.key` is relative to the configuration file and starts at `/home/u/.config/etc`, which is in no granted directory; for an absolute path write `//etc/*.key`
        rule user:2 ask `write_file`: `/srv` is relative to the configuration file and starts at `/home/u/.config/srv`, which is in no granted directory; for an absolute path write `//srv`
        `protected`: `/w/a` is relative to the configuration file and starts at `/home/u/.config/w/a`, which is in no granted directory; for an absolute path write `//w/a`"#]]
    .assert_eq(&warnings(
        "deny Read(/etc/*.key)\nask write_file path=/srv\nprotect /w/a",
        &["/w"],
    ));
    let fine = "deny Read(//etc/*.key)\ndeny Edit(src/**)\ndeny Bash(/usr/bin/git *)\nprotect a\nprotect //w/a\n\
                deny run(/usr/bin/git *)\ndeny Read(~/.ssh/**)";
    assert_eq!(warnings(fine, &["/w"]), "");
    for granted in ["/home/u/.config", "/home/u", "/home/u/.config/src/a"] {
        assert_eq!(warnings("deny Edit(/src/**)", &[granted]), "", "{granted}");
    }
}

#[test]
fn a_06_policy_check_lists_options_not_covered_by_a_wildcard() {
    let warnings = |rules: &str| {
        let found = policy(rules).check_wildcards();
        let lines: Vec<String> = found.iter().map(|one| one.message.clone()).collect();
        lines.join("\n")
    };
    expect!["the wildcard of rule user:1 allow `Bash(tar *)` does not cover options that make `tar` run programs, write files or load other settings (--to-command, --checkpoint-action, --use-compress-program, -I, --info-script, --new-volume-script and 11 more); such commands require approval; to allow one, write the option in a rule"]
        .assert_eq(&warnings("allow Bash(tar *)"));
    for (rule, warns) in [
        ("allow Bash(git fetch *)", true),
        ("allow Bash(awk *)", true),
        ("allow Bash(sed *)", true),
        ("allow Bash(ssh *)", true),
        ("allow shell prefix=make", true),
        ("allow Bash(git status *)", false),
        ("allow Bash(ls *)", false),
        ("allow Bash(tar xf a.tar)", false),
        ("deny Bash(tar *)", false),
        ("allow Bash", false),
    ] {
        assert_eq!(
            !warnings(rule).is_empty(),
            warns,
            "{rule}: {}",
            warnings(rule)
        );
    }
}

#[test]
fn valid_rules_cause_no_warnings() {
    for rules in [
        "allow Read\ndeny Read(secrets/**)",
        "allow Bash(git *)\ndeny Bash(git push *)\nworkspace ask Bash",
        "allow WebFetch(domain:a.example)",
        "allow mcp__github\nask mcp__github__create_issue @200",
        "deny * modes=plan\nallow read_file",
        "allow tools/*\ndeny tools/read_file\ndeny tools__uuid",
        "deny Edit(src/**)\nallow Edit",
        "allow read_file(offset:0)",
        "deny *",
    ] {
        assert_eq!(warnings(rules), "", "{rules}");
    }
}
