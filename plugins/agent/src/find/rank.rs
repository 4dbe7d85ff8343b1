//! Ranking of tools by keywords.

use std::cmp::Reverse;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::ToolSummary;

/// Returns the tools that contain every `+` word and at least one other word, best match first.
pub fn rank<'a>(tools: &'a [ToolSummary], query: &str) -> Result<Vec<&'a ToolSummary>> {
    let query = query.to_lowercase();
    let wanted: Vec<(bool, Vec<String>)> = query
        .split_whitespace()
        .map(|word| (word.starts_with('+'), words(word)))
        .filter(|(_, words)| !words.is_empty())
        .collect();
    if wanted.is_empty() {
        let message = format!(
            "{:?} has no word to search for",
            toolhost_sdk::text::inline(&query, 100)
        );
        return Err(Error::invalid_input(message).code("invalid_query"));
    }
    let mut hits: Vec<(usize, u32, &ToolSummary)> = tools
        .iter()
        .filter_map(|tool| {
            let page = SearchDocument::of(tool);
            let mut found = 0;
            let mut score = 0;
            for (must, words) in &wanted {
                let points: u32 = words.iter().map(|word| page.score(word)).sum();
                if points == 0 && *must {
                    return None;
                }
                found += usize::from(points > 0);
                score += points;
            }
            (found > 0).then_some((found, score, tool))
        })
        .collect();
    // A tool that matches all words precedes one that matches a single word in its name.
    hits.sort_by_key(|(found, score, tool)| (Reverse(*found), Reverse(*score), &tool.name));
    Ok(hits.into_iter().map(|(_, _, tool)| tool).collect())
}

fn words(text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

/// The searchable words of a tool.
struct SearchDocument {
    name: Vec<String>,
    aliases: Vec<String>,
    tags: Vec<String>,
    plugin: Vec<String>,
    description: Vec<String>,
}

impl SearchDocument {
    fn of(tool: &ToolSummary) -> Self {
        Self {
            name: words(&tool.name),
            aliases: tool.aliases.iter().flat_map(|alias| words(alias)).collect(),
            tags: tool.tags.iter().flat_map(|tag| words(tag)).collect(),
            plugin: words(&tool.plugin),
            description: words(&tool.description),
        }
    }

    fn score(&self, wanted: &str) -> u32 {
        let whole = |words: &[String]| words.iter().any(|word| word == wanted);
        // `file` matches `files`, and `search` matches `searching`; two letters would match almost everything.
        let part =
            |words: &[String]| wanted.len() > 2 && words.iter().any(|word| word.contains(wanted));
        if whole(&self.name) {
            12
        } else if whole(&self.aliases) || whole(&self.tags) {
            8
        } else if part(&self.name) || whole(&self.plugin) {
            5
        } else if whole(&self.description) {
            3
        } else {
            u32::from(part(&self.aliases) || part(&self.tags) || part(&self.description))
        }
    }
}
