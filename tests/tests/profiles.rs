//! The tools that a model sees with each profile, as `host tools --profile X --json` lists them, and the generated table
//! of tools in docs/tools.md.

use std::fmt::Write as _;

use e2e::{root, run};
use expect_test::expect_file;
use serde_json::Value;

fn list(arguments: &[&str]) -> String {
    let plugins = root().join("plugins").display().to_string();
    let listed = run(&[arguments, &["--json", "--no-store", "--plugins", &plugins]].concat());
    assert_eq!(listed.code, Some(0), "{listed:?}");
    listed.stdout
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&list(arguments)).unwrap()
}

fn check(profile: &str) {
    let golden = root().join(format!("tests/profiles/{profile}.json"));
    expect_file![golden].assert_eq(&list(&["tools", "--profile", profile]));
}

#[test]
fn our_own_tools_are_these() {
    check("native");
}

#[test]
fn the_tools_of_claude_code_are_these() {
    check("claude");
}

#[test]
fn the_tools_of_sema_are_these() {
    check("sema");
}

#[test]
fn the_tools_of_gemini_cli_are_these() {
    check("gemini");
}

#[test]
fn the_tools_of_kode_are_these() {
    check("kode");
}

#[test]
fn the_tools_of_pegasus_are_these() {
    check("pegasus");
}

/// A model is charged for the definitions of all tools with every request.
#[test]
fn the_definitions_of_shipped_tools_stay_within_37_kib() {
    let plugins = root().join("plugins").display().to_string();
    let args = ["tools", "--cost", "--no-store", "--plugins", &plugins];
    let listed = run(&args);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let total = listed.stdout.lines().last().unwrap_or_default();
    let numbers: Vec<usize> = total
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [tools, bytes, _tokens] = numbers[..] else {
        panic!("no total: {total}")
    };
    assert!(tools >= 50, "{total}");
    assert!(bytes <= 37 << 10, "{}", listed.stdout);
}

/// The other tools stay reachable through `tool_search` and `tool_chain`.
#[test]
fn a_tool_set_limits_the_list_and_not_the_calls() {
    let plugins = root().join("plugins").display().to_string();
    let format = |set: &str| {
        let args = [
            "tools",
            "--format",
            "anthropic",
            "--no-store",
            "--plugins",
            &plugins,
        ];
        let listed = run(&[&args[..], &["--tools", set]].concat());
        assert_eq!(listed.code, Some(0), "{listed:?}");
        let tools: Value = serde_json::from_str(&listed.stdout).unwrap();
        let names = tools.as_array().unwrap().iter();
        let names: Vec<String> = names
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect();
        (names.join(" "), tools.to_string().len())
    };
    let (core, bytes) = format("core");
    assert_eq!(
        core,
        "ask_user edit_file glob grep list_directory read_file shell todo_write tool_chain tool_search web_fetch \
         write_file"
    );
    assert!(bytes <= 17 << 10, "{bytes}");
    assert_eq!(format("search").0, "glob grep tool_chain tool_search");
    assert_eq!(
        format("search,read_file").0,
        "glob grep read_file tool_chain tool_search"
    );
    assert_eq!(
        format("core,all").0.split(' ').count(),
        format("all").0.split(' ').count()
    );

    let hidden = ["--no-store", "--plugins", &plugins, "--tools", "search"];
    for (tool, input, expected) in [
        ("current_time", "{}", "UTC"),
        (
            "tool_search",
            r#"{"query": "select:move_file"}"#,
            "move_file (plugin files)",
        ),
        (
            "tool_chain",
            r#"{"steps": [{"tool": "current_time"}]}"#,
            "1 step: 1 completed",
        ),
    ] {
        let called = run(&[&["call", tool, input][..], &hidden].concat());
        assert_eq!(called.code, Some(0), "{called:?}");
        assert!(called.stdout.contains(expected), "{called:?}");
    }
}

const BEGIN: &str = "<!-- tools: written by tests/tests/profiles.rs, with UPDATE_EXPECT=1 -->\n\n";
const END: &str = "\n<!-- end of tools -->\n";

#[test]
fn the_table_of_tools_matches_the_plugins() {
    let (plugins, tools) = (json(&["plugins"]), json(&["tools"]));
    let mut table = "| plugin | tools | needs |\n|---|---|---|\n".to_owned();
    for plugin in plugins["plugins"].as_array().unwrap() {
        let name = plugin["name"].as_str().unwrap();
        let description = sentence(plugin["description"].as_str().unwrap());
        let offers = offers(plugin, tools.as_array().unwrap());
        let needs = needs(plugin);
        let _ = writeln!(
            table,
            "| **{name}** | {description}<br>{offers} | {needs} |"
        );
    }
    let path = root().join("docs/tools.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(BEGIN).expect("docs/tools.md has the table");
    let (_, after) = rest.split_once(END).expect("the table has an end");
    expect_file![path].assert_eq(&format!("{before}{BEGIN}{table}{END}{after}"));
}

/// Its tools, by what they may do to the world.
fn offers(plugin: &Value, tools: &[Value]) -> String {
    let own = plugin["tools"].as_array().unwrap();
    if own.is_empty() {
        return "a hook, active when `[[hook]]` names it".to_owned();
    }
    let mut groups: Vec<(&str, Vec<String>)> = ["pure", "reads", "writes", "destroys"]
        .map(|effect| (effect, Vec::new()))
        .into();
    for name in own {
        let tool = tools.iter().find(|tool| tool["name"] == *name);
        let tool = tool.unwrap_or_else(|| panic!("{name} is not listed"));
        let group = groups
            .iter_mut()
            .find(|(effect, _)| tool["effect"] == *effect);
        let group = group.unwrap_or_else(|| panic!("{name} has another effect"));
        group.1.push(format!("`{}`", name.as_str().unwrap()));
    }
    let groups = groups.into_iter().filter(|(_, names)| !names.is_empty());
    let groups = groups.map(|(effect, names)| format!("*{effect}* {}", names.join(", ")));
    groups.collect::<Vec<_>>().join("<br>")
}

/// What its manifest asks for; a plugin gets nothing of it that was not granted.
fn needs(plugin: &Value) -> String {
    let needs = plugin["needs"].as_array().unwrap().iter().map(|need| {
        let capability = need["capability"].as_str().unwrap();
        let names = need["names"].as_array().into_iter().flatten();
        let names = names.map(|name| format!("`{}`", name.as_str().unwrap()));
        let names: Vec<String> = names.filter(|name| name != "`*`").collect();
        if names.is_empty() {
            format!("`{capability}`")
        } else {
            format!("`{capability}` ({})", names.join(", "))
        }
    });
    let needs: Vec<String> = needs.collect();
    if needs.is_empty() {
        "nothing".to_owned()
    } else {
        needs.join(", ")
    }
}

fn sentence(text: &str) -> String {
    let text = text.trim_end_matches('.').replace('|', "\\|");
    format!("{}.", text.replace('\n', " "))
}
