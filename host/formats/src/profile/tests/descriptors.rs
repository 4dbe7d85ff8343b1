//! Tests of listed hints, examples and schemas, and that listed tools can be called.

use std::collections::BTreeSet;

use expect_test::expect;
use serde_json::{Value, json};

use super::fixture;
use super::notes::shipped;
use crate::profile::clauses::UNUSABLE;
use crate::profile::mapping::BUILT_IN;
use crate::profile::{Profile, UnmappedTools};
use toolhost_contract::Effect;

// R-300, R-304, R-306, R-307, R-308, R-309, R-310, R-311, R-350, R-351; C-01
#[test]
fn r_310_read_only_hints_match_the_agent() {
    let mut tools = fixture::tools();
    for tool in &mut tools {
        tool.annotations.read_only = Some(tool.name.as_str() != "shell");
    }
    let changing = |profile| {
        let shown = fixture::lens(profile, &tools).list();
        let changing = shown
            .iter()
            .filter(|one| one.descriptor.effect() > Effect::Reads);
        let names: Vec<_> = changing
            .map(|one| format!("{} {}", one.name, one.descriptor.effect().as_str()))
            .collect();
        names.join(", ")
    };
    assert_eq!(changing(Profile::Claude), "Bash destroys");
    assert_eq!(
        changing(Profile::Sema),
        "Bash destroys, TodoWrite writes, Task writes, Skill writes, AskUserQuestion writes, ExitPlanMode writes"
    );
    assert_eq!(
        changing(Profile::Kode),
        "bash_run destroys, todo_write writes, task_run writes"
    );
}

