//! Fuzz targets for the data of a server: lines on its standard output, lists of tools, results of calls, and the
//! output of a discovery command.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{CallToolResult, Tool};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::timeout;
use toolhost_contract::{Descriptor, Outcome, Part, text};
use toolhost_fuzz_input::{assembled, check_message};

use crate::definition::Definition;
use crate::discovery::declarations;
use crate::results;
use crate::testing::{ScriptedServer, call, config, legacy_response, reply, respond, start, tool};
use crate::tool_conversion::{AdoptedTool, ExcludedTool, convert_tools};

const FRAGMENTS: &[&str] = &[
    "\n",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "1",
    "\"jsonrpc\":\"2.0\",",
    "\"id\":",
    "$ID",
    "\"method\":",
    "\"params\":",
    "\"result\":",
    "\"error\":",
    "{\"code\":-32000,\"message\":\"no\"}",
    "\"notifications/progress\"",
    "\"notifications/message\"",
    "\"notifications/tools/list_changed\"",
    "\"notifications/cancelled\"",
    "\"elicitation/create\"",
    "\"sampling/createMessage\"",
    "\"roots/list\"",
    "\"ping\"",
    "\"progressToken\":",
    "\"progress\":1e308",
    "\"name\":",
    "\"description\":",
    "\"title\":",
    "\"inputSchema\":",
    "{\"type\":\"object\"}",
    "\"annotations\":",
    "\"readOnlyHint\":true",
    "\"content\":",
    "{\"type\":\"text\",\"text\":\"hi\"}",
    "{\"type\":\"image\",\"data\":\"aGk=\",\"mimeType\":\"image/png\"}",
    "{\"type\":\"resource_link\",\"uri\":\"a://b\",\"name\":\"n\"}",
    "\"structuredContent\":",
    "\"isError\":true",
    "\"get-sum\"",
    "\"get_sum\"",
    "\"Get Sum\"",
    "\"a__b\"",
    "\"functionDeclarations\":",
    "\"parameters\":",
    "\\u202e",
    "\\u001b[2J",
    "\\ud800",
    "é",
];

/// Replaces the server's first answer of a kind. The last lines answer no request, and then the server ends.
#[test]
fn fuzz_server() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Some((when, bytes)) = bytes.split_first() else {
            return;
        };
        let when = ["initialize", "tools/list", "tools/call"][usize::from(*when) % 3];
        let response: Arc<str> = assembled(bytes, FRAGMENTS).into();
        let runtime = Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(when, response));
    });
}

async fn play(when: &'static str, response: Arc<str>) {
    let dial = ScriptedServer::dial(move |_, pipes| {
        let response = Arc::clone(&response);
        tokio::spawn(respond(pipes, move |message| {
            if message["method"] != when {
                if message["method"] == "tools/call" {
                    return vec![reply(message, &json!({"content": []}))];
                }
                return legacy_response(message, &json!([tool("t")]));
            }
            let response = response.replace("$ID", &message["id"].to_string());
            let lines = response.lines().map(str::to_owned);
            lines.chain(["EOF".to_owned()]).collect()
        }));
    });
    let (server, events) = start(dial);
    let day = Duration::from_secs(24 * 3_600);
    let listed = timeout(day, server.shared().first_listing())
        .await
        .expect("an end");
    match listed {
        Err(error) => check_message(&error.to_string()),
        Ok(listing) => {
            check_listed(&listing.tools, &listing.excluded);
            if let Some(tool) = listing.tools.first() {
                let name = tool.descriptor.name.to_string();
                let called = timeout(day, call(&server, &name, json!({}))).await;
                match called.expect("an end") {
                    Ok(outcome) => check_outcome(&outcome),
                    Err(error) => check_message(&error.to_string()),
                }
            }
        }
    }
    server.stop().await;
    for message in events.lock().unwrap().iter() {
        check_message(message);
    }
}

fn check_listed(adopted: &[AdoptedTool], left_out: &[ExcludedTool]) {
    let mut names = BTreeSet::new();
    for one in adopted {
        let tool = &one.descriptor;
        let all = tool.aliases.iter().map(String::as_str);
        for name in all.chain([tool.name.as_str()]) {
            assert!(names.insert(name.to_ascii_lowercase()), "{name} twice");
            assert!(name.is_ascii() && name.len() <= 256, "{name}");
        }
        assert!(tool.description.chars().count() <= 8_100);
        check_message(&tool.display_name);
        // A stored definition is compared with the one that the server lists the next time.
        let stored =
            Definition::from_stored(one.definition.tool.clone(), one.definition.json.clone());
        assert_eq!(stored.digest, one.definition.digest);
        let mut clean = tool.clone();
        clean.remove_invisible();
        assert_eq!(text::remove_invisible(&clean.description), None);
    }
    for one in left_out {
        check_message(&one.tool);
        check_message(&one.reason);
    }
}

fn check_outcome(outcome: &Outcome) {
    for part in &outcome.llm {
        match part {
            Part::Image { media_type, .. } | Part::Audio { media_type, .. } => {
                check_message(media_type);
            }
            Part::ResourceLink { uri, name, .. } => {
                check_message(uri);
                check_message(name.as_deref().unwrap_or_default());
            }
            _ => {}
        }
    }
    if let Some(error) = &outcome.error {
        check_message(&error.message);
    }
}

/// A list of tools, or the result of a call.
#[test]
fn fuzz_tools() {
    let accept = |_: &Descriptor| Ok(());
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, FRAGMENTS);
        match declarations(&text, &accept) {
            Err(reason) => check_message(&reason),
            Ok((adopted, left_out)) => check_listed(&adopted, &left_out),
        }
        let Ok(value) = serde_json::from_str::<Value>(&text) else {
            return;
        };
        if let Ok(result) = serde_json::from_value::<CallToolResult>(value.clone()) {
            match results::outcome("one", result) {
                Err(error) => check_message(&error.to_string()),
                Ok(outcome) => check_outcome(&outcome),
            }
        }
        let tools = match value {
            Value::Array(tools) => tools,
            other => vec![other],
        };
        let mut tools: Vec<Tool> = tools
            .into_iter()
            .filter_map(|tool| serde_json::from_value(tool).ok())
            .collect();
        let (adopted, left_out) = convert_tools(&config("one"), tools.clone(), &accept);
        check_listed(&adopted, &left_out);
        // The names do not depend on the order of the list.
        tools.reverse();
        let (again, _) = convert_tools(&config("one"), tools, &accept);
        let names = |all: &[AdoptedTool]| -> Vec<(String, String)> {
            let pair =
                |one: &AdoptedTool| (one.descriptor.name.to_string(), one.definition.tool.clone());
            all.iter().map(pair).collect()
        };
        assert_eq!(names(&adopted), names(&again), "{text}");
    });
}
