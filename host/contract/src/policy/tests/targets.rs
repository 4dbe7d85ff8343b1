//! Tests of rule targets: commands, addresses, input members, paths and redirections.

use expect_test::expect;

use super::rules::decision;
use super::*;

#[test]
fn a_command_is_allowed_by_its_own_words() {
    table(
        "allow Bash(git *)
         allow run_shell_command(npm run test:*)
         allow shell(make)
         deny Bash(git push *)
         ask Bash(git fetch:*)",
        "system/bash kind=execute command=\"git status -s\"
         system/bash kind=execute command=git
         system/bash kind=execute command=gitx
         system/bash kind=execute command=\"git push --force\"
         system/bash kind=execute command=\"git fetch\"
         system/bash kind=execute command=\"npm run test\"
         system/bash kind=execute command=\"npm run test all\"
         system/bash kind=execute command=\"npm run build\"
         system/bash kind=execute command=make
         system/bash kind=execute command=\"make install\"
         system/bash kind=execute command=\"$(echo rm) -rf x\"
         system/bash kind=execute",
        expect![[r#"
            system/bash kind=execute command="git status -s" → allow by rule user:1 allow `Bash(git *)`
            system/bash kind=execute command=git → allow by rule user:1 allow `Bash(git *)`
            system/bash kind=execute command=gitx → ask: it runs a command
            system/bash kind=execute command="git push --force" → deny: rule user:4 deny `Bash(git push *)` forbids `bash`
            system/bash kind=execute command="git fetch" → ask: rule user:5 ask `Bash(git fetch:*)`
            system/bash kind=execute command="npm run test" → allow by rule user:2 allow `run_shell_command(npm run test:*)`
            system/bash kind=execute command="npm run test all" → allow by rule user:2 allow `run_shell_command(npm run test:*)`
            system/bash kind=execute command="npm run build" → ask: it runs a command
            system/bash kind=execute command=make → allow by rule user:3 allow `shell(make)`
            system/bash kind=execute command="make install" → ask: it runs a command
            system/bash kind=execute command="$(echo rm) -rf x" → deny: rule user:4 deny `Bash(git push *)` forbids `bash`
            system/bash kind=execute → ask: it runs a command
        "#]],
    );
}

#[test]
fn a_command_that_cannot_be_read_is_asked_about_however_free_the_tool_is() {
    let call = "system/bash kind=execute command=\"if [ ; then\"";
    for rules in [
        "allow Bash",
        "allow *",
        "mode auto",
        "mode yolo\ndeny Bash(rm *)",
        "mode yolo\nask Bash(git *)",
    ] {
        assert_eq!(decision(rules, call), Decision::Ask, "{rules}");
    }
    assert_eq!(decision("mode yolo", call), Decision::Allow);
    for rules in [
        "deny Bash",
        "mode plan",
        "mode dont_ask",
        "mode yolo\ndeny *",
    ] {
        assert_eq!(decision(rules, call), Decision::Deny, "{rules}");
    }
}

// R-328
#[test]
fn each_of_several_addresses_is_judged() {
    table(
        "allow WebFetch(domain:example.com)
         deny WebFetch(domain:evil.org)",
        r#"web/web_fetch reads network kind=fetch urls=['https://example.com/a','https://example.com/b']
           web/web_fetch reads network kind=fetch url=https://example.com/ urls=['https://other.org/']
           web/web_fetch reads network kind=fetch url=https://example.com/ urls=['https://evil.org/']
           web/web_fetch reads network kind=fetch urls=['https://example.com/',5]
           web/web_fetch reads network kind=fetch urls=[]"#,
        expect![[r#"
            web/web_fetch reads network kind=fetch urls=['https://example.com/a','https://example.com/b'] → allow by rule user:1 allow `WebFetch(domain:example.com)`
            web/web_fetch reads network kind=fetch url=https://example.com/ urls=['https://other.org/'] → ask: it accesses the network
            web/web_fetch reads network kind=fetch url=https://example.com/ urls=['https://evil.org/'] → deny: rule user:2 deny `WebFetch(domain:evil.org)` forbids `web_fetch`
            web/web_fetch reads network kind=fetch urls=['https://example.com/',5] → deny: rule user:2 deny `WebFetch(domain:evil.org)` forbids `web_fetch`
            web/web_fetch reads network kind=fetch urls=[] → ask: it accesses the network
        "#]],
    );
}

#[test]
fn an_address_is_denied_in_every_spelling() {
    table(
        "allow WebFetch
         deny WebFetch(domain:127.0.0.1)
         deny WebFetch(domain:0:0::0:1)",
        r#"web/http_get reads network kind=fetch url=http://127.0.0.1/
           web/http_get reads network kind=fetch url=http://2130706433/
           web/http_get reads network kind=fetch url=http://0x7f.1/
           web/http_get reads network kind=fetch url=http://127.0.0.01/
           web/http_get reads network kind=fetch url=http://[::ffff:127.0.0.1]/
           web/http_get reads network kind=fetch url=http://[0:0:0:0:0:0:0:1]/
           web/http_get reads network kind=fetch url=http://127.0.0.1../
           web/http_get reads network kind=fetch url=http://127.0.0.2/"#,
        expect![[r#"
            web/http_get reads network kind=fetch url=http://127.0.0.1/ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://2130706433/ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://0x7f.1/ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://127.0.0.01/ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://[::ffff:127.0.0.1]/ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://[0:0:0:0:0:0:0:1]/ → deny: rule user:3 deny `WebFetch(domain:0:0::0:1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://127.0.0.1../ → deny: rule user:2 deny `WebFetch(domain:127.0.0.1)` forbids `http_get`
            web/http_get reads network kind=fetch url=http://127.0.0.2/ → allow by rule user:1 allow `WebFetch`
        "#]],
    );
}

#[test]
fn an_address_is_allowed_by_its_host() {
    table(
        "allow WebFetch(domain:example.com)
         allow WebFetch(domain:*.good.org)
         deny WebFetch(domain:evil.good.org)",
        r#"web/http_get reads network kind=fetch url=https://example.com/a
           web/http_get reads network kind=fetch url=HTTPS://EXAMPLE.com.:8443/a
           web/http_get reads network kind=fetch url=https://user@example.com/
           web/http_get reads network kind=fetch url=https://example.com@evil.net/
           web/http_get reads network kind=fetch url=https://example.com.evil.net/
           web/http_get reads network kind=fetch url=https://evilexample.com/
           web/http_get reads network kind=fetch url=https://sub.example.com/
           web/http_get reads network kind=fetch url=https://a.good.org/
           web/http_get reads network kind=fetch url=https://good.org/
           web/http_get reads network kind=fetch url=https://evil.good.org/
           web/http_get reads network kind=fetch url=https://evil.net\example.com/
           web/http_get reads network kind=fetch url=example.com
           web/http_get reads network kind=fetch url=https://éxample.com/
           web/http_get reads network kind=fetch"#,
        expect![[r#"
            web/http_get reads network kind=fetch url=https://example.com/a → allow by rule user:1 allow `WebFetch(domain:example.com)`
            web/http_get reads network kind=fetch url=HTTPS://EXAMPLE.com.:8443/a → allow by rule user:1 allow `WebFetch(domain:example.com)`
            web/http_get reads network kind=fetch url=https://user@example.com/ → allow by rule user:1 allow `WebFetch(domain:example.com)`
            web/http_get reads network kind=fetch url=https://example.com@evil.net/ → ask: it accesses the network
            web/http_get reads network kind=fetch url=https://example.com.evil.net/ → ask: it accesses the network
            web/http_get reads network kind=fetch url=https://evilexample.com/ → ask: it accesses the network
            web/http_get reads network kind=fetch url=https://sub.example.com/ → ask: it accesses the network
            web/http_get reads network kind=fetch url=https://a.good.org/ → allow by rule user:2 allow `WebFetch(domain:*.good.org)`
            web/http_get reads network kind=fetch url=https://good.org/ → ask: it accesses the network
            web/http_get reads network kind=fetch url=https://evil.good.org/ → deny: rule user:3 deny `WebFetch(domain:evil.good.org)` forbids `http_get`
            web/http_get reads network kind=fetch url=https://evil.net\example.com/ → deny: rule user:3 deny `WebFetch(domain:evil.good.org)` forbids `http_get`
            web/http_get reads network kind=fetch url=example.com → deny: rule user:3 deny `WebFetch(domain:evil.good.org)` forbids `http_get`
            web/http_get reads network kind=fetch url=https://éxample.com/ → deny: rule user:3 deny `WebFetch(domain:evil.good.org)` forbids `http_get`
            web/http_get reads network kind=fetch → ask: it accesses the network
        "#]],
    );
}

#[test]
fn a_rule_may_look_at_members_of_the_input() {
    table(
        "mode dont_ask
         allow Skill(commit)
         allow Task(Explore)
         allow write_file(mode:app*)
         allow deploy arg:/target/name=stag* arg:dry=true
         deny deploy arg:force=1",
        "x/skill alias=Skill pure skill=commit
         x/skill alias=Skill pure skill=deploy
         x/task alias=Task kind=agent subagent_type=Explore
         x/task alias=Task kind=agent subagent_type=Plan
         files/write_file writes kind=edit path=a mode=append
         files/write_file writes kind=edit path=a mode=replace
         x/deploy target={'name':'staging'} dry=[true]",
        expect![[r#"
            x/skill alias=Skill pure skill=commit → allow by rule user:1 allow `Skill(commit)`
            x/skill alias=Skill pure skill=deploy → deny: `skill` may not run in mode dont_ask: it reads
            x/task alias=Task kind=agent subagent_type=Explore → allow by rule user:2 allow `Task(Explore)`
            x/task alias=Task kind=agent subagent_type=Plan → deny: `task` may not run in mode dont_ask: it may have side effects
            files/write_file writes kind=edit path=a mode=append → allow by rule user:3 allow `write_file(mode:app*)`
            files/write_file writes kind=edit path=a mode=replace → deny: `write_file` may not write `a` in mode dont_ask: it changes files
            x/deploy target={'name':'staging'} dry=[true] → deny: `deploy` may not run in mode dont_ask: it may have side effects
        "#]],
    );
    assert_eq!(decision("deny x arg:n=5", "a/x pure n=5"), Decision::Deny);
    assert_eq!(decision("deny x arg:n=5", "a/x pure n=6"), Decision::Allow);
    assert_eq!(
        decision("deny x args_regex=.a.:1,.b.:2", "a/x pure b=2 a=1"),
        Decision::Deny
    );
}

#[test]
fn a_parameter_with_a_path_is_not_compared_only_as_text() {
    let write = "files/write_file writes kind=edit path=";
    for (rules, path, expected) in [
        (
            "allow write_file(path:docs/*)",
            "docs/a.md",
            Decision::Allow,
        ),
        (
            "allow write_file(path:docs/*)",
            "docs/../src/a.rs",
            Decision::Ask,
        ),
        ("allow write_file(path:docs/*)", "docs/..", Decision::Ask),
        (
            "allow write_file arg:path=*",
            "docs/../a.md",
            Decision::Allow,
        ),
        (
            "allow write_file(path:/workspace/docs/*)",
            "/workspace/docs/a",
            Decision::Allow,
        ),
        (
            "allow write_file(path:/workspace/docs/*)",
            "/workspace/docs/../a",
            Decision::Ask,
        ),
        (
            "allow write_file arg:path=docs/*",
            "docs/a.md",
            Decision::Allow,
        ),
        (
            "allow write_file arg:path=docs/*",
            "docs/../src/a.rs",
            Decision::Ask,
        ),
        (
            "allow write_file arg:/path=docs/*",
            "docs/../src/a.rs",
            Decision::Ask,
        ),
        ("deny write_file(path:docs/*)", "docs/a.md", Decision::Deny),
        (
            "deny write_file(path:docs/*)",
            "./docs/a.md",
            Decision::Deny,
        ),
        (
            "deny write_file(path:docs/*)",
            "src/../docs/a.md",
            Decision::Deny,
        ),
        ("deny write_file(path:docs/*)", "docs//a.md", Decision::Deny),
        (
            "deny write_file(path:docs/*)",
            "/workspace/docs/a.md",
            Decision::Deny,
        ),
        ("deny write_file(path:docs/*)", "src/a.md", Decision::Ask),
        (
            "deny write_file(path:/etc/*)",
            "/etc/passwd",
            Decision::Deny,
        ),
        (
            "deny write_file arg:path=docs/*",
            "./docs/a.md",
            Decision::Deny,
        ),
    ] {
        let call = format!("{write}{path}");
        assert_eq!(decision(rules, &call), expected, "{rules}: {path}");
    }
    // Other parameters are texts.
    let call = "files/write_file writes kind=edit path=a mode=a/../b";
    assert_eq!(
        decision("allow write_file(mode:a/*)", call),
        Decision::Allow
    );
}

#[test]
fn a_form_with_any_value_of_a_parameter_can_also_be_a_command() {
    let decision = |rule: &str, parameters: &[&str], call: &str| {
        let mut fixture = Fixture::of(call);
        let properties = parameters
            .iter()
            .map(|name| ((*name).to_owned(), json!({})));
        fixture.tool.input_schema = json!({"properties": properties.collect::<Map<_, _>>()});
        decision_of(&fixture.decide(&policy(rule), &[]))
    };
    let write = &["path", "content"][..];
    let run = &["command", "cwd"][..];
    for (rule, parameters, call, expected) in [
        (
            "deny write_file(content:*)",
            write,
            "x/write_file writes kind=edit path=a content=b",
            Decision::Deny,
        ),
        (
            "ask write_file(content:*)",
            write,
            "x/write_file writes kind=edit path=a content=b",
            Decision::Ask,
        ),
        (
            "deny write_file(content:*)",
            write,
            "x/write_file writes kind=edit path=a",
            Decision::Allow,
        ),
        (
            "deny Edit(edits:*)",
            &["edits"],
            "x/patch writes kind=edit path=a edits=[1]",
            Decision::Deny,
        ),
        (
            "deny shell(cwd:*)",
            run,
            "x/shell kind=execute command=ls cwd=a",
            Decision::Deny,
        ),
        (
            "deny shell(cwd:*)",
            run,
            "x/shell kind=execute command=ls",
            Decision::Allow,
        ),
        (
            "deny Bash(command:*)",
            run,
            "x/shell kind=execute command=ls",
            Decision::Deny,
        ),
        (
            "deny Bash(git:*)",
            run,
            "x/shell kind=execute command=\"git status\"",
            Decision::Deny,
        ),
        (
            "deny Bash(git:*)",
            run,
            "x/shell kind=execute command=ls",
            Decision::Allow,
        ),
        (
            "allow Bash(git:*)",
            &["command", "git"][..],
            "x/shell kind=execute command=\"git status\"",
            Decision::Allow,
        ),
        (
            "allow Bash(git:*)",
            &["command", "git"],
            "x/shell kind=execute command=ls git=a",
            Decision::Deny,
        ),
        (
            "allow Bash(git:*)",
            &["git", "script"],
            "x/exec kind=execute git=a script=b",
            Decision::Deny,
        ),
        (
            "allow exec(git:*)",
            &["git"],
            "x/exec kind=execute git=a command=ls",
            Decision::Deny,
        ),
        (
            "allow run(cwd:*)",
            run,
            "x/run kind=execute command=ls cwd=a",
            Decision::Deny,
        ),
        (
            "allow deploy(target:*)",
            &["target"],
            "x/deploy target=a",
            Decision::Allow,
        ),
        (
            "allow deploy(target:*)",
            &["target"],
            "x/deploy",
            Decision::Deny,
        ),
        (
            "allow deploy(target:*)",
            &[],
            "x/deploy target=a",
            Decision::Deny,
        ),
        (
            "allow Skill(team:*)",
            &["skill"],
            "x/skill alias=Skill skill=team:a",
            Decision::Allow,
        ),
    ] {
        // Without the rule, the call has the other decision.
        let mode = if rule.starts_with("allow") {
            "dont_ask"
        } else {
            "auto"
        };
        let rule = format!("mode {mode}\n{rule}");
        assert_eq!(
            decision(&rule, parameters, call),
            expected,
            "{rule}: {call}"
        );
    }
}

#[test]
fn a_path_that_may_not_be_read_may_not_be_named_to_a_command() {
    table(
        "allow Bash
         deny Read(secrets/**)
         deny Read(~/.ssh/**)
         deny Edit(src/frozen/**)
         ask Read(.env)",
        r#"system/bash kind=execute command="cat secrets/a"
           system/bash kind=execute command="cat ./lib/../secrets/a | head"
           system/bash kind=execute command="cat secrets/*"
           system/bash kind=execute command="ls secrets"
           system/bash kind=execute command="git status && cat ~/.ssh/id_rsa"
           system/bash kind=execute command="cp /home/u/.ssh/id_rsa x"
           system/bash kind=execute command="tar --file=secrets/a.tar -c x"
           system/bash kind=execute command="bash -c 'cat secrets/a'"
           system/bash kind=execute command="wc -l < secrets/a"
           system/bash kind=execute command="echo x > secrets/a"
           system/bash kind=execute command="cat src/frozen/a"
           system/bash kind=execute command="sed -i s/a/b/ src/frozen/a"
           system/bash kind=execute command="cat sub/.env"
           system/bash kind=execute command="cat secretsx ../secrets"
           system/bash kind=execute command="ls""#,
        expect![[r#"
            system/bash kind=execute command="cat secrets/a" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="cat ./lib/../secrets/a | head" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="cat secrets/*" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="ls secrets" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="git status && cat ~/.ssh/id_rsa" → deny: rule user:3 deny `Read(~/.ssh/**)` forbids `bash`
            system/bash kind=execute command="cp /home/u/.ssh/id_rsa x" → deny: rule user:3 deny `Read(~/.ssh/**)` forbids `bash`
            system/bash kind=execute command="tar --file=secrets/a.tar -c x" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="bash -c 'cat secrets/a'" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="wc -l < secrets/a" → deny: rule user:2 deny `Read(secrets/**)` forbids `bash`
            system/bash kind=execute command="echo x > secrets/a" → allow by rule user:1 allow `Bash`
            system/bash kind=execute command="cat src/frozen/a" → allow by rule user:1 allow `Bash`
            system/bash kind=execute command="sed -i s/a/b/ src/frozen/a" → deny: rule user:4 deny `Edit(src/frozen/**)` forbids `bash`
            system/bash kind=execute command="cat sub/.env" → ask: rule user:5 ask `Read(.env)`
            system/bash kind=execute command="cat secretsx ../secrets" → allow by rule user:1 allow `Bash`
            system/bash kind=execute command="ls" → allow by rule user:1 allow `Bash`
        "#]],
    );
}

#[test]
fn a_redirection_is_a_use_of_its_file() {
    table(
        "allow Bash(echo *) redirect
         allow Bash(cargo *)
         allow Edit(out/**)
         deny Edit(src/**)",
        r#"system/bash kind=execute command="echo a > any.txt"
           system/bash kind=execute command="echo a > src/x"
           system/bash kind=execute command="echo a 2>/dev/null"
           system/bash kind=execute command="cargo test > out/log"
           system/bash kind=execute command="cargo test > log"
           system/bash kind=execute command="cargo test && echo a > log"
           system/bash kind=execute command="cargo test > $LOG"
           system/bash kind=execute command="cd /etc && cargo test > out/log"
           system/bash kind=execute command="cargo test > out/log" cwd=/etc"#,
        expect![[r#"
            system/bash kind=execute command="echo a > any.txt" → allow by rule user:1 allow `Bash(echo *)`
            system/bash kind=execute command="echo a > src/x" → deny: rule user:4 deny `Edit(src/**)` forbids `bash`
            system/bash kind=execute command="echo a 2>/dev/null" → allow by rule user:1 allow `Bash(echo *)`
            system/bash kind=execute command="cargo test > out/log" → allow by rule user:2 allow `Bash(cargo *)`, rule user:3 allow `Edit(out/**)`
            system/bash kind=execute command="cargo test > log" → ask: it changes files
            system/bash kind=execute command="cargo test && echo a > log" → ask: it changes files
            system/bash kind=execute command="cargo test > $LOG" → ask: it would run a command that cannot be analyzed (only the running shell determines which file `$LOG` is)
            system/bash kind=execute command="cd /etc && cargo test > out/log" → ask: it runs a command; what `cargo` runs depends on the directory, and it would run in another one; only a rule for all commands and an approval of exactly this input cover that
            system/bash kind=execute command="cargo test > out/log" cwd=/etc → ask: it runs a command; what `cargo` runs depends on the directory, and it would run in another one; only a rule for all commands and an approval of exactly this input cover that
        "#]],
    );
    let call = "system/bash kind=execute command=\"cargo test > $LOG\"";
    for (rules, expected) in [
        ("mode yolo", Decision::Allow),
        ("mode yolo\ndeny Edit(src/**)", Decision::Ask),
        ("mode auto", Decision::Ask),
        ("mode plan", Decision::Deny),
        ("allow Bash(cargo *) redirect", Decision::Ask),
        ("allow Bash", Decision::Ask),
    ] {
        assert_eq!(decision(rules, call), expected, "{rules}");
    }
}

#[test]
fn a_tool_that_runs_commands_or_is_foreign_may_reach_out_without_a_further_yes() {
    for (rules, call, expected) in [
        (
            "allow Bash(git *)",
            "system/bash network kind=execute command=\"git fetch\"",
            Decision::Allow,
        ),
        (
            "allow bash_run(git *)",
            "system/bash_run kind=execute cmd=\"git fetch\"",
            Decision::Allow,
        ),
        (
            "deny Bash(git *)",
            "system/bash_run kind=execute cmd=\"git fetch\"",
            Decision::Deny,
        ),
        (
            "allow bash_kill",
            "system/bash_kill kind=execute shell_id=x",
            Decision::Allow,
        ),
        (
            "",
            "system/bash_kill kind=execute shell_id=x",
            Decision::Ask,
        ),
        (
            "mode readonly",
            "system/bash_kill kind=execute shell_id=x",
            Decision::Deny,
        ),
        (
            "allow mcp__fs__read(docs/**)",
            "srv/mcp__fs__read network path=docs/a",
            Decision::Allow,
        ),
        (
            "allow mcp__fs__read(docs/**)",
            "srv/mcp__fs__read network path=lib/a",
            Decision::Ask,
        ),
        (
            "allow mcp__web__get(docs/**)",
            "srv/mcp__web__get network path=docs/a url=https://a.example/",
            Decision::Ask,
        ),
        (
            "allow upload(docs/**)",
            "web/upload writes network path=docs/a",
            Decision::Ask,
        ),
    ] {
        assert_eq!(decision(rules, call), expected, "{rules} | {call}");
    }
}
