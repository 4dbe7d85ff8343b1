//! Tests of tool lists in each profile.

use std::fmt::Write as _;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::fixture;
use crate::profile::{Profile, UnmappedTools};
use toolhost_contract::Descriptor;

/// `name(parameters) = canonical`; `!` for required, `=x` for a default, `{…}` for members.
fn line(name: &str, canonical: &str, schema: &Value) -> String {
    let same = if name == canonical {
        String::new()
    } else {
        format!(" = {canonical}")
    };
    format!("{name}({}){same}", signature(schema))
}

fn signature(schema: &Value) -> String {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut shown = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mut text = name.clone();
        if required.contains(&json!(name)) {
            text.push('!');
        }
        if let Some(default) = property.get("default") {
            let _ = write!(text, "={default}");
        }
        let members = [&property["items"], property]
            .into_iter()
            .find(|one| one["properties"].is_object());
        if let Some(members) = members {
            let _ = write!(text, "{{{}}}", signature(members));
        }
        shown.push(text);
    }
    shown.join(" ")
}

fn check(profile: Profile, others: UnmappedTools, tools: &[Descriptor], expected: Expect) {
    let shown = fixture::lens_with(profile, others, tools).list();
    let lines: Vec<_> = shown
        .iter()
        .map(|one| {
            let schema = one.descriptor.input_schema.to_string();
            assert!(one.name == one.canonical.as_str() || !schema.contains("x-aliases"));
            assert_eq!(one.canonical, one.descriptor.name);
            line(
                &one.name,
                one.canonical.as_str(),
                &one.descriptor.input_schema,
            )
        })
        .collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn native_lists_all_tools_unchanged() {
    let tools = fixture::tools();
    let shown = fixture::lens(Profile::Native, &tools).list();
    assert_eq!(shown.len(), tools.len());
    for (shown, tool) in shown.iter().zip(&tools) {
        assert_eq!(shown.name, tool.name.as_str());
        assert_eq!(&shown.descriptor, tool);
    }
}

// R-300, R-301, R-302, R-303, R-304, R-305, R-306, R-307, R-308, R-309, R-310, R-311
#[test]
fn r_300_list_of_sema() {
    check(
        Profile::Sema,
        UnmappedTools::Installed,
        &fixture::tools(),
        expect![[r#"
            Read(file_path! offset limit) = read_file
            Write(file_path! content!) = write_file
            Edit(file_path! old_string! new_string! replace_all=false) = edit_file
            NotebookEdit(notebook_path! cell_number new_source cell_type edit_mode="replace") = notebook_edit
            Glob(pattern! path=".") = glob
            Grep(pattern! path="." glob output_mode -B -A -C -n=true -i=false type head_limit=100 offset=0 multiline=false) = grep
            Bash(command! timeout=60000 description run_in_background=false) = shell
            TodoWrite(todos!{content! status! activeForm}) = todo_write
            Task(description! prompt! subagent_type!) = task
            Skill(skill! args) = skill
            AskUserQuestion(questions!{question! header! options multiSelect=false} metadata) = ask_user
            ExitPlanMode(planFilePath!) = exit_plan_mode"#]],
    );
}

#[test]
fn list_of_claude_code() {
    check(
        Profile::Claude,
        UnmappedTools::Installed,
        &fixture::tools(),
        expect![[r#"
            Read(file_path! offset limit pages) = read_file
            Write(file_path! content!) = write_file
            Edit(file_path! old_string! new_string! replace_all=false) = edit_file
            MultiEdit(file_path! edits!{old_string! new_string! replace_all=false}) = multi_edit
            NotebookEdit(notebook_path! cell_id new_source cell_type edit_mode="replace") = notebook_edit
            Glob(pattern! path=".") = glob
            Grep(pattern! path="." glob output_mode -B -A -C -n=true -i=false type head_limit=100 offset=0 multiline=false) = grep
            LS(path="." ignore) = list_directory
            Bash(command! timeout=120000 description run_in_background=false) = shell
            BashOutput(bash_id! filter block=false) = shell_output
            KillShell(shell_id!) = shell_kill
            TodoWrite(todos!{content! status! activeForm}) = todo_write
            TodoRead() = todo_read
            Task(description! prompt! subagent_type! model resume run_in_background=false) = task
            Skill(skill! args) = skill
            AskUserQuestion(questions!{question! header! options multiSelect=false} metadata) = ask_user
            EnterPlanMode() = enter_plan_mode
            ExitPlanMode(plan plan_path) = exit_plan_mode
            WebFetch(url! prompt) = web_fetch
            WebSearch(query! allowed_domains blocked_domains) = web_search
            ListMcpResources(server) = list_mcp_resources
            ReadMcpResource(server uri!) = read_mcp_resource
            ToolSearch(query! max_results=5) = tool_search"#]],
    );
}

// R-320, R-321, R-322, R-323, R-324, R-325, R-326, R-327, R-328, R-329
#[test]
fn r_320_list_of_gemini() {
    check(
        Profile::Gemini,
        UnmappedTools::Installed,
        &fixture::tools(),
        expect![[r#"
            read_file(file_path! start_line end_line)
            read_many_files(include! exclude recursive=true useDefaultExcludes=true file_filtering_options{respect_git_ignore=true respect_gemini_ignore=true})
            write_file(file_path! content!)
            replace(file_path! instruction old_string! new_string! allow_multiple=false) = edit_file
            glob(pattern! dir_path="." case_sensitive=false respect_git_ignore=true respect_gemini_ignore=true)
            grep_search(pattern! dir_path="." include_pattern exclude_pattern names_only=false case_sensitive=false fixed_strings=false context after before no_ignore=false max_matches_per_file total_max_matches=100) = grep
            list_directory(dir_path! ignore file_filtering_options{respect_git_ignore=true})
            run_shell_command(command! description dir_path is_background=false delay_ms) = shell
            read_background_output(pid! lines=100 delay_ms) = shell_output
            list_background_processes() = shell_list
            write_todos(todos!{description! status!}) = todo_write
            invoke_agent(agent_name! prompt!) = task
            activate_skill(name!) = skill
            ask_user(questions!{question! header! type="choice" options multiSelect=false placeholder})
            enter_plan_mode(reason)
            exit_plan_mode(plan_filename!)
            save_memory(fact! scope="project") = memory
            web_fetch(prompt! url)
            google_web_search(query!) = web_search
            list_mcp_resources(serverName)
            read_mcp_resource(uri!)"#]],
    );
}

// R-340, R-341, R-342, R-343, R-344, R-345, R-346, R-347, R-348, R-349, R-350, R-351
#[test]
fn r_340_list_of_kode() {
    check(
        Profile::Kode,
        UnmappedTools::Installed,
        &fixture::tools(),
        expect![[r#"
            fs_read(path! offset limit encoding="auto") = read_file
            fs_write(path! content!) = write_file
            fs_edit(path! edits{old_string! new_string! replace_all=false} old_string new_string replace_all=false) = edit_file
            fs_multi_edit(edits!{path! find! replace! replace_all=false}) = multi_edit
            fs_glob(pattern! exclude cwd="." dot=false limit=200) = glob
            fs_grep(pattern! path="." flags case_sensitive=true max_results=100) = grep
            bash_run(command! background=false timeout_ms=120000) = shell
            bash_logs(pid shell_id) = shell_output
            bash_kill(pid shell_id) = shell_kill
            todo_write(todos!{id title! status! assignee notes})
            todo_read()
            task_run(task! context agentTemplateId="general" model) = task"#]],
    );
}

// R-360, R-361, R-362, R-363, R-364, R-365, R-366, R-367, R-368, R-369
// R-370, R-371, R-372, R-373, R-374, R-375, R-376, R-377
#[test]
fn r_360_list_of_pegasus() {
    check(
        Profile::Pegasus,
        UnmappedTools::Installed,
        &fixture::tools(),
        expect![[r#"
            read_file(path! encoding="auto" offset limit)
            image_read(path!) = read_media
            write_file(path! content! encoding)
            edit_file(path! old_string! new_string! replace_all=false)
            glob_files(pattern! path="." limit=100) = glob
            grep_files(pattern! path="." glob output_mode case_insensitive=false context head_limit=100) = grep
            list_files(path! recursive=false pattern) = list_directory
            get_file_info(path!)
            move_file(from! to!)
            delete_file(path!)
            shell_exec(command! cwd timeout=120000 env) = shell
            bg_output(taskId! block=false timeout) = shell_output
            bg_stop(taskId!) = shell_kill
            bg_run(tool! params! timeout) = background_run
            spawn_subagent(description! input! type="general") = task
            use_skill(skill! args) = skill
            memory_list(scope="project") = memory
            memory_read(path! scope="project") = memory
            memory_write(path! content! summary scope="project") = memory
            memory_patch(path! old_string! new_string! scope="project") = memory
            memory_append(path! content! scope="project") = memory
            web_fetch(url! prompt)
            web_search(query! limit=10)
            http_get(url! headers)
            http_post(url! body headers)
            http_request(method! url! body headers)
            current_time(timezone="UTC")
            sleep(duration!)
            get_env(key!)
            set_env(key! value!)
            json_parse(text!)
            json_stringify(data! pretty=false)
            base64_encode(text!)
            base64_decode(encoded!)"#]],
    );
}

#[test]
fn unmapped_tools_are_listed_as_configured() {
    let tools = [
        fixture::tool("read_file", "path:s!"),
        fixture::tool("directory_tree", "path:s!"),
        fixture::tool("weather", "city|town:s!"),
    ];
    let names = |others| {
        let shown = fixture::lens_with(Profile::Claude, others, &tools).list();
        let names: Vec<_> = shown.into_iter().map(|one| one.name).collect();
        names.join(" ")
    };
    assert_eq!(names(UnmappedTools::Installed), "Read weather");
    assert_eq!(names(UnmappedTools::All), "Read directory_tree weather");
    assert_eq!(names(UnmappedTools::Hidden), "Read");
}

/// A plugin tool with the name of an agent's tool must not receive the calls for the canonical tool, nor hide it.
#[test]
fn mappings_do_not_take_names_of_other_tools() {
    let tools = [
        fixture::tool("edit_file", "path|file_path:s!"),
        fixture::tool("replace", "what:s!"),
        fixture::tool("read_file", "path|file_path:s!"),
        fixture::tool("read", "book:s!"),
    ];
    check(
        Profile::Gemini,
        UnmappedTools::Installed,
        &tools[..2],
        expect![[r#"
            edit_file(path!)
            replace(what!)"#]],
    );
    let lens = fixture::lens(Profile::Gemini, &tools);
    for (theirs, ours) in [("replace", "replace"), ("edit_file", "edit_file")] {
        assert_eq!(lens.accept(theirs, json!({})).0, ours);
    }
    let lens = fixture::lens(Profile::Claude, &tools);
    for (theirs, ours) in [
        ("Read", "read_file"),
        ("read", "read"),
        ("READ", "read_file"),
    ] {
        assert_eq!(lens.accept(theirs, json!({})).0, ours);
    }
}

/// Shown although the agent does not have it, because calls without it would fail.
#[test]
fn required_parameters_are_always_listed() {
    check(
        Profile::Claude,
        UnmappedTools::Installed,
        &[
            fixture::tool("read_file", "path:s! reason|why:s! depth:i"),
            fixture::tool("glob", "path:s"),
            fixture::tool("write_file", ""),
        ],
        expect![[r#"
            Read(file_path! reason!) = read_file
            Glob(path) = glob
            Write() = write_file"#]],
    );
}
