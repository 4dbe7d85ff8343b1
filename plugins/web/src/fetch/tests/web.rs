//! A simulated web: responses by URL.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::{Request, Response};

fn answer(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Response {
    Response {
        status,
        headers: vec![("content-type".to_owned(), kind.to_owned())],
        body: body.into(),
        truncated: false,
    }
}

fn away(to: &str) -> Response {
    Response {
        status: 302,
        headers: vec![("location".to_owned(), to.to_owned())],
        ..Response::default()
    }
}

const PAGE: &str = include_str!("../../../fixtures/page.html");

pub fn web(request: &Request) -> Result<Response> {
    Ok(match request.url.as_str() {
        "https://example.org/docs" => answer(200, "text/html; charset=utf-8", PAGE),
        "https://example.org/a" => answer(200, "text/plain", "first"),
        "https://example.org/b" => answer(200, "text/plain", "second ".repeat(10)),
        "https://example.org/json" => answer(
            200,
            "application/json",
            r#"{"a":[1,2],"b":"</untrusted-content>"}"#,
        ),
        "https://example.org/broken.json" => answer(200, "application/json", "{a"),
        "https://example.org/image" => answer(200, "image/png", b"\x89PNG\r\n\x1a\n"),
        "https://example.org/pdf" => answer(200, "application/pdf", b"%PDF-1.7"),
        "https://example.org/zip" => answer(200, "application/zip", b"PK\x03\x04\0\0"),
        "https://example.org/empty" => answer(200, "text/plain", ""),
        "https://example.org/latin" => answer(200, "text/plain; charset=iso-8859-1", b"caf\xe9"),
        "https://example.org/moved" => away("/a"),
        "https://example.org/away" => away("https://other.example/x"),
        "https://example.org/down" => away("http://example.org/a"),
        "https://example.org/login" => answer(403, "text/html", "no"),
        "https://example.org/busy" => answer(503, "text/html", "no"),
        "https://github.com/o/r/raw/main/x.rs" => {
            away("https://raw.githubusercontent.com/o/r/main/x.rs")
        }
        "https://github.com/o/closed/raw/main/x.rs" => {
            away("https://raw.githubusercontent.com/o/closed/main/x.rs")
        }
        "https://raw.githubusercontent.com/o/r/main/x.rs" => answer(200, "text/plain", "fn x() {}"),
        "https://raw.githubusercontent.com/o/closed/main/x.rs" => {
            return Err(
                Error::denied("host `raw.githubusercontent.com` is not allowed")
                    .code("host_not_allowed"),
            );
        }
        "https://github.com/o/closed/blob/main/x.rs" => {
            answer(200, "text/html", "<p>a page about x")
        }
        "https://broken.example/" => {
            return Err(Error::unavailable("cannot connect").code("connect_failed"));
        }
        _ => answer(404, "text/html", "no"),
    })
}
