use expect_test::{Expect, expect};

use super::*;
use crate::Annotations;

/// `rules` is lines of `allow|ask|deny PATTERN`; `tool` is `plugin/name words…` with the words of the SDK.
fn check(rules: &str, tool: &str, expect: Expect) {
    expect.assert_eq(&show(&run(rules, tool)));
}

fn run(rules: &str, tool: &str) -> Verdict {
    let mut parsed = Rules::default();
    for line in rules.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (decision, pattern) = line.split_once(' ').expect("decision and pattern");
        let list = match decision {
            "allow" => &mut parsed.allow,
            "ask" => &mut parsed.ask,
            "deny" => &mut parsed.deny,
            other => panic!("{other}"),
        };
        list.push(pattern.trim().to_owned());
    }
    let mut words = tool.split_whitespace();
    let (plugin, name) = words
        .next()
        .and_then(|full| full.split_once('/'))
        .expect("plugin/name");
    let plugin = PluginName::parse(plugin).unwrap();
    let name = ToolName::parse(name).unwrap();
    let mut tool = Descriptor::new(name.clone(), "a tool");
    for word in words {
        let hints = &mut tool.annotations;
        match word {
            "pure" => {
                *hints = Annotations {
                    pure: Some(true),
                    read_only: Some(true),
                    destructive: Some(false),
                    ..*hints
                };
            }
            "reads" => {
                *hints = Annotations {
                    read_only: Some(true),
                    destructive: Some(false),
                    ..*hints
                }
            }
            "writes" => {
                *hints = Annotations {
                    read_only: Some(false),
                    destructive: Some(false),
                    ..*hints
                }
            }
            "destroys" => {
                *hints = Annotations {
                    read_only: Some(false),
                    destructive: Some(true),
                    ..*hints
                }
            }
            "network" => hints.open_world = Some(true),
            "interactive" => hints.interactive = Some(true),
            other => tool.timeout = Some(crate::units::parse_duration(other).unwrap()),
        }
    }
    decide(
        &parsed,
        Request {
            plugin: &plugin,
            name: &name,
            tool: &tool,
            timeout: None,
        },
    )
}

fn show(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Allow(grant) => format!(
            "allow files={:?} env={} {}s by {}",
            grant.files,
            grant.environment,
            grant.timeout.as_secs(),
            grant.by
        ),
        Verdict::Ask(question) => format!("ask because {}", question.reason),
        Verdict::Deny(denial) => format!("deny because {}", denial.reason),
    }
}

#[test]
fn reading_inside_the_grant_needs_nobody() {
    check(
        "",
        "files/read_file reads",
        expect!["allow files=ReadOnly env=true 30s by default: reads only, inside granted paths"],
    );
}

#[test]
fn a_pure_tool_gets_nothing_at_all() {
    check(
        "",
        "data/json_parse pure",
        expect!["allow files=Nothing env=false 30s by default: reads only, inside granted paths"],
    );
}

#[test]
fn whoever_changes_things_is_asked_about() {
    check(
        "",
        "files/write_file writes",
        expect!["ask because it changes files"],
    );
    check(
        "",
        "files/delete_file destroys",
        expect!["ask because it may destroy data"],
    );
    check("", "x/unknown", expect!["ask because it may destroy data"]);
    check(
        "",
        "web/fetch reads network",
        expect!["ask because it reaches beyond this machine or a person"],
    );
    check(
        "",
        "x/ask_user reads interactive",
        expect!["ask because it reaches beyond this machine or a person"],
    );
}

#[test]
fn a_rule_allows_by_any_of_the_names() {
    for pattern in ["write_file", "files/write_file", "files/*", "*"] {
        let verdict = run(&format!("allow {pattern}"), "files/write_file writes");
        assert!(matches!(verdict, Verdict::Allow(_)), "{pattern}");
    }
    for pattern in ["write", "other/write_file", "other/*", "write_*"] {
        let verdict = run(&format!("allow {pattern}"), "files/write_file writes");
        assert!(matches!(verdict, Verdict::Ask(_)), "{pattern}");
    }
}

#[test]
fn deny_beats_ask_beats_allow_in_every_combination() {
    for allow in ["", "allow *", "allow read_file"] {
        for ask in ["", "ask *", "ask files/*"] {
            for deny in ["deny *", "deny read_file", "deny files/*"] {
                let verdict = run(&format!("{allow}\n{ask}\n{deny}"), "files/read_file reads");
                assert!(matches!(verdict, Verdict::Deny(_)), "{allow} {ask} {deny}");
            }
            if !ask.is_empty() {
                let verdict = run(&format!("{allow}\n{ask}"), "files/read_file reads");
                assert!(matches!(verdict, Verdict::Ask(_)), "{allow} {ask}");
            }
        }
    }
}

#[test]
fn timeouts_come_from_the_tool_or_its_kind_and_have_a_maximum() {
    check(
        "allow *",
        "x/a writes network",
        expect!["allow files=AsGranted env=true 60s by rule allow `*`"],
    );
    check(
        "allow *",
        "x/a writes 90s",
        expect!["allow files=AsGranted env=true 90s by rule allow `*`"],
    );
    check(
        "allow *",
        "x/a writes 5h",
        expect!["allow files=AsGranted env=true 600s by rule allow `*`"],
    );
}

#[test]
fn nobody_to_ask_is_no_and_says_what_would_change_it() {
    let Verdict::Ask(question) = run("", "files/write_file writes") else {
        panic!("asks")
    };
    let denial = settle(question.clone(), Answer::NobodyToAsk).unwrap_err();
    expect![
        "`write_file` needs a person's yes (it changes files), and there is no terminal to ask at"
    ]
    .assert_eq(&denial.reason);
    expect![[r#"to allow it: run host with --allow-tool write_file, or put `allow = ["write_file"]` under [policy] in toolhost.toml"#]]
        .assert_eq(denial.remedy.as_deref().unwrap_or(""));
    assert_eq!(
        settle(question.clone(), Answer::Allow).unwrap().files(),
        FileAccess::AsGranted
    );
    let denial = settle(
        question,
        Answer::Deny {
            note: Some("not today".to_owned()),
        },
    )
    .unwrap_err();
    expect!["the user said no to `write_file`: not today"].assert_eq(&denial.reason);
}
