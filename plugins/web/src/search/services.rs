//! The supported search services: their URLs, limits, parameters and response formats.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;
use url::Url;

use super::provider::{Page, Provider, ProviderResults, Query, failed};
use super::settings::{KEY, Settings};
use super::{SearchResult, Topic};
use crate::answer::request;
use crate::html_tree;

pub static PROVIDERS: [Provider; 6] = [
    // Also returns a short answer.
    Provider {
        name: "tavily",
        url: Some("https://api.tavily.com/search"),
        max_results: 20,
        needs_engine: false,
        topics: &[Topic::News, Topic::Finance],
        time_ranges: [Some("day"), Some("week"), Some("month"), Some("year")],
        request: tavily,
        format: ResponseFormat::Json(JsonFormat {
            snippet: "/content",
            published: &["/published_date"],
            answer: &["/answer"],
            score: Some("/score"),
            ..JSON
        }),
    },
    // Needs a key and a search engine id.
    Provider {
        name: "google",
        url: Some("https://www.googleapis.com/customsearch/v1"),
        max_results: 10,
        needs_engine: true,
        topics: &[],
        time_ranges: [Some("d1"), Some("w1"), Some("m1"), Some("y1")],
        request: |settings, query, page| {
            let parameters = [
                ("key", KEY.to_owned()),
                ("cx", settings.engine.clone()),
                ("q", query.in_words()),
                ("num", page.count.to_string()),
                ("start", (page.skip + 1).to_string()),
            ];
            get_json(settings, &parameters, ("dateRestrict", page.time_range))
        },
        format: ResponseFormat::Json(JsonFormat {
            results: "/items",
            url: "/link",
            published: &["/pagemap/metatags/0/article:published_time"],
            ..JSON
        }),
    },
    // Version 7, and compatible services.
    Provider {
        name: "bing",
        url: Some("https://api.bing.microsoft.com/v7.0/search"),
        max_results: 20,
        needs_engine: false,
        topics: &[],
        time_ranges: [Some("Day"), Some("Week"), Some("Month"), None],
        request: |settings, query, page| {
            let parameters = [
                ("q", query.in_words()),
                ("count", page.count.to_string()),
                ("offset", page.skip.to_string()),
            ];
            get_json(settings, &parameters, ("freshness", page.time_range))
                .header("ocp-apim-subscription-key", KEY)
        },
        format: ResponseFormat::Json(JsonFormat {
            results: "/webPages/value",
            title: "/name",
            published: &["/datePublished"],
            ..JSON
        }),
    },
    Provider {
        name: "brave",
        url: Some("https://api.search.brave.com/res/v1/web/search"),
        max_results: 20,
        needs_engine: false,
        topics: &[],
        time_ranges: [Some("pd"), Some("pw"), Some("pm"), Some("py")],
        request: |settings, query, page| {
            let parameters = [
                ("q", query.in_words()),
                ("count", page.count.to_string()),
                // The offset counts pages.
                ("offset", (page.skip / page.count.max(1)).to_string()),
            ];
            get_json(settings, &parameters, ("freshness", page.time_range))
                .header("x-subscription-token", KEY)
        },
        format: ResponseFormat::Json(JsonFormat {
            results: "/web/results",
            snippet: "/description",
            published: &["/page_age", "/age"],
            // Query words are marked with tags.
            has_markup: true,
            ..JSON
        }),
    },
    // The page for browsers without scripts, which needs no key and has stable markup.
    Provider {
        name: "duckduckgo",
        url: Some("https://html.duckduckgo.com/html/"),
        max_results: 10,
        needs_engine: false,
        topics: &[],
        time_ranges: [Some("d"), Some("w"), Some("m"), Some("y")],
        request: |settings, query, page| {
            let mut parameters = vec![("q", query.in_words())];
            if page.skip > 0 {
                parameters.push(("s", page.skip.to_string()));
            }
            let url = with_parameters(&settings.url, &parameters, ("df", page.time_range));
            request("GET", &url, "text/html")
        },
        format: ResponseFormat::Page(parse_duckduckgo),
    },
    // Self-hosted. Its operator has to enable the format `json`.
    Provider {
        name: "searxng",
        url: None,
        max_results: 10,
        needs_engine: false,
        topics: &[Topic::News],
        time_ranges: [Some("day"), Some("week"), Some("month"), Some("year")],
        request: searxng,
        format: ResponseFormat::Json(JsonFormat {
            snippet: "/content",
            published: &["/publishedDate"],
            // An answer is a string, or an object in newer versions.
            answer: &["/answers/0", "/answers/0/answer"],
            score: Some("/score"),
            advice: Some("ask the operator of SearXNG to add `json` to `search.formats`"),
            ..JSON
        }),
    },
];

fn tavily(settings: &Settings, query: &Query, page: &Page) -> Request {
    let mut body = json!({
        "query": query.text,
        "max_results": page.count,
        "topic": query.topic,
        "include_answer": true,
    });
    if let Some(range) = page.time_range {
        body["time_range"] = json!(range);
    }
    if !query.allowed.is_empty() {
        body["include_domains"] = json!(query.allowed);
    }
    if !query.blocked.is_empty() {
        body["exclude_domains"] = json!(query.blocked);
    }
    request("POST", &settings.url, "application/json")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {KEY}"))
        .body(body.to_string())
}

