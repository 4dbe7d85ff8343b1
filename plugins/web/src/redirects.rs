//! HTTP redirects. The host checks each hop as a separate request; this module decides which redirects are followed and
//! which headers they carry.

use std::time::{Duration, Instant};

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::{Request, Response};
use url::Url;

use crate::untrusted_text::inline;
use crate::web_url;

/// Limit of redirects.
const MOST: usize = 10;

/// Headers without information about the caller, which may be sent to another host.
const HARMLESS: &[&str] = &["accept", "accept-encoding", "accept-language", "user-agent"];

/// Which redirects are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectPolicy {
    Never,
    SameHost,
    Anywhere,
}

/// The deadline of a request.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    fn left(self, cx: &Context) -> Result<Duration> {
        cx.check()?;
        let left = self.0.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let message = "the request timed out";
            return Err(Error::interrupted(message).code("timeout").retryable());
        }
        Ok(left.min(cx.remaining()))
    }
}

/// The last response and its redirects.
#[derive(Debug)]
pub struct RedirectTrail {
    pub url: Url,
    pub response: Response,
    pub hops: usize,
    /// A redirect that was not followed.
    pub stopped: Option<BlockedRedirect>,
}

/// Why a redirect was not followed.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockedRedirect {
    OtherHost(Url),
    /// From https to http.
    Downgrade(Url),
    /// The target is not a valid URL.
    NoAddress(String),
}

impl BlockedRedirect {
    pub fn note(&self) -> String {
        match self {
            Self::OtherHost(to) => format!("redirects to another host: {}", inline(to.as_str())),
            Self::Downgrade(to) => {
                format!("redirects from https to http: {}", inline(to.as_str()))
            }
            Self::NoAddress(text) => {
                format!("redirects to an invalid URL: `{}`", inline(text))
            }
        }
    }
}

/// Sends a request and follows redirects. `url` is the parsed `request.url`.
pub fn send(
    cx: &Context,
    mut request: Request,
    mut url: Url,
    follow: RedirectPolicy,
    deadline: Deadline,
) -> Result<RedirectTrail> {
    for hops in 0..=MOST {
        url.as_str().clone_into(&mut request.url);
        request.timeout = deadline.left(cx)?;
        let response = cx.fetch(&request)?;
        let to = match target(&url, &response) {
            Some(to) if follow != RedirectPolicy::Never => to,
            Some(_) | None => {
                return Ok(RedirectTrail {
                    url,
                    response,
                    hops,
                    stopped: None,
                });
            }
        };
        let next = to.and_then(|to| next(&request, &url, to, response.status, follow));
        match next {
            Ok((next, to)) => (request, url) = (next, to),
            Err(stop) => {
                return Ok(RedirectTrail {
                    url,
                    response,
                    hops,
                    stopped: Some(stop),
                });
            }
        }
    }
    let message = format!(
        "more than {MOST} redirects; the last one led to {}",
        inline(url.as_str())
    );
    Err(Error::failed(message).code("too_many_redirects"))
}

