//! `host tools`: lists tools.

use clap::Args;
use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_formats::model::{Format, ListedTool};
use toolhost_formats::profile::{Profile, ProfiledRegistry, ProfiledTool};
use toolhost_kernel::{RegistrySnapshot, ToolEntry};

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

    #[command(flatten)]
    pub list: ListArgs,
}

pub async fn tools(args: ToolsArgs) -> Result<Exit, CliError> {
    let ToolsArgs {
        format,
        strict,
        cost,
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
    let format = format.or(cost.then_some(Format::Anthropic));
    let shown = if let Some(format) = format {
        let profiled = ProfiledRegistry::new(
            host.settings.profile,
            host.settings.others,
            registry.descriptors(),
        )
        .list();
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
        let tools = match host.settings.profile {
            Profile::Native => Value::Array(native_to_json(&registry)),
            profile => {
                let shown =
                    ProfiledRegistry::new(profile, host.settings.others, registry.descriptors())
                        .list();
                Value::Array(shown.iter().map(shapes::shown).collect())
            }
        };
        shapes::pretty(&tools).or_exit(Exit::Internal)?
    } else {
        match host.settings.profile {
            Profile::Native => tool_table(&registry),
            profile => profile_table(
                &ProfiledRegistry::new(profile, host.settings.others, registry.descriptors())
                    .list(),
            ),
        }
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
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
                text::escape_line(first_sentence(&one.descriptor.description), 100),
            ]
        }),
    )
}

fn native_to_json(registry: &RegistrySnapshot) -> Vec<Value> {
    let tools = registry.list_all().map(|entry| {
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

pub fn tool_table(registry: &RegistrySnapshot) -> String {
    table(
        &["TOOL", "EFFECT", "PLUGIN", "DESCRIPTION"],
        registry.list_all().flat_map(|entry| {
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
                format!(
                    "{off}{bare}{}",
                    text::escape_line(first_sentence(&entry.tool.description), 100)
                ),
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

fn first_sentence(description: &str) -> &str {
    let line = description.lines().next().unwrap_or_default();
    line.split_once(". ")
        .map_or(line, |(sentence, _)| sentence)
        .trim_end_matches('.')
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use toolhost_contract::{Descriptor, ToolName};

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
        let only = tool_table(&kernel.registry());
        assert!(!only.contains('@'), "{only}");
        testing::register(&kernel, "search", "1.1.0", vec![tool("1.1.0")]);
        expect![[r#"
            TOOL      EFFECT  PLUGIN  DESCRIPTION
            grep      reads   search  Finds text
              @1.1.0  reads   search  selected by name
              @1.0.0  reads   search
        "#]]
        .assert_eq(&tool_table(&kernel.registry()));
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
}
