//! Fetching of one URL and conversion to text.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Response;
use toolhost_sdk::text::clean;
use url::Url;

use crate::answer::{MAX_BODY, request, size, status_line};
use crate::body::{self, BodyKind};
use crate::fetch::Format;
use crate::html::{self, PageFormat};
use crate::json_text;
use crate::redirects::{self, BlockedRedirect, Deadline, RedirectPolicy, RedirectTrail};
use crate::untrusted_text::inline;
use crate::web_url;

const ACCEPT: &str =
    "text/markdown, text/html;q=0.9, application/xhtml+xml;q=0.9, text/plain;q=0.8, */*;q=0.5";

/// A fetched page.
#[data]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Final URL, after redirects.
    pub url: String,
    /// HTTP status.
    pub status: u16,
    /// Media type.
    pub content_type: String,
    /// Title, if any.
    pub title: Option<String>,
    /// Complete text.
    pub text: String,
    /// Bytes read.
    pub bytes: u64,
    /// Conversions that were applied.
    pub notes: Vec<String>,
}

impl Page {
    /// Its approximate size in session state, in bytes.
    pub fn weight(&self) -> usize {
        let notes: usize = self.notes.iter().map(String::len).sum();
        let title = self.title.as_deref().unwrap_or_default();
        200 + self.url.len() + title.len() + self.text.len() + notes
    }
}

/// A page, and the image or document if it is one.
pub struct Fetched {
    pub page: Page,
    pub media: Option<Part>,
}

/// How a page is requested.
#[derive(Clone, Copy)]
pub struct FetchOptions {
    pub format: Format,
    pub head: bool,
    pub deadline: Deadline,
}

/// `url` and `notes` come from [`address::upgrade`].
pub fn fetch(cx: &Context, url: Url, notes: Vec<String>, options: FetchOptions) -> Result<Fetched> {
    let mut notes = notes;
    let send = |url: Url| {
        let method = if options.head { "HEAD" } else { "GET" };
        let request = request(method, &url, ACCEPT);
        redirects::send(cx, request, url, RedirectPolicy::SameHost, options.deadline)
    };
    let trail = match web_url::github_raw(&url) {
        Some(raw) => match send(raw) {
            Ok(trail) => {
                notes.push("the raw file instead of GitHub's page".to_owned());
                trail
            }
            // Rules may allow one host and not the other.
            Err(error) if error.kind() == ErrorKind::Denied => send(url)?,
            Err(error) => return Err(error),
        },
        None => send(url)?,
    };
    let trail = settled(trail)?;
    let url = trail.url;
    if trail.hops > 0 {
        notes.push(format!("redirected to {}", inline(url.as_str())));
    }
    read(&url, trail.response, notes, options)
}

/// A successful response, or an error that explains the failure.
fn settled(trail: RedirectTrail) -> Result<RedirectTrail> {
    let url = inline(trail.url.as_str());
    if let Some(stop) = &trail.stopped {
        let code = match stop {
            BlockedRedirect::OtherHost(_) => "redirect_cross_host",
            BlockedRedirect::Downgrade(_) => "redirect_downgrade",
            BlockedRedirect::NoAddress(_) => "bad_response",
        };
        let error = Error::denied(format!("{url} {}", stop.note())).code(code);
        return Err(match stop {
            BlockedRedirect::OtherHost(to) => {
                let to = inline(to.as_str());
                error.recommend(format!("to follow it, call web_fetch with `url` = `{to}`"))
            }
            BlockedRedirect::Downgrade(_) | BlockedRedirect::NoAddress(_) => error,
        });
    }
    let status = trail.response.status;
    if (200..300).contains(&status) {
        return Ok(trail);
    }
    let message = format!("{url} answered {}", status_line(status));
    let (kind, advice) = match status {
        404 | 410 => (
            ErrorKind::NotFound,
            "check the address, or find the page with web_search",
        ),
        401 | 402 | 403 | 407 => (
            ErrorKind::Denied,
            "the page requires a login or rejects bots; try another source",
        ),
        408 | 425 | 429 | 500..600 => (ErrorKind::Unavailable, "try again later"),
        _ => (
            ErrorKind::Failed,
            "use http_get to see the complete response",
        ),
    };
    let error = Error::new(kind, message)
        .code("web_fetch_http_error")
        .recommend(advice);
    Err(if kind == ErrorKind::Unavailable {
        error.retryable()
    } else {
        error
    })
}

