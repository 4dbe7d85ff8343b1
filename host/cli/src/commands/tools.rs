//! `host tools`: lists tools.

use std::collections::{BTreeSet, HashMap};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use toolhost_contract::{ToolName, text};
use toolhost_formats::model::{Format, ListedTool};
use toolhost_formats::profile::{Profile, ProfiledRegistry, ProfiledTool};
use toolhost_kernel::{RegistrySnapshot, ToolEntry, sort_by_display_name};

use super::load_for_listing;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::ListArgs;
use crate::json as shapes;
use crate::load::servers::NOT_SANDBOXED;
use crate::terminal::style::table;
use crate::terminal::{note, print};
use crate::value_parsers::format_parser;

/// A rule of thumb for JSON and English text.
const BYTES_PER_TOKEN: usize = 4;

#[derive(Debug, Args)]
pub struct ToolsArgs {
    /// Print the tools as in a request to this API
    #[arg(long, value_name = "API", value_parser = format_parser())]
    pub format: Option<Format>,

    /// Request strict schema adherence where API and schemas support it
    #[arg(long, requires = "format")]
    pub strict: bool,

    /// Print the size of each tool's definition in bytes and estimated tokens, as --format lists it (default: anthropic)
    #[arg(long, conflicts_with = "json")]
    pub cost: bool,

    /// List only the tools of this category
    #[arg(long, value_name = "CATEGORY")]
    pub category: Option<String>,

    /// The order of the list
    #[arg(long, value_name = "KEY", value_enum, default_value_t = SortKey::Name, conflicts_with = "cost")]
    pub sort: SortKey,

    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// By name
    Name,
    /// By the name for display
    Title,
}

