//! Tests of staged calls, whose known changes are evaluated instead of possible ones.

use expect_test::expect;

use super::*;

#[test]
fn a_rule_applies_to_the_actual_changes() {
    table(
        "deny Edit(secret/**)\nallow Edit(src/**)\nask Edit(docs/**)",
        "files/rewrite writes changed=src/a
         files/rewrite writes changed=src/a,src/b
         files/rewrite writes changed=src/a,other/b
         files/rewrite writes changed=src/a,docs/b
         files/rewrite writes changed=src/a,secret/b
         files/rewrite writes kind=edit changed=src/a
         files/rewrite writes kind=edit
         files/rewrite writes kind=edit path=docs/a changed=src/a
         files/rewrite destroys changed=src/a
         files/rewrite writes nothing
         files/rewrite writes path=secret/a nothing",
        expect![[r#"
            files/rewrite writes changed=src/a → allow by rule user:2 allow `Edit(src/**)`
            files/rewrite writes changed=src/a,src/b → allow by rule user:2 allow `Edit(src/**)`
            files/rewrite writes changed=src/a,other/b → ask: it changes files
            files/rewrite writes changed=src/a,docs/b → ask: rule user:3 ask `Edit(docs/**)`
            files/rewrite writes changed=src/a,secret/b → deny: rule user:1 deny `Edit(secret/**)` forbids `rewrite`
            files/rewrite writes kind=edit changed=src/a → allow by rule user:2 allow `Edit(src/**)`
            files/rewrite writes kind=edit → deny: rule user:1 deny `Edit(secret/**)` forbids `rewrite`
            files/rewrite writes kind=edit path=docs/a changed=src/a → allow by mode default: read, rule user:2 allow `Edit(src/**)`
            files/rewrite destroys changed=src/a → allow by rule user:2 allow `Edit(src/**)`
            files/rewrite writes nothing → allow by mode default: read
            files/rewrite writes path=secret/a nothing → allow by mode default: read
        "#]],
    );
}

#[test]
fn named_paths_count_as_read() {
    table(
        "deny Read(secret/**)\nask Read(docs/**)\nallow Edit(**)",
        "files/copy writes from=secret/a to=b changed=b
         files/copy writes from=docs/a to=b changed=b
         files/copy writes from=a to=b changed=b
         files/copy writes from=docs/a to=b nothing",
        expect![[r#"
            files/copy writes from=secret/a to=b changed=b → deny: rule user:1 deny `Read(secret/**)` forbids `copy`
            files/copy writes from=docs/a to=b changed=b → ask: rule user:2 ask `Read(docs/**)`
            files/copy writes from=a to=b changed=b → allow by mode default: read, rule user:3 allow `Edit(**)`
            files/copy writes from=docs/a to=b nothing → ask: rule user:2 ask `Read(docs/**)`
        "#]],
    );
}

#[test]
fn a_mode_applies_to_the_actual_changes() {
    table(
        "mode accept_edits",
        "files/rewrite writes changed=a
         files/rewrite writes changed=.git/config
         files/rewrite writes changed=a,.bashrc
         files/rewrite destroys changed=a
         files/rewrite writes nothing",
        expect![[r#"
            files/rewrite writes changed=a → allow by mode accept_edits: write
            files/rewrite writes changed=.git/config → ask: it changes a protected path: version control runs programs named in it
            files/rewrite writes changed=a,.bashrc → ask: it changes a protected path: shells and other programs read it when they start
            files/rewrite destroys changed=a → allow by mode accept_edits: write
            files/rewrite writes nothing → allow by mode accept_edits: read
        "#]],
    );
    table(
        "mode dont_ask\nallow Edit(src/**)",
        "files/write writes path=src/a changed=src/a
         files/write writes path=src/a changed=/w/src/a
         files/write writes path=/workspace/src/a changed=/w/src/a
         files/write writes path=other changed=/w/src/a
         files/write writes path=src/a changed=/w/b",
        expect![[r#"
            files/write writes path=src/a changed=src/a → allow by rule user:1 allow `Edit(src/**)`
            files/write writes path=src/a changed=/w/src/a → allow by rule user:1 allow `Edit(src/**)`
            files/write writes path=/workspace/src/a changed=/w/src/a → allow by rule user:1 allow `Edit(src/**)`
            files/write writes path=other changed=/w/src/a → deny: `write` may not read `other` in mode dont_ask: it reads
            files/write writes path=src/a changed=/w/b → deny: `write` may not read `src/a` in mode dont_ask: it reads
        "#]],
    );
    table(
        "mode plan",
        "files/rewrite writes changed=a
         files/rewrite writes nothing",
        expect![[r#"
            files/rewrite writes changed=a → deny: `rewrite` may not write `/w/a` in mode plan: it changes files
            files/rewrite writes nothing → allow by mode plan: read
        "#]],
    );
}

#[test]
fn an_ask_rule_for_the_tool_applies_whatever_it_changed() {
    table(
        "ask files/*",
        "files/rewrite writes nothing
         files/rewrite writes changed=a
         files/rewrite writes hook:allow changed=a",
        expect![[r#"
            files/rewrite writes nothing → ask: rule user:1 ask `files/*`
            files/rewrite writes changed=a → ask: rule user:1 ask `files/*`
            files/rewrite writes hook:allow changed=a → ask: rule user:1 ask `files/*`
        "#]],
    );
    table(
        "",
        "files/rewrite writes hook:ask nothing
         files/rewrite writes tail changed=a
         files/rewrite writes tail nothing",
        expect![[r#"
            files/rewrite writes hook:ask nothing → ask: a hook requires approval
            files/rewrite writes tail changed=a → ask: it changes files
            files/rewrite writes tail nothing → ask: a tool's result requests it
        "#]],
    );
}

/// Only a deny rule prevents a staged run.
#[test]
fn a_call_is_staged_unless_a_rule_denies_it() {
    let policy = policy(
        "deny Edit(secret/**)\ndeny rm\nask files/write\ndeny Read(private/**)\nallow Edit(mine/**)",
    );
    let mut out = String::new();
    for call in [
        "files/write writes path=a",
        "files/write writes path=secret/a",
        "files/rewrite writes kind=edit",
        "files/rm destroys path=a",
        "files/rewrite writes in:plan",
        "files/rewrite writes in:dont_ask",
        "files/write2 writes in:dont_ask path=mine/a",
        "files/rewrite writes hook:ask",
        "files/copy writes from=private/a to=b",
    ] {
        let world = Fixture::of(call);
        let held = match policy.authorize_staged(world.request(), &world.hooks, &[], NOW) {
            Ok(hold) => format!(
                "held: {}, may speak: {}",
                hold.grant.is_staged(),
                hold.may_stream_output
            ),
            Err(denial) => format!("deny: {}", denial.reason),
        };
        let _ = writeln!(out, "{call} → {held}");
    }
    expect![[r#"
        files/write writes path=a → held: true, may speak: false
        files/write writes path=secret/a → deny: rule user:1 deny `Edit(secret/**)` forbids `write`
        files/rewrite writes kind=edit → held: true, may speak: true
        files/rm destroys path=a → deny: rule user:2 deny `rm` forbids `rm`
        files/rewrite writes in:plan → held: true, may speak: true
        files/rewrite writes in:dont_ask → deny: `rewrite` may not run in mode dont_ask: it reads
        files/write2 writes in:dont_ask path=mine/a → held: true, may speak: true
        files/rewrite writes hook:ask → held: true, may speak: false
        files/copy writes from=private/a to=b → deny: rule user:4 deny `Read(private/**)` forbids `copy`
    "#]]
    .assert_eq(&out);
}
