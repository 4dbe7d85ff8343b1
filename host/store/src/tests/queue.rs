//! The queue alone: limits of jobs and bytes, order, and failures.

use std::thread;

use tokio::sync::oneshot;

use super::event;
use crate::queue::{Job, MAX_GROUP, Queue, Work};
use crate::{EventRow, StoreError, Write};

fn job(number: i64, weight: usize) -> Job {
    let row = EventRow {
        at_ms: number,
        ..event("progress", "x")
    };
    Job {
        work: Work::write(|| Write::Event(row)),
        weight,
        reply: None,
    }
}

fn number(job: &Job) -> i64 {
    match &job.work {
        Work::Write(write) => match &**write {
            Write::Event(row) => row.at_ms,
            _ => panic!("not one of ours"),
        },
        Work::Change(_) => panic!("not one of ours"),
    }
}

fn full() -> StoreError {
    StoreError::Full {
        path: "store.db".into(),
    }
}

/// With more jobs or bytes than the limit, the caller waits for the writer, and all jobs arrive in order.
#[test]
fn a_full_queue_makes_its_caller_wait() {
    for (jobs, weight) in [(10_000, 1), (40, 8 << 20)] {
        let queue = Queue::default();
        let mut taken = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..jobs {
                    queue.push(job(number, weight)).unwrap();
                }
                queue.close();
            });
            while let Some(group) = queue.take() {
                assert!(group.len() <= MAX_GROUP);
                let bytes: usize = group.iter().map(|job| job.weight).sum();
                assert!(bytes <= (64 << 20) + weight);
                taken.extend(group.iter().map(number));
            }
        });
        assert_eq!(taken, (0..jobs).collect::<Vec<_>>());
    }
}

#[test]
fn a_failed_group_is_retried_in_order_without_awaited_jobs() {
    let queue = Queue::default();
    let (reply, _answer) = oneshot::channel();
    queue.push(job(1, 1)).unwrap();
    queue.push(job(2, 1)).unwrap();
    let group = queue.take().unwrap();
    // Jobs queued while the group was being written.
    queue.push(job(3, 1)).unwrap();
    queue
        .push_awaited(Job {
            reply: Some(reply),
            ..job(4, 1)
        })
        .unwrap();
    let awaited = queue.record_failure(full(), group);
    assert_eq!(awaited.iter().map(number).collect::<Vec<_>>(), [4]);
    queue.push(job(5, 1)).unwrap();
    assert_eq!(queue.health(), Err(full()));
    // Jobs with a waiting caller are always accepted.
    let (reply, _answer) = oneshot::channel();
    queue
        .push_awaited(Job {
            reply: Some(reply),
            ..job(6, 1)
        })
        .unwrap();
    let again = queue.take().unwrap();
    assert_eq!(
        again.iter().map(number).collect::<Vec<_>>(),
        [1, 2, 3, 5, 6]
    );
    queue.record_success();
    queue.health().unwrap();
    queue.push(job(7, 1)).unwrap();
}

#[test]
fn a_blocked_caller_gets_the_failure() {
    let queue = Queue::default();
    for number in 0..8 {
        queue.push(job(number, 8 << 20)).unwrap();
    }
    thread::scope(|scope| {
        let waits = scope.spawn(|| queue.push(job(8, 1)));
        let nothing = queue.record_failure(full(), Vec::new());
        assert!(nothing.is_empty());
        assert_eq!(waits.join().unwrap(), Err(full()));
    });
    // Without a wait, while the store cannot be written.
    assert_eq!(queue.push(job(9, 1)), Err(full()));
    assert_eq!((queue.take_lost(), queue.take_lost()), (2, 0));
}

#[test]
fn a_closed_queue_accepts_no_jobs() {
    let queue = Queue::default();
    queue.push(job(1, 1)).unwrap();
    queue.close();
    assert_eq!(queue.push(job(2, 1)), Err(StoreError::Closed));
    assert_eq!(queue.take().unwrap().len(), 1);
    assert!(queue.take().is_none());
    queue.stop();
    assert_eq!(queue.health(), Err(StoreError::Closed));
}
