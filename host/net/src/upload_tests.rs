//! Tests of uploads that are too long, too short or empty, to a server in memory.

use std::convert::Infallible;

use expect_test::expect;
use http_body_util::{Full, StreamBody};
use tokio::io::{AsyncReadExt, DuplexStream};

use super::*;
use crate::exchange::tests::{talk, write};

/// A body of unknown length, in chunks of these lengths.
fn pieces(lengths: &[usize]) -> impl Body<Data = Bytes, Error = Infallible> + use<> {
    let frames: Vec<_> = lengths
        .iter()
        .map(|length| Ok(http_body::Frame::data(Bytes::from(vec![b'u'; *length]))))
        .collect();
    StreamBody::new(futures::stream::iter(frames))
}

// NET-10, NET-25
#[tokio::test(start_paused = true)]
async fn a_request_body_must_match_its_declared_length() {
    async fn serve(mut stream: DuplexStream) {
        let mut sink = vec![0; 4096];
        let mut request = String::new();
        while !request.ends_with("0\r\n\r\n") && !request.ends_with("uuuuu") {
            match stream.read(&mut sink).await {
                Ok(0) | Err(_) => return,
                Ok(length) => request += &String::from_utf8_lossy(&sink[..length]),
            }
        }
        write(
            &mut stream,
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        )
        .await;
    }
    let mut lines = Vec::new();
    for (lengths, declared) in [
        (&[5][..], None),
        (&[0, 0, 0, 5], None),
        (&[2, 3], Some(5)),
        (&[2, 3], Some(4)),
        (&[2], Some(5)),
        (&[600, 600], None),
        (&[5], Some(1001)),
    ] {
        lines.push(format!(
            "{lengths:?} {declared:?}: {}",
            talk(serve, pieces(lengths), declared).await
        ));
    }
    let known = Full::new(Bytes::from_static(b"hello"));
    lines.push(format!(
        "known, Some(6): {}",
        talk(serve, known, Some(6)).await
    ));
    let known = Full::new(Bytes::from(vec![b'u'; 1001]));
    lines.push(format!(
        "known, too large: {}",
        talk(serve, known, None).await
    ));
    // NET-30
    let empty = vec![0; 100_000]
        .into_iter()
        .chain([5])
        .collect::<Vec<usize>>();
    lines.push(format!(
        "many empty pieces: {}",
        talk(serve, pieces(&empty), None).await
    ));
    expect![[r#"
        [5] None: 200 {"content-length": "2"} `ok` end after 0s
        [0, 0, 0, 5] None: 200 {"content-length": "2"} `ok` end after 0s
        [2, 3] Some(5): 200 {"content-length": "2"} `ok` end after 0s
        [2, 3] Some(4): bad_request: bad request: header `content-length` is 4, but the body has 5 bytes; remove the header after 0s
        [2] Some(5): bad_request: bad request: header `content-length` is 5, but the body has 2 bytes; remove the header after 0s
        [600, 600] None: body_too_large: request body for `a.example` is larger than 1000 bytes; send less after 0s
        [5] Some(1001): before connecting: body_too_large: request body for `a.example` is larger than 1000 bytes; send less
        known, Some(6): before connecting: bad_request: bad request: header `content-length` is 6, but the body has 5 bytes; remove the header
        known, too large: before connecting: body_too_large: request body for `a.example` is larger than 1000 bytes; send less
        many empty pieces: 200 {"content-length": "2"} `ok` end after 0s"#]].assert_eq(&lines.join("\n"));
}
