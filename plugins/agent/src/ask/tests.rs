//! Questions to the user: valid and invalid ones, and their answers.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{check, run_examples, shown};

fn person(answers: Value) -> Context {
    Context::test().with_service("user.ask", move |_| Ok(answers.clone()))
}

fn option(label: &str) -> Value {
    json!({"label": label, "description": "d"})
}

fn choice(labels: &[&str]) -> Value {
    let options: Vec<Value> = labels.iter().map(|label| option(label)).collect();
    json!({"question": "Which?", "header": "Kind", "options": options})
}

fn refused(questions: Value, expected: Expect) {
    // The user must not be asked; the configured answer would be a different error.
    expected.assert_eq(&shown::<ask_user>(
        &person(json!(7)),
        json!({"questions": questions}),
    ));
}

// R-310
#[test]
fn r_310_answers_come_by_question_and_in_order() {
    let questions = json!([
        choice(&["A", "B"]),
        {"question": "Which ones?", "header": "Kinds", "options": [option("C"), option("D")], "multiSelect": true},
        {"question": "Why?", "header": "Reason", "type": "text"},
        {"question": "Sure?", "header": "Sure", "type": "yesno"},
    ]);
    let answers = json!(["A", ["C", "D"], "because\nso", false]);
    check::<ask_user>(
        &person(answers),
        json!({"questions": questions}),
        expect![[r#"
            the user answered:
            Which? → A
            Which ones? → C, D
            Why? → because
            so
            Sure? → no
            summary: Kind: A; Kinds: C, D; Reason: because so; Sure: no
            {"answers":{"Sure?":"no","Which ones?":"C, D","Which?":"A","Why?":"because\nso"},"list":[{"question":"Which?","header":"Kind","answer":"A"},{"question":"Which ones?","header":"Kinds","answer":["C","D"]},{"question":"Why?","header":"Reason","answer":"because\nso"},{"question":"Sure?","header":"Sure","answer":false}],"dismissed":false}"#]],
    );
    check::<ask_user>(
        &person(json!(["something else", [], null, true])),
        json!({"questions": questions}),
        expect![[r#"
            the user answered:
            Which? → something else
            Which ones? → (skipped)
            Why? → (skipped)
            Sure? → yes
            summary: Kind: something else; Sure: yes
            {"answers":{"Sure?":"yes","Which?":"something else"},"list":[{"question":"Which?","header":"Kind","answer":"something else"},{"question":"Which ones?","header":"Kinds","answer":[]},{"question":"Why?","header":"Reason","answer":null},{"question":"Sure?","header":"Sure","answer":true}],"dismissed":false}"#]],
    );
}

#[test]
fn the_host_is_given_every_member() {
    let cx = Context::test().with_service("user.ask", |questions| {
        assert_eq!(
            questions,
            json!([{
                "question": "Which?", "header": "Kind", "type": "choice",
                "options": [option("A"), option("B")], "multi_select": false,
            }])
        );
        Ok(json!(["B"]))
    });
    shown::<ask_user>(&cx, json!({"questions": [choice(&["A", "B"])]}));
}

#[test]
fn a_dismissed_question_is_no_error() {
    let input = || json!({"questions": [choice(&["A", "B"])]});
    let dismissed = expect![[r#"
        the user dismissed the question; continue with your best judgement or ask differently
        summary: dismissed
        {"answers":{},"list":[],"dismissed":true}"#]];
    dismissed.assert_eq(&shown::<ask_user>(&person(json!(null)), input()));
    let no = || {
        Context::test().with_service("user.ask", |_| Err(Error::denied("no").code("user_denied")))
    };
    let closed = Context::test().with_service("user.ask", |_| {
        Err(Error::failed("the user dismissed the question").code("dismissed"))
    });
    dismissed.assert_eq(&shown::<ask_user>(&closed, input()));
    assert_eq!(
        shown::<ask_user>(&no(), input()),
        shown::<ask_user>(&person(json!(null)), input())
    );
    check::<ask_user>(
        &person(json!([null])),
        input(),
        expect![[r#"
        the user dismissed the question; continue with your best judgement or ask differently
        summary: dismissed
        {"answers":{},"list":[{"question":"Which?","header":"Kind","answer":null}],"dismissed":true}"#]],
    );
}

#[test]
fn user_unavailable() {
    let cx = Context::test().with_service("user.ask", |_| {
        Err(Error::unavailable("this session has no terminal").code("no_user"))
    });
    check::<ask_user>(
        &cx,
        json!({"questions": [choice(&["A", "B"])]}),
        expect![[r#"
            Unavailable no_user: no user is available to answer: this session has no terminal
            - continue with your best judgement and state your assumptions at the end"#]],
    );
    check::<ask_user>(
        &Context::test(),
        json!({"questions": [choice(&["A", "B"])]}),
        expect![
            "Denied service_not_granted: no `user.ask` configured; set it up with `with_service`"
        ],
    );
}

#[test]
fn bad_questions() {
    refused(
        json!([]),
        expect![
            "InvalidInput invalid_input: `questions`: a length of 0 is less than the minimum of 1"
        ],
    );
    refused(
        json!([
            choice(&[]),
            choice(&[]),
            choice(&[]),
            choice(&[]),
            choice(&[])
        ]),
        expect![
            "InvalidInput invalid_input: `questions`: a length of 5 is more than the maximum of 4"
        ],
    );
    refused(
        json!([{"question": "Which?", "header": "thirteen char"}]),
        expect![
            "InvalidInput invalid_input: `questions`[0].`header`: a length of 13 is more than the maximum of 12"
        ],
    );
    refused(
        json!([{"question": "Which?", "header": "Kind"}]),
        expect![
            "InvalidInput invalid_question: questions[0] (Kind): a choice needs 2 to 4 options, this one has 0; use the type `text` for a free answer"
        ],
    );
    refused(
        json!([choice(&["A"])]),
        expect![
            "InvalidInput invalid_question: questions[0] (Kind): a choice needs 2 to 4 options, this one has 1; use the type `text` for a free answer"
        ],
    );
    refused(
        json!([choice(&["A", "B", "C", "D", "E"])]),
        expect![
            "InvalidInput invalid_input: `questions`[0].`options`: a length of 5 is more than the maximum of 4"
        ],
    );
    refused(
        json!([choice(&["A", " a "])]),
        expect![[
            r#"InvalidInput invalid_question: questions[0] (Kind): two options have the label "a"; labels are unique"#
        ]],
    );
    refused(
        json!([choice(&["A", "Other"])]),
        expect![[
            r#"InvalidInput invalid_question: questions[0] (Kind): "Other" is added automatically; omit it"#
        ]],
    );
    refused(
        json!([choice(&["A", " "])]),
        expect!["InvalidInput invalid_question: questions[0] (Kind): an option has an empty label"],
    );
    refused(
        json!([choice(&["A", "B"]), choice(&["A", "B"])]),
        expect![
            "InvalidInput invalid_question: questions[1] (Kind): the same question is given twice; ask it once"
        ],
    );
    refused(
        json!([{"question": " ", "header": "Kind", "type": "text"}]),
        expect![
            "InvalidInput invalid_question: questions[0] (Kind): `question` and `header` must not be empty"
        ],
    );
    refused(
        json!([{"question": "?", "header": "Kind", "type": "text", "options": [option("A"), option("B")]}]),
        expect![
            "InvalidInput invalid_question: questions[0] (Kind): `options` and `multi_select` need the type `choice`; omit them"
        ],
    );
    refused(
        json!([{"question": "?", "header": "Kind", "type": "yesno", "multi_select": true}]),
        expect![
            "InvalidInput invalid_question: questions[0] (Kind): `options` and `multi_select` need the type `choice`; omit them"
        ],
    );
    refused(
        json!([choice(&["A", "B"])]),
        expect!["Failed bad_answer: the host did not return a list of 1 answers"],
    );
}

#[test]
fn it_is_interactive_and_exclusive() {
    let tool = ask_user::descriptor();
    assert_eq!(tool.annotations.interactive, Some(true));
    assert_eq!(
        (tool.concurrency.as_deref(), tool.requires),
        (Some("exclusive"), vec!["user".to_owned()])
    );
    run_examples::<ask_user>(|| person(json!(["x"])));
}
