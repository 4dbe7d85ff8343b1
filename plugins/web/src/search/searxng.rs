//! SearXNG, a self-hosted search service. Its operator has to enable the format `json`.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

use super::provider::{Provider, ProviderResults, Query, json, list, no_topic, some, text};
use super::settings::Settings;
use super::{SearchResult, Topic};
use crate::answer::request;

pub struct Searxng;

impl Provider for Searxng {
    fn name(&self) -> &'static str {
        "searxng"
    }

    fn url(&self) -> Option<&'static str> {
        None
    }

    fn max_results(&self) -> usize {
        10
    }

    fn unsupported(&self, query: &Query) -> Vec<String> {
        no_topic(query, self.name(), &[Topic::News])
    }

    fn request(
        &self,
        settings: &Settings,
        query: &Query,
        _: usize,
        skip: usize,
    ) -> Result<Request> {
        let mut url = settings.url.clone();
        if !url.path().ends_with("/search") {
            let path = format!("{}/search", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        url.query_pairs_mut()
            .append_pair("q", &query.in_words())
            .append_pair("format", "json")
            .append_pair("pageno", if skip == 0 { "1" } else { "2" });
        if query.topic == Topic::News {
            url.query_pairs_mut().append_pair("categories", "news");
        }
        if let Some(range) = json!(query.time_range).as_str() {
            url.query_pairs_mut().append_pair("time_range", range);
        }
        Ok(request("GET", &url, "application/json"))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        let answer = json(self.name(), answer).map_err(|error| {
            error.recommend("ask the operator of SearXNG to add `json` to `search.formats`")
        })?;
        let results = list(&answer["results"]).map(|result| SearchResult {
            title: text(&result["title"]),
            url: text(&result["url"]),
            snippet: text(&result["content"]),
            published: some(&result["publishedDate"]),
            score: result["score"].as_f64(),
        });
        // An answer is a string, or an object in newer versions.
        let first = &answer["answers"][0];
        Ok(ProviderResults {
            results: results.collect(),
            answer: some(first).or_else(|| some(&first["answer"])),
            ..ProviderResults::default()
        })
    }
}
