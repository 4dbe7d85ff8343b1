//! Tests of the read cache: expiry, invalidation, eviction and which calls are cached.

use std::sync::Mutex;

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio::time::advance;
use toolhost_contract::{Annotations, CallError, CallId, ChangeSet, Failure, ReadSet, TailCall};

use super::*;
use crate::hooks::result_size;
use crate::hooks::tests::call;

/// The state that calls read. `None`: reads cannot be tracked.
#[derive(Debug, Default)]
struct SharedState(Mutex<Option<u8>>);

impl SharedState {
    fn set(&self, content: Option<u8>) {
        *self.0.lock().unwrap() = content;
    }

    fn get(&self) -> Option<u8> {
        *self.0.lock().unwrap()
    }
}

#[derive(Debug)]
struct ObservedState(Arc<SharedState>, Option<u8>);

impl ReadSet for ObservedState {
    fn is_affected_by(&self, _: &ChangeSet) -> bool {
        true
    }

    fn record_state(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn is_unchanged(&self) -> BoxFuture<'_, bool> {
        let same = self.1.is_some() && self.0.get() == self.1;
        Box::pin(std::future::ready(same))
    }

    fn memory_size(&self) -> usize {
        1
    }
}

struct Bench {
    world: Arc<SharedState>,
    cache: ReadCache,
    calls: u32,
}

impl Bench {
    fn new() -> Self {
        let world = Arc::new(SharedState::default());
        world.set(Some(0));
        let cache = ReadCache::default();
        Self {
            world,
            cache,
            calls: 0,
        }
    }

    fn call(&mut self, path: &str) -> HookCall {
        self.calls += 1;
        let mut call = call();
        call.call.id = CallId(self.calls.to_string());
        call.call.input = json!({"path": path});
        call.tool = Arc::new(reader());
        call
    }

    /// Returns the result of a call: from the cache, or else `fresh`.
    async fn brings(&mut self, path: &str, fresh: Outcome) -> String {
        let call = self.call(path);
        self.run(&call, fresh).await
    }

