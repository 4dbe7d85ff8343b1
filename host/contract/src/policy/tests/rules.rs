//! Tests of rule precedence, tool names, families and conditions.

use expect_test::expect;

use super::*;

pub(super) const WRITE: &str = "files/write_file writes kind=edit alias=Write path=src/a.rs";

pub(super) fn decision(rules: &str, call: &str) -> Decision {
    decision_of(&Fixture::of(call).decide(&policy(rules), &[]))
}

// R-198, R-445, R-446, R-447
#[test]
fn deny_beats_ask_beats_allow_in_every_combination() {
    for allow in ["", "allow *", "allow write_file", "allow Edit(src/**)"] {
        for ask in ["", "ask *", "ask files/*", "ask Write"] {
            for deny in [
                "deny *",
                "deny write_file",
                "deny files/*",
                "deny Edit",
                "deny Edit(src/a.rs)",
            ] {
                for rules in [[allow, ask, deny], [deny, ask, allow], [ask, deny, allow]] {
                    assert_eq!(
                        decision(&rules.join("\n"), WRITE),
                        Decision::Deny,
                        "{rules:?}"
                    );
                }
            }
            if !ask.is_empty() {
                assert_eq!(
                    decision(&format!("{allow}\n{ask}"), WRITE),
                    Decision::Ask,
                    "{allow} {ask}"
                );
            }
        }
        if !allow.is_empty() {
            assert_eq!(decision(allow, WRITE), Decision::Allow, "{allow}");
        }
    }
}

#[test]
fn a_deny_applies_from_every_tier_in_every_mode() {
    for low in Tier::ALL {
        for high in Tier::ALL {
            for mode in Mode::ALL {
                let rules =
                    format!("callback\nmode {mode}\n{low} deny write_file\n{high} allow * @100");
                assert_eq!(decision(&rules, WRITE), Decision::Deny, "{rules}");
            }
        }
    }
}

#[test]
fn otherwise_the_highest_matching_tier_decides() {
    for (rules, expected) in [
        ("workspace ask *\nuser allow *", Decision::Allow),
        ("workspace allow *\nuser ask *", Decision::Ask),
        ("user allow * @999\nadmin ask * @0", Decision::Ask),
        ("default ask *\nextension allow *", Decision::Allow),
        ("admin allow *\nuser ask *", Decision::Allow),
        ("admin allow read_file\nuser ask *", Decision::Ask),
    ] {
        assert_eq!(decision(rules, WRITE), expected, "{rules}");
    }
}

#[test]
fn within_a_tier_priority_then_strictness_decides() {
    for (rules, expected) in [
        ("deny * @60\nallow write_file @70", Decision::Allow),
        ("deny * @70\nallow write_file @70", Decision::Deny),
        // A deny given as a form has the highest priority.
        ("deny *\nallow write_file @999", Decision::Deny),
        ("ask * @70\nallow write_file @60", Decision::Ask),
        ("ask * @60\nallow write_file @70", Decision::Allow),
        // Priority does not override another tier's deny.
        ("workspace deny * @0\nallow write_file @999", Decision::Deny),
    ] {
        assert_eq!(decision(rules, WRITE), expected, "{rules}");
    }
}

#[test]
fn a_rule_matches_any_name_of_a_tool_ignoring_case() {
    for name in [
        "write_file",
        "WRITE_FILE",
        "Write",
        "write",
        "files/write_file",
        "files/*",
        "*",
        "write_*",
        "Edit",
        "*file",
    ] {
        assert_eq!(
            decision(&format!("allow {name}"), WRITE),
            Decision::Allow,
            "{name}"
        );
    }
    for name in [
        "writ",
        "other/write_file",
        "other/*",
        "read_*",
        "Read",
        "Bash",
        "files/read_file",
        "mcp__files",
        "write",
    ] {
        let call = "files/write_file writes kind=edit path=src/a.rs";
        assert_eq!(
            decision(&format!("allow {name}"), call),
            Decision::Ask,
            "{name}"
        );
    }
}

