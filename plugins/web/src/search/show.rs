//! Rendering of search results as a numbered list in a block that marks them as untrusted.

use std::fmt::Write;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::count;

use super::Output;
use super::provider::{ProviderResults, Query};
use super::settings::Settings;
use crate::untrusted_text::{block, inline};

pub fn outcome(query: &Query, settings: &Settings, found: ProviderResults) -> Outcome {
    let provider = settings.provider.name;
    let ProviderResults {
        results,
        answer,
        notes,
    } = found;
    let summary = format!("{} from {provider}", count(results.len(), "result"));
    let mut text = format!("{summary} for \"{}\"", inline(&query.text));
    for note in &notes {
        let _ = write!(text, "\n[{note}]");
    }
    if results.is_empty() {
        text.push_str("\n[no results; try other or fewer words]");
    }
    let mut list = String::new();
    if let Some(answer) = &answer {
        let _ = write!(list, "Answer of {provider}: {answer}\n\n");
    }
    for (index, result) in results.iter().enumerate() {
        let date = result
            .published
            .as_ref()
            .map_or_else(String::new, |date| format!(" ({date})"));
        let _ = writeln!(
            list,
            "{}. {}{date}\n   {}",
            index + 1,
            result.title,
            result.url
        );
        if !result.snippet.is_empty() {
            let _ = writeln!(list, "   {}", result.snippet);
        }
    }
    if !list.is_empty() {
        let _ = write!(text, "\n{}", block(provider, &list));
    }
    Outcome::text(text).summary(summary).structured(&Output {
        results,
        provider: provider.to_owned(),
        answer,
        notes,
    })
}
