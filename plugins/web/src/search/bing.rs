//! Bing Web Search API, version 7, and compatible services.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

use super::provider::{Provider, ProviderResults, Query, json, list, no_topic, some, text};
use super::settings::{KEY, Settings};
use super::{SearchResult, TimeRange};
use crate::answer::request;

pub struct Bing;

impl Provider for Bing {
    fn name(&self) -> &'static str {
        "bing"
    }

    fn url(&self) -> Option<&'static str> {
        Some("https://api.bing.microsoft.com/v7.0/search")
    }

    fn max_results(&self) -> usize {
        20
    }

    fn unsupported(&self, query: &Query) -> Vec<String> {
        let mut notes = no_topic(query, self.name(), &[]);
        if query.time_range == Some(TimeRange::Year) {
            notes.push(
                "bing does not support the time range `year`; results may be older".to_owned(),
            );
        }
        notes
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
            .append_pair("offset", &skip.to_string());
        let word = match query.time_range {
            Some(TimeRange::Day) => Some("Day"),
            Some(TimeRange::Week) => Some("Week"),
            Some(TimeRange::Month) => Some("Month"),
            Some(TimeRange::Year) | None => None,
        };
        if let Some(word) = word {
            url.query_pairs_mut().append_pair("freshness", word);
        }
        Ok(request("GET", &url, "application/json").header("ocp-apim-subscription-key", KEY))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        let answer = json(self.name(), answer)?;
        let results = list(&answer["webPages"]["value"]).map(|result| SearchResult {
            title: text(&result["name"]),
            url: text(&result["url"]),
            snippet: text(&result["snippet"]),
            published: some(&result["datePublished"]),
            score: None,
        });
        Ok(ProviderResults {
            results: results.collect(),
            ..ProviderResults::default()
        })
    }
}
