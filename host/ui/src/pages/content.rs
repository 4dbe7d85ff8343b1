//! Downloads of both sides of a proposed change of a file that has no diff: it is too large or binary.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use futures::stream::try_unfold;
use http::StatusCode;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use tokio::sync::OwnedSemaphorePermit;
use toolhost_contract::units::format_size;
use toolhost_contract::{ChangeSide, UndiffedContent};

use crate::access::Session;
use crate::answers::{AnswerProblem, explain};
use crate::binary_view::{content_of, parse_side};
use crate::error_page::ErrorPage;
use crate::record_pages;
use crate::state::AppState;

/// Maximum size of a file, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Bytes that are read at once.
const PART: usize = 64 << 10;

pub async fn content(
    State(state): State<Arc<AppState>>,
    _session: Session,
    Path((number, index, side)): Path<(u64, usize, String)>,
) -> Result<Response, ErrorPage> {
    let entry = state.inbox().entry(number);
    let entry = entry.map_err(|missing| explain(&AnswerProblem::Missing(missing), number))?;
    let changes = entry.question.changes.as_ref();
    let change = changes.and_then(|set| set.changes.get(index));
    let content = change.and_then(|one| one.content.clone());
    let content = content.ok_or_else(ErrorPage::not_found)?;
    let side = parse_side(&side).ok_or_else(ErrorPage::not_found)?;
    let slot = Arc::clone(&state.downloads).try_acquire_owned();
    let slot = slot.map_err(|_| {
        ErrorPage::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Too many files are being downloaded",
        )
        .because("Load this page again when a download has ended.")
    })?;
    let (body, extension) = match content {
        UndiffedContent::Large(content) => {
            let file = record_pages::blocking(move || open(content.open(side), number)).await?;
            (Body::from_stream(parts(file, slot)), "txt")
        }
        UndiffedContent::Binary(content) => {
            let bytes = content_of(&content, side).ok_or_else(ErrorPage::not_found)?;
            (Body::from(bytes.to_vec()), "bin")
        }
    };
    let name = match side {
        ChangeSide::Before => "before",
        ChangeSide::After => "proposed",
    };
    // The name contains nothing of the tool. Browsers save an attachment and do not show it.
    let headers = [
        (CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
        (
            CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}.{extension}\""),
        ),
    ];
    Ok((headers, body).into_response())
}

fn open(file: Option<File>, number: u64) -> Result<File, ErrorPage> {
    let problem = |reason: String| {
        ErrorPage::new(StatusCode::CONFLICT, "This file cannot be downloaded")
            .because(reason)
            .link(format!("/?question={number}"), "Go to the question")
    };
    let gone = || problem("It does not exist, or the question was just answered.".to_owned());
    let file = file.ok_or_else(gone)?;
    let size = file.metadata().map_err(|_| gone())?.len();
    if size > MAX_BYTES {
        let (size, max) = (format_size(size), format_size(MAX_BYTES));
        return Err(problem(format!("It has {size}; the maximum is {max}.")));
    }
    Ok(file)
}

/// The content in parts, each read off the async threads when the browser has received the one before.
fn parts(
    file: File,
    slot: OwnedSemaphorePermit,
) -> impl futures::Stream<Item = io::Result<Bytes>> + Send {
    // A file that grows meanwhile ends here too.
    try_unfold((file, MAX_BYTES, slot), |(file, left, slot)| async move {
        let read = move || {
            let mut part = Vec::new();
            let length = left.min(PART as u64);
            (&file).take(length).read_to_end(&mut part)?;
            io::Result::Ok((file, part))
        };
        let (file, part) = tokio::task::spawn_blocking(read)
            .await
            .map_err(io::Error::other)??;
        let left = left.saturating_sub(part.len() as u64);
        Ok((!part.is_empty()).then(|| (Bytes::from(part), (file, left, slot))))
    })
}