fn searxng(settings: &Settings, query: &Query, page: &Page) -> Request {
    let mut url = settings.url.clone();
    if !url.path().ends_with("/search") {
        let path = format!("{}/search", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    let mut parameters = vec![
        ("q", query.in_words()),
        ("format", "json".to_owned()),
        ("pageno", if page.skip == 0 { "1" } else { "2" }.to_owned()),
    ];
    if query.topic == Topic::News {
        parameters.push(("categories", "news".to_owned()));
    }
    let url = with_parameters(&url, &parameters, ("time_range", page.time_range));
    request("GET", &url, "application/json")
}

fn get_json(
    settings: &Settings,
    parameters: &[(&str, String)],
    time_range: (&str, Option<&str>),
) -> Request {
    let url = with_parameters(&settings.url, parameters, time_range);
    request("GET", &url, "application/json")
}

fn with_parameters(
    url: &Url,
    parameters: &[(&str, String)],
    (name, time_range): (&str, Option<&str>),
) -> Url {
    let mut url = url.clone();
    url.query_pairs_mut()
        .extend_pairs(parameters)
        .extend_pairs(time_range.map(|value| (name, value)));
    url
}

/// How the body of a response is read.
pub enum ResponseFormat {
    Json(JsonFormat),
    Page(fn(name: &str, answer: &str) -> Result<ProviderResults>),
}

/// JSON pointers to the parts of a response. Those of a result are relative to the result.
pub struct JsonFormat {
    results: &'static str,
    title: &'static str,
    url: &'static str,
    snippet: &'static str,
    /// The first that is a string.
    published: &'static [&'static str],
    score: Option<&'static str>,
    /// The first that is a string.
    answer: &'static [&'static str],
    /// Title and snippet are HTML.
    has_markup: bool,
    /// For responses that are not JSON.
    advice: Option<&'static str>,
}

/// The most common names.
const JSON: JsonFormat = JsonFormat {
    results: "/results",
    title: "/title",
    url: "/url",
    snippet: "/snippet",
    published: &[],
    score: None,
    answer: &[],
    has_markup: false,
    advice: None,
};

impl Provider {
    /// Parses a response with status 200.
    pub fn parse(&self, answer: &str) -> Result<ProviderResults> {
        match &self.format {
            ResponseFormat::Json(format) => {
                let answer = toolhost_sdk::serde_json::from_str(answer).map_err(|error| {
                    let failed = failed(self.name, "its response is not the expected JSON");
                    format
                        .advice
                        .into_iter()
                        .fold(failed.cause(error), Error::recommend)
                })?;
                Ok(format.read(&answer))
            }
            ResponseFormat::Page(parse) => parse(self.name, answer),
        }
    }
}

impl JsonFormat {
    fn read(&self, answer: &Value) -> ProviderResults {
        let first = |value: &Value, pointers: &[&str]| {
            let mut texts = pointers.iter().filter_map(|at| value.pointer(at)?.as_str());
            texts.next().map(str::to_owned)
        };
        let text = |value: &Value, pointer: &str| {
            let text = first(value, &[pointer]).unwrap_or_default();
            if self.has_markup {
                html_tree::plain(&text)
            } else {
                text
            }
        };
        let results = answer.pointer(self.results).and_then(Value::as_array);
        let results = results.into_iter().flatten().take(100);
        let results = results.map(|result| SearchResult {
            title: text(result, self.title),
            url: first(result, &[self.url]).unwrap_or_default(),
            snippet: text(result, self.snippet),
            published: first(result, self.published),
            score: self.score.and_then(|at| result.pointer(at)?.as_f64()),
        });
        ProviderResults {
            results: results.collect(),
            answer: first(answer, self.answer),
            ..ProviderResults::default()
        }
    }
}

fn parse_duckduckgo(name: &str, answer: &str) -> Result<ProviderResults> {
    if answer.contains("anomaly-modal") {
        return Err(failed(name, "it classified the request as automated")
            .retryable()
            .recommend("wait some minutes, or ask the operator to configure another provider"));
    }
    let Some(root) = html_tree::parse(answer) else {
        return Err(failed(name, "its response is not the expected page"));
    };
    let results = html_tree::of_class(&root, "result")
        .into_iter()
        .filter(|node| !html_tree::has_class(node, "result--ad"))
        .filter_map(|node| {
            let title = html_tree::of_class(&node, "result__a").into_iter().next()?;
            let snippet = html_tree::of_class(&node, "result__snippet");
            Some(SearchResult {
                title: html_tree::line(&title),
                url: link_target(&html_tree::link(&title)?)?,
                snippet: snippet.first().map(html_tree::line).unwrap_or_default(),
                ..SearchResult::default()
            })
        });
    Ok(ProviderResults {
        results: results.collect(),
        ..ProviderResults::default()
    })
}

/// Result links redirect through DuckDuckGo; the parameter `uddg` is the target URL.
fn link_target(link: &str) -> Option<String> {
    let base = Url::parse("https://duckduckgo.com/").ok()?;
    let url = base.join(link).ok()?;
    let mut pairs = url.query_pairs();
    let inner = pairs
        .find(|(name, _)| name == "uddg")
        .map(|(_, value)| value.into_owned());
    Some(inner.unwrap_or_else(|| url.to_string()))
}
