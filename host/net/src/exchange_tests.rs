//! Tests with slow, silent, endless and broken servers over an in-memory pipe, with paused time.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use http_body_util::{BodyExt, Empty};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::*;
use crate::mask::SecretMask;
use crate::request_body::BodyFailure;

const SECOND: Duration = Duration::from_secs(1);

fn terms(upload: &BodyFailure) -> BodyContext {
    BodyContext {
        host: "a.example".to_owned(),
        limit: 1000,
        idle_timeout: 5 * SECOND,
        total: 30 * SECOND,
        deadline: Instant::now() + 30 * SECOND,
        mask: SecretMask::new(vec!["hunter22".to_owned()]),
        upload: Arc::clone(upload),
        permits: None,
    }
}

/// Sends one request to a server that reads its head and then runs `serve`; compares the response or the error.
async fn check<F>(serve: impl FnOnce(DuplexStream) -> F + Send + 'static, expected: Expect)
where
    F: Future<Output = ()> + Send,
{
    expected.assert_eq(&talk(serve, Empty::<Bytes>::new(), None).await);
}

pub(crate) async fn talk<F, B>(
    serve: impl FnOnce(DuplexStream) -> F + Send + 'static,
    body: B,
    declared: Option<u64>,
) -> String
where
    F: Future<Output = ()> + Send,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let (ours, mut theirs) = duplex(4096);
    tokio::spawn(async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = theirs.read_u8().await else {
                return;
            };
            head.push(byte);
        }
        serve(theirs).await;
    });
    let failure = BodyFailure::default();
    let upload = match RequestBody::new(
        body,
        "a.example".to_owned(),
        declared,
        1000,
        Arc::clone(&failure),
    ) {
        Ok(upload) => upload,
        Err(error) => return format!("before connecting: {}: {error}", error.code()),
    };
    let request = Request::post("/").body(upload).unwrap();
    let started = Instant::now();
    let answer = exchange(
        ours,
        request,
        terms(&failure),
        10 * SECOND,
        &NetLimits::default(),
    )
    .await;
    let text = match answer {
        Err(error) => format!("{}: {error}", error.code()),
        Ok(response) => {
            let (parts, mut body) = response.into_parts();
            let mut text = format!("{} {:?}", parts.status.as_u16(), parts.headers);
            let mut read = Vec::new();
            let end = loop {
                match body.frame().await {
                    None => break "end".to_owned(),
                    Some(Err(error)) => break format!("{}: {error}", error.code()),
                    Some(Ok(frame)) => match frame.into_data() {
                        Ok(data) => read.extend_from_slice(&data),
                        Err(frame) => {
                            write!(text, " trailers {:?}", frame.into_trailers().unwrap()).unwrap();
                        }
                    },
                }
            };
            assert!(body.frame().await.is_none(), "an end is final");
            if read.len() < 50 {
                write!(text, " `{}`", String::from_utf8_lossy(&read)).unwrap();
            } else {
                write!(text, " {} bytes", read.len()).unwrap();
            }
            format!("{text} {end}")
        }
    };
    format!("{text} after {}s", started.elapsed().as_secs())
}

pub(crate) async fn write(stream: &mut DuplexStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
}

#[tokio::test(start_paused = true)]
async fn hop_by_hop_headers_are_removed_from_a_response() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n").await;
            write(&mut stream, "HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\nconnection: close\r\nx-a: 1\r\n\r\n").await;
            write(&mut stream, "5\r\nhello\r\n0\r\n\r\n").await;
        },
        expect![[r#"404 {"x-a": "1"} `hello` end after 0s"#]],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn echoed_secrets_are_masked() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 302 x\r\nlocation: http://b/?key=hunter22\r\ncontent-length: 14\r\n\r\n<<hun").await;
            tokio::time::sleep(SECOND).await;
            write(&mut stream, "ter22>>hu").await;
        },
        expect![[r#"302 {"location": "http://b/?key=********", "content-length": "14"} `<<********>>hu` end after 1s"#]],
    )
    .await;
}

// NET-15
#[tokio::test(start_paused = true)]
async fn a_silent_server_exceeds_the_first_byte_timeout() {
    check(|stream| async move { hold(stream).await }, expect!["timeout: request to `a.example` timed out after 10s while waiting for the response; try again, or increase the timeout after 10s"]).await;
}

// NET-15
#[tokio::test(start_paused = true)]
async fn a_slow_head_exceeds_the_first_byte_timeout() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 200 OK\r\n").await;
            for index in 0..100 {
                write(&mut stream, &format!("x-{index}: y\r\n")).await;
                tokio::time::sleep(SECOND).await;
            }
        },
        expect!["timeout: request to `a.example` timed out after 10s while waiting for the response; try again, or increase the timeout after 10s"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_body_exceeds_the_idle_timeout() {
    check(
        |mut stream| async move {
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
            )
            .await;
            hold(stream).await;
        },
        expect![[r#"200 {"content-length": "10"} `abc` timeout: request to `a.example` timed out after 5s without receiving data; try again, or increase the timeout after 5s"#]],
    )
    .await;
}

// NET-15
#[tokio::test(start_paused = true)]
async fn a_slow_body_exceeds_the_total_timeout() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 200 OK\r\n\r\n").await;
            for _ in 0..100 {
                write(&mut stream, "a").await;
                tokio::time::sleep(2 * SECOND).await;
            }
        },
        expect!["200 {} `aaaaaaaaaaaaaaa` timeout: request to `a.example` timed out after 30s in total; try again, or increase the timeout after 30s"],
    )
    .await;
}

