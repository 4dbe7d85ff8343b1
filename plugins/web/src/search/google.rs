//! Google Custom Search API, which needs a key and a search engine id.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

use super::provider::{Provider, ProviderResults, Query, json, list, no_topic, some, text};
use super::settings::{KEY, Settings};
use super::{SearchResult, TimeRange};
use crate::answer::request;

pub struct Google;

impl Provider for Google {
    fn name(&self) -> &'static str {
        "google"
    }

    fn url(&self) -> Option<&'static str> {
        Some("https://www.googleapis.com/customsearch/v1")
    }

    fn max_results(&self) -> usize {
        10
    }

    fn needs_engine(&self) -> bool {
        true
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
            .append_pair("key", KEY)
            .append_pair("cx", &settings.engine)
            .append_pair("q", &query.in_words())
            .append_pair("num", &count.to_string())
            .append_pair("start", &(skip + 1).to_string());
        if let Some(range) = query.time_range {
            let word = match range {
                TimeRange::Day => "d1",
                TimeRange::Week => "w1",
                TimeRange::Month => "m1",
                TimeRange::Year => "y1",
            };
            url.query_pairs_mut().append_pair("dateRestrict", word);
        }
        Ok(request("GET", &url, "application/json"))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        let answer = json(self.name(), answer)?;
        let results = list(&answer["items"]).map(|result| SearchResult {
            title: text(&result["title"]),
            url: text(&result["link"]),
            snippet: text(&result["snippet"]),
            published: some(&result["pagemap"]["metatags"][0]["article:published_time"]),
            score: None,
        });
        Ok(ProviderResults {
            results: results.collect(),
            ..ProviderResults::default()
        })
    }
}
