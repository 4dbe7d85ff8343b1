//! Tests of the conversion of tools.

use std::fmt::Write as _;
use std::sync::Arc;

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::testing;

fn tool(name: &'static str, hints: Option<ToolAnnotations>) -> Tool {
    let Value::Object(schema) = json!({"type": "object"}) else {
        unreachable!()
    };
    let mut tool = Tool::new(name, "Does it.", Arc::new(schema));
    tool.annotations = hints;
    tool
}

fn check(config: &ServerConfig, tools: Vec<Tool>, expected: Expect) {
    let accept = |tool: &Descriptor| {
        if tool.description.contains("bad") {
            return Err("its input schema is not valid".to_owned());
        }
        Ok(())
    };
    let (adopted, left_out) = convert_tools(config, tools, &accept);
    let mut shown = String::new();
    for one in adopted {
        let tool = one.descriptor;
        let _ = writeln!(
            shown,
            "{} {:?} {} {} open_world={:?} {}",
            tool.name,
            tool.aliases,
            tool.category,
            tool.effect().as_str(),
            tool.annotations.open_world,
            tool.description.chars().take(30).collect::<String>(),
        );
    }
    for one in left_out {
        let _ = writeln!(shown, "left out {}: {}", one.tool, one.reason);
    }
    expected.assert_eq(&shown);
}

fn hints(read_only: bool) -> ToolAnnotations {
    let mut hints = ToolAnnotations::default();
    hints.read_only_hint = Some(read_only);
    hints.open_world_hint = Some(false);
    hints
}

// R-420, R-421
#[test]
fn r_420_annotations_are_ignored_unless_the_server_is_trusted() {
    let tools = || {
        vec![
            tool("look", Some(hints(true))),
            tool("write", Some(hints(false))),
            tool("x", None),
        ]
    };
    let mut config = testing::config("one");
    check(
        &config,
        tools(),
        expect![[r#"
            mcp__one__look [] mcp destroys open_world=Some(true) Does it.
            mcp__one__write [] mcp destroys open_world=Some(true) Does it.
            mcp__one__x [] mcp destroys open_world=Some(true) Does it.
        "#]],
    );
    config.is_trusted = true;
    check(
        &config,
        tools(),
        expect![[r#"
            mcp__one__look [] mcp reads open_world=Some(false) Does it.
            mcp__one__write [] mcp destroys open_world=Some(false) Does it.
            mcp__one__x [] mcp destroys open_world=Some(true) Does it.
        "#]],
    );
}

#[test]
fn invalid_tools_are_excluded_with_a_reason() {
    let mut bad = tool("bad", None);
    bad.description = Some("bad".into());
    let mut huge = tool("huge", None);
    huge.description = Some("x".repeat(300 << 10).into());
    let mut long = tool("long", None);
    long.description = Some("y".repeat(9_000).into());
    check(
        &testing::config("one"),
        vec![
            tool("get-sum", None),
            tool("get_sum", None),
            tool("getSum", None),
            tool("get-sum", None),
            tool("", None),
            bad,
            huge,
            long,
        ],
        expect![[r#"
            mcp__one__get_sum [] mcp destroys open_world=Some(true) Does it.
            mcp__one__get_sum_5dd4a4 ["mcp__one__get-sum"] mcp destroys open_world=Some(true) Does it.
            mcp__one__get_sum_de2af7 ["mcp__one__getSum"] mcp destroys open_world=Some(true) Does it.
            mcp__one__long [] mcp destroys open_world=Some(true) yyyyyyyyyyyyyyyyyyyyyyyyyyyyyy
            left out get-sum: the server lists it twice
            left out : its name is empty or longer than 256 characters
            left out bad: its input schema is not valid
            left out huge: its definition is 307264 bytes, the limit is 262144
        "#]],
    );
}