// NET-12
#[tokio::test(start_paused = true)]
async fn an_endless_body_is_cut_at_its_limit() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 200 OK\r\n\r\n").await;
            while stream.write_all(&[b'a'; 700]).await.is_ok() {}
        },
        expect!["200 {} 1000 bytes body_too_large: response from `a.example` is larger than 1000 bytes; request less (a range, a page, a smaller file) or raise the limit after 0s"],
    )
    .await;
}

// NET-14
#[tokio::test(start_paused = true)]
async fn an_endless_head_is_refused() {
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 200 OK\r\nx: ").await;
            while stream.write_all(&[b'a'; 700]).await.is_ok() {}
        },
        expect!["bad_response: invalid response from `a.example`: the response cannot be parsed (message head is too large) after 0s"],
    )
    .await;
    check(
        |mut stream| async move {
            write(&mut stream, "HTTP/1.1 200 OK\r\n").await;
            write(&mut stream, &"a: b\r\n".repeat(101)).await;
            write(&mut stream, "\r\n").await;
        },
        expect!["bad_response: invalid response from `a.example`: the response cannot be parsed (message head is too large) after 0s"],
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn invalid_responses_have_distinct_errors() {
    check(|stream| async move { drop(stream) }, expect!["bad_response: invalid response from `a.example`: the connection closed before a response was received after 0s"]).await;
    check(
        |mut stream| async move { write(&mut stream, "SSH-2.0-OpenSSH_9.9\r\n").await },
        expect!["bad_response: invalid response from `a.example`: the response cannot be parsed (invalid HTTP version parsed) after 0s"],
    )
    .await;
    check(
        |mut stream| async move {
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
            )
            .await;
        },
        expect![[r#"200 {"content-length": "9"} `abc` bad_response: invalid response from `a.example`: the connection closed before the end of the body after 0s"#]],
    )
    .await;
    check(
        |mut stream| async move {
            write(
                &mut stream,
                "HTTP/1.1 101 Go\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            )
            .await;
        },
        expect!["bad_response: invalid response from `a.example`: the server wants to switch protocols, which is not supported after 0s"],
    )
    .await;
    check(
        |mut stream| async move {
            write(
                &mut stream,
                "HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
            )
            .await;
        },
        expect!["bad_response: invalid response from `a.example`: the response cannot be parsed (invalid content-length parsed) after 0s"],
    )
    .await;
}

// NET-23
#[tokio::test(start_paused = true)]
async fn dropping_the_body_closes_the_connection() {
    let (head_sender, received_head) = tokio::sync::oneshot::channel();
    let (ours, mut theirs) = duplex(4096);
    tokio::spawn(async move {
        let mut head = vec![theirs.read_u8().await.unwrap()];
        write(
            &mut theirs,
            "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc",
        )
        .await;
        // Returns only when the other end is closed.
        theirs.read_to_end(&mut head).await.unwrap();
        head_sender.send(head).unwrap();
    });
    let failure = BodyFailure::default();
    let body = RequestBody::new(
        Empty::<Bytes>::new(),
        String::new(),
        None,
        10,
        Arc::clone(&failure),
    )
    .unwrap();
    let request = Request::get("/").body(body).unwrap();
    let response = exchange(
        ours,
        request,
        terms(&failure),
        SECOND,
        &NetLimits::default(),
    )
    .await
    .unwrap();
    drop(response);
    assert!(
        received_head
            .await
            .unwrap()
            .starts_with(b"GET / HTTP/1.1\r\n")
    );
}

// NET-23
#[tokio::test(start_paused = true)]
async fn dropping_the_request_closes_the_connection() {
    let (ours, mut theirs) = duplex(4096);
    let failure = BodyFailure::default();
    let body = RequestBody::new(
        Empty::<Bytes>::new(),
        String::new(),
        None,
        10,
        Arc::clone(&failure),
    )
    .unwrap();
    let request = Request::get("/").body(body).unwrap();
    let limits = NetLimits::default();
    let waiting = exchange(ours, request, terms(&failure), 20 * SECOND, &limits);
    tokio::time::timeout(SECOND, waiting).await.unwrap_err();
    let mut request_head = String::new();
    theirs.read_to_string(&mut request_head).await.unwrap();
    assert!(
        request_head.starts_with("GET / HTTP/1.1\r\n"),
        "{request_head}"
    );
}

/// Keeps the connection open without sending anything.
async fn hold(stream: DuplexStream) {
    let _stream = stream;
    std::future::pending::<()>().await;
}