// R-192, C-03
#[test]
fn a_foreign_tool_matches_with_and_without_the_prefix() {
    let call = "srv/mcp__github__create_issue";
    for name in [
        "mcp__github__create_issue",
        "mcp__github",
        "mcp__github__*",
        "mcp__*",
        "mcp__github__create_*",
        "MCP__GitHub",
    ] {
        for action in [Decision::Allow, Decision::Deny] {
            assert_eq!(
                decision(&format!("{action} {name}"), call),
                action,
                "{name}"
            );
        }
    }
    // A short name may belong to another tool: it denies, and it allows only if it was assigned to this tool.
    for name in [
        "github__create_issue",
        "github_create_issue",
        "mcp__github_create_issue",
    ] {
        for (action, more, expected) in [
            ("deny", "", Decision::Deny),
            ("allow", "", Decision::Ask),
            ("allow", &*format!("alias={name}"), Decision::Allow),
        ] {
            assert_eq!(
                decision(&format!("{action} {name}"), &format!("{call} {more}")),
                expected,
                "{action} {name} {more}"
            );
        }
    }
    for name in [
        "mcp__git",
        "mcp__hub",
        "create_issue",
        "mcp__gitlab__*",
        "github",
    ] {
        assert_eq!(
            decision(&format!("allow {name}"), call),
            Decision::Ask,
            "{name}"
        );
    }
    // A tool with its plugin's name is found by the same names.
    for name in [
        "mcp__github",
        "mcp__github__create_issue",
        "github__create_issue",
    ] {
        let call = "github/create_issue category=mcp";
        assert_eq!(
            decision(&format!("allow {name}"), call),
            Decision::Allow,
            "{name}"
        );
    }
    assert_eq!(
        decision("allow mcp__*", "files/write_file writes"),
        Decision::Ask
    );
}

