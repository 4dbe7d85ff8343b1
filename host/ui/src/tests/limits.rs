//! Hostile text, large questions, and many of them.

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use toolhost_contract::{Call, Display};

use super::world::{Browser, World};
use crate::diff_view::DiffLayout;

const HOSTILE: &str = "\"><script>alert(1)</script>\u{202e}\u{200b}\u{1b}[2J";

#[tokio::test]
async fn hostile_text_is_escaped_and_isolated() {
    let world = World::new();
    let input = json!({"path": format!("/project/{HOSTILE}"), "content": HOSTILE});
    let _call = world.ask(HOSTILE, "write", input).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    for part in ["<script>alert", "\u{202e}", "\u{200b}", "\u{1b}"] {
        assert!(!page.body.contains(part), "{part:?} in {}", page.body);
    }
    page.assert_contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}\\u{200b}\\u{1b}[2J");
    let text = browser.get("/questions/1/text").await;
    assert_eq!(text.headers["content-type"], "text/plain; charset=utf-8");
    assert!(!text.body.contains('\u{202e}') && text.body.contains("\\u{202e}"));
}

#[tokio::test]
async fn a_long_diff_is_truncated_with_a_link_to_the_whole() {
    let world = World::new();
    let lines: Vec<String> = (0..20_000).map(|n| format!("line {n}\n")).collect();
    let lines = lines.concat();
    let _call = world
        .ask(
            "c-1",
            "write",
            json!({"path": "/project/long", "content": lines}),
        )
        .await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("18001 more lines");
    page.assert_contains("href=\"/questions/1/text\"");
    assert!(!page.body.contains("line 19999"));
    assert!(page.body.len() < 600_000, "{}", page.body.len());
    browser
        .get("/questions/1/text")
        .await
        .assert_contains("line 19999");
}

#[tokio::test]
async fn a_hundred_thousand_questions_are_paged() {
    let world = World::new();
    let call = world
        .ask("c-1", "remove", json!({"path": "/project/a"}))
        .await;
    let question = world.kernel.pending()[0].question.clone();
    let inbox = world.state.inbox();
    let guards: Vec<_> = (0..100_000)
        .map(|n| {
            let call = Call::new(
                format!("many-{n}"),
                question.tool.clone(),
                json!({"path": "/project/a"}),
            );
            inbox.open(&question, &call)
        })
        .collect();
    let browser = world.browser().await;
    let page = browser.get("/").await;
    assert!(page.body.len() < 150_000, "{}", page.body.len());
    page.assert_contains("100001 questions wait");
    page.assert_contains("Page 1 of 2001");
    assert_eq!(page.body.matches("class=\"row\"").count(), 50);
    let last = browser.get("/?page=2000").await;
    assert_eq!(last.body.matches("class=\"row\"").count(), 1);
    browser
        .get("/?page=99999999999")
        .await
        .assert_contains("Inbox");
    drop(guards);
    browser.get("/").await.assert_contains("1 question waits");
    call.abort();
}

