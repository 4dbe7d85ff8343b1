//! Entering and leaving plan mode.

use std::cell::RefCell;
use std::rc::Rc;

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{check, run_examples, shown, write};

/// A session in `mode` whose user answers with another mode.
fn person(mode: &str, answer: &str) -> Context {
    let answer = answer.to_owned();
    Context::test()
        .with_mode(mode)
        .with_service("user.change-mode", move |_| Ok(json!(answer)))
}

#[test]
fn into_plan_mode() {
    check::<enter_plan_mode>(
        &person("default", "plan"),
        json!({}),
        expect![[r#"
        plan mode: changes to files and commands that change something are refused now, except where a rule of the operator's configuration file allows them. Read what you need, ask the user what is unclear, then call exit_plan_mode with the plan.
        summary: in plan mode
        {"mode":"plan"}"#]],
    );
    check::<enter_plan_mode>(
        &person("default", "default"),
        json!({"reason": "r"}),
        expect![[r#"
            Denied user_denied: the mode is still default: the user declined plan mode
            - go on without a plan"#]],
    );
    check::<enter_plan_mode>(
        &person("plan", "plan"),
        json!({}),
        expect![
            "InvalidInput already_in_plan_mode: already in plan mode; read what you need, then call exit_plan_mode with the plan"
        ],
    );
}

// R-311
#[test]
fn r_311_user_approval_ends_plan_mode() {
    check::<exit_plan_mode>(
        &person("plan", "accept_edits"),
        json!({"plan": "# Plan"}),
        expect![[r#"
            the user approved the plan; the mode is now accept_edits. Carry it out.
            summary: plan approved, mode accept_edits
            {"approved":true,"mode":"accept_edits"}"#]],
    );
    check::<exit_plan_mode>(
        &person("plan", "plan"),
        json!({"plan": "# Plan"}),
        expect![[r#"
            the plan was not approved
            Still in plan mode: revise the plan and call exit_plan_mode again.
            summary: plan not approved
            {"approved":false,"mode":"plan"}"#]],
    );
    let no = Context::test()
        .with_mode("plan")
        .with_service("user.change-mode", |_| {
            Err(Error::denied("keep the old name").code("user_denied"))
        });
    check::<exit_plan_mode>(
        &no,
        json!({"plan": "# Plan"}),
        expect![[r#"
            the plan was not approved: keep the old name
            Still in plan mode: revise the plan and call exit_plan_mode again.
            summary: plan not approved
            {"approved":false,"mode":"plan","feedback":"keep the old name"}"#]],
    );
    check::<exit_plan_mode>(
        &person("default", "default"),
        json!({"plan": "# Plan"}),
        expect![[r#"
            InvalidInput not_in_plan_mode: not in plan mode; the mode is default
            - do the work, or call enter_plan_mode first"#]],
    );
}

#[test]
fn the_question_contains_the_plan() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("docs/plan.md", "from a file\n")]);
    let requests = Rc::new(RefCell::new(Vec::new()));
    let cx = || {
        let requests = Rc::clone(&requests);
        Context::test()
            .with_mode("plan")
            .with_root(dir.path(), "ro")
            .with_service("user.change-mode", move |request| {
                requests.borrow_mut().push(request);
                Ok(json!("default"))
            })
    };
    shown::<exit_plan_mode>(&cx(), json!({"plan": " as text "}));
    shown::<exit_plan_mode>(&cx(), json!({"planFilePath": "docs/../docs/plan.md"}));
    shown::<exit_plan_mode>(&cx(), json!({"plan_path": dir.path().join("docs/plan.md")}));
    let reasons: Vec<Value> = requests.take();
    let request = |reason: &str| json!({"to": "default", "reason": reason});
    assert_eq!(
        reasons,
        [
            request("as text"),
            request("from a file"),
            request("from a file")
        ]
    );
}

#[test]
fn bad_plans() {
    let dir = tempfile::tempdir().unwrap();
    write(
        dir.path(),
        &[("empty.md", " \n"), ("plan.txt", "x"), ("dir.md/x", "x")],
    );
    write(dir.path(), &[("long.md", &"x".repeat(MOST_BYTES + 1))]);
    fs::write(dir.path().join("bytes.md"), [0xff, 0xfe]).unwrap();
    let refused = |input: Value, expected: Expect| {
        let cx = person("plan", "default")
            .with_root(dir.path(), "ro")
            .with_root("/skills/1", "ro");
        expected.assert_eq(&shown::<exit_plan_mode>(&cx, input));
    };
    refused(
        json!({}),
        expect![
            "InvalidInput invalid_plan: no plan; pass it as `plan`, or its file as `plan_path`"
        ],
    );
    refused(
        json!({"plan": "x", "plan_path": "x.md"}),
        expect![
            "InvalidInput invalid_plan: `plan` and `plan_path` are mutually exclusive; omit one"
        ],
    );
    refused(
        json!({"plan": " \n"}),
        expect!["InvalidInput invalid_plan: `plan` is empty; describe what you are going to do"],
    );
    refused(
        json!({"plan": "x".repeat(MOST_BYTES + 1)}),
        expect!["InvalidInput invalid_plan: `plan` has 16001 bytes; at most 16000 can be shown"],
    );
    refused(
        json!({"plan_path": "empty.md"}),
        expect!["InvalidInput invalid_plan: empty.md is empty; describe what you are going to do"],
    );
    refused(
        json!({"plan_path": "long.md"}),
        expect!["InvalidInput invalid_plan: long.md has 16001 bytes; at most 16000 can be shown"],
    );
    refused(
        json!({"plan_path": "bytes.md"}),
        expect!["InvalidInput invalid_plan: bytes.md is not text in UTF-8"],
    );
    refused(
        json!({"plan_path": "dir.md"}),
        expect!["Failed read_content_failure: cannot read dir.md: Is a directory (os error 21)"],
    );
    refused(
        json!({"plan_path": "plan.txt"}),
        expect!["InvalidInput invalid_plan: plan.txt is not a path of a `.md` file"],
    );
    refused(
        json!({"plan_path": "missing.md"}),
        expect![[r#"
        NotFound file_not_found: File not found: missing.md
        - write the plan to it first, or pass it as `plan`"#]],
    );
    refused(
        json!({"plan_path": "../plan.md"}),
        expect![[r#"
        Denied path_not_in_workspace: Access denied: ../plan.md is outside the workspace
        - write the plan to a `.md` file in the workspace, or pass it as `plan`"#]],
    );
    refused(
        json!({"plan_path": "/skills/1/plan.md"}),
        expect![[r#"
        Denied path_not_in_workspace: Access denied: /skills/1/plan.md is outside the workspace
        - write the plan to a `.md` file in the workspace, or pass it as `plan`"#]],
    );
    let nowhere = person("plan", "default");
    check::<exit_plan_mode>(
        &nowhere,
        json!({"plan_path": "plan.md"}),
        expect![[r#"
        Denied path_not_in_workspace: Access denied: plan.md is outside the workspace
        - write the plan to a `.md` file in the workspace, or pass it as `plan`"#]],
    );
}

#[test]
fn user_unavailable() {
    let cx = Context::test()
        .with_mode("plan")
        .with_service("user.change-mode", |_| {
            Err(Error::unavailable("nobody is there to agree").code("no_user"))
        });
    check::<exit_plan_mode>(
        &cx,
        json!({"plan": "x"}),
        expect!["Unavailable no_user: nobody is there to agree"],
    );
}

#[test]
fn examples_work() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), &[("plan.md", "x")]);
    run_examples::<enter_plan_mode>(|| person("default", "plan"));
    run_examples::<exit_plan_mode>(|| person("plan", "default").with_root(dir.path(), "ro"));
}
