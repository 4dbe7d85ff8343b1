//! What the pages about records have in common: work off the async threads, and errors of the store in words.

use http::StatusCode;
use maud::{Markup, html};
use toolhost_store::StoreError;

use crate::error_page::ErrorPage;

/// Runs blocking work, such as reading records or files.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ErrorPage> + Send + 'static,
) -> Result<T, ErrorPage> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        Err(ErrorPage::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "The page could not be created",
        )
        .because("This is a bug; please report it."))
    })
}

/// Explains why records cannot be read. Nothing is lost: the page only reads.
pub fn unreadable(error: &StoreError) -> ErrorPage {
    let title = match error {
        StoreError::Locked { .. } => "The records are in use",
        _ => "The records cannot be read",
    };
    let page = ErrorPage::new(StatusCode::SERVICE_UNAVAILABLE, title);
    let page = match error {
        StoreError::Locked { .. } => page.because(
            "Another program has locked the records, for example to compact or to copy them. Nothing is lost. Load the \
             page again when it has ended.",
        ),
        other => page.because(other.to_string()),
    };
    page.link("/", "Go to the inbox")
}

pub fn bad_request(reason: impl Into<String>) -> ErrorPage {
    ErrorPage::new(
        StatusCode::BAD_REQUEST,
        "This address is not complete or not valid",
    )
    .because(reason)
    .link("/timeline", "Show all calls")
}

/// In place of records, for a host without a store.
pub fn no_records() -> Markup {
    html! {
        section class="empty" {
            h1 { "No records" }
            p { "This host keeps no records: the store is disabled in the configuration, or the host has no home directory." }
        }
    }
}

/// In place of what only a running host knows.
pub fn no_host(what: &str) -> Markup {
    html! {
        section class="empty" {
            h1 { "No host is running" }
            p { (what) " The timeline is still available." }
            p { a class="button" href="/timeline" { "Show the timeline" } }
        }
    }
}