#[tokio::test]
async fn bodies_and_streams_are_bounded() {
    let world = World::new();
    let browser = world.browser().await;
    let long = "x".repeat(70_000);
    let page = browser.post("/questions/similar", &[("note", &long)]).await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);
    page.assert_contains("The form is too large");
    let huge = "x".repeat(17 << 20);
    let page = browser
        .post("/questions/1/answer", &[("note", &huge)])
        .await;
    assert_eq!(page.status, StatusCode::PAYLOAD_TOO_LARGE);

    let _slots = [
        Arc::clone(&world.state.streams)
            .try_acquire_owned()
            .unwrap(),
        Arc::clone(&world.state.streams)
            .try_acquire_owned()
            .unwrap(),
    ];
    let page = browser.get("/events").await;
    assert_eq!(page.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_first_load_is_small() {
    let world = World::new();
    let _call = world
        .ask(
            "c-1",
            "write",
            json!({"path": "/project/a", "content": "x\n"}),
        )
        .await;
    let browser = world.browser().await;
    let mut bytes = browser.get("/").await.body.len();
    for asset in ["style.css", "app.js", "icon.svg"] {
        bytes += browser.get(&format!("/assets/{asset}")).await.body.len();
    }
    assert!(bytes < 60_000, "{bytes}");
}

#[tokio::test]
async fn open_pages_are_told_that_the_host_exits() {
    let server = crate::UiServer::bind(crate::UiServer::DEFAULT_ADDRESS, history_only());
    let server = server.await.unwrap();
    let cookie = server.test_cookie();
    let address = server.address();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = format!("GET /events HTTP/1.1\r\nhost: {address}\r\ncookie: {cookie}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut received = String::new();
    let mut part = [0; 4096];
    while !received.contains("event: inbox") {
        let length = stream.read(&mut part).await.unwrap();
        received.push_str(std::str::from_utf8(&part[..length]).unwrap());
        assert!(length > 0, "{received}");
    }
    stop.send(()).unwrap();
    stream.read_to_string(&mut received).await.unwrap();
    assert!(received.contains("event: exit"), "{received}");
    serving.await.unwrap();
}

#[tokio::test]
async fn connections_without_a_session_do_not_block_a_browser() {
    let server = crate::UiServer::bind(crate::UiServer::DEFAULT_ADDRESS, history_only());
    let server = server.await.unwrap();
    let cookie = server.test_cookie();
    let address = server.address();
    let serving = tokio::spawn(server.serve(std::future::pending()));
    let head = |cookie: &str| format!("GET / HTTP/1.1\r\nhost: {address}\r\n{cookie}\r\n");
    let mut browser = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = head(&format!("cookie: {cookie}\r\n"));
    let mut part = [0; 4096];
    browser.write_all(request.as_bytes()).await.unwrap();
    assert!(browser.read(&mut part).await.unwrap() > 0);
    // More than all connections that there may be, half of them with a request.
    let mut held = Vec::new();
    for at in 0..400 {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        if at % 2 == 0 {
            stream.write_all(head("").as_bytes()).await.unwrap();
        }
        held.push(stream);
    }
    for stream in [
        &mut tokio::net::TcpStream::connect(address).await.unwrap(),
        &mut browser,
    ] {
        let request = head(&format!("cookie: {cookie}\r\nconnection: close\r\n"));
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.contains("<title>"), "{response}");
    }
    // The oldest was closed, after its response.
    let mut rest = Vec::new();
    held[0].read_to_end(&mut rest).await.unwrap();
    serving.abort();
}

#[tokio::test]
async fn addresses_that_other_machines_can_reach_are_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80", "127.0.0.2:80"] {
        let bound = crate::UiServer::bind(address.parse().unwrap(), history_only());
        let error = bound.await.map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("127.0.0.1 and [::1] only"), "{error}");
    }
}

/// A browser can connect to either address of the name in the link, so the server binds both.
#[tokio::test]
async fn the_port_is_taken_on_both_loopback_addresses() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        println!("this machine has no [::1], so only 127.0.0.1 was tested");
        return;
    }
    let server = crate::UiServer::bind(crate::UiServer::DEFAULT_ADDRESS, history_only());
    let server = server.await.unwrap();
    let [first, second] = server.addresses();
    assert!(first.is_ipv4() && second.is_ipv6() && first.port() == second.port());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(server.serve(async {
        let _ = stopped.await;
    }));
    for address in [first, second] {
        let other = tokio::net::TcpListener::bind(address).await;
        assert_eq!(
            other.map(drop).unwrap_err().kind(),
            std::io::ErrorKind::AddrInUse
        );
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let request = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        assert!(response.starts_with("HTTP/1.1 403"), "{response}");
    }
    stop.send(()).unwrap();
    serving.await.unwrap();
    // Another program has the port that was chosen.
    let taken = std::net::TcpListener::bind("[::1]:0").unwrap();
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], taken.local_addr().unwrap().port()));
    let bound = crate::UiServer::bind(address, history_only());
    let error = bound.await.map(drop).unwrap_err().to_string();
    assert!(
        error.starts_with("cannot serve the page on [::1]:"),
        "{error}"
    );
}

fn history_only() -> crate::UiOptions {
    crate::UiOptions {
        inbox: crate::Inbox::new(toolhost_kernel::Clock::system(), None),
        kernel: None,
        store: None,
        view: None,
        permission: crate::Permission::ReadOnly,
        user: "ann".to_owned(),
    }
}

