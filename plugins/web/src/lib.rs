//! Web tools: HTTP requests (`http_*`), pages (`web_fetch`) and search (`web_search`).
//!
//! The host decides which URLs are allowed and checks each request. Responses are untrusted: they are bounded in size,
//! depth and time here, and shown in a block that marks them as such.

#![cfg_attr(
    test,
    allow(
        clippy::needless_pass_by_value,
        clippy::needless_raw_string_hashes,
        reason = "so it is with `expect!`"
    )
)]

mod answer;
mod body;
mod cache;
mod fetch;
#[cfg(test)]
mod fuzz;
mod html;
mod html_tree;
mod http;
mod json_text;
mod page;
mod redirects;
mod search;
mod untrusted_text;
mod web_url;

toolhost_sdk::export_tools![
    http::HttpGet,
    http::HttpPost,
    http::HttpRequest,
    fetch::WebFetch,
    search::WebSearch,
];
