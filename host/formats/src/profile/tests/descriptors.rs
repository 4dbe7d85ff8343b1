//! Tests of listed hints, examples and schemas, and that listed tools can be called.

use expect_test::expect;
use serde_json::{Value, json};

use super::fixture;
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