#[test]
fn only_expressible_examples_are_listed() {
    let grep = fixture::tools()
        .into_iter()
        .find(|tool| tool.name.as_str() == "grep")
        .unwrap();
    let inputs = [
        json!({"pattern": "x", "output_mode": "content", "case_insensitive": true}),
        json!({"pattern": "x", "output_mode": "files_with_matches"}),
        json!({"pattern": "x", "output_mode": "count"}),
        json!({"pattern": "x", "word": true}),
        json!({"pattern": "x"}),
    ];
    let grep = inputs.into_iter().fold(grep, fixture::with_example);
    let shown = |profile| {
        let shown = fixture::lens(profile, std::slice::from_ref(&grep)).list();
        let examples = shown[0].descriptor.examples.iter();
        let examples: Vec<_> = examples.map(|one| one.input.to_string()).collect();
        examples.join("\n")
    };
    expect![[r#"
        {"pattern":"x"}
        {"pattern":"x","names_only":true,"case_sensitive":true}"#]]
    .assert_eq(&shown(Profile::Gemini));
    expect![[r#"
        {"pattern":"x","output_mode":"content","-i":true}
        {"pattern":"x","output_mode":"files_with_matches"}
        {"pattern":"x","output_mode":"count"}
        {"pattern":"x"}"#]]
    .assert_eq(&shown(Profile::Claude));
}

#[test]
fn examples_have_parameters_that_the_agent_requires() {
    let task = fixture::tool("task", "prompt:s! description:s agent:s=general");
    let task = fixture::with_example(task, json!({"prompt": "p", "description": "d"}));
    let task = fixture::with_example(task, json!({"prompt": "p"}));
    let shown = fixture::lens(Profile::Claude, std::slice::from_ref(&task)).list();
    let [example] = &shown[0].descriptor.examples[..] else {
        panic!("{shown:?}");
    };
    assert_eq!(
        example.input.to_string(),
        r#"{"prompt":"p","description":"d","subagent_type":"general"}"#
    );
}

#[test]
fn shaped_results_have_no_output_schema() {
    let tools = fixture::tools();
    for (profile, name, has) in [
        (Profile::Native, "read_file", true),
        (Profile::Claude, "Read", true),
        (Profile::Gemini, "grep_search", true),
        (Profile::Kode, "fs_read", false),
        (Profile::Kode, "task_run", true),
        (Profile::Pegasus, "read_file", false),
        (Profile::Pegasus, "use_skill", true),
    ] {
        let shown = fixture::lens(profile, &tools).list();
        let tool = shown.iter().find(|one| one.name == name).unwrap();
        assert_eq!(tool.descriptor.output_schema.is_some(), has, "{name}");
    }
}

/// Every listed tool can be called: each required parameter, as listed, reaches the tool.
#[test]
fn listed_tools_can_be_called() {
    let tools = fixture::tools();
    for profile in Profile::ALL {
        let lens = fixture::lens_with(profile, UnmappedTools::All, &tools);
        for shown in lens.list() {
            let schema = &shown.descriptor.input_schema;
            let names = schema["required"].as_array().cloned().unwrap_or_default();
            let input: serde_json::Map<String, Value> = names
                .iter()
                .map(|name| (name.as_str().unwrap().to_owned(), json!("x")))
                .collect();
            let (canonical, input) = lens.accept(&shown.name, Value::Object(input));
            assert_eq!(canonical, shown.canonical.as_str());
            let tool = tools
                .iter()
                .find(|tool| tool.name == shown.canonical)
                .unwrap();
            for name in tool.input_schema["required"]
                .as_array()
                .into_iter()
                .flatten()
            {
                let name = name.as_str().unwrap();
                assert!(
                    input.get(name).is_some(),
                    "{profile} {}: {name}",
                    shown.name
                );
            }
            for name in input.as_object().unwrap().keys() {
                let known = &tool.input_schema["properties"][name];
                assert!(known.is_object(), "{profile} {}: {name}", shown.name);
            }
        }
    }
}

fn property_names(schema: &Value, names: &mut BTreeSet<String>) {
    let members = schema.as_object().into_iter().flatten();
    for (name, member) in members {
        if name == "properties" {
            names.extend(
                member
                    .as_object()
                    .into_iter()
                    .flat_map(|all| all.keys().cloned()),
            );
        }
        property_names(member, names);
    }
}

fn descriptions(schema: &Value, found: &mut Vec<String>) {
    for (name, member) in schema.as_object().into_iter().flatten() {
        match member {
            Value::String(text) if name == "description" => found.push(text.clone()),
            _ => descriptions(member, found),
        }
    }
}

/// The model cannot use what its list does not name. Words without underscores are names only in backticks.
#[test]
fn descriptions_name_only_listed_tools_and_parameters() {
    let tools = shipped();
    for profile in Profile::ALL {
        let listed = fixture::lens(profile, &tools).list();
        for one in &listed {
            let own = tools
                .iter()
                .find(|tool| tool.name == one.canonical)
                .unwrap();
            let (mut canonical, mut shown) = (BTreeSet::new(), BTreeSet::new());
            property_names(&own.input_schema, &mut canonical);
            property_names(&one.descriptor.input_schema, &mut shown);
            let mut hidden: Vec<&str> = canonical.difference(&shown).map(String::as_str).collect();
            let is_listed =
                |name: &str| shown.contains(name) || listed.iter().any(|one| one.name == name);
            hidden.extend(BUILT_IN.iter().filter(|name| !is_listed(name)));
            let mut texts = vec![one.descriptor.description.clone()];
            descriptions(&one.descriptor.input_schema, &mut texts);
            for text in texts {
                // Canonical names are accepted in every profile.
                let text = text.replace("`select:read_file,grep`", "");
                assert!(
                    !text.is_empty() && !text.contains(UNUSABLE),
                    "{profile} {}",
                    one.name
                );
                let words: Vec<_> = text
                    .split(|c: char| !c.is_alphanumeric() && c != '_')
                    .collect();
                for name in &hidden {
                    let is_word = name.contains('_') && words.contains(name);
                    let is_named = is_word || text.contains(&format!("`{name}`"));
                    assert!(!is_named, "{profile} {}: {name} in {text:?}", one.name);
                }
            }
        }
    }
}