pub async fn tools(args: ToolsArgs) -> Result<Exit, CliError> {
    let ToolsArgs {
        format,
        strict,
        cost,
        category,
        sort,
        list: args,
    } = args;
    if let Some(format) = format.filter(|format| strict && !format.supports_strict()) {
        let strict = Format::ALL.into_iter().filter(|one| one.supports_strict());
        let names: Vec<_> = strict.map(Format::as_str).collect();
        let message = format!(
            "--strict requires the format {}; `{format}` does not support it",
            names.join(" or ")
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    let host = load_for_listing(&args.host).await?;
    host.require_plugins()?;
    let registry = host.kernel.registry();
    let mut entries = selected(&registry, category.as_deref(), sort)?;
    if let Some(set) = &args.host.tools {
        entries.retain(|entry| set.contains(entry.plugin.name.as_str(), entry.tool.name.as_str()));
    }
    let (profile, others) = host.settings.core.profile_view;
    let profiled = || {
        let all = ProfiledRegistry::new(profile, others, registry.descriptors());
        in_order_of(&entries, all.list())
    };
    let format = format.or(cost.then_some(Format::Anthropic));
    let shown = if let Some(format) = format {
        let profiled = profiled();
        let tools: Vec<ListedTool> = profiled
            .iter()
            .filter_map(|one| {
                let entry = registry.get(one.canonical.as_str())?;
                host.kernel.is_listed(entry).then(|| ListedTool {
                    name: &one.name,
                    tool: &one.descriptor,
                    hints: entry.hints(),
                })
            })
            .collect();
        if cost {
            cost_table(&tools, format, strict)
        } else {
            let listed = format.tool_list(&tools, strict);
            for remark in &listed.notes {
                note(&format!("note: {remark}"));
            }
            shapes::pretty(&listed.tools).or_exit(Exit::Internal)?
        }
    } else if args.json {
        let tools = match profile {
            Profile::Native => native_to_json(&registry, &entries),
            _ => profiled().iter().map(shapes::shown).collect(),
        };
        shapes::pretty(&Value::Array(tools)).or_exit(Exit::Internal)?
    } else {
        match profile {
            Profile::Native => tool_table(&registry, entries),
            _ => profile_table(&profiled()),
        }
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// All tools, or those of one category, in this order.
fn selected<'a>(
    registry: &'a RegistrySnapshot,
    category: Option<&str>,
    sort: SortKey,
) -> Result<Vec<&'a ToolEntry>, CliError> {
    let mut entries: Vec<&ToolEntry> = registry
        .list_all()
        .filter(|entry| category.is_none_or(|category| entry.tool.category == category))
        .collect();
    if let Some(category) = category.filter(|_| entries.is_empty()) {
        let categories: BTreeSet<String> = registry
            .list_all()
            .map(|entry| text::escape_line(&entry.tool.category, 64))
            .collect();
        let categories: Vec<String> = categories.into_iter().collect();
        let message = format!(
            "no tool has the category `{}`; categories: {}",
            text::escape_line(category, 64),
            categories.join(", ")
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    if sort == SortKey::Title {
        sort_by_display_name(&mut entries);
    }
    Ok(entries)
}

/// The tools of `profiled` that are among `entries`, in their order.
fn in_order_of(entries: &[&ToolEntry], profiled: Vec<ProfiledTool>) -> Vec<ProfiledTool> {
    let position: HashMap<&ToolName, usize> = entries
        .iter()
        .enumerate()
        .map(|(position, entry)| (&entry.name, position))
        .collect();
    let mut selected: Vec<(usize, ProfiledTool)> = profiled
        .into_iter()
        .filter_map(|one| Some((*position.get(&one.canonical)?, one)))
        .collect();
    selected.sort_by_key(|(position, _)| *position);
    selected.into_iter().map(|(_, one)| one).collect()
}

/// The size of each definition, largest first. Models are charged for it with every request.
fn cost_table(tools: &[ListedTool], format: Format, strict: bool) -> String {
    let size = |tools: &[ListedTool]| format.tool_list(tools, strict).tools.to_string().len();
    let mut rows: Vec<(String, usize)> = tools
        .iter()
        .map(|tool| {
            let name = text::escape_line(tool.name, 64);
            (name, size(std::slice::from_ref(tool)))
        })
        .collect();
    rows.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    rows.push((format!("{} tools", tools.len()), size(tools)));
    table(
        &["TOOL", "BYTES", "TOKENS"],
        rows.into_iter().map(|(name, bytes)| {
            vec![
                name,
                bytes.to_string(),
                bytes.div_ceil(BYTES_PER_TOKEN).to_string(),
            ]
        }),
    )
}

/// The tools as the profile's model sees them, with the canonical names that rules and records use.
fn profile_table(shown: &[ProfiledTool]) -> String {
    table(
        &["TOOL", "CANONICAL", "DESCRIPTION"],
        shown.iter().map(|one| {
            vec![
                text::escape_line(&one.name, 64),
                one.canonical.to_string(),
                first_sentence(&one.descriptor.description),
            ]
        }),
    )
}

fn native_to_json(registry: &RegistrySnapshot, entries: &[&ToolEntry]) -> Vec<Value> {
    let tools = entries.iter().map(|entry| {
        let mut shown = shapes::entry(entry);
        shown["sandboxed"] = json!(is_sandboxed(entry));
        let versions = versions(registry, entry);
        if !versions.is_empty() {
            shown["versions"] = Value::Array(versions.iter().map(ToolVersionRow::json).collect());
        }
        shown
    });
    tools.collect()
}

pub fn tool_table<'a>(
    registry: &RegistrySnapshot,
    entries: impl IntoIterator<Item = &'a ToolEntry>,
) -> String {
    table(
        &["TOOL", "EFFECT", "PLUGIN", "DESCRIPTION"],
        entries.into_iter().flat_map(|entry| {
            let off = if entry.enabled { "" } else { "(disabled) " };
            let bare = if is_sandboxed(entry) {
                ""
            } else {
                "(not sandboxed) "
            };
            let listed = vec![
                entry.name.to_string(),
                entry.tool.effect().as_str().to_owned(),
                entry.plugin.name.to_string(),
                format!("{off}{bare}{}", first_sentence(&entry.tool.description)),
            ];
            let versions = versions(registry, entry);
            let versions: Vec<_> = versions.iter().map(ToolVersionRow::cells).collect();
            [listed].into_iter().chain(versions)
        }),
    )
}

/// Whether the tool runs in the sandbox. Tools of other programs do not.
fn is_sandboxed(entry: &ToolEntry) -> bool {
    !entry.tool.tags.iter().any(|tag| tag == NOT_SANDBOXED)
}

/// One of several implementations of a tool.
struct ToolVersionRow<'a> {
    entry: &'a ToolEntry,
    is_selected: bool,
    /// The weight in an A/B test.
    weight: Option<u32>,
}

/// All implementations with the tool's name, or an empty list if there is only one.
fn versions<'a>(registry: &'a RegistrySnapshot, listed: &ToolEntry) -> Vec<ToolVersionRow<'a>> {
    let stats = registry.stats();
    let version = |entry: &'a ToolEntry| ToolVersionRow {
        entry,
        is_selected: registry.is_served(entry),
        weight: stats
            .variants
            .iter()
            .find(|one| {
                (&one.tool, &one.plugin, &one.version)
                    == (&entry.name, &entry.plugin.name, &entry.version)
            })
            .map(|one| one.weight),
    };
    let all: Vec<_> = registry.versions(&listed.name).map(version).collect();
    if all.len() > 1 { all } else { Vec::new() }
}