/// The target of a redirect response.
fn target(url: &Url, response: &Response) -> Option<Result<Url, BlockedRedirect>> {
    if !matches!(response.status, 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let location = response.header("location")?;
    let to = url.join(location).ok();
    let to = to.and_then(|to| web_url::parse(to.as_str()).ok());
    Some(to.ok_or_else(|| BlockedRedirect::NoAddress(location.to_owned())))
}

/// The request of the next hop, with the method required by RFC 9110.
fn next(
    request: &Request,
    from: &Url,
    to: Url,
    status: u16,
    follow: RedirectPolicy,
) -> Result<(Request, Url), BlockedRedirect> {
    if web_url::is_downgrade(from, &to) {
        return Err(BlockedRedirect::Downgrade(to));
    }
    let mut next = request.clone();
    let to_get = match status {
        303 => next.method != "HEAD",
        301 | 302 => next.method == "POST",
        _ => false,
    };
    if to_get {
        "GET".clone_into(&mut next.method);
        next.body.clear();
        next.headers
            .retain(|(name, _)| !name.to_ascii_lowercase().starts_with("content-"));
    }
    if !web_url::same_host(from, &to) {
        // What was meant for one host (a body, a change, credentials) must not reach another.
        let changes = !matches!(next.method.as_str(), "GET" | "HEAD") || !next.body.is_empty();
        let stays = follow == RedirectPolicy::SameHost && !web_url::is_github_file(from, &to);
        if stays || changes {
            return Err(BlockedRedirect::OtherHost(to));
        }
        next.headers
            .retain(|(name, _)| HARMLESS.contains(&name.to_ascii_lowercase().as_str()));
    }
    Ok((next, to))
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fmt::Write;
    use std::rc::Rc;

    use expect_test::{Expect, expect};

    use super::*;

    /// `table` has one line `status location` per response. Shows every request and the result.
    fn check(method: &str, follow: RedirectPolicy, table: &str, expected: Expect) {
        let log = Rc::new(RefCell::new(String::new()));
        let recorded = Rc::clone(&log);
        let mut answers: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
        answers.reverse();
        let cx = Context::test().with_http(move |request| {
            let headers: Vec<_> = request
                .headers
                .iter()
                .map(|(name, _)| name.as_str())
                .collect();
            let body = String::from_utf8_lossy(&request.body);
            let _ = writeln!(
                recorded.borrow_mut(),
                "{} {} {headers:?} {body}",
                request.method,
                request.url
            );
            let answer = answers.pop().unwrap_or_else(|| "200".to_owned());
            let (status, location) = answer.split_once(' ').unwrap_or((&answer, ""));
            let mut response = Response {
                status: status.parse().unwrap(),
                ..Response::default()
            };
            if !location.is_empty() {
                response
                    .headers
                    .push(("location".to_owned(), location.to_owned()));
            }
            Ok(response)
        });
        let mut request = Request::new(method, "")
            .header("Accept", "x")
            .header("Authorization", "secret:x");
        if method != "GET" {
            request = request.header("Content-Type", "text/plain").body("hello");
        }
        let url = Url::parse("https://a.example/x").unwrap();
        let deadline = Deadline::after(Duration::from_mins(1));
        let end = match send(&cx, request, url, follow, deadline) {
            Ok(trail) => format!(
                "{} {} after {} {:?}",
                trail.response.status,
                trail.url,
                trail.hops,
                trail.stopped.map(|stop| stop.note())
            ),
            Err(error) => format!("{:?} {error}", error.code),
        };
        expected.assert_eq(&format!("{}{end}", log.borrow()));
    }

    // R-328
    #[test]
    fn r_328_a_redirect_on_the_same_host_is_followed_with_all_headers() {
        check(
            "GET",
            RedirectPolicy::SameHost,
            "301 /y\n302 z?q",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            GET https://a.example/y ["Accept", "Authorization"] 
            GET https://a.example/z?q ["Accept", "Authorization"] 
            200 https://a.example/z?q after 2 None"#]],
        );
    }

    #[test]
    fn r_328_a_redirect_to_another_host_is_reported_and_not_followed() {
        check(
            "GET",
            RedirectPolicy::SameHost,
            "302 https://b.example/y",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            302 https://a.example/x after 0 Some("redirects to another host: https://b.example/y")"#]],
        );
        check(
            "GET",
            RedirectPolicy::SameHost,
            "302 https://a.example:8443/y",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            302 https://a.example/x after 0 Some("redirects to another host: https://a.example:8443/y")"#]],
        );
    }

    #[test]
    fn r_328_github_may_send_on_to_its_files() {
        let github = Url::parse("https://github.com/o/r/raw/main/x").unwrap();
        let file = Url::parse("https://raw.githubusercontent.com/o/r/main/x").unwrap();
        let request = Request::get("").header("authorization", "x");
        let (next, _) = next(
            &request,
            &github,
            file.clone(),
            302,
            RedirectPolicy::SameHost,
        )
        .unwrap();
        assert_eq!(next.headers, []);
        let back = super::next(
            &request,
            &file,
            github.clone(),
            302,
            RedirectPolicy::SameHost,
        );
        assert_eq!(back.unwrap_err(), BlockedRedirect::OtherHost(github));
    }

    #[test]
    fn r_370_another_host_gets_no_credentials() {
        check(
            "GET",
            RedirectPolicy::Anywhere,
            "302 https://b.example/y",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            GET https://b.example/y ["Accept"] 
            200 https://b.example/y after 1 None"#]],
        );
    }

    #[test]
    fn r_371_the_method_after_a_redirect_is_that_of_rfc_9110() {
        check(
            "POST",
            RedirectPolicy::Anywhere,
            "302 /y",
            expect![[r#"
            POST https://a.example/x ["Accept", "Authorization", "Content-Type"] hello
            GET https://a.example/y ["Accept", "Authorization"] 
            200 https://a.example/y after 1 None"#]],
        );
        check(
            "PUT",
            RedirectPolicy::Anywhere,
            "301 /y\n303 /z",
            expect![[r#"
            PUT https://a.example/x ["Accept", "Authorization", "Content-Type"] hello
            PUT https://a.example/y ["Accept", "Authorization", "Content-Type"] hello
            GET https://a.example/z ["Accept", "Authorization"] 
            200 https://a.example/z after 2 None"#]],
        );
        check(
            "POST",
            RedirectPolicy::Anywhere,
            "307 /y",
            expect![[r#"
            POST https://a.example/x ["Accept", "Authorization", "Content-Type"] hello
            POST https://a.example/y ["Accept", "Authorization", "Content-Type"] hello
            200 https://a.example/y after 1 None"#]],
        );
    }

    #[test]
    fn r_371_a_body_is_not_sent_to_another_host() {
        check(
            "POST",
            RedirectPolicy::Anywhere,
            "308 https://b.example/",
            expect![[r#"
            POST https://a.example/x ["Accept", "Authorization", "Content-Type"] hello
            308 https://a.example/x after 0 Some("redirects to another host: https://b.example/")"#]],
        );
    }

    #[test]
    fn bad_redirects_are_answers() {
        check(
            "GET",
            RedirectPolicy::Anywhere,
            "302 http://a.example/",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            302 https://a.example/x after 0 Some("redirects from https to http: http://a.example/")"#]],
        );
        check(
            "GET",
            RedirectPolicy::Anywhere,
            "302 file:///etc/passwd",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            302 https://a.example/x after 0 Some("redirects to an invalid URL: `file:///etc/passwd`")"#]],
        );
        check(
            "GET",
            RedirectPolicy::Never,
            "302 /y",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            302 https://a.example/x after 0 None"#]],
        );
        check(
            "GET",
            RedirectPolicy::Anywhere,
            "304",
            expect![[r#"
            GET https://a.example/x ["Accept", "Authorization"] 
            304 https://a.example/x after 0 None"#]],
        );
    }

    #[test]
    fn redirects_end_somewhere() {
        let cx = Context::test().with_http(|_| {
            Ok(Response {
                status: 302,
                headers: vec![("location".to_owned(), "/again".to_owned())],
                ..Response::default()
            })
        });
        let url = Url::parse("https://a.example/").unwrap();
        let deadline = Deadline::after(Duration::from_mins(1));
        let error = send(
            &cx,
            Request::get(""),
            url,
            RedirectPolicy::SameHost,
            deadline,
        )
        .unwrap_err();
        expect!["more than 10 redirects; the last one led to https://a.example/again"]
            .assert_eq(&error.to_string());
    }
}
