//! Ranking of tools for a search.

use expect_test::{Expect, expect};

use super::*;
use crate::testing::{check, run_examples, text};

fn tool(name: &str, description: &str, aliases: &[&str], tags: &[&str]) -> Value {
    json!({
        "name": name, "plugin": "p", "description": description, "aliases": aliases, "tags": tags,
        "input_schema": {"type": "object"}, "can_background": false,
    })
}

fn host() -> Context {
    Context::test().with_service("tools.tools", |_| {
        Ok(json!([
            tool("write_file", "Write a text file.", &["fs_write"], &["file"]),
            tool("read_file", "Read a text file.", &["fs_read"], &["file"]),
            tool(
                "mcp__mail__send",
                "Send a letter to someone.",
                &[],
                &["post"]
            ),
            tool(
                "grep",
                "Search the content of files.",
                &["grep_search"],
                &["search"]
            ),
        ]))
    })
}

fn ranked(query: &str, expected: Expect) {
    let outcome =
        toolhost_sdk::testing::call::<tool_search>(&host(), json!({"query": query})).unwrap();
    let data = outcome.structured.unwrap();
    let names: Vec<&str> = data["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    expected.assert_eq(&names.join(" "));
}

#[test]
fn words_find_tools() {
    ranked("read file", expect!["read_file write_file grep"]);
    ranked("Sending mail", expect!["mcp__mail__send"]);
    ranked("+post file", expect!["mcp__mail__send"]);
    ranked("search", expect!["grep"]);
    ranked("fs_read", expect!["read_file write_file"]);
    ranked("letter", expect!["mcp__mail__send"]);
    ranked("a", expect!["mcp__mail__send read_file write_file"]);
    ranked("helicopter", expect![[""]]);
}

#[test]
fn a_hit_has_its_schema() {
    check::<tool_search>(
        &host(),
        json!({"query": "file", "limit": 1}),
        expect![[r#"
        read_file (plugin p): Read a text file.
        parameters: {"type":"object"}

        (showing 1 of 3 matches; raise `limit` or add keywords)
        summary: 3 tools found
        {"tools":[{"name":"read_file","plugin":"p","description":"Read a text file.","input_schema":{"type":"object"}}],"total":3,"missing":[]}"#]],
    );
}

#[test]
fn tools_are_selected_by_name() {
    check::<tool_search>(
        &host(),
        json!({"query": "select:GREP, fs_read,grep,nope"}),
        expect![[r#"
            grep (plugin p): Search the content of files.
            parameters: {"type":"object"}

            read_file (plugin p): Read a text file.
            parameters: {"type":"object"}

            (not found: nope)
            summary: 2 tools found
            {"tools":[{"name":"grep","plugin":"p","description":"Search the content of files.","input_schema":{"type":"object"}},{"name":"read_file","plugin":"p","description":"Read a text file.","input_schema":{"type":"object"}}],"total":2,"missing":["nope"]}"#]],
    );
    let exact = text::<tool_search>(&host(), json!({"query": "grep", "exact": true}));
    assert!(exact.starts_with("grep (plugin p)"), "{exact}");
}

#[test]
fn a_large_schema_is_left_out() {
    let cx = Context::test().with_service("tools.tools", |_| {
        let mut tool = tool("big", &"d".repeat(2000), &[], &[]);
        tool["input_schema"] = json!({"x": "x".repeat(9000)});
        Ok(json!([tool]))
    });
    let text = text::<tool_search>(&cx, json!({"query": "big"}));
    assert!(
        text.ends_with("… [+1000 characters]\nparameters: larger than is shown"),
        "{text}"
    );
}

#[test]
fn bad_queries() {
    check::<tool_search>(
        &host(),
        json!({"query": "helicopter"}),
        expect![[r#"
        none of 4 tools matches "helicopter"; try other or fewer keywords
        summary: 0 tools found
        {"tools":[],"total":0,"missing":[]}"#]],
    );
    check::<tool_search>(
        &host(),
        json!({"query": "+ ."}),
        expect![[r#"InvalidInput invalid_query: "+ ." has no word to search for"#]],
    );
    check::<tool_search>(
        &host(),
        json!({"query": "select: ,"}),
        expect![
            "InvalidInput invalid_query: no name after `select:`; write `select:read_file,grep`, for example"
        ],
    );
    check::<tool_search>(
        &host(),
        json!({"query": "select:read_fil"}),
        expect![[r#"
        NotFound tool_not_registered: Tool "read_fil" not found. Did you mean: read_file?
        - search with keywords for what it should do"#]],
    );
    check::<tool_search>(
        &host(),
        json!({"query": ""}),
        expect!["InvalidInput invalid_input: `query`: a length of 0 is less than the minimum of 1"],
    );
    check::<tool_search>(
        &host(),
        json!({"query": "x", "limit": 0}),
        expect!["InvalidInput invalid_input: `limit`: 0 is less than the minimum of 1"],
    );
}

#[test]
fn examples_work() {
    run_examples::<tool_search>(host);
}
