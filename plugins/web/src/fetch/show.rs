//! Rendering of fetched pages: each in its own block, cut to its share, with the offset to continue from.

use std::fmt::Write;

use toolhost_sdk::prelude::*;

use super::{FetchAttempt, Format, Input, Output, PageView};
use crate::answer::size;
use crate::page::Fetched;
use crate::untrusted_text::{block, inline, slice};

pub fn outcome(input: &Input, tried: Vec<FetchAttempt>) -> Outcome {
    let lengths: Vec<usize> = tried
        .iter()
        .map(|one| {
            one.result
                .as_ref()
                .map_or(0, |fetched| fetched.page.text.chars().count())
        })
        .collect();
    let shares = shares(input.max_chars as usize, &lengths);
    let several = tried.len() > 1;
    let mut outcome = Outcome::new();
    let mut pages = Vec::new();
    let mut media = Vec::new();
    let mut text = String::new();
    for ((one, share), length) in tried.into_iter().zip(shares).zip(lengths) {
        let FetchAttempt {
            requested,
            result,
            cached,
        } = one;
        let view = match result {
            Ok(Fetched { page, media: part }) => {
                media.extend(part);
                let piece = slice(&page.text, input.start_index as usize, share);
                PageView {
                    requested,
                    url: page.url,
                    status: page.status,
                    content_type: page.content_type,
                    title: page.title,
                    text: piece.text.to_owned(),
                    start_index: u64::from(input.start_index),
                    next_start_index: piece.next.map(|next| next as u64),
                    total_chars: length as u64,
                    bytes: page.bytes,
                    cached,
                    notes: page.notes,
                    error: None,
                    code: None,
                }
            }
            Err(error) => PageView {
                requested,
                error: Some(error.message),
                code: error.code,
                ..PageView::default()
            },
        };
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&page_text(&view, several, input));
        pages.push(view);
    }
    if let Some(prompt) = &input.prompt {
        let _ = write!(
            text,
            "\n\n[the prompt was not answered: no summariser is configured. It was: \"{prompt}\". Answer it from the \
             text above]"
        );
    }
    let summary = summary(&pages);
    let (original, shown) = bytes(&pages);
    outcome = outcome.part(Part::text(text)).summary(summary);
    for part in media {
        outcome = outcome.part(part);
    }
    if shown < original {
        outcome = outcome.truncated(original, shown);
    }
    outcome.structured(&Output {
        pages,
        prompt: input.prompt.clone(),
    })
}

/// Characters per page: short pages leave their unused share to the others.
fn shares(total: usize, lengths: &[usize]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..lengths.len()).collect();
    order.sort_by_key(|&index| lengths[index]);
    let mut shares = vec![0; lengths.len()];
    let mut left = total;
    for (done, index) in order.into_iter().enumerate() {
        let fair = left / (lengths.len() - done);
        // A single page may be requested beyond its end; the offset applies to its share.
        shares[index] = if lengths.len() == 1 {
            left
        } else {
            fair.min(lengths[index])
        };
        left -= shares[index];
    }
    shares
}

fn page_text(view: &PageView, several: bool, input: &Input) -> String {
    if let Some(error) = &view.error {
        return format!("{}\n[not fetched: {error}]", inline(&view.requested));
    }
    let mut text = inline(&view.url);
    let mut facts = Vec::new();
    if !view.content_type.is_empty() {
        facts.push(view.content_type.clone());
    }
    if view.bytes > 0 {
        facts.push(size(usize::try_from(view.bytes).unwrap_or(usize::MAX)));
    }
    if view.cached {
        facts.push("read less than 15 minutes ago".to_owned());
    }
    if !facts.is_empty() {
        let _ = write!(text, " ({})", facts.join(", "));
    }
    text.push('\n');
    for note in &view.notes {
        let _ = writeln!(text, "[{note}]");
    }
    let is_media = view.total_chars == 0 && view.bytes > 0;
    if !is_media {
        let mut shown = String::new();
        let plain = matches!(input.format, Format::Html | Format::Raw);
        if let Some(title) = view
            .title
            .as_ref()
            .filter(|_| view.start_index == 0 && !plain)
        {
            let _ = write!(shown, "Title: {title}\n\n");
        }
        shown.push_str(&view.text);
        text.push_str(&block(&view.url, &shown));
    } else if view.content_type.starts_with("image/") || view.content_type == "application/pdf" {
        text.push_str("[attached to this result]");
    } else {
        text.push_str("[no text]");
    }
    let total = view.total_chars;
    let end = view.start_index + view.text.chars().count() as u64;
    if let Some(next) = view.next_start_index {
        let from = view.start_index;
        let alone = if several { "this `url` alone and " } else { "" };
        let _ = write!(
            text,
            "\n[characters {from} to {end} of {total}; for more call web_fetch with {alone}`start_index` = {next}]"
        );
    } else if view.start_index > 0 && view.text.is_empty() {
        let _ = write!(text, "\n[past the end: the text has {total} characters]");
    } else if view.start_index > 0 {
        let _ = write!(text, "\n[end: the text has {total} characters]");
    }
    text
}

fn summary(pages: &[PageView]) -> String {
    if let [page] = pages {
        return format!("{}, {} characters", inline(&page.url), page.total_chars);
    }
    let found = pages.iter().filter(|page| page.error.is_none()).count();
    format!("{found} of {} pages", pages.len())
}

/// The total size of the texts and of the shown parts. Omitted characters count as one byte each.
fn bytes(pages: &[PageView]) -> (u64, u64) {
    pages.iter().fold((0, 0), |(original, shown), page| {
        let bytes = page.text.len() as u64;
        let missing = page.total_chars - page.text.chars().count() as u64;
        (original + bytes + missing, shown + bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r_328_pages_share_the_room_fairly() {
        for (total, lengths, expected) in [
            (100, &[10, 500, 500][..], &[10, 45, 45][..]),
            (100, &[500, 10, 20], &[70, 10, 20]),
            (100, &[40, 40], &[40, 40]),
            (100, &[500], &[100]),
            (1, &[5, 5], &[0, 1]),
            (100, &[0, 500], &[0, 100]),
        ] {
            assert_eq!(shares(total, lengths), expected, "{total} {lengths:?}");
        }
    }
}
