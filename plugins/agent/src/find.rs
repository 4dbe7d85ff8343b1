//! `tool_search`: finds tools by description, for hosts with too many tools to list in full.

mod rank;

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::ToolSummary;
use toolhost_sdk::text::{count, inline, nearest, truncate};

const MOST_DESCRIPTION_CHARS: usize = 1000;
const MOST_SCHEMA_BYTES: usize = 8 << 10;

/// A matching tool.
#[data]
pub struct SearchHit {
    /// Name.
    pub name: String,
    /// Its plugin.
    pub plugin: String,
    /// Description.
    pub description: String,
    /// JSON Schema of the input; null if larger than 8 KiB.
    pub input_schema: Value,
}

/// Matching tools, best first.
#[data]
pub struct SearchResults {
    /// Tools, best first.
    pub tools: Vec<SearchHit>,
    /// Number of matches, including those not shown.
    pub total: usize,
    /// Requested names that do not exist.
    pub missing: Vec<String>,
}

/// Find tools and their input schemas by keywords (`send mail`), required words (`+mail send`) or names
/// (`select:read_file,grep`). Call a tool that is not in your list through tool_chain.
#[tool(
    reads,
    idempotent,
    plain_text,
    requires = ["tools"],
    category = "agent",
    kind = "search",
    icon = "search",
    aliases = ["toolsearch"],
    tags = ["tool", "discover", "find"],
    output = SearchResults,
    example(description = "By what it does", input = r#"{"query": "read file"}"#),
    example(description = "By name", input = r#"{"query": "select:read_file,grep"}"#),
)]
pub fn tool_search(
    cx: &Context,
    /// Keywords or `select:` names.
    #[arg(min_len = 1, max_len = 500)]
    query: String,
    /// Maximum number of results.
    #[arg(default = 5, min = 1, max = 50, aliases = ["max_results"])]
    limit: usize,
    /// The query is comma-separated tool names.
    #[arg(default = false)]
    exact: bool,
) -> Result<Outcome> {
    let tools = cx.tools()?;
    let selected = query
        .trim()
        .strip_prefix("select:")
        .or_else(|| exact.then_some(query.as_str()));
    let (hits, missing) = match selected {
        Some(names) => select(&tools, names)?,
        None => (rank::rank(&tools, &query)?, Vec::new()),
    };
    let total = hits.len();
    let found = SearchResults {
        tools: hits.into_iter().take(limit).map(SearchHit::of).collect(),
        total,
        missing,
    };
    if total == 0 && selected.is_some() {
        return Err(unknown(&tools, &found.missing));
    }
    Ok(found.outcome(&query, tools.len()))
}

fn select<'a>(
    tools: &'a [ToolSummary],
    names: &str,
) -> Result<(Vec<&'a ToolSummary>, Vec<String>)> {
    let mut hits: Vec<&ToolSummary> = Vec::new();
    let mut missing = Vec::new();
    for name in names
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let is = |tool: &&ToolSummary| {
            let mut names = std::iter::once(&tool.name).chain(&tool.aliases);
            names.any(|known| known.eq_ignore_ascii_case(name))
        };
        match tools.iter().find(is) {
            Some(tool) if hits.iter().any(|hit| hit.name == tool.name) => {}
            Some(tool) => hits.push(tool),
            None => missing.push(inline(name, 64)),
        }
    }
    if hits.is_empty() && missing.is_empty() {
        let message = "no name after `select:`; write `select:read_file,grep`, for example";
        return Err(Error::invalid_input(message).code("invalid_query"));
    }
    Ok((hits, missing))
}

fn unknown(tools: &[ToolSummary], missing: &[String]) -> Error {
    let mut message = format!(
        "Tool {} not found",
        missing
            .iter()
            .map(|name| format!("{name:?}"))
            .collect::<Vec<_>>()
            .join(", ")
    );
    let near = missing
        .first()
        .and_then(|name| nearest(name, tools.iter().map(|tool| tool.name.as_str())));
    if let Some(near) = near {
        push!(message, ". Did you mean: {near}?");
    }
    Error::not_found(message)
        .code("tool_not_registered")
        .recommend("search with keywords for what it should do")
}

impl SearchHit {
    fn of(tool: &ToolSummary) -> Self {
        let small = tool.input_schema.to_string().len() <= MOST_SCHEMA_BYTES;
        Self {
            name: inline(&tool.name, 64),
            plugin: inline(&tool.plugin, 64),
            description: truncate(tool.description.trim(), MOST_DESCRIPTION_CHARS),
            input_schema: if small {
                tool.input_schema.clone()
            } else {
                Value::Null
            },
        }
    }
}

impl SearchResults {
    fn outcome(&self, query: &str, all: usize) -> Outcome {
        let mut lines: Vec<String> = self
            .tools
            .iter()
            .map(
                |SearchHit {
                     name,
                     plugin,
                     description,
                     input_schema,
                 }| {
                    let schema = match input_schema {
                        Value::Null => "larger than is shown".to_owned(),
                        schema => schema.to_string(),
                    };
                    format!("{name} (plugin {plugin}): {description}\nparameters: {schema}")
                },
            )
            .collect();
        let shown = self.tools.len();
        if self.total == 0 {
            lines.push(format!(
                "none of {} matches {:?}; try other or fewer keywords",
                count(all, "tool"),
                inline(query, 200)
            ));
        } else if shown < self.total {
            lines.push(format!(
                "(showing {shown} of {} matches; raise `limit` or add keywords)",
                self.total
            ));
        }
        if !self.missing.is_empty() {
            lines.push(format!("(not found: {})", self.missing.join(", ")));
        }
        Outcome::text(lines.join("\n\n"))
            .summary(format!("{} found", count(self.total, "tool")))
            .structured(self)
    }
}

#[cfg(test)]
mod tests;
