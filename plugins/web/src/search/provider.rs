//! Common code of search services: request, parse, filter, and request more if needed.

use std::time::Duration;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;
use toolhost_sdk::text::clean;
use url::Url;

use super::services::ResponseFormat;
use super::settings::{Settings, no_key};
use super::{Input, SearchResult, TimeRange, Topic};
use crate::answer::{MAX_BODY, status_line};
use crate::body;
use crate::redirects::{self, Deadline, RedirectPolicy};
use crate::untrusted_text::inline;

/// Limit of a snippet, in characters.
const SNIPPET: usize = 1000;
const TITLE: usize = 300;

/// Limit of requests per search, for services with small pages of results.
const REQUESTS: usize = 2;

/// A search service.
pub struct Provider {
    pub name: &'static str,
    /// Its default URL; `None` for self-hosted services.
    pub url: Option<&'static str>,
    /// Maximum number of results per request.
    pub max_results: usize,
    pub needs_engine: bool,
    /// The topics that it supports besides the general one.
    pub topics: &'static [Topic],
    /// Its values for each [`TimeRange`], in that order; `None` if it does not support one.
    pub time_ranges: [Option<&'static str>; 4],
    pub request: fn(&Settings, &Query, &Page) -> Request,
    pub format: ResponseFormat,
}

/// The part of the results that a request asks for.
pub struct Page {
    pub count: usize,
    /// The number of earlier results.
    pub skip: usize,
    /// The service's value for the maximum age.
    pub time_range: Option<&'static str>,
}

impl Provider {
    /// Notes about parts of the query that the service does not support.
    fn unsupported(&self, query: &Query) -> Vec<String> {
        let name = self.name;
        let mut notes = Vec::new();
        if query.topic != Topic::General && !self.topics.contains(&query.topic) {
            notes.push(format!(
                "{name} has no topic `{}`; the whole web was searched",
                json!(query.topic).as_str().unwrap_or_default()
            ));
        }
        if let Some(range) = query.time_range
            && self.time_ranges[range as usize].is_none()
        {
            notes.push(format!(
                "{name} does not support the time range `{}`; results may be older",
                json!(range).as_str().unwrap_or_default()
            ));
        }
        notes
    }
}

/// The results of a service.
#[derive(Debug, Default)]
pub struct ProviderResults {
    pub results: Vec<SearchResult>,
    pub answer: Option<String>,
    pub notes: Vec<String>,
}

/// A validated query.
#[derive(Debug)]
pub struct Query {
    pub text: String,
    pub topic: Topic,
    pub time_range: Option<TimeRange>,
    pub allowed: Vec<String>,
    pub blocked: Vec<String>,
}

impl Query {
    pub fn of(input: &Input) -> Result<Self> {
        let bad = |message: String| Error::invalid_input(message).code("invalid_tool_params");
        let text = input.query.split_whitespace().collect::<Vec<_>>().join(" ");
        if text.is_empty() {
            return Err(bad("`query` is empty".to_owned()).recommend("write what to search for"));
        }
        if !input.allowed_domains.is_empty() && !input.blocked_domains.is_empty() {
            let message = "`allowed_domains` and `blocked_domains` are mutually exclusive";
            return Err(bad(message.to_owned()).recommend("omit one of them"));
        }
        let domains = |domains: &[String]| -> Result<Vec<String>> {
            domains.iter().map(|domain| self::domain(domain)).collect()
        };
        Ok(Self {
            text,
            topic: input.topic,
            time_range: input.time_range,
            allowed: domains(&input.allowed_domains)?,
            blocked: domains(&input.blocked_domains)?,
        })
    }

    /// The query with its domains as operators that most services support.
    pub fn in_words(&self) -> String {
        let mut query = self.text.clone();
        let sites: Vec<String> = self
            .allowed
            .iter()
            .map(|domain| format!("site:{domain}"))
            .collect();
        match sites.as_slice() {
            [] => {}
            [site] => query = format!("{query} {site}"),
            sites => query = format!("{query} ({})", sites.join(" OR ")),
        }
        for domain in &self.blocked {
            query = format!("{query} -site:{domain}");
        }
        query
    }

    fn admits(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_of = |domain: &String| {
            host == domain
                || host
                    .strip_suffix(domain.as_str())
                    .is_some_and(|rest| rest.ends_with('.'))
        };
        (self.allowed.is_empty() || self.allowed.iter().any(is_of))
            && !self.blocked.iter().any(is_of)
    }
}

/// `https://Docs.rs/x` → `docs.rs`
fn domain(text: &str) -> Result<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    let host = host
        .trim_start_matches("*.")
        .trim_end_matches('.')
        .to_ascii_lowercase();
    let is_plain = |c: char| c.is_alphanumeric() || c == '-' || c == '.';
    if host.contains('.') && host.len() <= 253 && host.chars().all(is_plain) {
        // Normalized as in URLs, with which it is compared.
        let url = Url::parse(&format!("https://{host}/")).ok();
        if let Some(host) = url.as_ref().and_then(Url::host_str) {
            return Ok(host.to_owned());
        }
    }
    let message = format!("`{}` is not a domain", inline(text));
    Err(Error::invalid_input(message)
        .code("invalid_tool_params")
        .recommend("write domains as `example.org`"))
}

