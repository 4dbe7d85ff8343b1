//! Sends complete requests to local servers on loopback, with a scripted resolver.

mod common;

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use common::{ScriptedResolver, Server, answer, get, net, rules, send};
use http::Request;
use http_body_util::{BodyExt, Empty, Full};
use toolhost_net::{AllowedHosts, HostRule, NetClient, NetLimits, NetSettings, Secret, Timeouts};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_is_sent_unchanged() {
    let server = Server::start(OK).await;
    let net = net(
        &format!("127.0.0.1:{}", server.port()),
        ScriptedResolver::default(),
    );
    let url = format!("http://127.1:{}/a//b?c=%20d&e", server.port());
    let request = Request::post(url)
        .header("x-a", "1")
        .body(Full::new(Bytes::from_static(b"hello")))
        .unwrap();
    assert_eq!(
        answer(net.send(request, Timeouts::MAX).await).await,
        "200 ok"
    );
    let host = format!("127.0.0.1:{}", server.port());
    assert_eq!(
        server.requests().await,
        [format!(
            "POST /a//b?c=%20d&e HTTP/1.1\r\nx-a: 1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello"
        )]
    );
}

// NET-01
#[tokio::test]
async fn a_host_without_a_rule_is_refused_before_dns() {
    let fake = ScriptedResolver::new(&[("evil.example", &["93.184.215.14"])]);
    let net = net("example.org", fake.clone());
    assert_eq!(
        get(&net, "http://evil.example/").await,
        "host_not_allowed: host `evil.example` is not allowed: no rule covers it; to allow: `--allow-host evil.example`"
    );
    assert_eq!(fake.queries(), [""; 0]);
}

// NET-03: the second answer of the name server is never requested, and the first one is dialled.
#[tokio::test]
async fn a_name_is_resolved_once_and_that_address_is_dialled() {
    let first = Server::start(OK).await;
    let detector = Server::start_on("127.0.0.2:0", OK).await;
    let port = first.port();
    let fake = ScriptedResolver::new(&[
        ("rebind.example", &["127.0.0.1"]),
        ("rebind.example", &["127.0.0.2"]),
    ]);
    let net = net(&format!("rebind.example:{port}"), fake.clone());
    assert_eq!(
        get(&net, &format!("http://rebind.example:{port}/")).await,
        "200 ok"
    );
    assert_eq!(fake.queries(), ["rebind.example"]);
    assert_eq!(first.requests().await.len(), 1);
    assert_eq!(detector.requests().await, [""; 0]);
}

// NET-03
#[tokio::test]
async fn a_name_that_resolves_to_a_private_address_is_refused() {
    let server = Server::start(OK).await;
    let fake = ScriptedResolver::new(&[
        ("rebind.example", &["127.0.0.1"]),
        ("rebind.example", &["93.184.215.14", "127.0.0.1"]),
        ("rebind.example", &["2606:2800:21f::1", "::ffff:127.0.0.1"]),
        ("rebind.example", &["169.254.169.254"]),
        ("rebind.example", &["0.0.0.0"]),
    ]);
    let net = net("*", fake);
    for _ in 0..5 {
        let text = get(&net, &format!("http://rebind.example:{}/", server.port())).await;
        assert!(
            text.starts_with("private_address: host `rebind.example"),
            "{text}"
        );
    }
    assert_eq!(server.requests().await, [""; 0]);
}

// NET-02: the guest follows a redirect with a new request, which is checked again.
#[tokio::test]
async fn redirects_are_returned_and_their_targets_checked() {
    let detector = Server::start(OK).await;
    let location = format!("http://127.0.0.1:{}/admin", detector.port());
    let head = format!("HTTP/1.1 302 Found\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n");
    let server = Server::start(&head).await;
    let net = net(
        &format!("localhost:{}", server.port()),
        ScriptedResolver::default(),
    );
    let request = Request::get(format!("http://localhost:{}/", server.port()))
        .body(Empty::<Bytes>::new())
        .unwrap();
    let response = send(&net, request).await.unwrap();
    assert_eq!(response.status(), 302);
    assert_eq!(response.headers()["location"], location);
    let text = get(&net, &location).await;
    assert!(text.starts_with("private_address"), "{text}");
    assert_eq!(detector.requests().await, [""; 0]);
}

// NET-06
#[tokio::test]
async fn the_host_s_own_listener_is_always_refused() {
    let dashboard = Server::start_on("0.0.0.0:0", OK).await;
    let port = dashboard.port();
    let fake = ScriptedResolver::new(&[("own.example", &["127.0.0.9"])]);
    let net = net(
        &format!("127.0.0.0/8 0.0.0.0 localhost:{port} own.example:{port}"),
        fake,
    );
    assert_eq!(
        get(&net, &format!("http://127.0.0.1:{port}/")).await,
        "200 ok"
    );
    net.deny_listener(SocketAddr::from(([0, 0, 0, 0], port)));
    for host in [
        "127.0.0.1",
        "127.0.0.2",
        "0.0.0.0",
        "localhost",
        "own.example",
    ] {
        let text = get(&net, &format!("http://{host}:{port}/")).await;
        assert!(
            text.starts_with("private_address") && text.contains("own listening address"),
            "{host}: {text}"
        );
    }
    assert_eq!(dashboard.requests().await.len(), 1);
}