#[test]
fn families_cover_tools_by_what_they_do() {
    table(
        "mode dont_ask
         allow Read
         allow Edit
         allow Bash
         allow WebFetch",
        "files/read_file reads kind=read path=a
         search/grep reads kind=search pattern=x
         files/stat reads path=a
         x/tool_that_says_it_reads kind=read path=a
         srv/mcp__srv__read reads kind=read path=a
         files/delete_file destroys kind=delete path=a
         files/move_file destroys kind=move from=a to=b
         files/copy_file writes kind=edit from=a to=b
         files/touch writes path=a
         x/drop_tables destroys
         system/shell kind=execute command=make
         web/http_get reads network kind=fetch url=https://a.example/
         web/upload writes network path=a url=https://a.example/
         data/json_parse pure",
        expect![[r#"
            files/read_file reads kind=read path=a → allow by rule user:1 allow `Read`
            search/grep reads kind=search pattern=x → allow by rule user:1 allow `Read`
            files/stat reads path=a → allow by rule user:1 allow `Read`
            x/tool_that_says_it_reads kind=read path=a → deny: `tool_that_says_it_reads` may not write `a` in mode dont_ask: it changes files
            srv/mcp__srv__read reads kind=read path=a → deny: `mcp__srv__read` may not read `a` in mode dont_ask: it reads
            files/delete_file destroys kind=delete path=a → allow by rule user:2 allow `Edit`
            files/move_file destroys kind=move from=a to=b → allow by rule user:2 allow `Edit`
            files/copy_file writes kind=edit from=a to=b → allow by rule user:2 allow `Edit`
            files/touch writes path=a → allow by rule user:2 allow `Edit`
            x/drop_tables destroys → deny: `drop_tables` may not run in mode dont_ask: it may have side effects
            system/shell kind=execute command=make → allow by rule user:3 allow `Bash`
            web/http_get reads network kind=fetch url=https://a.example/ → allow by rule user:4 allow `WebFetch`
            web/upload writes network path=a url=https://a.example/ → allow by rule user:2 allow `Edit`, rule user:4 allow `WebFetch`
            data/json_parse pure → deny: `json_parse` may not run in mode dont_ask: it reads
        "#]],
    );
}

#[test]
fn r_204_a_rule_may_depend_on_the_user_the_agent_the_version_and_the_hints() {
    for (rules, call, expected) in [
        ("allow x user=alice", "a/x user:alice", Decision::Allow),
        ("allow x user=alice", "a/x user:bob", Decision::Ask),
        ("allow x user=alice", "a/x", Decision::Ask),
        ("deny x user=bob", "a/x pure user:bob", Decision::Deny),
        (
            "deny x subagent=helper",
            "a/x pure agent:helper",
            Decision::Deny,
        ),
        (
            "deny x subagent=helper",
            "a/x pure agent:other",
            Decision::Allow,
        ),
        ("deny x subagent=main", "a/x pure", Decision::Allow),
        ("allow x version=^1.2", "a/x version=1.4.0", Decision::Allow),
        ("allow x version=^1.2", "a/x version=2.0.0", Decision::Ask),
        ("allow x version=^1.2", "a/x version=odd", Decision::Ask),
        (
            "deny x version=^1.2",
            "a/x pure version=odd",
            Decision::Deny,
        ),
        // R-493: a version after the name has the same effect.
        ("allow x@^1.2", "a/x version=1.4.0", Decision::Allow),
        ("allow x@^1.2", "a/x version=2.0.0", Decision::Ask),
        ("allow a/x@1.2.3", "a/x version=1.2.3", Decision::Allow),
        ("allow a/x@1.2.3", "a/x version=1.2.3-rc.1", Decision::Ask),
        (
            "deny x@1.2.3",
            "a/x pure version=1.2.3-rc.1",
            Decision::Deny,
        ),
        ("deny x@1.2.3", "a/x pure version=1.2.4", Decision::Allow),
        ("deny x@1.2.3", "a/x pure version=odd", Decision::Deny),
        (
            "deny Read@1(**/a@2)",
            "a/x reads kind=read path=a@2 version=1.9.0",
            Decision::Deny,
        ),
        (
            "deny Read(**/a@2)",
            "a/x reads kind=read path=a@2",
            Decision::Deny,
        ),
        ("allow * hint:idempotent=true", "a/x", Decision::Ask),
        ("deny * hint:destructive=true", "a/x", Decision::Deny),
        ("deny * hint:destructive=true", "a/x reads", Decision::Allow),
        (
            "deny * modes=plan,readonly",
            "a/x reads in:plan",
            Decision::Deny,
        ),
        ("deny * modes=plan,readonly", "a/x reads", Decision::Allow),
        ("allow * modes=default", "a/x", Decision::Allow),
        ("allow * modes=default", "a/x in:plan", Decision::Deny),
        ("allow * interactive=no", "a/x", Decision::Ask),
        ("no_prompt\nallow * interactive=no", "a/x", Decision::Allow),
    ] {
        assert_eq!(decision(rules, call), expected, "{rules} | {call}");
    }
}

#[test]
fn hook_decisions_apply_within_their_limits() {
    for (rules, hook, expected) in [
        ("", "hook:allow", Decision::Allow),
        ("ask x", "hook:allow", Decision::Ask),
        ("ask x @50", "hook:allow", Decision::Allow),
        ("workspace ask x", "hook:allow", Decision::Allow),
        ("admin ask x", "hook:allow", Decision::Ask),
        ("deny x", "hook:allow", Decision::Deny),
        ("workspace deny x @0", "hook:allow", Decision::Deny),
        ("mode plan", "hook:allow", Decision::Allow),
        ("mode custom\ncallback", "hook:allow", Decision::Allow),
        ("mode custom\ncallback", "", Decision::Allow),
        ("mode ask", "hook:allow", Decision::Allow),
        ("mode ask", "", Decision::Ask),
        ("allow x", "hook:ask", Decision::Ask),
        ("mode yolo", "hook:ask", Decision::Ask),
        ("admin allow x", "hook:ask", Decision::Ask),
        ("deny x", "hook:ask", Decision::Deny),
        ("mode plan", "hook:ask", Decision::Deny),
        ("", "hook:allow hook:ask", Decision::Ask),
    ] {
        assert_eq!(
            decision(rules, &format!("a/x {hook}")),
            expected,
            "{rules} | {hook}"
        );
    }
}

#[test]
fn a_denial_by_rule_is_known_before_hooks_run() {
    let forbids = |rules: &str, call: &str| {
        policy(rules)
            .find_denial(Fixture::of(call).request())
            .map(|denial| denial.reason)
    };
    expect!["rule user:1 deny `x` forbids `x`"]
        .assert_eq(&forbids("deny x", "a/x hook:allow").unwrap_or_default());
    expect![[r#"src is frozen\u{1b}[2J"#]].assert_eq(
        &forbids(
            "admin deny Edit(src/**) says=\"src is frozen\u{1b}[2J\"",
            WRITE,
        )
        .unwrap_or_default(),
    );
    expect!["Access denied: path is outside the allowed paths: lib"]
        .assert_eq(&forbids("allowed src", "a/x reads path=lib").unwrap_or_default());
    for (rules, call) in [
        ("ask x", "a/x"),
        ("mode plan", "a/x"),
        ("", "a/x"),
        ("deny * @10\nallow x @20", "a/x"),
    ] {
        assert_eq!(forbids(rules, call), None, "{rules}");
    }
}

#[test]
fn c_12_a_tool_is_never_allowed_where_a_rule_denies_all_its_calls() {
    let shell = "system/shell kind=execute command=ls";
    let write = "files/write_file writes kind=edit path=a";
    let read = "files/read_file reads kind=read path=a";
    for (rules, call, never) in [
        ("deny shell", shell, true),
        ("deny Bash", shell, true),
        ("deny *", read, true),
        ("deny files/*", write, true),
        ("deny write_*", write, true),
        ("deny Edit", write, true),
        ("deny Read", read, true),
        ("admin deny shell\nallow shell @900", shell, true),
        ("deny shell modes=plan", shell, false),
        ("deny shell user=alice", shell, false),
        ("deny shell(git push *)", shell, false),
        ("deny Read(secrets/**)", read, false),
        ("deny Bash @100\nallow shell(git *) @200", shell, false),
        ("deny Bash\nallow shell(git *) @999", shell, true),
        ("ask shell", shell, false),
        ("deny Read", write, false),
    ] {
        let world = Fixture::of(call);
        let policy = policy(rules);
        let found = policy.always_denies(NamedTool {
            plugin: &world.plugin,
            name: &world.name,
            tool: &world.tool,
            aliases: &world.aliases,
        });
        assert_eq!(found, never, "{rules} {call}");
        let verdict = world.decide(&policy, &[]);
        assert!(
            !never || matches!(verdict, Verdict::Deny(_)),
            "{rules} {call}"
        );
    }
}

#[test]
fn a_rule_that_is_added_later_counts_like_one_of_the_configuration() {
    let decide = |policy: &Policy| decision_of(&Fixture::of(WRITE).decide(policy, &[]));
    let allow = || RuleSpec::new(Decision::Allow, "write_file");
    let added = |rules: &str| policy(rules).with_rule(allow());
    let plan = added("").unwrap().with_mode(Mode::Plan).unwrap();
    assert_eq!(decide(&policy("")), Decision::Ask);
    assert_eq!(decide(&added("").unwrap()), Decision::Allow);
    assert_eq!(decide(&added("deny Write").unwrap()), Decision::Deny);
    // The mode that a session has set stays.
    assert_eq!(plan.with_rule(allow()).unwrap().mode(), Mode::Plan);
    let refused = added("once_only").unwrap_err();
    assert!(
        refused.message.contains("disable_always_allow"),
        "{refused}"
    );
    let wrong = policy("").with_rule(RuleSpec::new(Decision::Allow, "write_file("));
    assert!(wrong.is_err());
}
