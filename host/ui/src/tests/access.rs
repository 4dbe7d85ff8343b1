//! Who may send requests, and what every response states.

use axum::body::Body;
use http::{Method, Request, StatusCode};
use serde_json::json;

use super::world::{HOST, World, post, request};
use crate::state::Permission;

#[tokio::test]
async fn a_link_is_exchanged_once_for_a_strict_cookie() {
    let world = World::new();
    let link = world.state.access.new_link().unwrap();
    let (start, token) = link.split_once("/open?token=").unwrap();
    assert!(
        start.starts_with("http://toolhost-") && start.ends_with(".localhost:7070"),
        "{link}"
    );
    assert!(token.len() >= 43, "32 random bytes: {link}");

    // Loading the link uses nothing up, because previews of links load them.
    let target = format!("/open?token={token}");
    for _ in 0..2 {
        let page = world
            .send(request(Method::GET, &target, "", String::new()))
            .await;
        assert_eq!(page.status, StatusCode::OK);
        assert_eq!(page.hidden("token"), token);
    }
    let page = world.send(post("/open", "", &[("token", token)])).await;
    assert_eq!(
        (page.status, &page.headers["location"]),
        (StatusCode::SEE_OTHER, &"/".parse().unwrap())
    );
    let cookie = page.headers["set-cookie"].to_str().unwrap();
    assert!(
        cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert!(!cookie.contains(token));

    let again = world.send(post("/open", "", &[("token", token)])).await;
    assert_eq!(again.status, StatusCode::FORBIDDEN);
    again.assert_contains("This link was already used");
    assert!(again.headers.get("set-cookie").is_none());
}

#[tokio::test]
async fn pages_need_the_cookie_and_assets_do_not() {
    let world = World::new();
    for path in ["/", "/questions/1/text", "/events", "/questions/1/edit"] {
        for cookie in ["", "toolhost_session=", "toolhost_session=guess", "other=1"] {
            let page = world
                .send(request(Method::GET, path, cookie, String::new()))
                .await;
            assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path} {cookie}");
            page.assert_contains("Open the link that the host printed");
        }
    }
    for path in ["/questions/1/answer", "/questions/similar"] {
        let page = world.send(post(path, "", &[("answer", "offer:0")])).await;
        assert_eq!(page.status, StatusCode::UNAUTHORIZED, "{path}");
    }
    for (path, kind) in [
        ("style.css", "text/css"),
        ("app.js", "text/javascript"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let page = world
            .send(request(
                Method::GET,
                &format!("/assets/{path}"),
                "",
                String::new(),
            ))
            .await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(
            page.headers["content-type"]
                .to_str()
                .unwrap()
                .starts_with(kind)
        );
    }
}

#[tokio::test]
async fn other_hosts_and_origins_are_rejected() {
    let world = World::new();
    let browser = world.browser().await;
    let own_name = world.state.access.new_link().unwrap();
    let own_name = own_name
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap()
        .0;
    let own_origin = format!("http://{own_name}");
    let check = async |method: Method, headers: &[(&str, &str)], expected: StatusCode| {
        let mut request = Request::builder()
            .method(method.clone())
            .uri("/")
            .header("cookie", &browser.cookie);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let page = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(page.status, expected, "{method} {headers:?}");
    };
    let (ok, no) = (StatusCode::OK, StatusCode::FORBIDDEN);
    check(Method::GET, &[("host", HOST)], ok).await;
    check(Method::GET, &[("host", "localhost:7070")], ok).await;
    check(Method::GET, &[("host", own_name)], ok).await;
    // DNS rebinding.
    check(Method::GET, &[("host", "attacker.example:7070")], no).await;
    check(
        Method::GET,
        &[("host", "toolhost-000000000000.localhost:7070")],
        no,
    )
    .await;
    check(Method::GET, &[("host", "127.0.0.1")], no).await;
    check(Method::GET, &[("host", "127.0.0.1:7071")], no).await;
    check(Method::GET, &[], no).await;
    check(
        Method::GET,
        &[("host", HOST), ("host", "attacker.example")],
        no,
    )
    .await;
    // Pages of other origins, including those of other ports of this machine.
    check(
        Method::GET,
        &[("host", HOST), ("origin", "http://attacker.example")],
        no,
    )
    .await;
    check(Method::GET, &[("host", HOST), ("origin", "null")], no).await;
    check(
        Method::GET,
        &[("host", HOST), ("sec-fetch-site", "cross-site")],
        no,
    )
    .await;
    check(
        Method::GET,
        &[("host", HOST), ("sec-fetch-site", "same-site")],
        no,
    )
    .await;
    check(
        Method::GET,
        &[
            ("host", HOST),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ],
        ok,
    )
    .await;
    // A form states its origin.
    let method_not_allowed = StatusCode::METHOD_NOT_ALLOWED;
    check(
        Method::POST,
        &[("host", own_name), ("origin", &own_origin)],
        method_not_allowed,
    )
    .await;
    check(Method::POST, &[("host", HOST)], no).await;
    check(
        Method::POST,
        &[("host", HOST), ("origin", "http://127.0.0.1:3000")],
        no,
    )
    .await;
    check(
        Method::POST,
        &[("host", HOST), ("origin", "https://127.0.0.1:7070")],
        no,
    )
    .await;
    check(Method::POST, &[("host", HOST), ("origin", &own_origin)], no).await;
}

#[tokio::test]
async fn every_response_forbids_inline_code_other_servers_and_frames() {
    let world = World::new();
    let browser = world.browser().await;
    let inbox = browser.get("/").await;
    let missing = browser.get("/none").await;
    let unconnected = world
        .send(request(Method::GET, "/", "", String::new()))
        .await;
    let asset = browser.get("/assets/app.js").await;
    for page in [&inbox, &missing, &unconnected, &asset] {
        let header = |name: &str| page.headers[name].to_str().unwrap();
        let policy = header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("cross-origin-resource-policy"), "same-origin");
    }
    assert_eq!(inbox.headers["cache-control"], "no-store");
    for page in [&inbox, &missing] {
        assert!(
            !page.body.contains("<style") && !page.body.contains(" style="),
            "{}",
            page.body
        );
        assert!(
            !page.body.contains("http://") && !page.body.contains("https://"),
            "{}",
            page.body
        );
        assert_eq!(page.body.matches("<script").count(), 1);
        assert!(!page.body.contains(" onclick") && !page.body.contains("javascript:"));
    }
}

#[tokio::test]
async fn a_read_only_page_shows_questions_and_refuses_answers() {
    let world = World::with(
        Permission::ReadOnly,
        std::sync::Arc::new(toolhost_kernel::NoPrompter),
    );
    let _call = world
        .ask("c-1", "write", json!({"path": "/w/a", "content": "x"}))
        .await;
    let browser = world.browser().await;
    let page = browser.get("/").await;
    page.assert_contains("Plugin <code>files</code> wants to create /w/a");
    page.assert_contains("This page is read-only");
    assert!(
        !page.body.contains("method=\"post\"") && !page.body.contains("ticket"),
        "{}",
        page.body
    );
    for path in ["/questions/1/answer", "/questions/similar"] {
        let refused = browser.post(path, &[("answer", "offer:0")]).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN);
        refused.assert_contains("read-only");
    }
    assert_eq!(world.kernel.pending().len(), 1);
}