#[tokio::test]
async fn a_secret_is_sent_only_to_its_host() {
    let server =
        Server::start("HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\nkey is hunter22!").await;
    let other = Server::start(OK).await;
    let own = format!("http://127.0.0.1:{}", server.port());
    let secret = Secret::new("KEY", "hunter22", vec![HostRule::parse(&own).unwrap()]).unwrap();
    let net = net("127.0.0.0/8", ScriptedResolver::default())
        .with_rules(rules("127.0.0.0/8"), vec![secret]);
    let request = |url: &str| {
        Request::get(url)
            .header("authorization", "Bearer secret:KEY")
            .body(Empty::<Bytes>::new())
            .unwrap()
    };
    let text = answer(send(&net, request(&format!("{own}/?k=secret:KEY"))).await).await;
    assert_eq!(text, "200 key is ********!");
    let requests = server.requests().await.concat();
    assert!(
        requests.starts_with("GET /?k=hunter22 HTTP/1.1\r\nauthorization: Bearer hunter22\r\n"),
        "{requests}"
    );
    let text = answer(
        send(
            &net,
            request(&format!("http://127.0.0.1:{}/", other.port())),
        )
        .await,
    )
    .await;
    assert!(
        text.starts_with("secret_not_allowed: secret `KEY`") && !text.contains("hunter22"),
        "{text}"
    );
    assert_eq!(other.requests().await, [""; 0]);
}

#[tokio::test]
async fn each_request_has_a_separate_connection() {
    let server = Server::start(OK).await;
    let net = net(
        &format!("127.0.0.1:{}", server.port()),
        ScriptedResolver::default(),
    );
    for _ in 0..3 {
        assert_eq!(
            get(&net, &format!("http://127.0.0.1:{}/", server.port())).await,
            "200 ok"
        );
    }
    assert_eq!(server.requests().await.len(), 3);
}

// NET-16
#[tokio::test]
async fn requests_to_one_host_are_counted_across_ports() {
    let (server, other) = (Server::start(OK).await, Server::start(OK).await);
    let limits = NetLimits {
        per_host_per_minute: 3,
        ..NetLimits::default()
    };
    let net = NetClient::new(NetSettings {
        allowed: rules("127.0.0.0/8"),
        limits,
        ..NetSettings::default()
    });
    let mut answers = Vec::new();
    for (host, port) in [
        ("127.0.0.1", server.port()),
        ("127.0.0.1", other.port()),
        ("127.1", server.port()),
        ("127.0.0.1", other.port()),
        ("0x7f000001", server.port()),
    ] {
        answers.push(get(&net, &format!("http://{host}:{port}/")).await);
    }
    let refused = "rate_limited: too many requests: 3 to `127.0.0.1` in the last minute, the limit is 3; \
                   wait and try again";
    assert_eq!(answers, ["200 ok", "200 ok", "200 ok", refused, refused]);
}

// NET-23
#[tokio::test]
async fn a_slot_is_released_when_a_body_ends_or_is_dropped() {
    let server = Server::start(OK).await;
    let limits = NetLimits {
        concurrent: 1,
        ..NetLimits::default()
    };
    let net = NetClient::new(NetSettings {
        allowed: rules("127.0.0.1"),
        limits,
        ..NetSettings::default()
    });
    let url = format!("http://127.0.0.1:{}/", server.port());
    let request = || Request::get(&url).body(Empty::<Bytes>::new()).unwrap();
    drop(send(&net, request()).await.unwrap());
    let mut body = send(&net, request()).await.unwrap().into_body();
    while body.frame().await.is_some() {}
    // The body still exists, but has been read to its end.
    assert_eq!(get(&net, &url).await, "200 ok");
    drop(body);
}

