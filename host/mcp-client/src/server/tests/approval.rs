//! A server runs only as long as its approval is valid.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::{events, name_of, until};
use crate::approvals::Approvals;
use crate::dial::Dial;
use crate::server::Server;
use crate::testing::{
    ScriptedServer, approved, call, config, legacy_response, reply, respond, server_context, tool,
};

/// Counts its starts, and announces a change of its tools at each call.
fn restless(started: &Arc<AtomicUsize>) -> Box<dyn Dial> {
    let started = Arc::clone(started);
    ScriptedServer::dial(move |_, pipes| {
        started.fetch_add(1, Ordering::SeqCst);
        tokio::spawn(respond(pipes, |message| match name_of(message) {
            Some("ends") => vec!["EOF".to_owned()],
            Some(_) => {
                let changed =
                    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                vec![changed.to_string(), reply(message, &json!({"content": []}))]
            }
            None => legacy_response(message, &json!([tool("t"), tool("ends")])),
        }));
    })
}

#[tokio::test(start_paused = true)]
async fn a_server_with_a_revoked_approval_is_stopped() {
    for ends in ["t", "ends"] {
        let started = Arc::default();
        let config = config("one");
        let approvals = approved(&config);
        let (context, received) = server_context(&approvals);
        let server = Server::start(config.clone(), restless(&started), context);
        server.shared().first_listing().await.unwrap();
        approvals.forget("one").unwrap();
        let _ = call(&server, &format!("mcp__one__{ends}"), json!({})).await;
        until(|| {
            let received = events(&received);
            received
                .last()
                .is_some_and(|last| last.starts_with("gave up"))
        })
        .await;
        let error = server.shared().live().await.err().unwrap();
        assert!(error.to_string().contains("was revoked"), "{error}");
        assert_eq!(started.load(Ordering::SeqCst), 1);
        assert!(!approvals.is_approved("one", config.digest()).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_list_is_stopped_when_its_approval_is_revoked() {
    let lists = AtomicUsize::new(0);
    let dial = ScriptedServer::script(move |message| {
        let is_list = message["method"] == "tools/list";
        if is_list && lists.fetch_add(1, Ordering::SeqCst) > 0 {
            return Vec::new();
        }
        legacy_response(message, &json!([tool("t")]))
    });
    let config = config("one");
    let approvals = approved(&config);
    let (context, received) = server_context(&approvals);
    let server = Server::start(config, dial, context);
    server.shared().first_listing().await.unwrap();
    approvals.forget("one").unwrap();
    until(|| events(&received).len() == 2).await;
    assert!(events(&received)[1].contains("was revoked"));
}

#[tokio::test(start_paused = true)]
async fn a_request_to_list_again_finds_what_was_approved_meanwhile() {
    let lists = AtomicUsize::new(0);
    let dial = ScriptedServer::script(move |message| {
        let is_first =
            message["method"] == "tools/list" && lists.fetch_add(1, Ordering::SeqCst) == 0;
        let all = json!([tool("t"), tool("later")]);
        legacy_response(message, &if is_first { json!([tool("t")]) } else { all })
    });
    let config = config("one");
    let approvals = approved(&config);
    let (context, received) = server_context(&approvals);
    let server = Server::start(config.clone(), dial, context);
    let shared = server.shared();
    shared.first_listing().await.unwrap();
    let limit = std::time::Duration::from_secs(60);
    assert!(shared.has_changed(limit).await);
    assert!(!shared.has_changed(limit).await);
    let listing = shared.listing().unwrap();
    approvals
        .approve_tools("one", config.digest(), &listing.tools, &listing.changed)
        .unwrap();
    assert!(shared.has_changed(limit).await);
    assert_eq!(
        events(&received).last().unwrap(),
        "listed mcp__one__later mcp__one__t"
    );
    assert!(!shared.has_changed(limit).await);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_an_approval_is_not_started() {
    let started = Arc::default();
    let (context, _) = server_context(&Arc::new(Approvals::in_memory()));
    let server = Server::start(config("one"), restless(&started), context);
    server.shared().first_listing().await.unwrap_err();
    assert_eq!(started.load(Ordering::SeqCst), 0);
}
