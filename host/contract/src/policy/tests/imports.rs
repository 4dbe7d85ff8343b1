//! Tests of rules imported from Kode, Sema, Claude Code and Gemini CLI.

use std::fmt::Write as _;

use expect_test::expect;

use super::import::{Imported, claude, gemini_policy, gemini_settings, kode, sema};
use super::*;

fn shown(imported: &Result<Imported, Diagnostic>) -> String {
    let imported = match imported {
        Ok(imported) => imported,
        Err(diagnostic) => return format!("{diagnostic}\n"),
    };
    let mut out = String::new();
    for rule in &imported.rules {
        let _ = writeln!(
            out,
            "{} {} {} @{}",
            rule.tier,
            rule.decision,
            rule.tools.join(", "),
            rule.priority
        );
    }
    if let Some(mode) = imported.mode {
        let _ = writeln!(out, "mode {mode}");
    }
    let _ = writeln!(
        out,
        "core {:?} hidden {:?} directories {:?} no_yolo {} once_only {}",
        imported.visible_tools,
        imported.hidden_tools,
        imported.directories,
        imported.disable_yolo,
        imported.disable_always_allow
    );
    out
}

fn source() -> RuleSource {
    RuleSource::file("settings.json")
}

fn decided(imported: Imported, call: &str) -> Decision {
    let spec = PolicySpec {
        rules: imported.rules,
        mode: imported.mode.unwrap_or_default(),
        has_callback: true,
        ..spec("")
    };
    decision_of(&Fixture::of(call).decide(&Policy::new(spec).unwrap(), &[]))
}

