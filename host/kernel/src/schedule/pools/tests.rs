//! Tests of admission: limits, lanes, path locks and exclusive calls.

use std::sync::Arc;
use std::time::Duration;

use expect_test::{Expect, expect};
use futures::FutureExt;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};
use toolhost_contract::UserId;

use super::*;

/// One line per call in order of arrival: `name seconds` and its requirements. Checks when each call runs.
async fn check(limits: PoolLimits, calls: &str, expected: Expect) {
    let pools = Pools::new(limits).unwrap();
    let lanes = [Lane::new(), Lane::new()];
    let start = Instant::now();
    let calls = calls.lines().map(|line| call(&pools, &lanes, start, line));
    let all = timeout(Duration::from_secs(1000), join_all(calls)).await;
    expected.assert_eq(&all.expect("all calls get their turn").join("\n"));
    assert_eq!(pools.state().admission.queued(), 0);
}

async fn call(pools: &Pools, lanes: &[Lane], start: Instant, line: &str) -> String {
    let mut words = line.split_whitespace();
    let name = words.next().unwrap();
    let seconds = words.next().unwrap().parse().unwrap();
    let (mut pool, mut lane, mut path_locks, mut exclusive) =
        (Pool::Plain, None, Vec::new(), false);
    let mut session = SessionKey::local("s");
    for word in words {
        match word.split_at(1) {
            _ if word == "network" => pool = Pool::Network,
            _ if word == "processes" => pool = Pool::Processes,
            _ if word == "agents" => pool = Pool::Agents,
            _ if word == "interactive" => pool = Pool::Interactive,
            _ if word == "exclusive" => exclusive = true,
            ("@", name) => session.user = UserId::token(name),
            ("#", name) => session.session = name.into(),
            ("L", number) => lane = Some(&lanes[number.parse::<usize>().unwrap()]),
            ("R", path) => path_locks.push(PathLock::read(path)),
            ("W", path) => path_locks.push(PathLock::write(path)),
            _ => panic!("{word}"),
        }
    }
    let needs = AdmissionRequest {
        session: &session,
        pool,
        lane,
        path_locks: &path_locks,
        exclusive,
    };
    let _permit = pools.admit(needs).await;
    let from = start.elapsed().as_secs();
    sleep(Duration::from_secs(seconds)).await;
    format!("{name} {from}-{}", start.elapsed().as_secs())
}

fn plain() -> AdmissionRequest<'static> {
    AdmissionRequest::plain(crate::schedule::tests::local())
}