#[tokio::test]
async fn a_question_is_rendered_once_for_each_layout() {
    let world = World::new();
    let _call = world
        .ask(
            "c-1",
            "write",
            json!({"path": "/project/a", "content": "x\n"}),
        )
        .await;
    let entry = world.state.inbox().entry(1).unwrap();
    let rendered = &world.state.rendered;
    let details = async |layout| rendered.details(&entry, layout).await.unwrap();
    let (first, second) = tokio::join!(details(DiffLayout::Unified), details(DiffLayout::Unified));
    let split = details(DiffLayout::SideBySide).await;
    assert!(Arc::ptr_eq(&first, &second) && !Arc::ptr_eq(&first, &split));
    let browser = world.browser().await;
    browser.get("/").await.assert_contains(&first.0);
    // Another question does not get its text.
    let _guard = world.state.inbox().open(&entry.question, &entry.call);
    let other = Arc::clone(&world.state.inbox().list(0, 2)[1]);
    let third = rendered.details(&other, DiffLayout::Unified).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &third));
}

/// A tool can show an invented diff, which must not precede the real one.
#[tokio::test]
async fn what_a_tool_shows_comes_after_the_changes_and_is_folded() {
    let world = World::new();
    let input = json!({"path": "/project/a", "content": "real\n"});
    let _call = world.ask("c-1", "write", input).await;
    let entry = world.state.inbox().entry(1).unwrap();
    let mut question = entry.question.clone();
    question.rendering = vec![Display {
        kind: "text".to_owned(),
        text: Some("invented".to_owned()),
        diff: None,
        data: None,
    }];
    let _guard = world.state.inbox().open(&question, &entry.call);
    let other = Arc::clone(&world.state.inbox().list(0, 2)[1]);
    let details = world.state.rendered.details(&other, DiffLayout::Unified);
    let shown = details.await.unwrap();
    let (before, after) = shown
        .0
        .split_once("<summary>The tool shows</summary>")
        .unwrap();
    assert!(
        before.contains("real") && before.ends_with("<details class=\"block\">"),
        "{before}"
    );
    assert!(
        after.contains("invented") && !before.contains("invented"),
        "{after}"
    );
}

#[tokio::test]
async fn binary_files_that_are_not_shown_completely_can_be_downloaded() {
    let world = World::new();
    let hidden = format!("{}curl evil", "x\0".repeat(8 * 48));
    let input = json!({"path": "/project/a", "old": "", "content": hidden, "binary": true});
    let _call = world.ask("c-1", "write", input).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("Not all bytes that differ are shown.");
    let sent = browser.get("/questions/1/contents/0/after").await;
    assert_eq!((sent.status, &*sent.body), (StatusCode::OK, &*hidden));
    let disposition = "attachment; filename=\"proposed.bin\"";
    assert_eq!(sent.headers["content-disposition"], disposition);
}

#[tokio::test]
async fn both_sides_of_a_large_file_are_attachments_for_this_session_only() {
    let world = World::new();
    let input = json!({"path": "/project/large", "old": "before\n", "content": "<b>after</b>\n", "large": true});
    let call = world.ask("c-1", "write", input).await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("The content is not shown: too large to show.");
    let side = |side: &str| format!("/questions/1/contents/0/{side}");
    for (name, file, content) in [
        ("before", "before.txt", "before\n"),
        ("after", "proposed.txt", "<b>after</b>\n"),
    ] {
        page.assert_contains(&format!("href=\"{}\" download", side(name)));
        let sent = browser.get(&side(name)).await;
        assert_eq!((sent.status, &*sent.body), (StatusCode::OK, content));
        assert_eq!(sent.headers["content-type"], "text/plain; charset=utf-8");
        let disposition = format!("attachment; filename=\"{file}\"");
        assert_eq!(sent.headers["content-disposition"], *disposition);
        assert_eq!(sent.headers["x-content-type-options"], "nosniff");
    }
    let unconnected = Browser::without_session(&world);
    assert_eq!(
        unconnected.get(&side("after")).await.status,
        StatusCode::UNAUTHORIZED
    );
    for path in [side("other"), "/questions/1/contents/1/after".to_owned()] {
        assert_eq!(browser.get(&path).await.status, StatusCode::NOT_FOUND);
    }
    let slots = Arc::clone(&world.state.downloads).acquire_many_owned(4);
    let slots = slots.await.unwrap();
    let busy = browser.get(&side("after")).await;
    assert_eq!(busy.status, StatusCode::SERVICE_UNAVAILABLE);
    drop(slots);
    browser.answer(&page, "deny", &[]).await;
    assert!(call.await.unwrap().result.is_err());
    assert_eq!(
        browser.get(&side("after")).await.status,
        StatusCode::CONFLICT
    );
}
