//! Tests of the translation of calls in each profile.

use std::fmt::Write as _;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::fixture;
use crate::profile::Profile;

/// Each line of `table` is the model's call, ` → `, the canonical call. A call is a name and its input. What is shown for
/// the canonical call is a call of the model with the same meaning.
fn check(profile: Profile, table: &str) {
    let tools = fixture::tools();
    let lens = fixture::lens(profile, &tools);
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (theirs, expected) = line.split_once(" → ").expect("an arrow");
        let (name, input) = theirs.split_once(' ').expect("a name and an input");
        let input: Value = serde_json::from_str(input).expect(line);
        let (name, input) = lens.accept(name, input);
        assert_eq!(format!("{name} {input}"), expected, "{line}");
        if let Some((shown, theirs)) = lens.agent_call(&name, &input) {
            assert_eq!(lens.accept(shown, theirs), (name, input), "{line}");
        }
    }
}

// R-233
#[test]
fn r_233_canonical_calls_are_shown_with_the_names_of_the_agent() {
    let tools = fixture::tools();
    let mut shown = String::new();
    for (profile, name, input) in [
        (
            Profile::Kode,
            "shell",
            json!({"command": "ls", "run_in_background": true}),
        ),
        (
            Profile::Kode,
            "glob",
            json!({"pattern": "*", "path": "src", "dot": false, "limit": 200}),
        ),
        (
            Profile::Kode,
            "glob",
            json!({"pattern": "*", "dot": true, "sort": "name"}),
        ),
        (Profile::Kode, "fs_read", json!({"path": "a"})),
        (Profile::Kode, "read_file", json!("not an object")),
        // Calls with canonical names that no tool of the agent makes.
        (
            Profile::Pegasus,
            "memory",
            json!({"file": "a.md", "action": "delete"}),
        ),
        (
            Profile::Gemini,
            "memory",
            json!({"file": "a.md", "action": "read"}),
        ),
        (
            Profile::Sema,
            "grep",
            json!({"pattern": "x", "case_insensitive": true}),
        ),
        (
            Profile::Pegasus,
            "memory",
            json!({"file": "a.md", "content": "x", "action": "append"}),
        ),
        (
            Profile::Pegasus,
            "background_run",
            json!({"tool": "shell", "params": {"command": "ls", "timeout_ms": 5}}),
        ),
    ] {
        let lens = fixture::lens(profile, &tools);
        let call = lens.agent_call(name, &input);
        let _ = match call {
            Some((name, input)) => writeln!(shown, "{name} {input}"),
            None => writeln!(shown, "the same"),
        };
    }
    expect![[r#"
        bash_run {"command":"ls","background":true}
        fs_glob {"pattern":"*","cwd":"src"}
        fs_glob {"pattern":"*","dot":true,"sort":"name"}
        the same
        fs_read "not an object"
        the same
        the same
        Grep {"pattern":"x","-i":true}
        memory_append {"path":"a.md","content":"x"}
        bg_run {"tool":"shell_exec","params":{"command":"ls","timeout":5}}
    "#]]
    .assert_eq(&shown);
}

// R-300, R-301, R-302, R-303, R-304, R-305, R-306, R-307, R-308, R-309, R-310, R-311
#[test]
fn r_300_calls_of_sema_are_translated() {
    check(
        Profile::Sema,
        r#"
        Bash {"command":"ls","timeout":5000} → shell {"command":"ls","timeout_ms":5000}
        Bash {"command":"ls"} → shell {"command":"ls","timeout_ms":60000}
        Glob {"pattern":"*.rs","path":"src"} → glob {"pattern":"*.rs","path":"src"}
        Grep {"pattern":"x","-i":true,"-A":3,"output_mode":"content"} → grep {"pattern":"x","case_insensitive":true,"after":3,"output_mode":"content"}
        Read {"file_path":"a.rs","offset":2,"limit":3} → read_file {"path":"a.rs","offset":2,"limit":3}
        Write {"file_path":"a.rs","content":"x"} → write_file {"path":"a.rs","content":"x"}
        Edit {"file_path":"a.rs","old_string":"x","new_string":"y"} → edit_file {"path":"a.rs","old_string":"x","new_string":"y"}
        NotebookEdit {"notebook_path":"a.ipynb","cell_number":0,"new_source":"1"} → notebook_edit {"path":"a.ipynb","cell_number":0,"new_source":"1"}
        TodoWrite {"todos":[{"content":"a","status":"pending","activeForm":"doing a"}]} → todo_write {"todos":[{"content":"a","status":"pending","active_form":"doing a"}]}
        Task {"description":"look","prompt":"look around","subagent_type":"Explore"} → task {"description":"look","prompt":"look around","agent":"Explore"}
        Skill {"skill":"commit","args":"-m x"} → skill {"skill":"commit","args":"-m x"}
        AskUserQuestion {"questions":[{"question":"Which?","header":"Way","multiSelect":true}]} → ask_user {"questions":[{"question":"Which?","header":"Way","multi_select":true}]}
        ExitPlanMode {"planFilePath":"plan.md"} → exit_plan_mode {"plan_path":"plan.md"}
        "#,
    );
}

#[test]
fn calls_and_older_names_of_claude_code_are_translated() {
    check(
        Profile::Claude,
        r#"
        Bash {"command":"ls","run_in_background":true} → shell {"command":"ls","run_in_background":true}
        BashOutput {"bash_id":"b1","filter":"x"} → shell_output {"task_id":"b1","filter":"x"}
        TaskOutput {"task_id":"b1","block":true} → shell_output {"task_id":"b1","block":true}
        KillShell {"shell_id":"b1"} → shell_kill {"task_id":"b1"}
        TaskStop {"task_id":"b1"} → shell_kill {"task_id":"b1"}
        Agent {"description":"d","prompt":"p","subagent_type":"Plan"} → task {"description":"d","prompt":"p","agent":"Plan"}
        MultiEdit {"file_path":"a","edits":[{"old_string":"x","new_string":"y"}]} → multi_edit {"path":"a","edits":[{"old_string":"x","new_string":"y"}]}
        LS {"path":"/","ignore":["x"]} → list_directory {"path":"/","ignore":["x"]}
        ExitPlanMode {"plan":"do it"} → exit_plan_mode {"plan":"do it"}
        WebFetch {"url":"https://a.example","prompt":"what"} → web_fetch {"url":"https://a.example","prompt":"what"}
        ToolSearch {"query":"x","max_results":3} → tool_search {"query":"x","limit":3}
        "#,
    );
}

// R-320, R-321, R-322, R-323, R-324, R-325, R-326, R-327, R-328, R-329
#[test]
fn r_320_calls_of_gemini_are_translated() {
    check(
        Profile::Gemini,
        r#"
        replace {"file_path":"a","instruction":"why","old_string":"x","new_string":"y","allow_multiple":true} → edit_file {"path":"a","instruction":"why","old_string":"x","new_string":"y","replace_all":true}
        read_file {"file_path":"a","start_line":3,"end_line":4} → read_file {"path":"a","offset":3,"end_line":4}
        write_file {"file_path":"a","content":"x"} → write_file {"path":"a","content":"x"}
        glob {"pattern":"*.rs","dir_path":"src","respect_gemini_ignore":false} → glob {"pattern":"*.rs","path":"src","respect_tool_ignore":false,"absolute":true}
        grep_search {"pattern":"x"} → grep {"pattern":"x","output_mode":"content","case_insensitive":true}
        grep_search {"pattern":"x","case_sensitive":true,"names_only":true,"total_max_matches":5} → grep {"pattern":"x","case_insensitive":false,"output_mode":"files_with_matches","head_limit":5}
        grep_search {"pattern":"x","case_sensitive":false,"names_only":false} → grep {"pattern":"x","case_insensitive":true,"output_mode":"content"}
        grep_search {"pattern":"x","case_sensitive":null} → grep {"pattern":"x","case_insensitive":true,"output_mode":"content"}
        search_file_content {"pattern":"x","include_pattern":"*.c","dir_path":"."} → grep {"pattern":"x","glob":"*.c","path":".","output_mode":"content","case_insensitive":true}
        list_directory {"dir_path":".","file_filtering_options":{"respect_git_ignore":false}} → list_directory {"path":".","respect_git_ignore":false}
        run_shell_command {"command":"ls","dir_path":"src","is_background":true} → shell {"command":"ls","cwd":"src","run_in_background":true}
        read_background_output {"pid":7,"lines":9} → shell_output {"pid":7,"lines":9}
        list_background_processes {} → shell_list {}
        save_memory {"fact":"likes tea"} → memory {"fact":"likes tea","action":"append"}
        web_fetch {"prompt":"Sum up https://a.example/x, and (http://b.example)."} → web_fetch {"prompt":"Sum up https://a.example/x, and (http://b.example).","urls":["https://a.example/x","http://b.example"]}
        web_fetch {"prompt":"Sum up","url":"https://a.example"} → web_fetch {"prompt":"Sum up","url":"https://a.example"}
        google_web_search {"query":"x"} → web_search {"query":"x"}
        read_many_files {"include":["*"],"useDefaultExcludes":false,"file_filtering_options":{"respect_gemini_ignore":false}} → read_many_files {"include":["*"],"use_default_excludes":false,"respect_tool_ignore":false}
        write_todos {"todos":[{"description":"a","status":"pending"}]} → todo_write {"todos":[{"content":"a","status":"pending"}]}
        invoke_agent {"agent_name":"x","prompt":"one two three four five six"} → task {"agent":"x","prompt":"one two three four five six","description":"one two three four five"}
        activate_skill {"name":"commit"} → skill {"skill":"commit"}
        exit_plan_mode {"plan_filename":"p.md"} → exit_plan_mode {"plan_path":"p.md"}
        "#,
    );
}

// R-340, R-341, R-342, R-343, R-344, R-345, R-346, R-347, R-348, R-349, R-350, R-351
#[test]
fn r_340_calls_of_kode_are_translated() {
    check(
        Profile::Kode,
        r#"
        fs_read {"path":"a"} → read_file {"path":"a"}
        fs_read {"path":"a","encoding":"utf8"} → read_file {"path":"a","encoding":"utf-8"}
        fs_read {"path":"a","encoding":"base64"} → read_file {"path":"a","encoding":"base64"}
        fs_write {"path":"a","content":"x"} → write_file {"path":"a","content":"x"}
        fs_edit {"path":"a","edits":[{"old_string":"x","new_string":"y"}]} → edit_file {"path":"a","edits":[{"old_string":"x","new_string":"y"}]}
        fs_glob {"pattern":"*","exclude":["x"]} → glob {"pattern":"*","exclude":["x"],"dot":false,"limit":200}
        fs_glob {"pattern":"*","cwd":"src","dot":true} → glob {"pattern":"*","path":"src","dot":true,"limit":200}
        fs_grep {"pattern":"x","path":"src","flags":"i"} → grep {"pattern":"x","path":"src","flags":"i","output_mode":"content"}
        fs_grep {"pattern":"x","case_sensitive":false,"max_results":3} → grep {"pattern":"x","case_insensitive":true,"head_limit":3,"output_mode":"content"}
        fs_multi_edit {"edits":[{"path":"a","find":"x","replace":"y"}]} → multi_edit {"edits":[{"path":"a","old_string":"x","new_string":"y"}],"atomic":false}
        fs_multi_edit {"edits":"[{\"path\":\"a\",\"find\":\"x\",\"replace\":\"y\"}]"} → multi_edit {"edits":[{"path":"a","old_string":"x","new_string":"y"}],"atomic":false}
        bash_run {"command":"ls","background":true} → shell {"command":"ls","run_in_background":true}
        bash_logs {"pid":7} → shell_output {"pid":7}
        bash_logs {"shell_id":"b1"} → shell_output {"task_id":"b1"}
        bash_kill {"pid":7} → shell_kill {"pid":7}
        todo_read {} → todo_read {}
        todo_write {"todos":[{"id":"1","title":"a","status":"pending","assignee":"me"}]} → todo_write {"todos":[{"id":"1","content":"a","status":"pending","assignee":"me"}]}
        task_run {"task":"look around","context":"here"} → task {"prompt":"look around","context":"here","description":"look around"}
        "#,
    );
}

// R-360, R-361, R-362, R-363, R-364, R-365, R-366, R-367, R-368, R-369
// R-370, R-371, R-372, R-373, R-374, R-375, R-376, R-377
#[test]
fn r_360_calls_of_pegasus_are_translated() {
    check(
        Profile::Pegasus,
        r#"
        current_time {"timezone":"UTC"} → current_time {"timezone":"UTC"}
        sleep {"duration":2} → sleep {"duration":2}
        get_env {"key":"HOME"} → get_env {"key":"HOME"}
        set_env {"key":"A","value":"b"} → set_env {"key":"A","value":"b"}
        read_file {"path":"a","encoding":"utf8"} → read_file {"path":"a","encoding":"utf-8"}
        write_file {"path":"a","content":"x","encoding":"UTF8"} → write_file {"path":"a","content":"x","encoding":"utf-8"}
        list_files {"path":".","recursive":true,"pattern":"*.rs"} → list_directory {"path":".","recursive":true,"pattern":"*.rs"}
        delete_file {"path":"a"} → delete_file {"path":"a"}
        move_file {"from":"a","to":"b"} → move_file {"from":"a","to":"b"}
        get_file_info {"path":"a"} → get_file_info {"path":"a"}
        http_get {"url":"https://a.example","headers":{"A":"b"}} → http_get {"url":"https://a.example","headers":{"A":"b"}}
        http_post {"url":"https://a.example","body":"x"} → http_post {"url":"https://a.example","body":"x"}
        http_request {"method":"PUT","url":"https://a.example"} → http_request {"method":"PUT","url":"https://a.example"}
        web_search {"query":"x","limit":3} → web_search {"query":"x","limit":3}
        json_parse {"text":"{}"} → json_parse {"text":"{}"}
        json_stringify {"data":null,"pretty":true} → json_stringify {"data":null,"pretty":true}
        base64_encode {"text":"x"} → base64_encode {"text":"x"}
        base64_decode {"encoded":"eA=="} → base64_decode {"encoded":"eA=="}
        memory_patch {"path":"a.md","old_string":"x","new_string":"y"} → memory {"file":"a.md","old_string":"x","new_string":"y","action":"edit"}
        memory_list {} → memory {"action":"list"}
        shell_exec {"command":"ls","timeout":5} → shell {"command":"ls","timeout_ms":5}
        image_read {"path":"a.png"} → read_media {"path":"a.png"}
        "#,
    );
}

#[test]
fn nested_calls_are_translated() {
    check(
        Profile::Pegasus,
        r#"
        bg_run {"tool":"shell_exec","params":{"command":"ls","timeout":5}} → background_run {"tool":"shell","params":{"command":"ls","timeout_ms":5}}
        bg_run {"tool":"bg_run","params":{"tool":"list_files","params":{"path":"."}}} → background_run {"tool":"background_run","params":{"tool":"list_directory","params":{"path":"."}}}
        bg_run {"tool":7} → background_run {"tool":7}
        tool_chain {"steps":[{"tool":"list_files","args":{"path":"."}},{"tool":"sleep"},3]} → tool_chain {"steps":[{"tool":"list_directory","args":{"path":"."}},{"tool":"sleep"},3]}
        tool_chain {"steps":[{"name":"list_files","params":"{\"path\":\".\"}"},{"tool":"spawn_subagent","with":"input"},{"tool":"sleep","with":"input"}]} → tool_chain {"steps":[{"name":"list_directory","params":{"path":"."}},{"tool":"task","with":"prompt"},{"tool":"sleep","with":"input"}]}
        spawn_subagent {"description":"d","input":"p","tools":["list_files","x",3]} → task {"description":"d","prompt":"p","tools":["list_directory","x",3]}
        "#,
    );
}

#[test]
fn canonical_names_are_valid_in_every_profile() {
    for profile in Profile::ALL {
        check(
            profile,
            r#"
            shell {"command":"ls","timeout_ms":1} → shell {"command":"ls","timeout_ms":1}
            edit_file {"path":"a","old_string":"x","new_string":"y"} → edit_file {"path":"a","old_string":"x","new_string":"y"}
            no_such_tool {"a":1} → no_such_tool {"a":1}
            "#,
        );
    }
    check(
        Profile::Gemini,
        r#"read_file {"path":"a","offset":3} → read_file {"path":"a","offset":3}"#,
    );
    check(
        Profile::Claude,
        r#"read {"file_path":"a"} → read_file {"path":"a"}"#,
    );
}

/// Unknown values are unchanged, so that schema validation sees what the model wrote.
#[test]
fn invalid_inputs_are_left_to_schema_validation() {
    check(
        Profile::Gemini,
        r#"
        grep_search 7 → grep 7
        grep_search [1] → grep [1]
        grep_search "no json" → grep "no json"
        grep_search "{\"pattern\":\"x\",\"names_only\":\"true\"}" → grep {"pattern":"x","output_mode":"files_with_matches","case_insensitive":true}
        grep_search {"pattern":"x","case_sensitive":"maybe","names_only":3} → grep {"pattern":"x","case_insensitive":"maybe","output_mode":3}
        grep_search {"pattern":"x","case_sensitive":"false"} → grep {"pattern":"x","case_insensitive":true,"output_mode":"content"}
        read_file {"file_path":"a","path":"b"} → read_file {"file_path":"a","path":"b"}
        read_file {"file_path":"a","start_line":1,"offset":2} → read_file {"path":"a","start_line":1,"offset":2}
        list_directory {"respect_git_ignore":true,"file_filtering_options":{"respect_git_ignore":false}} → list_directory {"respect_git_ignore":true,"file_filtering_options":{"respect_git_ignore":false}}
        web_fetch {"prompt":"like http://b.example","url":"https://a.example"} → web_fetch {"prompt":"like http://b.example","url":"https://a.example"}
        list_directory {"dir_path":".","file_filtering_options":"all"} → list_directory {"path":".","file_filtering_options":"all"}
        write_todos {"todos":[1,null]} → todo_write {"todos":[1,null]}
        write_todos {"todos":"[7"} → todo_write {"todos":"[7"}
        "#,
    );
}

#[test]
fn unknown_parameters_are_unchanged() {
    let tools = [
        fixture::tool("grep", "pattern:s!"),
        fixture::tool("read_file", "path:s!"),
        fixture::tool("shell", ""),
    ];
    let lens = fixture::lens(Profile::Gemini, &tools);
    for (name, input, expected) in [
        (
            "grep_search",
            r#"{"pattern":"x","names_only":true}"#,
            r#"{"pattern":"x","names_only":true}"#,
        ),
        (
            "read_file",
            r#"{"file_path":"a","start_line":1}"#,
            r#"{"path":"a","start_line":1}"#,
        ),
        (
            "run_shell_command",
            r#"{"command":"x"}"#,
            r#"{"command":"x"}"#,
        ),
        ("glob", r#"{"dir_path":"x"}"#, r#"{"dir_path":"x"}"#),
    ] {
        let (_, input) = lens.accept(name, serde_json::from_str(input).unwrap());
        assert_eq!(input.to_string(), expected, "{name}");
    }
}

#[test]
fn nested_call_translation_is_bounded() {
    let mut input = serde_json::json!({"path": "."});
    let mut name = "list_files";
    for _ in 0..40 {
        input = serde_json::json!({"tool": name, "params": input});
        name = "bg_run";
    }
    let tools = fixture::tools();
    let (_, input) = fixture::lens(Profile::Pegasus, &tools).accept("bg_run", input);
    let text = input.to_string();
    assert_eq!(text.matches("background_run").count(), 8);
    assert!(text.contains("list_files"));
}

proptest! {
    /// Schema validation sees every value that a model wrote, in any mixture of names.
    #[test]
    fn no_value_that_a_model_wrote_is_lost(
        profile in prop::sample::select(Profile::ALL.to_vec()),
        names in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..8),
        tool in any::<prop::sample::Index>(),
    ) {
        let tools = fixture::tools();
        let lens = fixture::lens(profile, &tools);
        let shown = lens.list();
        let tool = &shown[tool.index(shown.len())];
        let mut input = Map::new();
        for (number, (of, name)) in names.iter().enumerate() {
            // Names of both systems, of this tool and of others.
            let other = &shown[of.index(shown.len())];
            let canonical = lens.tool(tool.canonical.as_str()).unwrap();
            let schemas = [
                &tool.descriptor.input_schema,
                &canonical.input_schema,
                &other.descriptor.input_schema,
            ];
            let all: Vec<&String> = schemas
                .iter()
                .flat_map(|schema| schema["properties"].as_object().unwrap().keys())
                .collect();
            if !all.is_empty() {
                input.insert(all[name.index(all.len())].clone(), format!("value {number}.").into());
            }
        }
        let (canonical, out) = lens.accept(&tool.name, Value::Object(input.clone()));
        prop_assert_eq!(canonical, tool.canonical.as_str());
        let out = out.to_string();
        for value in input.values() {
            prop_assert!(out.contains(value.as_str().unwrap()), "{value} of {input:?}: {out}");
        }
    }
}
