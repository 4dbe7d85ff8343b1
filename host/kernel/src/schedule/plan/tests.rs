//! Tests of how each strategy splits a turn into waves.

use expect_test::{Expect, expect};

use super::*;

/// One line per call: its concurrency, then `read` and `wait` where they apply.
fn check(strategy: Strategy, calls: &str, expected: Expect) {
    let calls: Vec<_> = calls.lines().map(shape).collect();
    let waves = waves(strategy, &calls);
    let mut all: Vec<_> = waves.concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..calls.len()));
    let lines: Vec<_> = waves.iter().map(|wave| format!("{wave:?}")).collect();
    expected.assert_eq(&lines.join(" "));
}

fn shape(line: &str) -> CallShape {
    let mut words = line.split_whitespace();
    let concurrency = match words.next() {
        Some("parallel") => Concurrency::Parallel,
        Some("serial") => Concurrency::Serial,
        Some("exclusive") => Concurrency::Exclusive,
        other => panic!("{other:?}"),
    };
    let words: Vec<_> = words.collect();
    CallShape {
        concurrency,
        read_only: words.contains(&"read"),
        can_run_early: words.contains(&"early"),
        wait_for_previous: words.contains(&"wait"),
        path_locks: Vec::new(),
    }
}

#[test]
fn r_173_adjacent_parallel_calls_run_together_and_a_serial_call_alone() {
    let calls = "parallel
        parallel
        serial
        serial
        parallel
        parallel";
    check(Strategy::Waves, calls, expect!["[0, 1] [2] [3] [4, 5]"]);
}

#[test]
fn exclusive_calls_run_alone_and_last_before_a_barrier() {
    let calls = "parallel
        exclusive
        parallel
        exclusive
        serial
        parallel wait
        exclusive";
    check(
        Strategy::Waves,
        calls,
        expect!["[0, 2] [4] [1] [3] [5] [6]"],
    );
}

#[test]
fn wait_for_previous_is_a_barrier_in_every_strategy() {
    let calls = "parallel read
        parallel read
        parallel read wait
        parallel read";
    for strategy in [Strategy::Waves, Strategy::Sema, Strategy::Kode] {
        check(strategy, calls, expect!["[0, 1] [2, 3]"]);
    }
    check(Strategy::Serial, calls, expect!["[0] [1] [2] [3]"]);
}

#[test]
fn a_waiting_first_call_creates_no_empty_wave() {
    check(Strategy::Waves, "parallel wait", expect!["[0]"]);
    check(Strategy::Kode, "", expect![""]);
}

#[test]
fn r_170_sema_runs_all_at_once_when_all_only_read() {
    let calls = "serial read
        parallel read
        serial read";
    check(Strategy::Sema, calls, expect!["[0, 1, 2]"]);
}

#[test]
fn r_171_sema_runs_in_order_when_one_call_writes() {
    let calls = "parallel read
        parallel
        parallel read";
    check(Strategy::Sema, calls, expect!["[0] [1] [2]"]);
}

#[test]
fn r_172_kode_runs_all_at_once() {
    let calls = "parallel read
        serial
        exclusive
        parallel";
    check(Strategy::Kode, calls, expect!["[0, 1, 2, 3]"]);
}

#[test]
fn serial_runs_one_after_the_other() {
    let calls = "parallel
        exclusive
        parallel";
    check(Strategy::Serial, calls, expect!["[0] [1] [2]"]);
}

#[test]
fn strategies_round_trip_and_an_unknown_one_lists_the_valid_names() {
    for name in ["waves", "sema", "kode", "serial", "optimistic"] {
        assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
    }
    expect!["`Wave\\u{1b}` is not a strategy; use waves, sema, kode, serial or optimistic"]
        .assert_eq(&"Wave\u{1b}".parse::<Strategy>().unwrap_err().to_string());
}

#[test]
fn optimistic_runs_adjacent_file_calls_concurrently() {
    let calls = "parallel early
        serial early
        parallel
        parallel read early
        parallel early wait
        exclusive
        parallel read";
    check(
        Strategy::Optimistic,
        calls,
        expect!["[0, 1] [2] [3] [4] [5] [6]"],
    );
}
