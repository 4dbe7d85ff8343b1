//! Tests of denial texts, rule errors and explanations.

use std::fmt::Write as _;

use expect_test::expect;

use super::rules::WRITE;
use super::*;

#[test]
fn a_denial_names_the_rule_and_the_remedy() {
    let Verdict::Deny(denial) =
        Fixture::of(WRITE).decide(&policy("allow *\nworkspace deny Edit(src/**)"), &[])
    else {
        panic!("denied")
    };
    expect![[r#"
        Denial {
            reason: "rule workspace:1 deny `Edit(src/**)` forbids `write_file`",
            remedy: Some(
                "to allow it: remove or narrow rule workspace:1 deny `Edit(src/**)` (policy)",
            ),
            code: PolicyViolation,
            rule: Some(
                "workspace:1",
            ),
            note: None,
        }
    "#]]
    .assert_debug_eq(&denial);
    let Verdict::Deny(denial) = Fixture::of(WRITE).decide(&policy("mode plan"), &[]) else {
        panic!("denied")
    };
    expect![[r#"
        Denial {
            reason: "`write_file` may not write `src/a.rs` in mode plan: it changes files",
            remedy: Some(
                "to allow it: run host with --allow-tool 'write_file(src/a.rs)', or put `allow = [\"write_file(src/a.rs)\"]` under [policy] in toolhost.toml, or choose a mode that allows more",
            ),
            code: PolicyViolation,
            rule: None,
            note: None,
        }
    "#]].assert_debug_eq(&denial);
}

#[test]
fn an_invalid_rule_is_an_error_with_its_position() {
    let mut out = String::new();
    for form in [
        "",
        "Bash(",
        "Bash()",
        "Read( )",
        "Read(a/../b)",
        "Read(!a)",
        "Read(a[)",
        "WebFetch(example.com)",
        "WebFetch(domain:http://x)",
        "WebFetch(domain:*.*.x)",
        "a b",
        "files/",
        "files/a*",
        "\u{1b}[2J",
        "Read(a/**b{)",
    ] {
        let mut spec = spec("");
        spec.rules = vec![RuleSpec::new(Decision::Deny, form).at(RuleSource {
            file: "toolhost.toml".to_owned(),
            line: 3,
            column: 7,
        })];
        let wrong = Policy::new(spec).map(|_| ()).unwrap_err();
        let _ = writeln!(out, "{}", wrong[0]);
    }
    expect![[r#"
        toolhost.toml:3:7: error: `` is not a tool name; write one such as `read_file`, `plugin/tool` or `Bash(git *)`
        toolhost.toml:3:7: error: `Bash(` is missing its closing `)`
        toolhost.toml:3:7: error: `Bash()` has empty parentheses; omit them to match every call
        toolhost.toml:3:7: error: `Read( )` has empty parentheses; omit them to match every call
        toolhost.toml:3:7: error: pattern `a/../b` contains `.` or `..`; write the resolved path
        toolhost.toml:3:7: error: pattern `!a` starts with `!`; write a separate rule with the opposite decision
        toolhost.toml:3:7: error: pattern `a[`: unclosed character class; missing ']'
        toolhost.toml:3:7: error: `example.com` is not a target; write `domain:example.com`
        toolhost.toml:3:7: error: `http://x` is not a domain; write `example.com` or `*.example.com`, in its ASCII form and without scheme or port
        toolhost.toml:3:7: error: `*.*.x` is not a domain; write `example.com` or `*.example.com`, in its ASCII form and without scheme or port
        toolhost.toml:3:7: error: `a b` is not a tool name; write one such as `read_file`, `plugin/tool` or `Bash(git *)`
        toolhost.toml:3:7: error: `files/` is not a name; write `plugin/tool` or `plugin/*`
        toolhost.toml:3:7: error: `files/a*` is not a name; write `plugin/tool` or `plugin/*`
        toolhost.toml:3:7: error: `\u{1b}[2J` is not a tool name; write one such as `read_file`, `plugin/tool` or `Bash(git *)`
        toolhost.toml:3:7: error: pattern `a/**b{`: unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)
    "#]].assert_eq(&out);
    let wrong = Policy::new(spec(
        "deny a @1000\ndeny b regex=(\ndeny c prefix=*\nask d version=x\nask e hint:nice=true\nask f@1 version=2\nask g@x",
    ))
    .unwrap_err();
    let shown: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    expect![[r#"
        policy: error: priority 1000 is above 999
        policy: error: `^(?:()` is not a regular expression: regex parse error:\n    ^(?:()\n     ^\nerror: unclosed group
        policy: error: command_prefix `*` is empty or contains `*`; write the first words of the command
        policy: error: `x` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`
        policy: error: `nice` is not an annotation; use read_only, pure, destructive, idempotent, open_world, interactive
        policy: error: `f@1` names a version next to another tool or version; write a separate rule for it
        policy: error: `x` is not a version requirement; use one such as `1.2.3`, `1.2.*`, `^1.2` or `>=1.2, <2`"#]].assert_eq(&shown.join("\n"));
}

#[test]
fn an_explanation_shows_every_layer() {
    let policy = policy(
        "mode accept_edits
         workspace allow Edit(src/**)
         ask write_file @50
         ask Edit @50 reason=\"look first\"
         admin allow read_file",
    );
    let world = Fixture::of("files/write_file writes kind=edit path=src/a.rs in:default hook:ask");
    let explanation = policy.explain(world.request(), &world.hooks, &[], NOW);
    expect![[r#"
        files/write_file: ask, rule user:1 ask `write_file`
        a hook requires approval
        policy in mode default, then accept_edits
          write `src/a.rs`: ask
            user: rule user:1 ask `write_file` (priority 50, policy) decides for its tier
            user: rule user:2 ask `Edit` (priority 50, policy) matches
            workspace: rule workspace:1 allow `Edit(src/**)` (priority 100, policy) decides for its tier
        remedy: remove or narrow rule user:1 ask `write_file` (policy), or answer at a terminal
    "#]].assert_eq(&explanation.to_string());
    assert_eq!(explanation.rule_forms(), ["write_file(src/a.rs)"]);
    assert_eq!(explanation.rule(), Some("user:1"));
    expect![[r#"
        {
          "tool": "files/write_file",
          "decision": "ask",
          "reason": "rule user:1 ask `write_file`",
          "remedy": "remove or narrow rule user:1 ask `write_file` (policy), or answer at a terminal",
          "hooks": {
            "allow": null,
            "ask": {
              "reason": null,
              "meta": null
            }
          },
          "layers": [
            {
              "layer": "policy",
              "modes": [
                "default",
                "accept_edits"
              ],
              "accesses": [
                {
                  "access": "write `src/a.rs`",
                  "classes": [
                    "write"
                  ],
                  "tiers": [
                    {
                      "tier": "user",
                      "decides": "user:1",
                      "matched": [
                        {
                          "id": "user:1",
                          "decision": "ask",
                          "priority": 50,
                          "tools": "write_file",
                          "source": "policy"
                        },
                        {
                          "id": "user:2",
                          "decision": "ask",
                          "priority": 50,
                          "tools": "Edit",
                          "source": "policy"
                        }
                      ]
                    },
                    {
                      "tier": "workspace",
                      "decides": "workspace:1",
                      "matched": [
                        {
                          "id": "workspace:1",
                          "decision": "allow",
                          "priority": 100,
                          "tools": "Edit(src/**)",
                          "source": "policy"
                        }
                      ]
                    }
                  ],
                  "decision": "ask",
                  "reason": {
                    "rule": "user:1"
                  },
                  "approvals": [],
                  "outcome": "ask",
                  "modifiers": null
                }
              ]
            }
          ]
        }"#]].assert_eq(&serde_json::to_string_pretty(explanation.to_value()).unwrap());
}
