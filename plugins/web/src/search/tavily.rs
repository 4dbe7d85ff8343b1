//! Tavily Search API, which also returns a short answer.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::http::Request;

use super::provider::{Provider, ProviderResults, Query, json, list, some, text};
use super::settings::{KEY, Settings};
use super::{SearchResult, Topic};
use crate::answer::request;

pub struct Tavily;

impl Provider for Tavily {
    fn name(&self) -> &'static str {
        "tavily"
    }

    fn url(&self) -> Option<&'static str> {
        Some("https://api.tavily.com/search")
    }

    fn max_results(&self) -> usize {
        20
    }

    fn unsupported(&self, _: &Query) -> Vec<String> {
        Vec::new()
    }

    fn request(
        &self,
        settings: &Settings,
        query: &Query,
        count: usize,
        _: usize,
    ) -> Result<Request> {
        let mut body = json!({
            "query": query.text,
            "max_results": count,
            "topic": match query.topic {
                Topic::General => "general",
                Topic::News => "news",
                Topic::Finance => "finance",
            },
            "include_answer": true,
        });
        if let Some(range) = query.time_range {
            body["time_range"] = json!(range);
        }
        if !query.allowed.is_empty() {
            body["include_domains"] = json!(query.allowed);
        }
        if !query.blocked.is_empty() {
            body["exclude_domains"] = json!(query.blocked);
        }
        Ok(request("POST", &settings.url, "application/json")
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {KEY}"))
            .body(body.to_string()))
    }

    fn parse(&self, answer: &str) -> Result<ProviderResults> {
        let answer = json(self.name(), answer)?;
        let results = list(&answer["results"]).map(|result| SearchResult {
            title: text(&result["title"]),
            url: text(&result["url"]),
            snippet: text(&result["content"]),
            published: some(&result["published_date"]),
            score: result["score"].as_f64(),
        });
        Ok(ProviderResults {
            results: results.collect(),
            answer: some(&answer["answer"]),
            ..ProviderResults::default()
        })
    }
}
