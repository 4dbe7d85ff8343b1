//! Tests of servers that send too much, or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use toolhost_contract::{CallEvent, NoSink};

use super::{events, name_of, until};
use crate::dial::Dial;
use crate::testing::{
    RecordingSink, ScriptedServer, call, call_for, legacy_response, reply, respond, start, tool,
};

#[tokio::test(start_paused = true)]
async fn floods_are_throttled_and_the_response_arrives() {
    let dial = ScriptedServer::script(|message| match name_of(message) {
        Some(_) => {
            let token = &message["params"]["_meta"]["progressToken"];
            let mut lines: Vec<String> = (0..5_000)
                .map(|at| {
                    json!({"jsonrpc": "2.0", "method": "notifications/progress",
                           "params": {"progressToken": token, "progress": at}})
                    .to_string()
                })
                .collect();
            lines.push(reply(message, &json!({"content": []})));
            lines
        }
        None => legacy_response(message, &json!([tool("floods")])),
    });
    let (server, _) = start(dial);
    server.shared().first_listing().await.unwrap();
    let received = Arc::new(RecordingSink::default());
    let begun = tokio::time::Instant::now();
    let limit = Duration::from_secs(60);
    let sink: Arc<RecordingSink> = Arc::clone(&received);
    let outcome = call_for(&server, "mcp__one__floods", json!({}), limit, sink).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    // 5 000 at 500 per second, after a burst of 1 000.
    assert!(
        begun.elapsed() >= Duration::from_secs(7),
        "{:?}",
        begun.elapsed()
    );
    let progress = received.events();
    assert!(
        progress
            .iter()
            .all(|event| matches!(event, CallEvent::Progress { .. }))
    );
    assert!(!progress.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_no_longer_read() {
    let dial = ScriptedServer::dial(|_, pipes| {
        tokio::spawn(async move {
            respond(pipes, |message| match message["method"].as_str() {
                Some("notifications/initialized") => (0..100_000)
                    .map(|id| {
                        json!({"jsonrpc": "2.0", "id": format!("p{id}"), "method": "ping"})
                            .to_string()
                    })
                    .collect(),
                _ => legacy_response(message, &json!([tool("t")])),
            })
            .await;
        });
    });
    let (server, _) = start(dial);
    // Both sides write and neither reads: listing fails, and the host continues.
    let error = server.shared().first_listing().await.unwrap_err();
    assert!(error.to_string().contains("server `one`"), "{error}");
}

/// Lists one tool, then reads nothing more.
fn stops_reading() -> Box<dyn Dial> {
    ScriptedServer::dial(|_, pipes| {
        tokio::spawn(async move {
            let (mut pipes, mut buffer) = (BufReader::new(pipes), String::new());
            let mut is_listed = false;
            while !is_listed {
                buffer.clear();
                pipes.read_line(&mut buffer).await.unwrap();
                let message: Value = serde_json::from_str(&buffer).unwrap();
                for line in legacy_response(&message, &json!([tool("t")])) {
                    let line = format!("{line}\n");
                    pipes.write_all(line.as_bytes()).await.unwrap();
                }
                is_listed = message["method"] == "tools/list";
            }
            std::future::pending::<()>().await;
        });
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_reading_is_disconnected() {
    let large = json!({"a": "x".repeat(1 << 20)});
    let (server, received) = start(stops_reading());
    server.shared().first_listing().await.unwrap();
    let limit = Duration::from_secs(600);
    let begun = tokio::time::Instant::now();
    let called = call_for(
        &server,
        "mcp__one__t",
        large.clone(),
        limit,
        Arc::new(NoSink),
    );
    let error = called.await.unwrap_err();
    assert_eq!(error.code, "mcp_server_unavailable", "{error}");
    let waited = begun.elapsed();
    assert!(
        (60..70).contains(&waited.as_secs()),
        "closed after {waited:?}"
    );
    until(|| events(&received).len() == 2).await;
    assert!(events(&received)[1].starts_with("lost"));
    let logged = server.shared().log.tail().unwrap();
    assert!(logged.contains("did not read a message"), "{logged}");

    // A blocked message does not delay the end of the host.
    let (server, _) = start(stops_reading());
    server.shared().first_listing().await.unwrap();
    let shared = Arc::clone(server.shared());
    let blocked = tokio::spawn(async move {
        let params = large.as_object().cloned().unwrap();
        let live = shared.live().await.unwrap();
        let call = rmcp::model::CallToolRequestParams::new("t").with_arguments(params);
        let _ = live.peer.call_tool(call).await;
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = tokio::time::Instant::now();
    server.stop().await;
    let waited = begun.elapsed();
    assert!(waited < Duration::from_secs(4), "stopped after {waited:?}");
    blocked.abort();
}

#[tokio::test(start_paused = true)]
async fn more_changes_than_are_kept_renew_the_subscription() {
    let subscribed = Arc::new(AtomicUsize::new(0));
    let dial = {
        let subscribed = Arc::clone(&subscribed);
        ScriptedServer::script(move |message| {
            let result = match message["method"].as_str() {
                Some("server/discover") => json!({
                    "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0,
                    "capabilities": {"tools": {"listChanged": true}}, "cacheScope": "private",
                    "serverInfo": {"name": "new", "version": "1"},
                }),
                Some("tools/list") => json!({
                    "resultType": "complete", "tools": [tool("t")], "ttlMs": 0,
                    "cacheScope": "private",
                }),
                Some("subscriptions/listen") => {
                    subscribed.fetch_add(1, Ordering::SeqCst);
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": message["id"]});
                    let filter = json!({"toolsListChanged": true});
                    let notify = |method: &str| {
                        json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"),
                               "params": {"_meta": meta, "notifications": filter}})
                        .to_string()
                    };
                    let mut lines = vec![notify("subscriptions/acknowledged")];
                    lines.extend((0..10).map(|_| notify("tools/list_changed")));
                    return lines;
                }
                _ => return Vec::new(),
            };
            vec![reply(message, &result)]
        })
    };
    let (server, received) = start(dial);
    server.shared().first_listing().await.unwrap();
    until(|| subscribed.load(Ordering::SeqCst) >= 3).await;
    assert_eq!(events(&received).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_result_with_too_many_values_fails_only_its_call() {
    let dial = ScriptedServer::script(move |message| match name_of(message) {
        Some("many") => {
            let many = vec![json!([]); 110_000];
            vec![reply(
                message,
                &json!({"content": [], "structuredContent": {"a": many}}),
            )]
        }
        Some(_) => vec![reply(message, &json!({"content": []}))],
        None => legacy_response(message, &json!([tool("many"), tool("works")])),
    });
    let (server, _) = start(dial);
    server.shared().first_listing().await.unwrap();
    let error = call(&server, "mcp__one__many", json!({})).await;
    assert_eq!(error.unwrap_err().code, "timeout");
    let dropped = server.shared().log.tail().unwrap();
    assert_eq!(dropped, "a message of more than 100000 values was dropped");
    assert!(call(&server, "mcp__one__works", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn lists_are_bounded_in_bytes_and_not_cached() {
    let pages = Arc::new(AtomicUsize::new(0));
    let dial = {
        let pages = Arc::clone(&pages);
        ScriptedServer::script(move |message| {
            if message["method"] != "tools/list" {
                return legacy_response(message, &json!([]));
            }
            let page = pages.fetch_add(1, Ordering::SeqCst);
            let much = "x".repeat(5 << 20);
            vec![reply(
                message,
                &json!({"tools": [tool(&format!("t{page}"))], "nextCursor": page.to_string(),
                        "_meta": {"a": much}, "ttlMs": 60_000}),
            )]
        })
    };
    let (server, _) = start(dial);
    let listing = server.shared().first_listing().await.unwrap();
    assert!(
        (5..8).contains(&listing.tools.len()),
        "{}",
        listing.tools.len()
    );
    assert!(listing.excluded[0].reason.contains("33554432 bytes"));
    let before = pages.load(Ordering::SeqCst);
    server.shared().list_again();
    // Listed again, although the server allowed caching.
    until(|| pages.load(Ordering::SeqCst) > before).await;
}

#[tokio::test(start_paused = true)]
async fn endless_lists_are_cut() {
    let dial = ScriptedServer::script(|message| {
        if message["method"] != "tools/list" {
            return legacy_response(message, &json!([]));
        }
        let page: u64 = message["params"]["cursor"]
            .as_str()
            .map_or(0, |at| at.parse().unwrap());
        let tools: Vec<Value> = (0..100).map(|at| tool(&format!("t{page}_{at}"))).collect();
        let next = (page + 1).to_string();
        vec![reply(message, &json!({"tools": tools, "nextCursor": next}))]
    });
    let (server, _) = start(dial);
    let listing = server.shared().first_listing().await.unwrap();
    assert_eq!(listing.tools.len(), 2_000);
    assert!(
        listing.excluded[0].reason.contains("does not end"),
        "{:?}",
        listing.excluded
    );

    // The same page again and again.
    let dial = ScriptedServer::script(|message| {
        if message["method"] != "tools/list" {
            return legacy_response(message, &json!([]));
        }
        vec![reply(
            message,
            &json!({"tools": [tool("t")], "nextCursor": "x"}),
        )]
    });
    let (server, _) = start(dial);
    let listing = server.shared().first_listing().await.unwrap();
    assert_eq!(listing.tools.len(), 1);
}

/// A server that announces a change when it is first called, and does not answer the following list request.
fn lists_once(then: &'static [&'static str]) -> Box<dyn crate::dial::Dial> {
    let lists = AtomicUsize::new(0);
    ScriptedServer::script(move |message| match message["method"].as_str() {
        Some("tools/call") => vec![
            reply(message, &json!({"content": []})),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string(),
        ],
        Some("tools/list") if lists.fetch_add(1, Ordering::SeqCst) > 0 => {
            then.iter().map(ToString::to_string).collect()
        }
        _ => legacy_response(message, &json!([tool("t")])),
    })
}

#[tokio::test(start_paused = true)]
async fn a_silent_relisting_does_not_block() {
    let (server, _) = start(lists_once(&[]));
    server.shared().first_listing().await.unwrap();
    call(&server, "mcp__one__t", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = tokio::time::Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    // A server that ends at that moment is noticed immediately.
    let (server, received) = start(lists_once(&["EOF"]));
    server.shared().first_listing().await.unwrap();
    call(&server, "mcp__one__t", json!({})).await.unwrap();
    let begun = tokio::time::Instant::now();
    until(|| events(&received).len() > 1).await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

/// A server that announces a change after each list; with `other`, its tools do change.
async fn listed_in_an_hour(other: bool) -> (usize, usize) {
    let lists = Arc::new(AtomicUsize::new(0));
    let dial = {
        let lists = Arc::clone(&lists);
        ScriptedServer::script(move |message| {
            if message["method"] != "tools/list" {
                return legacy_response(message, &json!([]));
            }
            let list = lists.fetch_add(1, Ordering::SeqCst);
            let name = if other && list % 2 == 1 { "b" } else { "a" };
            let mut out = legacy_response(message, &json!([tool(name)]));
            let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
            out.extend(vec![changed.to_string(); 100]);
            out
        })
    };
    let (server, received) = start(dial);
    server.shared().first_listing().await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    server.stop().await;
    (lists.load(Ordering::SeqCst), events(&received).len())
}

#[tokio::test(start_paused = true)]
async fn w_11_constant_change_notifications_increase_the_pause() {
    let (lists, notifications) = listed_in_an_hour(true).await;
    assert!((10..100).contains(&lists), "{lists}");
    assert!(notifications <= lists, "{notifications}");
}

#[tokio::test(start_paused = true)]
async fn w_12_an_unchanged_list_sends_no_event() {
    let (lists, notifications) = listed_in_an_hour(false).await;
    assert!((10..100).contains(&lists), "{lists}");
    assert_eq!(notifications, 1);
}

#[tokio::test(start_paused = true)]
async fn w_14_sampling_and_roots_are_refused() {
    let responses: Arc<std::sync::Mutex<Vec<Value>>> = Arc::default();
    let dial = {
        let responses = Arc::clone(&responses);
        ScriptedServer::script(move |message| {
            if message.get("method").is_none() {
                let mut responses = responses.lock().unwrap();
                responses.push(message.clone());
                if responses.len() < 4 {
                    return Vec::new();
                }
                return vec![
                    json!({"jsonrpc": "2.0", "id": 3, "result": {"content": []}}).to_string(),
                ];
            }
            let Some(_) = name_of(message) else {
                return legacy_response(message, &json!([tool("wants")]));
            };
            assert_eq!(message["id"], 3);
            let content = json!({"type": "text", "text": "hi"});
            let sampling =
                json!({"messages": [{"role": "user", "content": content}], "maxTokens": 10});
            [
                ("sampling/createMessage", sampling),
                ("roots/list", json!({})),
                ("elicitation/create", json!({"mode": "url", "message": "m", "elicitationId": "e", "url": "https://evil.example"})),
                ("tools/call", json!({"name": "x"})),
            ]
            .into_iter()
            .map(|(method, params)| {
                json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params}).to_string()
            })
            .collect()
        })
    };
    let (server, _) = start(dial);
    server.shared().first_listing().await.unwrap();
    call(&server, "mcp__one__wants", json!({})).await.unwrap();
    let mut responses = responses.lock().unwrap().clone();
    responses.sort_by_key(|one| one["id"].to_string());
    let shown: Vec<_> = responses
        .iter()
        .map(|one| {
            let result = &one["result"];
            let outcome = match (result.get("action"), result.get("roots")) {
                (Some(action), _) => action.to_string(),
                (None, Some(roots)) => roots.to_string(),
                (None, None) => one["error"]["code"].to_string(),
            };
            format!("{} {outcome}", one["id"])
        })
        .collect();
    assert_eq!(
        shown,
        [
            "\"elicitation/create\" \"decline\"",
            "\"roots/list\" []",
            "\"sampling/createMessage\" -32601",
            "\"tools/call\" -32601",
        ]
    );
}
