//! Warnings about settings that match nothing loaded, such as a misspelled tool. Rules are checked by the policy.

use toolhost::Settings;
use toolhost_contract::{nearest, text};
use toolhost_kernel::{RegistrySnapshot, ToolEntry};

/// Returns one warning for each unmatched name. `plugins` are the names of the loaded plugins.
pub fn unmatched_settings(
    settings: &Settings,
    registry: &RegistrySnapshot,
    plugins: &[&str],
) -> Vec<String> {
    let mut tools: Vec<&str> = Vec::new();
    for entry in registry.list_all() {
        // A rule may use the tool's own name even after qualification gave it another.
        tools.extend([entry.name.as_str(), entry.tool.name.as_str()]);
    }
    let mut warnings = Vec::new();
    let mut check = |kind: &str, name: &str, known: bool, names: &[&str]| {
        if known {
            return;
        }
        let near = nearest(name, names.iter().copied(), 1);
        let near = near
            .first()
            .map(|near| format!("; did you mean `{near}`?"))
            .unwrap_or_default();
        let warning = format!("{kind} `{name}` matches nothing loaded{near}");
        if !warnings.contains(&warning) {
            warnings.push(warning);
        }
    };
    for tool in settings
        .tool_timeouts
        .keys()
        .chain(settings.tool_versions.keys())
    {
        let known = registry.name_of(tool.as_str()).is_some();
        check("tool", tool.as_str(), known, &tools);
    }
    for tool in settings
        .disabled_tools
        .iter()
        .chain(settings.only_tools.iter().flatten())
    {
        check("tool", tool, registry.name_of(tool).is_some(), &tools);
    }
    let listable = [&["core", "all"], plugins, &tools].concat();
    for name in settings.listed_tools.names() {
        let known = plugins.contains(&name) || registry.name_of(name).is_some();
        check("listed tool", name, known, &listable);
    }
    for plugin in settings.per_plugin.keys() {
        check(
            "[plugin]",
            plugin.as_str(),
            plugins.contains(&plugin.as_str()),
            plugins,
        );
    }
    for hook in &settings.hooks {
        let matcher = &hook.matcher;
        let mut entries = registry.list_all();
        // Tools of servers are registered once their server is connected.
        let comes_later = matcher.to_string().contains("__");
        let matches =
            |entry: &ToolEntry| matcher.matches_tool(&entry.plugin.name, &entry.name, &entry.tool);
        if !comes_later && !entries.any(matches) {
            let (name, shown) = (
                text::escape_line(&hook.name, 80),
                text::escape_line(&matcher.to_string(), 200),
            );
            warnings.push(format!(
                "hook `{name}` never runs: its matcher `{shown}` matches no loaded tool"
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use toolhost_contract::{Descriptor, ToolName};

    use super::*;
    use crate::testing;

    fn check(arguments: &[&str], toml: &str, expected: &[&str]) {
        let grep = Descriptor::new(ToolName::parse("grep").unwrap(), "");
        let kernel = testing::kernel("search", vec![grep]);
        let settings = testing::settings(arguments, toml).unwrap();
        assert_eq!(
            unmatched_settings(&settings.core, &kernel.registry(), &["search"]),
            expected,
            "{arguments:?} {toml}"
        );
    }

    #[test]
    fn names_that_match_nothing_are_warnings() {
        check(
            &[
                "--deny-tool",
                "grep",
                "--allow-tool",
                "search/*",
                "--allow-tool",
                "*",
            ],
            "",
            &[],
        );
        check(
            &["--deny-tool", "search/grep"],
            "[tools.grep]\ntimeout = \"5s\"\n[plugin.search]\n",
            &[],
        );
        check(
            &[],
            "use_tools = [\"grepp\"]\n[plugin.serach]\n",
            &[
                "tool `grepp` matches nothing loaded; did you mean `grep`?",
                "[plugin] `serach` matches nothing loaded; did you mean `search`?",
            ],
        );
        check(
            &["--tools", "core,search,gerp"],
            "",
            &["listed tool `gerp` matches nothing loaded; did you mean `grep`?"],
        );
        check(
            &["--tools", "cor,serch"],
            "",
            &[
                "listed tool `cor` matches nothing loaded; did you mean `core`?",
                "listed tool `serch` matches nothing loaded; did you mean `search`?",
            ],
        );
        check(
            &[],
            "[[hook]]\nname = \"one\"\ncommand = [\"true\"]\nmatcher = \"grep|edit_file\"\n\
             [[hook]]\nname = \"two\"\ncommand = [\"true\"]\nmatcher = \"mcp__.*\"\n\
             [[hook]]\nname = \"guard\"\ncommand = [\"true\"]\nmatcher = \"gerp\"\n",
            &["hook `guard` never runs: its matcher `gerp` matches no loaded tool"],
        );
    }
}