#[tokio::test(start_paused = true)]
async fn r_172_r_174_three_calls_run_and_the_rest_follow_in_order() {
    check(
        PoolLimits::default(),
        "a 3
         b 1
         c 2
         d 1
         e 1",
        expect![[r#"
            a 0-3
            b 0-1
            c 0-2
            d 1-2
            e 2-3"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn pools_are_counted_separately() {
    let limits = PoolLimits {
        all: 1,
        network: 2,
        ..PoolLimits::default()
    };
    check(
        limits,
        "a 2
         b 2
         n 3 network
         m 3 network
         o 3 network
         p 1 processes
         i 1 interactive
         j 1 interactive
         s 1 agents",
        expect![[r#"
            a 0-2
            b 2-4
            n 0-3
            m 0-3
            o 3-6
            p 0-1
            i 0-1
            j 1-2
            s 0-1"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_173_a_lane_runs_one_at_a_time_and_holds_no_permit_while_it_waits() {
    let limits = PoolLimits {
        all: 2,
        ..PoolLimits::default()
    };
    check(
        limits,
        "a 3 L0
         b 1 L0
         c 1
         d 1 L1",
        expect![[r#"
            a 0-3
            b 3-4
            c 0-1
            d 1-2"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn writers_of_one_path_take_turns_and_readers_do_not_pass_a_waiting_writer() {
    check(
        PoolLimits::default(),
        "a 2 R/w
         b 2 W/w/f
         c 2 R/w/f
         d 2 R/w/other",
        expect![[r#"
            a 0-2
            b 2-4
            c 4-6
            d 0-2"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn path_locks_are_taken_together_so_calls_do_not_deadlock() {
    check(
        PoolLimits::default(),
        "a 1 W/x W/y
         b 1 W/y W/x
         c 1 W/x/1
         d 1 W/y/1",
        expect![[r#"
            a 0-1
            b 1-2
            c 2-3
            d 2-3"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_call_waits_for_all_blocks_all_and_is_not_overtaken() {
    check(
        PoolLimits::default(),
        "a 2
         n 3 network
         x 1 exclusive
         b 1
         m 1 network
         y 1 exclusive",
        expect![[r#"
            a 0-2
            n 0-3
            x 3-4
            b 4-5
            m 4-5
            y 5-6"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn limits_are_counted_per_user() {
    check(
        PoolLimits {
            all: 1,
            ..PoolLimits::default()
        },
        "a 9 @ann
         b 9 @ann
         c 1 @bob
         d 1
         e 9 @ann network L0
         f 1 @bob network L0
         g 1 @ann network L0
         h 1 @bob network W/x
         i 1 @ann network W/x",
        expect![[r#"
            a 0-9
            b 9-18
            c 0-1
            d 0-1
            e 0-9
            f 0-1
            g 9-10
            h 0-1
            i 1-2"#]],
    )
    .await;
}

/// A serial call does not delay other sessions, of the same user or of others.
#[tokio::test(start_paused = true)]
async fn c_02_a_lane_belongs_to_a_session() {
    check(
        PoolLimits::default(),
        "a 9 @ann #1 L0
         b 1 @ann #1 L0
         c 1 @ann #2 L0
         d 1 @bob #1 L0
         e 1 #1 L0
         f 1 @bob #1 L0",
        expect![[r#"
            a 0-9
            b 9-10
            c 0-1
            d 0-1
            e 0-1
            f 1-2"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_calls_of_an_agent_run_while_an_exclusive_call_waits() {
    let pools = Pools::new(PoolLimits::default()).unwrap();
    let everything = AdmissionRequest {
        exclusive: true,
        ..plain()
    };
    let agent = AdmissionRequest {
        pool: Pool::Agents,
        ..everything
    };
    let agent = pools.admit(agent).await;
    let plain_call = pools.admit(plain()).await;
    let mut outside = Box::pin(pools.admit(everything));
    assert!(outside.as_mut().now_or_never().is_none());
    let mut inside = Box::pin(pools.admit(everything));
    assert!(inside.as_mut().now_or_never().is_none());
    drop(plain_call);
    // Neither waits for the agent, which still runs.
    drop(outside.await);
    drop(inside.await);
    drop(agent);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_waiter_is_removed_and_the_next_one_wakes() {
    let limits = PoolLimits {
        all: 1,
        ..PoolLimits::default()
    };
    let pools = Pools::new(limits).unwrap();
    let first = pools.admit(plain()).await;
    let mut second = Box::pin(pools.admit(plain()));
    let mut third = Box::pin(pools.admit(plain()));
    let mut fourth = Box::pin(pools.admit(plain()));
    for waiter in [&mut second, &mut third, &mut fourth] {
        assert!(waiter.as_mut().now_or_never().is_none());
    }
    drop(second);
    // The third is admitted, and is dropped before it is notified.
    drop(first);
    drop(third);
    let fourth = fourth.now_or_never().expect("no other call is registered");
    drop(fourth);
    assert_eq!(pools.state().admission.queued(), 0);
    assert!(pools.state().waiters.is_empty());
}

#[tokio::test]
async fn a_permit_is_released_when_the_call_panics() {
    let limits = PoolLimits {
        all: 1,
        ..PoolLimits::default()
    };
    let pools = Arc::new(Pools::new(limits).unwrap());
    let theirs = Arc::clone(&pools);
    let task = tokio::spawn(async move {
        let _permit = theirs.admit(plain()).await;
        panic!("on purpose");
    });
    assert!(task.await.is_err());
    assert!(pools.admit(plain()).now_or_never().is_some());
}

#[test]
fn a_limit_of_zero_is_rejected() {
    let limits = PoolLimits {
        network: 0,
        ..PoolLimits::default()
    };
    let error = Pools::new(limits).err().unwrap();
    expect!["the limit `network` is 0, so no call in this pool could run; set it to at least 1"]
        .assert_eq(&error.to_string());
}
