//! Answers reach their question, once, from any process.

use super::{Home, answer, call, write};
use crate::{AnswerError, Write};

#[tokio::test]
async fn an_answer_reaches_the_process_that_waits() {
    let home = Home::new();
    let (waits, answers) = (home.open(), home.open());
    waits
        .commit(write("c1", &["pending", "awaiting_approval"]))
        .await
        .unwrap();
    assert_eq!(waits.answer_for("c1", 2_000).unwrap(), None);
    assert_eq!(waits.answer_for("c1", 2_000).unwrap(), None);
    answers.answer(answer("c1", "dashboard")).await.unwrap();
    assert_eq!(
        waits.answer_for("c1", 2_000).unwrap(),
        Some(answer("c1", "dashboard"))
    );
    waits.clear_answer("c1").await.unwrap();
    assert_eq!(waits.answer_for("c1", 2_000).unwrap(), None);
}

#[tokio::test]
async fn an_answer_without_a_question_is_refused() {
    let home = Home::new();
    let store = home.open();
    for (id, state) in [
        ("done", "completed"),
        ("runs", "executing"),
        ("asks", "awaiting_approval"),
    ] {
        // Only queued: an answer that follows immediately must still find the call.
        store.queue(write(id, &[state])).unwrap();
    }
    let state = |text: &str| text.to_owned();
    for (id, expected) in [
        (
            "none",
            Err(AnswerError::UnknownCall {
                call: "none".to_owned(),
            }),
        ),
        (
            "done",
            Err(AnswerError::Finished {
                state: state("completed"),
            }),
        ),
        (
            "runs",
            Err(AnswerError::NotWaiting {
                state: state("executing"),
            }),
        ),
        ("asks", Ok(())),
        (
            "asks",
            Err(AnswerError::AlreadyAnswered {
                by: "terminal".to_owned(),
            }),
        ),
    ] {
        assert_eq!(store.answer(answer(id, "terminal")).await, expected, "{id}");
    }
}

#[tokio::test]
async fn of_two_answers_at_once_one_counts() {
    let home = Home::new();
    let (one, two) = (home.open(), home.open());
    for number in 0..20 {
        let id = format!("c{number}");
        one.commit(write(&id, &["awaiting_approval"]))
            .await
            .unwrap();
        let (first, second) = tokio::join!(
            one.answer(answer(&id, "one")),
            two.answer(answer(&id, "two"))
        );
        let (winner, refused) = match (first, second) {
            (Ok(()), Err(refused)) => ("one", refused),
            (Err(refused), Ok(())) => ("two", refused),
            both => panic!("{both:?}"),
        };
        assert_eq!(
            refused,
            AnswerError::AlreadyAnswered {
                by: winner.to_owned()
            }
        );
        assert_eq!(one.answer_for(&id, 2_000).unwrap().unwrap().by, winner);
    }
}

/// The second question has an earlier timestamp, because the clock jumped back. The old answer must neither count
/// for it nor block a new one.
#[tokio::test]
async fn an_answer_to_an_earlier_question_does_not_count() {
    let home = Home::new();
    let store = home.open();
    for (asked_ms, by) in [(2_000, "first"), (500, "second")] {
        let mut row = call("c1", "awaiting_approval");
        row.updated_ms = asked_ms;
        let row = Box::new(row);
        store
            .commit(Write::Call {
                row,
                transitions: Vec::new(),
            })
            .await
            .unwrap();
        assert_eq!(store.answer_for("c1", asked_ms).unwrap(), None);
        store.answer(answer("c1", by)).await.unwrap();
        assert_eq!(store.answer_for("c1", asked_ms).unwrap().unwrap().by, by);
    }
}
