//! Brave Search API.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

use super::provider::{Provider, ProviderResults, Query, json, list, no_topic, some, text};
use super::settings::{KEY, Settings};
use super::{SearchResult, TimeRange};
use crate::answer::request;
use crate::html_tree;

pub struct Brave;

impl Provider for Brave {
    fn name(&self) -> &'static str {
        "brave"
    }

    fn url(&self) -> Option<&'static str> {
        Some("https://api.search.brave.com/res/v1/web/search")
    }

    fn max_results(&self) -> usize {
        20
    }

    fn unsupported(&self, query: &Query) -> Vec<String> {
        no_topic(query, self.name(), &[])
    }

    fn request(
        &self,
        settings: &Settings,
        query: &Query,
        count: usize,
        skip: usize,
    ) -> Result<Request> {
        let mut url = settings.url.clone();
        url.query_pairs_mut()
            .append_pair("q", &query.in_words())
            .append_pair("count", &count.to_string())
            // The offset counts pages.
            .append_pair("offset", &(skip / count.max(1)).to_string());
        if let Some(range) = query.time_range {
            let word = match range {
                TimeRange::Day => "pd",
                TimeRange::Week => "pw",
                TimeRange::Month => "pm",
                TimeRange::Year => "py",
            };
            url.query_pairs_mut().append_pair("freshness", word);
        }
        Ok(request("GET", &url, "application/json").header("x-subscription-token", KEY))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        let answer = json(self.name(), answer)?;
        let results = list(&answer["web"]["results"]).map(|result| SearchResult {
            title: html_tree::plain(&text(&result["title"])),
            url: text(&result["url"]),
            // Query words are marked with tags.
            snippet: html_tree::plain(&text(&result["description"])),
            published: some(&result["page_age"]).or_else(|| some(&result["age"])),
            score: None,
        });
        Ok(ProviderResults {
            results: results.collect(),
            ..ProviderResults::default()
        })
    }
}