#[tokio::test]
async fn network_errors_state_what_failed() {
    let closed = Server::start(OK).await.close().await;
    let fake = ScriptedResolver::new(&[("empty.example", &[])]);
    let net = net("*.example 127.0.0.1", fake);
    for (url, expected) in [
        ("http://nobody.example/", "dns_failed: cannot resolve host `nobody.example`: the name does not exist; check the name and the machine's network".to_owned()),
        ("http://empty.example/", "dns_failed: cannot resolve host `empty.example`: the name has no address; check the name and the machine's network".to_owned()),
        (&format!("http://127.0.0.1:{closed}/"), format!("connect_failed: cannot connect to `127.0.0.1:{closed}`: connection refused; check that its server runs and listens on that port")),
    ] {
        assert_eq!(get(&net, url).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unresponsive_resolver_exceeds_the_connect_timeout() {
    let net = net("*", ScriptedResolver::unresponsive());
    assert_eq!(
        get(&net, "http://slow.example/").await,
        "dns_failed: cannot resolve host `slow.example`: the name servers did not answer in time; check the name and the machine's network"
    );
}

#[tokio::test(start_paused = true)]
async fn lookups_without_an_answer_do_not_keep_other_users_from_theirs() {
    let net = net("*", ScriptedResolver::unresponsive());
    let (alice, bob) = (net.for_user(Some("alice")), net.for_user(Some("bob")));
    for number in 0..4 {
        let url = format!("http://slow{number}.example/");
        assert!(get(&alice, &url).await.contains("did not answer in time"));
    }
    // The lookups of the ended requests still wait.
    let other = "http://other.example/";
    assert_eq!(
        get(&alice, other).await,
        "dns_failed: cannot resolve host `other.example`: earlier lookups of this user have not ended; check the name and the machine's network"
    );
    assert_eq!(
        get(&bob, other).await,
        "dns_failed: cannot resolve host `other.example`: the name does not exist; check the name and the machine's network"
    );
}

// NET-10
#[tokio::test]
async fn a_refused_request_head_is_not_sent() {
    let server = Server::start(OK).await;
    let net = net("127.0.0.1", ScriptedResolver::default());
    let url = format!("http://127.0.0.1:{}/", server.port());
    for (name, value) in [
        ("host", "evil.example"),
        ("transfer-encoding", "chunked"),
        ("transfer-encoding", "chunked, identity"),
        ("upgrade", "h2c"),
        ("content-length", "7"),
        ("content-length", "+5"),
        ("content-length", "5 "),
        ("proxy-connection", "keep-alive"),
    ] {
        let request = Request::post(&url)
            .header(name, value)
            .body(Full::new(Bytes::from_static(b"hello")))
            .unwrap();
        let error = net.send(request, Timeouts::MAX).await.unwrap_err();
        assert_eq!(error.code(), "bad_request", "{name}: {value}: {error}");
    }
    assert_eq!(server.requests().await, [""; 0]);
}

// NET-12
#[tokio::test]
async fn a_streamed_response_is_cut_at_its_limit() {
    let body = "a".repeat(5000);
    let server = Server::start(&format!("HTTP/1.1 200 OK\r\n\r\n{body}")).await;
    let limits = NetLimits {
        response_bytes: 4000,
        ..NetLimits::default()
    };
    let net = NetClient::new(NetSettings {
        allowed: rules("127.0.0.1"),
        limits,
        ..NetSettings::default()
    });
    let request = Request::get(format!("http://127.0.0.1:{}/", server.port()))
        .body(Empty::<Bytes>::new())
        .unwrap();
    let mut body = net.send(request, Timeouts::MAX).await.unwrap().into_body();
    let mut length = 0;
    let error = loop {
        match body.frame().await.unwrap() {
            Ok(frame) => length += frame.into_data().unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!((length, error.code()), (4000, "body_too_large"));
}

#[tokio::test]
async fn rules_of_one_plugin_do_not_apply_to_another() {
    let server = Server::start(OK).await;
    let all = net("", ScriptedResolver::default());
    let url = format!("http://127.0.0.1:{}/", server.port());
    assert!(get(&all, &url).await.starts_with("private_address"));
    assert_eq!(
        get(&all.with_rules(rules("127.0.0.1"), Vec::new()), &url).await,
        "200 ok"
    );
    assert!(get(&all, &url).await.starts_with("private_address"));
    assert!(
        get(&all.with_rules(AllowedHosts::default(), Vec::new()), &url)
            .await
            .starts_with("private_address")
    );
}

#[tokio::test]
async fn the_system_resolver_returns_addresses_and_errors() {
    use toolhost_net::{Resolve, SystemResolver};
    let resolver = SystemResolver::default();
    let loopback: IpAddr = "127.0.0.1".parse().unwrap();
    assert_eq!(resolver.resolve("127.0.0.1").await.unwrap(), [loopback]);
}

// The bodies of wasi:http are `Send` and not `Sync`, and its requests are sent from a separate task.
#[tokio::test]
async fn a_body_need_not_be_sync_and_a_request_can_be_sent_from_a_task() {
    let server = Server::start(OK).await;
    let net = net("127.0.0.1", ScriptedResolver::default());
    let body = Full::new(Bytes::from_static(b"hello"))
        .map_err(std::io::Error::other)
        .boxed_unsync();
    let request = Request::post(format!("http://127.0.0.1:{}/", server.port()))
        .body(body)
        .unwrap();
    let sent = tokio::spawn(async move {
        let response = net.send(request, Timeouts::default()).await?;
        Ok(response.map(BodyExt::boxed_unsync))
    });
    let response = sent
        .await
        .unwrap()
        .map_err(|error: toolhost_net::NetError| error.code())
        .unwrap();
    assert_eq!(
        response.into_body().collect().await.unwrap().to_bytes(),
        "ok"
    );
}
