//! The pages about past calls, with a real store.

use std::sync::Arc;
use std::time::Instant;

use http::StatusCode;
use serde_json::{Value, json};
use toolhost_contract::{CallId, NoSink, Principal};
use toolhost_kernel::CallRequest;
use toolhost_store::{CommitState, EventRow, Write};

use super::records::{HOSTILE, Home, fill, hostile_call, plain_call};
use super::world::{Browser, Page, World};
use crate::state::Permission;

const PAGES: [&str; 5] = ["/timeline", "/plugins", "/policy", "/health", "/"];

fn call_path(path: &str) -> String {
    crate::links::link(path, [("id", HOSTILE)])
}

/// The body without what fields contain: a browser shows that in the field only, and sends it back as it is.
fn without_fields(body: &str) -> String {
    let fields = regex::Regex::new("(?s) value=\"[^\"]*\"|<textarea.*?</textarea>").unwrap();
    fields.replace_all(body, "").into_owned()
}

/// No text of a guest may become markup, hide a character or change the direction of the text around it.
fn assert_safe(page: &Page, path: &str) {
    assert_eq!(page.status, StatusCode::OK, "{path}: {}", page.body);
    assert!(
        !page.body.contains("<script>alert"),
        "{path}: {}",
        page.body
    );
    let body = without_fields(&page.body);
    for bad in ["\u{202e}", "style=", "onclick", "javascript:"] {
        assert!(!body.contains(bad), "{bad} in {path}: {body}");
    }
}

#[tokio::test]
async fn hostile_text_is_escaped_on_every_page() {
    let home = Home::new();
    home.write(hostile_call()).await;
    home.commit("commit-1", json!("plain")).await;
    home.commit("commit-2", json!("conflict")).await;
    let event = EventRow {
        channel: "monitor".to_owned(),
        session: HOSTILE.to_owned(),
        call: Some(HOSTILE.to_owned()),
        at_ms: 5,
        kind: HOSTILE.to_owned(),
        body: json!({HOSTILE: HOSTILE}),
    };
    home.store.commit(Write::Event(event)).await.unwrap();
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    let filter = crate::links::link(
        "/timeline",
        [("q", HOSTILE), ("tool", HOSTILE), ("session", HOSTILE)],
    );
    let explain = crate::links::link("/policy", [("tool", HOSTILE), ("input", HOSTILE)]);
    let input = crate::links::link(
        "/policy",
        [("tool", "run"), ("input", HOSTILE), ("agent", HOSTILE)],
    );
    let object = json!({ "path": HOSTILE }).to_string();
    let object = crate::links::link("/policy", [("tool", "run"), ("input", &object)]);
    let more = [
        filter,
        explain,
        input,
        object,
        call_path("/call"),
        "/undo?commit=commit-1".to_owned(),
        "/undo?commit=commit-2".to_owned(),
        "/health?range=7d".to_owned(),
    ];
    for path in PAGES.iter().map(|path| (*path).to_owned()).chain(more) {
        assert_safe(&browser.get(&path).await, &path);
    }
    let exported = browser.get(&call_path("/call/export.html")).await;
    let (_, content) = exported.body.split_once("</style>").unwrap();
    assert!(
        !content.contains("<script")
            && !content.contains('\u{202e}')
            && !content.contains("hunter22")
    );
    assert!(
        !content.contains("href=") && !content.contains("src="),
        "{content}"
    );
    let disposition = exported.headers["content-disposition"].to_str().unwrap();
    assert_eq!(disposition, "attachment; filename=\"toolhost-call.html\"");
}