fn read(
    url: &Url,
    response: Response,
    mut notes: Vec<String>,
    options: FetchOptions,
) -> Result<Fetched> {
    let status = response.status;
    let declared = response.header("content-type").map(str::to_owned);
    let declared = declared.as_deref();
    let mut page = Page {
        url: url.to_string(),
        status,
        content_type: inline(&body::media_type(declared)),
        ..Page::default()
    };
    let mut media = None;
    if options.head {
        let lines = response.headers.iter();
        let lines = lines.map(|(name, value)| format!("{}: {}", clean(name), inline(value)));
        page.text = lines.collect::<Vec<_>>().join("\n");
        page.notes = notes;
        return Ok(Fetched { page, media });
    }
    let body = body::unpack(response, MAX_BODY)?;
    let bytes = body.bytes.len();
    page.bytes = bytes as u64;
    let kind = body::kind(declared, &body.bytes);
    match &kind {
        BodyKind::Image(name) => {
            page.content_type.clone_from(name);
            media = Some(Part::image(body.bytes, name.as_str()));
        }
        BodyKind::Pdf => {
            "application/pdf".clone_into(&mut page.content_type);
            media = Some(Part::file(body.bytes, "application/pdf"));
        }
        BodyKind::Other(name) => {
            let message = format!(
                "{} is {} of `{}`, which is neither text nor an image or a PDF",
                inline(url.as_str()),
                size(bytes),
                inline(name)
            );
            return Err(Error::failed(message)
                .code("web_fetch_unsupported_type")
                .recommend("use http_get to get its bytes in Base64, or find a page about it"));
        }
        BodyKind::Html | BodyKind::Json | BodyKind::Text => {
            let (text, charset) = body::text(declared, &body.bytes, kind == BodyKind::Html);
            if charset != "UTF-8" {
                notes.push(format!("decoded from {charset}"));
            }
            let text = clean(&text);
            shape(&mut page, &kind, text, url, options.format, &mut notes);
        }
    }
    if body.truncated {
        if media.is_some() {
            let message = format!("{} is larger than {}", inline(url.as_str()), size(MAX_BODY));
            return Err(Error::failed(message).code("body_too_large"));
        }
        notes.push(format!("only the first {} were read", size(MAX_BODY)));
    }
    page.notes = notes;
    Ok(Fetched { page, media })
}

fn shape(
    page: &mut Page,
    kind: &BodyKind,
    text: String,
    url: &Url,
    format: Format,
    notes: &mut Vec<String>,
) {
    let form = match format {
        Format::Markdown => PageFormat::Markdown,
        Format::Text => PageFormat::Text,
        Format::Html | Format::Raw => {
            page.text = text;
            return;
        }
    };
    match kind {
        BodyKind::Html => {
            let html::Page { title, text, note } = html::convert(&text, url, form);
            page.title = title.map(|title| inline(&clean(&title)));
            // References such as `&#x202e;` are decoded only now.
            page.text = clean(&text);
            notes.extend(note.map(str::to_owned));
        }
        BodyKind::Json => {
            // Invalid JSON is shown unchanged. Escapes are decoded only now.
            page.text = json_text::indented(&text).map_or(text, |json| clean(&json));
        }
        BodyKind::Text | BodyKind::Image(_) | BodyKind::Pdf | BodyKind::Other(_) => {
            page.text = text;
        }
    }
}