/// At most `limit` results.
pub fn search(
    cx: &Context,
    settings: &Settings,
    query: &Query,
    limit: usize,
) -> Result<ProviderResults> {
    let provider = settings.provider;
    let deadline = Deadline::after(Duration::from_secs(30));
    let mut found = ProviderResults {
        notes: provider.unsupported(query),
        ..ProviderResults::default()
    };
    let mut page = Page {
        count: 0,
        skip: 0,
        time_range: query
            .time_range
            .and_then(|range| provider.time_ranges[range as usize]),
    };
    for _ in 0..REQUESTS {
        page.count = (limit - found.results.len()).min(provider.max_results);
        cx.progress(&format!("asking {}", provider.name));
        let request = (provider.request)(settings, query, &page);
        let answer = match ask(cx, settings, request, deadline) {
            Ok(answer) => answer,
            // Partial results are more useful than the error.
            Err(_) if !found.results.is_empty() => break,
            Err(error) => return Err(error),
        };
        let given = answer.results.len();
        page.skip += given;
        found.answer = found.answer.or(answer.answer);
        add(&mut found.results, answer.results, query, limit);
        if found.results.len() == limit || given < page.count || given == 0 {
            break;
        }
    }
    found.answer = found
        .answer
        .map(|answer| cut(&answer, SNIPPET))
        .filter(|answer| !answer.is_empty());
    Ok(found)
}

fn add(results: &mut Vec<SearchResult>, more: Vec<SearchResult>, query: &Query, limit: usize) {
    for mut result in more {
        let Ok(url) = Url::parse(&result.url) else {
            continue;
        };
        let known = results.iter().any(|one| one.url == url.as_str());
        if known
            || !matches!(url.scheme(), "http" | "https")
            || !query.admits(&url)
            || results.len() == limit
        {
            continue;
        }
        url.as_str().clone_into(&mut result.url);
        result.title = cut(&result.title, TITLE);
        result.snippet = cut(&result.snippet, SNIPPET);
        result.published = result
            .published
            .map(|date| cut(&date, 40))
            .filter(|date| !date.is_empty());
        results.push(result);
    }
}

/// On one line.
fn cut(text: &str, most: usize) -> String {
    let text = clean(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= most {
        return text;
    }
    let mut cut: String = text.chars().take(most - 1).collect();
    cut.push('…');
    cut
}

fn ask(
    cx: &Context,
    settings: &Settings,
    mut request: Request,
    deadline: Deadline,
) -> Result<ProviderResults> {
    let name = settings.provider.name;
    request.max_bytes = MAX_BODY;
    let url = Url::parse(&request.url).map_err(|error| failed(name, &error.to_string()))?;
    let trail =
        redirects::send(cx, request, url, RedirectPolicy::SameHost, deadline).map_err(|error| {
            match error.code.as_deref() {
                Some("secret_not_allowed") => no_key(settings, &error),
                _ => error,
            }
        })?;
    if let Some(stop) = trail.stopped {
        return Err(failed(name, &format!("it {}", stop.note())));
    }
    let response = trail.response;
    let status = response.status;
    let declared = response.header("content-type").map(str::to_owned);
    let body = body::unpack(response, MAX_BODY)?;
    let (text, _) = body::text(declared.as_deref(), &body.bytes, false);
    match status {
        200 => settings.provider.parse(&text),
        // DuckDuckGo sends 202 for requests that it classifies as automated.
        202 | 429 => Err(busy(name, status)),
        401 | 403 => Err(Error::denied(format!(
            "{name} rejected the key: it responded {}",
            status_line(status)
        ))
        .code("web_search_failed")
        .recommend("ask the operator to check `[secrets.web_search]`")),
        500.. => Err(failed(name, &format!("it answered {}", status_line(status))).retryable()),
        _ => Err(failed(
            name,
            &format!("it answered {}", status_line(status)),
        )),
    }
}

fn busy(name: &str, status: u16) -> Error {
    let message = format!(
        "{name} accepts no more queries at the moment: it responded {}",
        status_line(status)
    );
    Error::unavailable(message)
        .code("web_search_failed")
        .retryable()
        .recommend("wait a minute and try again")
}

pub fn failed(name: &str, why: &str) -> Error {
    Error::unavailable(format!("the search with {name} failed: {why}")).code("web_search_failed")
}