#[tokio::test]
async fn a_call_page_shows_what_happened_and_why() {
    let home = Home::new();
    let mut row = plain_call(1);
    row.id = "c".to_owned();
    row.record["policyRuleId"] = json!("rule user:1 allow `read_file`");
    row.record["inputPreview"] = json!({"path": "src/a.rs", "token": "***"});
    home.write(row).await;
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    let page = browser.get("/call?id=c").await;
    for text in [
        "rule user:1 allow `read_file`",
        "src/a.rs",
        "Completed",
        "approval requested",
        "Hash of step",
        "1.0 MiB",
    ] {
        page.assert_contains(text);
    }
    let missing = browser.get("/call?id=gone").await;
    assert_eq!(missing.status, StatusCode::NOT_FOUND);
    let exported = browser.get("/call/export.json?id=c").await;
    let json: Value = serde_json::from_str(&exported.body).unwrap();
    assert_eq!(json["auditTrail"].as_array().unwrap().len(), 6);
    assert_eq!(json["inputPreview"]["token"], "***");
}

#[tokio::test]
async fn exports_mask_notes_errors_and_events() {
    let home = Home::new();
    let mut row = plain_call(1);
    row.id = "c".to_owned();
    let secret = "password=hunter22";
    row.record["error"] = json!({"code": "failed", "message": secret});
    row.record["approval"] = json!({"decision": "deny", "decidedBy": "cli", "note": secret});
    home.write_with_note(row, secret).await;
    let event = EventRow {
        channel: "control".to_owned(),
        session: "s1".to_owned(),
        call: Some("c".to_owned()),
        at_ms: 1,
        kind: "permission.decided".to_owned(),
        body: json!({"note": secret, "token": "hunter22"}),
    };
    home.store.commit(Write::Event(event)).await.unwrap();
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    for path in ["/call/export.json?id=c", "/call/export.html?id=c"] {
        let exported = browser.get(path).await;
        exported.assert_contains("password=***");
        exported.assert_contains("permission.decided");
        assert!(!exported.body.contains("hunter22"), "{}", exported.body);
    }
}

#[tokio::test]
async fn changes_are_undone_once_and_only_as_shown() {
    let home = Home::new();
    home.write(hostile_call()).await;
    home.commit("commit-1", json!("plain")).await;
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    browser
        .get(&call_path("/call"))
        .await
        .assert_contains("/undo?commit=commit-1");
    let page = browser.get("/undo?commit=commit-1").await;
    let (csrf, digest) = (page.hidden("csrf"), page.hidden("digest"));
    let fields = [("csrf", csrf), ("commit", "commit-1"), ("digest", digest)];
    // Without a token, and with another preview.
    let foreign = browser.post("/undo", &fields[1..]).await;
    assert_eq!(foreign.status, StatusCode::FORBIDDEN);
    let other = [fields[0], fields[1], ("digest", "other")];
    assert_eq!(
        browser.post("/undo", &other).await.status,
        StatusCode::CONFLICT
    );
    assert_eq!(home.commits(), [(CommitState::Done, None)]);
    let done = browser.post("/undo", &fields).await;
    assert_eq!(done.status, StatusCode::SEE_OTHER, "{}", done.body);
    assert_eq!(
        home.commits(),
        [
            (CommitState::Done, Some("commit-1".to_owned())),
            (CommitState::Undone, None)
        ]
    );
    // A form that is sent again.
    let again = browser.post("/undo", &fields).await;
    assert_eq!(again.status, StatusCode::CONFLICT);
    again.assert_contains("Nothing was changed");
    let page = browser.get(&call_path("/call")).await;
    page.assert_contains("Redo…");
    page.assert_contains("changes.undone");
    page.assert_contains("ui (ann)");
}

#[tokio::test]
async fn an_undo_that_conflicts_names_the_files_and_changes_nothing() {
    let home = Home::new();
    home.write(hostile_call()).await;
    home.commit("commit-1", json!("conflict")).await;
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    let page = browser.get("/undo?commit=commit-1").await;
    page.assert_contains("Files have changed since");
    assert!(!page.body.contains("method=\"post\""), "{}", page.body);
}