// R-198, R-444, R-445, R-446, R-447
#[test]
fn r_197_kodes_configuration_is_a_mode_and_three_lists() {
    use Decision::{Allow, Ask, Deny};

    let config = json!({
        "mode": "ask",
        "autoDenyTools": ["fs_rm"],
        "autoAllowTools": ["fs_read", "bash_run"],
        "requireApprovalTools": ["bash_run", "fs_write", "fs_rm"],
    });
    let imported = kode(&config, Tier::User, &source());
    expect![[r#"
        user deny fs_rm @999
        user allow fs_read @100
        user allow bash_run @100
        user ask fs_write @100
        user ask fs_rm @100
        mode ask
        core None hidden [] directories [] no_yolo false once_only false
    "#]]
    .assert_eq(&shown(&imported));
    // Kode's `ask` asks about every tool that is on no list, also about one that reads; its `custom` leaves the decision
    // to hooks and allows what they do not decide.
    for (mode, unlisted, unlisted_read) in [
        ("auto", Allow, Allow),
        ("ask", Ask, Ask),
        ("approval", Ask, Ask),
        ("deny", Deny, Deny),
        ("readonly", Deny, Allow),
        ("custom", Allow, Allow),
    ] {
        let mut config = config.clone();
        config["mode"] = json!(mode);
        let imported = kode(&config, Tier::User, &source()).unwrap();
        let calls = [
            "fs/fs_rm destroys kind=delete path=a",
            "system/bash_run kind=execute command=ls",
            "fs/fs_write writes kind=edit path=a",
            "x/unlisted",
            "x/unlisted_read reads",
        ];
        let decisions = calls.map(|call| decided(imported.clone(), call));
        assert_eq!(
            decisions,
            [Deny, Allow, Ask, unlisted, unlisted_read],
            "{mode}"
        );
    }
}

#[test]
fn r_199_an_agent_template_holds_the_configuration() {
    let template = json!({"id": "coder", "systemPrompt": "…", "permission": {"mode": "readonly", "autoDenyTools": ["bash_run"]}});
    expect![[r#"
        workspace deny bash_run @999
        mode readonly
        core None hidden [] directories [] no_yolo false once_only false
    "#]]
    .assert_eq(&shown(&kode(&template, Tier::Workspace, &source())));
    assert_eq!(
        kode(&json!({"id": "coder"}), Tier::Workspace, &source()),
        Ok(Imported::default())
    );
}

#[test]
fn unknown_keys_are_rejected_by_name() {
    let mut out = String::new();
    for value in [
        json!([]),
        json!({"mode": "sometimes"}),
        json!({"mode": 1}),
        json!({"autoAlowTools": []}),
        json!({"autoDenyTools": "fs_rm"}),
        json!({"autoDenyTools": [1]}),
        json!({"id": "x", "permission": "auto"}),
        json!({"id": "x", "permission": {"autoDenyTool": []}}),
        json!({"autoDenyTools": vec!["x"; 3_000]}),
    ] {
        out.push_str(&shown(&kode(&value, Tier::User, &source())));
    }
    for value in [
        json!({"permissions": {"alow": []}}),
        json!({"permissions": {"defaultMode": "free"}}),
        json!({"permissions": {"disableBypassPermissionsMode": "yes"}}),
        json!({"permissions": []}),
    ] {
        out.push_str(&shown(&claude(&value, Tier::User, &source())));
    }
    for value in [
        json!({"skipBashExecPermission": "yes"}),
        json!({"allowedTools": {}}),
    ] {
        out.push_str(&shown(&sema(&value, Tier::User, &source())));
    }
    for value in [
        json!({"tools": {"exclude": 1}}),
        json!({"security": {"disableYoloMode": 1}}),
    ] {
        out.push_str(&shown(&gemini_settings(&value, Tier::User, &source())));
    }
    expect![[r#"
        settings.json: error: the configuration is not an object
        settings.json: error: `mode` is wrong: `sometimes` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom
        settings.json: error: `mode` is not a string
        settings.json: error: `autoAlowTools` is not known; did you mean `autoAllowTools`?
        settings.json: error: `autoDenyTools` is not a list of at most 2000 strings
        settings.json: error: `autoDenyTools` contains a value that is not a string
        settings.json: error: permission is not an object
        settings.json: error: `permission.autoDenyTool` is not known; did you mean `autoDenyTools`?
        settings.json: error: `autoDenyTools` is not a list of at most 2000 strings
        settings.json: error: `permissions.alow` is not known; did you mean `allow`?
        settings.json: error: `permissions.defaultMode` is wrong: `free` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom
        settings.json: error: `permissions.disableBypassPermissionsMode` can only be `disable`
        settings.json: error: permissions is not an object
        settings.json: error: `skipBashExecPermission` is not a boolean
        settings.json: error: `allowedTools` is not a list of at most 2000 strings
        settings.json: error: `tools.exclude` is not a list of at most 2000 strings
        settings.json: error: `security.disableYoloMode` is not a boolean
    "#]].assert_eq(&out);
}

#[test]
fn semas_switches_and_allowed_tools_become_rules() {
    let config = json!({
        "allowedTools": ["Bash(git diff:*)", "github_create_issue"],
        "skipFileEditPermission": true, "skipBashExecPermission": false, "skipSkillPermission": true, "skipMCPToolPermission": true,
        "somethingElse": 1,
    });
    let imported = sema(&config, Tier::User, &source());
    expect![[r#"
        user allow Bash(git diff:*) @100
        user allow github_create_issue @100
        user allow Edit @100
        user allow Skill @100
        user allow mcp__* @100
        core None hidden [] directories [] no_yolo false once_only false
    "#]]
    .assert_eq(&shown(&imported));
    let imported = imported.unwrap();
    for (call, expected) in [
        ("files/write_file writes kind=edit path=a", Decision::Allow),
        (
            "system/bash kind=execute command=\"git diff a\"",
            Decision::Allow,
        ),
        ("system/bash kind=execute command=make", Decision::Ask),
        ("x/skill alias=Skill", Decision::Allow),
        // R-192
        ("srv/mcp__github__create_issue", Decision::Allow),
        ("srv/mcp__other__x", Decision::Allow),
        ("x/unknown", Decision::Ask),
    ] {
        assert_eq!(decided(imported.clone(), call), expected, "{call}");
    }
}

#[test]
fn claude_permissions_are_three_lists_and_a_mode() {
    let settings = json!({
        "model": "x",
        "permissions": {
            "allow": ["Bash(npm run test:*)", "Read(~/.zshrc)", "WebFetch(domain:example.com)", "mcp__github"],
            "ask": ["Bash(git push:*)"],
            "deny": ["Read(./.env)", "Read(./secrets/**)", "Edit(//etc/**)"],
            "defaultMode": "acceptEdits",
            "additionalDirectories": ["../docs/"],
            "disableBypassPermissionsMode": "disable",
        },
    });
    let imported = claude(&settings, Tier::User, &source());
    expect![[r#"
        user deny Read(./.env) @999
        user deny Read(./secrets/**) @999
        user deny Edit(//etc/**) @999
        user ask Bash(git push:*) @100
        user allow Bash(npm run test:*) @100
        user allow Read(~/.zshrc) @100
        user allow WebFetch(domain:example.com) @100
        user allow mcp__github @100
        mode accept_edits
        core None hidden [] directories ["../docs/"] no_yolo true once_only false
    "#]]
    .assert_eq(&shown(&imported));
    let imported = imported.unwrap();
    for (call, expected) in [
        (
            "system/bash kind=execute command=\"npm run test x\"",
            Decision::Allow,
        ),
        (
            "system/bash kind=execute command=\"npm run test x && git push\"",
            Decision::Ask,
        ),
        ("files/read_file reads kind=read path=.env", Decision::Deny),
        (
            "files/read_file reads kind=read path=sub/.env",
            Decision::Allow,
        ),
        ("search/grep reads kind=search path=secrets", Decision::Deny),
        (
            "files/write_file writes kind=edit path=/etc/hosts",
            Decision::Deny,
        ),
        ("files/write_file writes kind=edit path=a", Decision::Allow),
    ] {
        assert_eq!(decided(imported.clone(), call), expected, "{call}");
    }
    assert_eq!(
        claude(&json!({"model": "x"}), Tier::User, &source()),
        Ok(Imported::default())
    );
}

#[test]
fn a_gemini_policy_is_imported_unchanged() {
    let text = r#"
        [[rule]]
        toolName = "*"
        decision = "deny"
        priority = 60
        modes = ["plan"]
        denyMessage = "plan mode is read-only"

        [[rule]]
        toolName = ["glob", "read_file"]
        decision = "allow"
        priority = 70
        modes = ["plan"]

        [[rule]]
        commandPrefix = ["git status", "npm test"]
        decision = "allow"
        priority = 100

        [[rule]]
        toolName = "run_shell_command"
        commandRegex = "rm .*"
        decision = "ask_user"
        priority = 110

        [[rule]]
        mcpName = "github"
        toolName = "create_issue"
        decision = "deny"
        priority = 200

        [[rule]]
        mcpName = "*"
        toolAnnotations = { readOnlyHint = true }
        decision = "allow"
        priority = 50
        modes = ["autoEdit", "yolo"]

        [[rule]]
        toolName = "write_file"
        argsPattern = '"path":"docs/[^"]*"'
        decision = "allow"
        priority = 80
    "#;
    let imported = gemini_policy("plan.toml", text, Tier::Default);
    expect![[r#"
        default deny * @60
        default allow glob, read_file @70
        default allow run_shell_command @100
        default ask run_shell_command @110
        default deny mcp__github__create_issue @200
        default allow mcp__*__* @50
        default allow write_file @80
        core None hidden [] directories [] no_yolo false once_only false
    "#]]
    .assert_eq(&shown(&imported));
    let imported = imported.unwrap();
    for (call, expected) in [
        ("files/read_file reads path=a in:plan", Decision::Allow),
        (
            "files/write_file writes kind=edit path=a in:plan",
            Decision::Deny,
        ),
        (
            "files/write_file writes kind=edit path=docs/a",
            Decision::Allow,
        ),
        (
            "files/write_file writes kind=edit path=lib/a",
            Decision::Ask,
        ),
        (
            "system/run_shell_command kind=execute command=\"git status -s\"",
            Decision::Allow,
        ),
        (
            "system/run_shell_command kind=execute command=\"rm x\"",
            Decision::Ask,
        ),
        ("srv/mcp__github__create_issue", Decision::Deny),
    ] {
        assert_eq!(decided(imported.clone(), call), expected, "{call}");
    }
    let mut out = String::new();
    for text in [
        "[[rule]]\ntoolName = \"x\"\ndecision = \"allow\"",
        "[[rule]]\ntoolname = \"x\"\ndecision = \"allow\"\npriority = 1",
        "[[rule]]\ntoolName = \"x\"\ndecision = \"maybe\"\npriority = 1",
        "[[rule]]\ntoolName = \"x\"\ndecision = \"allow\"\npriority = 1\nmodes = [\"fast\"]",
        "[[safety_checker]]\ntoolName = \"x\"\npriority = 1",
    ] {
        out.push_str(&shown(&gemini_policy("p.toml", text, Tier::User)));
    }
    expect![[r#"
        p.toml:1:1: error: missing key `priority`
        p.toml:2:1: error: unknown key `toolname`; did you mean `toolName`?
        p.toml:1:1: error: `maybe` is not a decision; write allow, ask or deny
        p.toml:1:1: error: `fast` is not a mode; write one of dont_ask, plan, readonly, ask, default, accept_edits, auto, yolo, custom
        p.toml:1:1: error: safety_checker is not supported; remove it and use a hook to inspect calls
    "#]].assert_eq(&out);
}

#[test]
fn geminis_lists_of_tools_become_rules_and_visibility() {
    let settings = json!({
        "general": {"defaultApprovalMode": "auto_edit"},
        "tools": {
            "core": ["ReadFileTool", "run_shell_command"],
            "exclude": ["WebFetchTool", "ShellTool(rm -rf)"],
            "allowed": ["run_shell_command(git)", "run_shell_command(npm run *)", "write_file"],
            "confirmationRequired": ["write_file"],
            "sandbox": true,
        },
        "security": {"disableYoloMode": true, "disableAlwaysAllow": true},
    });
    let imported = gemini_settings(&settings, Tier::User, &source());
    expect![[r#"
        user deny web_fetch @999
        user deny run_shell_command(rm -rf:*) @999
        user allow run_shell_command(git:*) @100
        user allow run_shell_command(npm run *) @100
        user allow write_file @100
        user ask write_file @100
        mode accept_edits
        core Some(["read_file", "run_shell_command"]) hidden ["web_fetch"] directories [] no_yolo true once_only true
    "#]].assert_eq(&shown(&imported));
    let imported = imported.unwrap();
    for (call, expected) in [
        (
            "system/run_shell_command kind=execute command=\"git log\"",
            Decision::Allow,
        ),
        (
            "system/run_shell_command kind=execute command=\"rm -rf x\"",
            Decision::Deny,
        ),
        (
            "system/run_shell_command kind=execute command=\"rm x\"",
            Decision::Ask,
        ),
        ("files/write_file writes kind=edit path=a", Decision::Ask),
        ("files/replace writes kind=edit path=a", Decision::Allow),
    ] {
        assert_eq!(decided(imported.clone(), call), expected, "{call}");
    }
}