    async fn run(&mut self, call: &HookCall, fresh: Outcome) -> String {
        if !self.cache.runs(HookPoint::Before, &call.plugin, &call.tool) {
            return format!("{} (new)", fresh.model_text());
        }
        match self.cache.before(call).await.unwrap().decision {
            PreHookDecision::Continue => {
                let state = ObservedState(Arc::clone(&self.world), self.world.get());
                let ran = HookCall {
                    reads: Some(Arc::new(state)),
                    ..call.clone()
                };
                let after = self.cache.after(&ran, &fresh).await.unwrap();
                assert_eq!(after, PostHookResponse::Keep);
                format!("{} (new)", fresh.model_text())
            }
            PreHookDecision::Result(outcome) => {
                let meta = outcome.meta.clone().unwrap_or_default();
                let after = self.cache.after(call, &outcome).await.unwrap();
                assert_eq!(after, PostHookResponse::Keep);
                format!("{} {meta}", outcome.model_text())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn reader() -> Descriptor {
    let mut tool = Descriptor::clone(&call().tool);
    tool.concurrency = Concurrency::Parallel;
    tool.annotations = Annotations {
        read_only: Some(true),
        open_world: Some(false),
        ..Annotations::default()
    };
    tool
}

#[tokio::test(start_paused = true)]
async fn a_narrowed_call_neither_fills_the_cache_nor_uses_it() {
    let mut bench = Bench::new();
    let narrowed = HookCall {
        is_narrowed: true,
        ..bench.call("a")
    };
    for _ in 0..2 {
        assert_eq!(
            bench.run(&narrowed, Outcome::text("part")).await,
            "part (new)"
        );
    }
    assert_eq!(bench.brings("a", Outcome::text("all")).await, "all (new)");
    assert_eq!(
        bench.run(&narrowed, Outcome::text("part")).await,
        "part (new)"
    );
}

/// Each line is a step, then `=>` and the result of the call.
async fn check(script: &[(&str, Value)], expected: Expect) {
    let mut bench = Bench::new();
    let mut lines = Vec::new();
    for (index, (action, value)) in script.iter().enumerate() {
        match *action {
            "read" => {
                let path = value.as_str().unwrap();
                let result = bench.brings(path, Outcome::text(format!("#{index}"))).await;
                lines.push(format!("{path}: {result}"));
            }
            "content" => bench
                .world
                .set(value.as_u64().map(|byte| u8::try_from(byte).unwrap())),
            "seconds" => advance(Duration::from_secs(value.as_u64().unwrap())).await,
            "entries" => {
                let entries = usize::try_from(value.as_u64().unwrap()).unwrap();
                bench.cache = ReadCache::bounded(TTL, entries, MAX_BYTES);
            }
            "bytes" => {
                let bytes = usize::try_from(value.as_u64().unwrap()).unwrap();
                bench.cache = ReadCache::bounded(TTL, MAX_ENTRIES, bytes);
            }
            other => panic!("{other}"),
        }
    }
    expected.assert_eq(&lines.join("\n"));
}

#[tokio::test(start_paused = true)]
async fn r_217_a_repeated_read_is_cached_until_it_expires() {
    check(
        &[
            ("read", json!("a")),
            ("seconds", json!(299)),
            ("read", json!("a")),
            ("read", json!("b")),
            ("seconds", json!(1)),
            ("read", json!("a")),
            ("read", json!("b")),
        ],
        expect![[r#"
            a: #0 (new)
            a: #0 {"cached":true,"age_ms":299000}
            b: #3 (new)
            a: #5 (new)
            b: #3 {"cached":true,"age_ms":1000}"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_217_a_changed_read_set_invalidates_the_entry() {
    check(
        &[
            ("read", json!("a")),
            ("content", json!(1)),
            ("read", json!("a")),
            ("content", json!(0)),
            ("read", json!("a")),
            ("content", json!(null)),
            ("read", json!("a")),
            ("read", json!("a")),
        ],
        expect![[r#"
            a: #0 (new)
            a: #2 (new)
            a: #4 (new)
            a: #6 (new)
            a: #7 (new)"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn r_217_the_least_recently_used_entry_is_evicted_first() {
    check(
        &[
            ("entries", json!(2)),
            ("read", json!("a")),
            ("read", json!("b")),
            ("read", json!("a")),
            ("read", json!("c")),
            ("read", json!("a")),
            ("read", json!("b")),
        ],
        expect![[r#"
            a: #1 (new)
            b: #2 (new)
            a: #1 {"cached":true,"age_ms":0}
            c: #4 (new)
            a: #1 {"cached":true,"age_ms":0}
            b: #6 (new)"#]],
    )
    .await;
    // Each takes some 130 bytes.
    check(
        &[
            ("bytes", json!(300)),
            ("read", json!("a")),
            ("read", json!("b")),
            ("read", json!("a")),
            ("read", json!("c")),
            ("read", json!("b")),
            ("bytes", json!(100)),
            ("read", json!("a")),
            ("read", json!("a")),
        ],
        expect![[r#"
            a: #1 (new)
            b: #2 (new)
            a: #1 {"cached":true,"age_ms":0}
            c: #4 (new)
            b: #5 (new)
            a: #7 (new)
            a: #8 (new)"#]],
    )
    .await;
}

#[tokio::test]
async fn r_217_errors_and_tail_calls_are_not_cached() {
    let failed = Outcome {
        error: Some(Failure::new("file_not_found", "no")),
        ..Outcome::default()
    };
    let tail = Outcome {
        tail: Some(TailCall {
            tool: "grep".to_owned(),
            input: json!({}),
        }),
        ..Outcome::text("x")
    };
    for outcome in [failed, tail] {
        let mut bench = Bench::new();
        for _ in 0..2 {
            let result = bench.brings("a", outcome.clone()).await;
            assert!(result.ends_with("(new)"), "{result}");
        }
    }
}

#[tokio::test]
async fn r_217_only_read_only_tools_are_cached() {
    let cases: [(&str, Change, bool); 10] = [
        ("a reader", |_| {}, true),
        ("pure", |t| t.annotations = pure(None), false),
        ("pure, open", |t| t.annotations = pure(Some(true)), false),
        ("writes", |t| t.annotations.read_only = None, false),
        (
            "says nothing",
            |t| t.annotations = Annotations::default(),
            false,
        ),
        (
            "destroys",
            |t| t.annotations.destructive = Some(true),
            false,
        ),
        ("open", |t| t.annotations.open_world = Some(true), false),
        ("perhaps open", |t| t.annotations.open_world = None, false),
        (
            "interactive",
            |t| t.annotations.interactive = Some(true),
            false,
        ),
        ("serial", |t| t.concurrency = Concurrency::Serial, false),
    ];
    for (name, change, hit) in cases {
        let mut bench = Bench::new();
        let mut tool = reader();
        change(&mut tool);
        let mut result = String::new();
        for _ in 0..2 {
            let mut call = bench.call("a");
            call.tool = Arc::new(tool.clone());
            result = bench.run(&call, Outcome::text("x")).await;
        }
        assert_eq!(result.contains("cached"), hit, "{name}: {result}");
    }
}

type Change = fn(&mut Descriptor);

fn pure(open_world: Option<bool>) -> Annotations {
    Annotations {
        pure: Some(true),
        open_world,
        ..Annotations::default()
    }
}

#[tokio::test]
async fn r_217_a_call_without_a_read_set_is_not_cached() {
    let mut bench = Bench::new();
    let call = bench.call("a");
    bench.cache.after(&call, &Outcome::text("x")).await.unwrap();
    assert_eq!(bench.brings("a", Outcome::text("y")).await, "y (new)");
}

#[tokio::test]
async fn r_217_entries_are_not_shared_between_agents() {
    let mut bench = Bench::new();
    let first = bench.call("a");
    bench.run(&first, Outcome::text("x")).await;
    let mut second = bench.call("a");
    second.call.caller.agent = "other".to_owned();
    assert_eq!(bench.run(&second, Outcome::text("y")).await, "y (new)");
}

#[test]
fn all_texts_of_a_result_count() {
    let long = || "x".repeat(1000);
    let failure = Failure {
        recommendations: vec![long(), long()],
        cause: Some(long()),
        ..Failure::new("busy", "no")
    };
    let failed = Outcome {
        error: Some(failure),
        tail: Some(TailCall {
            tool: long(),
            input: json!(long()),
        }),
        ..Outcome::text("")
    };
    assert!(outcome_size(&failed) > 5000);
    let error = CallError::internal(long()).recommend(long());
    assert!(result_size(&Err(error)) > 2000);
}