#[tokio::test]
async fn a_read_only_page_offers_and_accepts_no_action() {
    let home = Home::new();
    home.write(hostile_call()).await;
    home.commit("commit-1", json!("plain")).await;
    let world = home.world(Permission::ReadOnly);
    let browser = world.browser().await;
    let paths = [
        call_path("/call"),
        "/undo?commit=commit-1".to_owned(),
        "/plugins".to_owned(),
    ];
    for path in paths {
        let page = browser.get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(
            !page.body.contains("method=\"post\""),
            "{path}: {}",
            page.body
        );
    }
    for (path, fields) in [
        ("/undo", [("commit", "commit-1"), ("digest", "")]),
        ("/plugins/disable", [("plugin", "shell"), ("x", "")]),
        ("/call/cancel", [("id", "c"), ("x", "")]),
    ] {
        let page = browser.post(path, &fields).await;
        assert_eq!(page.status, StatusCode::FORBIDDEN, "{path}");
        page.assert_contains("read-only");
    }
    assert_eq!(home.commits(), [(CommitState::Done, None)]);
}

#[tokio::test]
async fn a_plugin_is_turned_off_and_on_again() {
    let home = Home::new();
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    world.kernel.set_enabled("run", false).unwrap();
    let page = browser.get("/plugins").await;
    let fields = [("csrf", page.hidden("csrf")), ("plugin", "shell")];
    let is_on = |tool: &str| world.kernel.registry().get(tool).unwrap().enabled;
    assert_eq!(
        browser.post("/plugins/disable", &fields).await.status,
        StatusCode::SEE_OTHER
    );
    assert!(!is_on("remove"));
    browser
        .get("/plugins")
        .await
        .assert_contains("Turn on again");
    // The tools stay off when the plugin registers them again.
    world.register_again("shell");
    assert!(!is_on("remove"));
    world.kernel.set_enabled("run", false).unwrap();
    browser.post("/plugins/enable", &fields).await;
    // What the configuration has turned off stays off.
    assert!(is_on("remove") && !is_on("run"));
    let unknown = [fields[0], ("plugin", "gone")];
    assert_eq!(
        browser.post("/plugins/disable", &unknown).await.status,
        StatusCode::NOT_FOUND
    );
}

#[tokio::test]
async fn the_explain_box_states_the_decision_and_a_rule() {
    let home = Home::new();
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    let page = browser
        .get("/policy?tool=remove&input=%7B%22path%22%3A%22a%22%7D")
        .await;
    page.assert_contains("the user is asked");
    page.assert_contains("allow = [&quot;remove");
    let wrong = browser.get("/policy?tool=remove&input=%7B").await;
    wrong.assert_contains("not valid JSON");
    browser
        .get("/policy?tool=nothing")
        .await
        .assert_contains("nothing");
}

#[tokio::test]
async fn a_running_call_is_stopped_and_its_result_is_shown() {
    let home = Home::new();
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    world.state.history.follow(Some(&world.kernel));
    let call = world.ask("running", "remove", json!({"path": "a"})).await;
    let page = browser.get("/call?id=running").await;
    page.assert_contains("Stop this call");
    let fields = [("csrf", page.hidden("csrf")), ("id", "running")];
    let stopped = browser.post("/call/cancel", &fields).await;
    assert_eq!(stopped.status, StatusCode::SEE_OTHER, "{}", stopped.body);
    assert!(call.await.unwrap().result.is_err());
    assert_eq!(
        browser.post("/call/cancel", &fields).await.status,
        StatusCode::CONFLICT
    );
    // A call that needs no approval.
    let request = CallRequest::new(
        CallId("quick".to_owned()),
        "look",
        json!({}),
        Principal::default(),
    );
    world
        .kernel
        .call(request, Arc::new(NoSink))
        .await
        .result
        .unwrap();
    world.kernel.flush().await.unwrap();
    while world.state.history.live.result("quick").is_none() {
        tokio::task::yield_now().await;
    }
    browser
        .get("/call?id=quick")
        .await
        .assert_contains("<bdi dir=\"ltr\">done</bdi>");
}