impl ToolVersionRow<'_> {
    fn cells(&self) -> Vec<String> {
        let Self {
            entry,
            is_selected: served,
            ..
        } = self;
        let mut notes = Vec::new();
        if !entry.enabled {
            notes.push("disabled".to_owned());
        }
        notes.extend(served.then(|| "selected by name".to_owned()));
        notes.extend(
            self.weight
                .map(|weight| format!("A/B test, weight {weight}")),
        );
        vec![
            format!("  @{}", entry.version),
            entry.tool.effect().as_str().to_owned(),
            entry.plugin.name.to_string(),
            notes.join(", "),
        ]
    }

    fn json(&self) -> Value {
        let mut shown = json!({
            "version": self.entry.version.to_string(),
            "plugin": self.entry.plugin.name,
            "digest": self.entry.plugin.digest.map(|digest| digest.to_string()),
            "enabled": self.entry.enabled,
            "served": self.is_selected,
        });
        if let Some(weight) = self.weight {
            shown["weight"] = json!(weight);
        }
        shown
    }
}

/// The first sentence for a cell of a table, escaped and cut.
fn first_sentence(description: &str) -> String {
    const MAX: usize = 100;
    let line = description.lines().next().unwrap_or_default();
    let sentence = line
        .split_once(". ")
        .map_or(line, |(sentence, _)| sentence)
        .trim_end_matches('.');
    if sentence.chars().count() <= MAX {
        return text::escape_line(sentence, MAX);
    }
    let head: String = sentence.chars().take(MAX - 1).collect();
    text::escape_line(&head, MAX) + "…"
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use toolhost_contract::Descriptor;

    use super::*;
    use crate::testing;

    // R-493
    #[test]
    fn r_493_versions_of_a_tool_are_listed_with_the_selected_one() {
        let tool = |version: &str| {
            let mut tool = Descriptor::new(ToolName::parse("grep").unwrap(), "Finds text. Fast.");
            version.clone_into(&mut tool.version);
            tool.annotations.read_only = Some(true);
            tool
        };
        let kernel = testing::kernel("search", vec![tool("1.0.0")]);
        let table = |registry: &RegistrySnapshot| tool_table(registry, registry.list_all());
        let only = table(&kernel.registry());
        assert!(!only.contains('@'), "{only}");
        testing::register(&kernel, "search", "1.1.0", vec![tool("1.1.0")]);
        expect![[r#"
            TOOL      EFFECT  PLUGIN  DESCRIPTION
            grep      reads   search  Finds text
              @1.1.0  reads   search  selected by name
              @1.0.0  reads   search
        "#]]
        .assert_eq(&table(&kernel.registry()));
        let registry = kernel.registry();
        let listed = registry.get("grep").unwrap();
        let shown: Vec<String> = versions(&registry, listed)
            .iter()
            .map(|one| one.json().to_string())
            .collect();
        expect![[r#"
            {"version":"1.1.0","plugin":"search","digest":null,"enabled":true,"served":true}
            {"version":"1.0.0","plugin":"search","digest":null,"enabled":true,"served":false}"#]]
        .assert_eq(&shown.join("\n"));
    }

    #[test]
    fn a_long_sentence_is_cut() {
        assert_eq!(first_sentence("One.\u{1b} Two. Three"), "One.\\u{1b} Two");
        assert_eq!(first_sentence(&"a".repeat(100)), "a".repeat(100));
        assert_eq!(first_sentence(&"a".repeat(101)), "a".repeat(99) + "…");
    }

    #[test]
    fn r_070_r_071_tools_are_selected_by_category_and_sorted_by_title() {
        let tool = |name: &str, category: &str, title: &str| {
            let mut tool = Descriptor::new(ToolName::parse(name).unwrap(), "");
            category.clone_into(&mut tool.category);
            title.clone_into(&mut tool.display_name);
            tool
        };
        let tools = vec![
            tool("a", "files", "zebra"),
            tool("b", "web", "Middle"),
            tool("c", "files", "Apple"),
        ];
        let kernel = testing::kernel("p", tools);
        let registry = kernel.registry();
        let names = |category, sort| {
            selected(&registry, category, sort).map(|entries| {
                let names = entries.iter().map(|entry| entry.name.to_string());
                names.collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(names(None, SortKey::Name).unwrap(), "a b c");
        assert_eq!(names(None, SortKey::Title).unwrap(), "c b a");
        assert_eq!(names(Some("files"), SortKey::Title).unwrap(), "c a");
        expect!["no tool has the category `mail`; categories: files, web"].assert_eq(
            &names(Some("mail"), SortKey::Name)
                .unwrap_err()
                .error
                .to_string(),
        );
    }
}
