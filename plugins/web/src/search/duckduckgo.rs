//! DuckDuckGo's page for browsers without scripts, which needs no key and has stable markup.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;
use url::Url;

use super::provider::{Provider, ProviderResults, Query, failed, no_topic};
use super::settings::Settings;
use super::{SearchResult, TimeRange};
use crate::answer::request;
use crate::html_tree;

pub struct DuckDuckGo;

impl Provider for DuckDuckGo {
    fn name(&self) -> &'static str {
        "duckduckgo"
    }

    fn url(&self) -> Option<&'static str> {
        Some("https://html.duckduckgo.com/html/")
    }

    fn max_results(&self) -> usize {
        10
    }

    fn unsupported(&self, query: &Query) -> Vec<String> {
        no_topic(query, self.name(), &[])
    }

    fn request(
        &self,
        settings: &Settings,
        query: &Query,
        _: usize,
        skip: usize,
    ) -> Result<Request> {
        let mut url = settings.url.clone();
        url.query_pairs_mut().append_pair("q", &query.in_words());
        if skip > 0 {
            url.query_pairs_mut().append_pair("s", &skip.to_string());
        }
        if let Some(range) = query.time_range {
            let word = match range {
                TimeRange::Day => "d",
                TimeRange::Week => "w",
                TimeRange::Month => "m",
                TimeRange::Year => "y",
            };
            url.query_pairs_mut().append_pair("df", word);
        }
        Ok(request("GET", &url, "text/html"))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        if answer.contains("anomaly-modal") {
            return Err(
                failed(self.name(), "it classified the request as automated")
                    .retryable()
                    .recommend(
                        "wait some minutes, or ask the operator to configure another provider",
                    ),
            );
        }
        let Some(root) = html_tree::parse(answer) else {
            return Err(failed(self.name(), "its response is not the expected page"));
        };
        let results = html_tree::of_class(&root, "result")
            .into_iter()
            .filter(|node| !html_tree::has_class(node, "result--ad"))
            .filter_map(|node| {
                let title = html_tree::of_class(&node, "result__a").into_iter().next()?;
                let snippet = html_tree::of_class(&node, "result__snippet")
                    .into_iter()
                    .next();
                Some(SearchResult {
                    title: html_tree::line(&title),
                    url: target(&html_tree::link(&title)?)?,
                    snippet: snippet
                        .map(|node| html_tree::line(&node))
                        .unwrap_or_default(),
                    ..SearchResult::default()
                })
            });
        Ok(ProviderResults {
            results: results.collect(),
            ..ProviderResults::default()
        })
    }
}

/// Result links redirect through DuckDuckGo; the parameter `uddg` is the target URL.
fn target(link: &str) -> Option<String> {
    let base = Url::parse("https://duckduckgo.com/").ok()?;
    let url = base.join(link).ok()?;
    let mut pairs = url.query_pairs();
    let inner = pairs
        .find(|(name, _)| name == "uddg")
        .map(|(_, value)| value.into_owned());
    Some(inner.unwrap_or_else(|| url.to_string()))
}