#[tokio::test]
async fn filters_are_checked_and_kept_in_links() {
    let home = Home::new();
    fill(&home.store, 250).await;
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    let page = browser.get("/timeline?tool=grep&outcome=completed").await;
    page.assert_contains("84 calls of 7 sessions");
    let page = browser.get("/timeline?q=SRC%2F17.rs").await;
    page.assert_contains("1 call of 1 session");
    let first = browser.get("/timeline?plugin=files").await;
    let next = first
        .between("rel=\"next\" href=\"", "\"")
        .replace("&amp;", "&");
    assert!(
        next.contains("plugin=files") && next.contains("before="),
        "{next}"
    );
    let second = browser.get(&next).await;
    second.assert_contains("call-149");
    assert!(!second.body.contains("call?id=call-150\""));
    for bad in ["outcome=x", "since=1y", "day=x", "before=x"] {
        let page = browser.get(&format!("/timeline?{bad}")).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{bad}");
    }
    let long = format!("/timeline?q={}", "x".repeat(400));
    assert_eq!(browser.get(&long).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn pages_are_refused_without_a_session() {
    let home = Home::new();
    let world = home.world(Permission::ReadWrite);
    let stranger = Browser::without_session(&world);
    let calls = [
        "/call?id=call-1",
        "/call/export.json?id=call-1",
        "/call/export.html?id=call-1",
        "/undo?commit=c",
    ];
    for path in PAGES.into_iter().chain(calls) {
        assert_eq!(
            stranger.get(path).await.status,
            StatusCode::UNAUTHORIZED,
            "{path}"
        );
    }
}

#[test]
fn a_locked_store_is_explained() {
    let path = std::path::PathBuf::from(HOSTILE);
    let locked = toolhost_store::StoreError::Locked { path: path.clone() };
    let page = crate::record_pages::unreadable(&locked)
        .content()
        .into_string();
    assert!(
        page.contains("Nothing is lost. Load the page again"),
        "{page}"
    );
    let detail = "x".to_owned();
    let damaged = toolhost_store::StoreError::Corrupt { path, detail };
    let page = crate::record_pages::unreadable(&damaged)
        .content()
        .into_string();
    assert!(
        page.contains("is damaged") && !page.contains("<script>"),
        "{page}"
    );
}

#[tokio::test]
async fn pages_work_without_records_and_without_a_host() {
    let world = World::new();
    let browser = world.browser().await;
    for path in PAGES {
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }
    assert_eq!(
        browser.get("/call?id=c").await.status,
        StatusCode::NOT_FOUND
    );
    let home = Home::new();
    fill(&home.store, 3).await;
    let world = World::history_only(home.store.clone());
    let browser = world.browser().await;
    for path in PAGES.into_iter().chain(["/call?id=call-1"]) {
        assert_eq!(browser.get(path).await.status, StatusCode::OK, "{path}");
    }
}

/// Each page reads a bounded part. The sizes bound what a browser has to show.
#[tokio::test]
async fn ten_thousand_calls_are_shown_in_bounded_pages() {
    let home = Home::new();
    fill(&home.store, 10_000).await;
    let world = home.world(Permission::ReadWrite);
    let browser = world.browser().await;
    for (path, max) in [
        ("/timeline", 200_000),
        ("/timeline?size=500", 900_000),
        ("/timeline?size=2000", 3_500_000),
        ("/timeline?q=absent", 20_000),
        ("/plugins", 50_000),
        ("/policy", 50_000),
        ("/health?range=7d", 50_000),
    ] {
        let start = Instant::now();
        let page = browser.get(path).await;
        println!("{path}: {} bytes in {:?}", page.body.len(), start.elapsed());
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.body.len() < max, "{path}: {} bytes", page.body.len());
    }
    // The statistics of all calls are complete after a bounded number of steps.
    let steps = (0..10).take_while(|_| !world.state.history.update().unwrap().is_complete);
    assert!(steps.count() < 10);
    let coverage = world.state.history.update().unwrap();
    assert_eq!((coverage.calls, coverage.is_limited), (10_000, false));
}
