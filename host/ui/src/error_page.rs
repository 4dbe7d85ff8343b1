//! Error pages: what happened and what to do next.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use maud::{Markup, html};

use crate::layout;

/// A page that replaces the requested one.
#[derive(Debug, PartialEq, Eq)]
pub struct ErrorPage {
    status: StatusCode,
    title: String,
    reason: String,
    /// Target and text of the link at the end.
    link: Option<(String, &'static str)>,
}

impl ErrorPage {
    /// The title is shown to the user; it contains no text of guests.
    pub fn new(status: StatusCode, title: impl Into<String>) -> Self {
        Self {
            status,
            title: title.into(),
            reason: String::new(),
            link: None,
        }
    }

    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = reason.into();
        self
    }

    #[must_use]
    pub fn link(mut self, target: impl Into<String>, text: &'static str) -> Self {
        self.link = Some((target.into(), text));
        self
    }

    pub fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "This page does not exist").link("/", "Go to the inbox")
    }

    pub fn read_only() -> Self {
        Self::new(StatusCode::FORBIDDEN, "This page is read-only")
            .because("The host was started with --ui-read-only. Answer at its terminal, or start it without this option.")
    }

    /// Adds a sentence to the reason.
    #[must_use]
    pub fn also(mut self, sentence: String) -> Self {
        self.reason = format!("{} {sentence}", self.reason);
        self
    }

    /// The content alone, for a part of a page.
    pub fn content(&self) -> Markup {
        html! { section class="notice" { h2 { (self.title) } (self.explanation()) } }
    }

    fn explanation(&self) -> Markup {
        html! {
                @if !self.reason.is_empty() { p { bdi { (self.reason) } } }
                @if let Some((target, text)) = &self.link {
                    p { a class="button" href=(target) { (text) } }
                }
        }
    }
}

impl IntoResponse for ErrorPage {
    fn into_response(self) -> Response {
        let content = html! { section class="notice" { h1 { (self.title) } (self.explanation()) } };
        (self.status, layout::bare_page(&self.title, content)).into_response()
    }
}
