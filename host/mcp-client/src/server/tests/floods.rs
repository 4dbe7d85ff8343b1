//! Servers that say too much, or nothing at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolhost_contract::Event;

use super::{name_of, told, until};
use crate::testing::{Heard, Played, call, call_for, decent, reply, speak, start, tool};

#[tokio::test(start_paused = true)]
async fn a_flood_is_read_slowly_and_the_answer_still_comes() {
    let dial = Played::script(|message| match name_of(message) {
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
        None => decent(message, &json!([tool("floods")])),
    });
    let (server, _) = start(dial);
    server.shared().first().await.unwrap();
    let heard = Arc::new(Heard::default());
    let begun = tokio::time::Instant::now();
    let limit = Duration::from_secs(60);
    let sink: Arc<Heard> = Arc::clone(&heard);
    let outcome = call_for(&server, "mcp__one__floods", json!({}), limit, sink).await;
    assert!(outcome.is_ok(), "{outcome:?}");
    // 5 000 at 500 a second, after a burst of 1 000.
    assert!(
        begun.elapsed() >= Duration::from_secs(7),
        "{:?}",
        begun.elapsed()
    );
    let progress = heard.events();
    assert!(
        progress
            .iter()
            .all(|event| matches!(event, Event::Progress { .. }))
    );
    assert!(!progress.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_without_listening_is_read_no_further() {
    let dial = Played::by(|_, pipes| {
        tokio::spawn(async move {
            speak(pipes, |message| match message["method"].as_str() {
                Some("notifications/initialized") => (0..100_000)
                    .map(|id| {
                        json!({"jsonrpc": "2.0", "id": format!("p{id}"), "method": "ping"})
                            .to_string()
                    })
                    .collect(),
                _ => decent(message, &json!([tool("t")])),
            })
            .await;
        });
    });
    let (server, _) = start(dial);
    // Both sides write and nobody reads: it is a server that cannot be listed, and the host goes on.
    let error = server.shared().first().await.unwrap_err();
    assert!(error.to_string().contains("server `one`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_result_with_too_many_values_costs_only_its_call() {
    let dial = Played::script(move |message| match name_of(message) {
        Some("many") => {
            let many = vec![json!([]); 110_000];
            vec![reply(
                message,
                &json!({"content": [], "structuredContent": {"a": many}}),
            )]
        }
        Some(_) => vec![reply(message, &json!({"content": []}))],
        None => decent(message, &json!([tool("many"), tool("works")])),
    });
    let (server, _) = start(dial);
    server.shared().first().await.unwrap();
    let error = call(&server, "mcp__one__many", json!({})).await;
    assert_eq!(error.unwrap_err().code, "timeout");
    let said = server.shared().log.tail().unwrap();
    assert_eq!(said, "a message of more than 100000 values was dropped");
    assert!(call(&server, "mcp__one__works", json!({})).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_list_is_bounded_by_what_it_takes_and_nothing_of_it_is_kept() {
    let pages = Arc::new(AtomicUsize::new(0));
    let dial = {
        let pages = Arc::clone(&pages);
        Played::script(move |message| {
            if message["method"] != "tools/list" {
                return decent(message, &json!([]));
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
    let listing = server.shared().first().await.unwrap();
    assert!(
        (5..8).contains(&listing.tools.len()),
        "{}",
        listing.tools.len()
    );
    assert!(listing.left_out[0].reason.contains("33554432 bytes"));
    let before = pages.load(Ordering::SeqCst);
    server.shared().list_again();
    // Asked anew, although the server allowed to keep it.
    until(|| pages.load(Ordering::SeqCst) > before).await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_end_is_cut() {
    let dial = Played::script(|message| {
        if message["method"] != "tools/list" {
            return decent(message, &json!([]));
        }
        let page: u64 = message["params"]["cursor"]
            .as_str()
            .map_or(0, |at| at.parse().unwrap());
        let tools: Vec<Value> = (0..100).map(|at| tool(&format!("t{page}_{at}"))).collect();
        let next = (page + 1).to_string();
        vec![reply(message, &json!({"tools": tools, "nextCursor": next}))]
    });
    let (server, _) = start(dial);
    let listing = server.shared().first().await.unwrap();
    assert_eq!(listing.tools.len(), 2_000);
    assert!(
        listing.left_out[0].reason.contains("does not end"),
        "{:?}",
        listing.left_out
    );

    // The same page again and again.
    let dial = Played::script(|message| {
        if message["method"] != "tools/list" {
            return decent(message, &json!([]));
        }
        vec![reply(
            message,
            &json!({"tools": [tool("t")], "nextCursor": "x"}),
        )]
    });
    let (server, _) = start(dial);
    let listing = server.shared().first().await.unwrap();
    assert_eq!(listing.tools.len(), 1);
}

/// A server that says that its tools changed, when it is first called, and is silent or gone when it is asked for them.
fn lists_once(then: &'static [&'static str]) -> Box<dyn crate::dial::Dial> {
    let lists = AtomicUsize::new(0);
    Played::script(move |message| match message["method"].as_str() {
        Some("tools/call") => vec![
            reply(message, &json!({"content": []})),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}).to_string(),
        ],
        Some("tools/list") if lists.fetch_add(1, Ordering::SeqCst) > 0 => {
            then.iter().map(ToString::to_string).collect()
        }
        _ => decent(message, &json!([tool("t")])),
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_while_it_is_listed_again_holds_nobody_up() {
    let (server, _) = start(lists_once(&[]));
    server.shared().first().await.unwrap();
    call(&server, "mcp__one__t", json!({})).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    let begun = tokio::time::Instant::now();
    server.stop().await;
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    // One that ends just then is missed at once.
    let (server, heard) = start(lists_once(&["EOF"]));
    server.shared().first().await.unwrap();
    call(&server, "mcp__one__t", json!({})).await.unwrap();
    let begun = tokio::time::Instant::now();
    until(|| told(&heard).len() > 1).await;
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}
