//! Isolation between calls: a new instance never sees memory or tables of an earlier one.

use super::{ErrorClass, Limits, Tools, call_tool, request, tools, wrap};
use crate::engine::RESIDENT;
use std::time::Duration;

const PAGE: usize = 64 << 10;
const PAGES: usize = RESIDENT / PAGE;

/// How a call of [`state_overwriting_component`] ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    Trap,
    /// With an empty outcome, so that the next instance is created before its call.
    Return,
}

/// A component that checks all of its state, and loops until its deadline if anything differs from the initial
/// state. It then overwrites everything. `length` bytes of data, all `letter`, begin at `at`.
fn state_overwriting_component(
    pages: usize,
    at: usize,
    length: usize,
    letter: char,
    ending: Ending,
) -> Vec<u8> {
    let ending = match ending {
        Ending::Trap => "(i32.div_s (i32.const 1) (i32.const 0))",
        Ending::Return => {
            "(memory.fill (i32.const 0) (i32.const 0) (i32.const 1024)) (i32.const 0)"
        }
    };
    let word = u32::from_ne_bytes([letter as u8; 4]);
    let (end, data) = (at + length, String::from(letter).repeat(length));
    let grown = (pages + 2) * PAGE;
    let wat = format!(
        r#"(module
            (memory (export "memory") {pages})
            (table $table 4 funcref)
            (global $touched (mut i32) (i32.const 0))
            (data (i32.const {at}) "{data}")
            (elem declare func $tell)
            (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024))
            (func (export "toolhost:plugin/tool@0.1.0#describe") (param i32 i32) (result i32) (i32.const 0))
            (func $tell (loop $for_ever (br $for_ever)))
            (func $made (param $at i32) (result i32)
                (i32.and (i32.ge_u (local.get $at) (i32.const {at})) (i32.lt_u (local.get $at) (i32.const {end})))
                (if (result i32) (then (i32.const {word})) (else (i32.const 0))))
            (func (export "toolhost:plugin/tool@0.1.0#call") (param i32) (result i32)
                (local $at i32)
                (if (i32.ne (memory.size) (i32.const {pages})) (then (call $tell)))
                (if (global.get $touched) (then (call $tell)))
                (if (i32.eqz (ref.is_null (table.get $table (i32.const 3)))) (then (call $tell)))
                (drop (memory.grow (i32.const 2)))
                (loop $each
                    (if (i32.ne (i32.load (local.get $at)) (call $made (local.get $at))) (then (call $tell)))
                    (local.set $at (i32.add (local.get $at) (i32.const 4)))
                    ;; Here the host has put the arguments.
                    (if (i32.eq (local.get $at) (i32.const 1024)) (then (local.set $at (i32.const 2048))))
                    (br_if $each (i32.lt_u (local.get $at) (i32.const {grown}))))
                (global.set $touched (i32.const 1))
                (table.set $table (i32.const 3) (ref.func $tell))
                (memory.fill (i32.const 0) (i32.const 0xa5) (i32.const {grown}))
                {ending}))"#
    );
    wrap("plugin", &wat)
}

async fn is_untouched(tools: &Tools, ending: Ending) -> bool {
    let timeout = Duration::from_secs(5);
    let outcome = call_tool(tools, &Limits::default(), timeout, &request()).await;
    match (outcome, ending) {
        (Ok(Ok(_)), Ending::Return) => true,
        (Err(error), _) if error.class == ErrorClass::TimedOut => false,
        (Err(error), Ending::Trap)
            if error.class == ErrorClass::Trapped && error.message.contains("divide by zero") =>
        {
            true
        }
        (outcome, _) => panic!("it did not check everything: {outcome:?}"),
    }
}

#[tokio::test]
async fn memory_of_any_size_is_reset_between_calls() {
    // Around the resident size, with data before, at and after its end.
    for (pages, at) in [
        (1, 4 << 10),
        (PAGES - 1, RESIDENT - 2 * PAGE),
        (PAGES, RESIDENT - PAGE),
        (PAGES + 1, RESIDENT - 8192),
        (PAGES + 1, RESIDENT),
        (4 * PAGES, RESIDENT - 100),
        (4 * PAGES, 3 * RESIDENT),
    ] {
        for ending in [Ending::Trap, Ending::Return] {
            let component = state_overwriting_component(pages, at & !3, 16 << 10, 'Z', ending);
            let tools = tools(&component).await;
            for round in 0..3 {
                assert!(
                    is_untouched(&tools, ending).await,
                    "{pages} pages, data at {at}, {ending:?}, call {round}"
                );
                tools.settle().await;
            }
        }
    }
}

#[tokio::test]
async fn plugins_see_no_memory_of_others() {
    // More calls than the pool has slots, so that slots are reused.
    let mut all = Vec::new();
    for (number, letter) in ('A'..='Z').enumerate() {
        let pages = [1, PAGES, PAGES + 3][number % 3];
        let at = [4 << 10, 32 << 10][number / 2 % 2];
        let ending = [Ending::Trap, Ending::Return][number % 2];
        let component = state_overwriting_component(pages, at, 8 << 10, letter, ending);
        all.push((tools(&component).await, ending));
    }
    for round in 0..3 {
        for (number, (tools, ending)) in all.iter().enumerate() {
            assert!(
                is_untouched(tools, *ending).await,
                "plugin {number}, round {round}"
            );
        }
    }
}
