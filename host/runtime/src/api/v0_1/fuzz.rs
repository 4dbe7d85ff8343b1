//! Fuzz target for values returned by a component: descriptors, outcomes and errors.
//!
//! Each line of the input is `name=value`; a repeated name makes a list. Lines up to `---` describe a tool, the
//! rest an outcome.

use std::time::Duration;

use serde_json::Value;
use toolhost_fuzz_input::{assembled, check_message};

use super::descriptors::{MAX_LIST, MAX_TEXT};
use super::outcomes::RESERVED;
use super::{descriptors, error, outcome, types};

const FRAGMENTS: &[&str] = &[
    "\n",
    "---\n",
    "name=",
    "description=",
    "display=",
    "alias=",
    "icon=",
    "category=",
    "kind=",
    "version=",
    "tag=",
    "input=",
    "output=",
    "concurrency=",
    "example=",
    "requires=",
    "read-only=true\n",
    "pure=true\n",
    "destructive=false\n",
    "text=",
    "json=",
    "image=",
    "file=",
    "link=",
    "structured=",
    "summary=",
    "error=",
    "code=",
    "advice=",
    "cause=",
    "tail=",
    "meta=",
    "{\"type\":\"object\"}",
    "{\"type\":",
    "\"properties\":",
    "\"description\":",
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "123456789012345678901234567890",
    "1e999",
    "null",
    "serial",
    "user_denied",
    "timeout",
    "\u{e0041}",
    "\u{202e}",
    "\u{1b}[2J",
    "\u{2028}",
    "\\u202e",
    "\\ud800",
    "é",
];

/// Returns a descriptor of lines `name=value`.
pub fn described(text: &str) -> types::Descriptor {
    Members::of(text).descriptor()
}

/// Members with their values, in input order.
struct Members<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Members<'a> {
    fn of(text: &'a str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| line.split_once('='))
                .collect(),
        )
    }

    fn one(&self, name: &str) -> Option<String> {
        self.all(name).pop()
    }

    fn all(&self, name: &str) -> Vec<String> {
        let all = self.0.iter().filter(|(known, _)| *known == name);
        all.map(|(_, value)| (*value).to_owned()).collect()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.one(name).map(|value| value == "true")
    }

    fn descriptor(&self) -> types::Descriptor {
        types::Descriptor {
            name: self.one("name").unwrap_or_default(),
            aliases: self.all("alias"),
            display_name: self.one("display"),
            description: self.one("description").unwrap_or_default(),
            icon: self.one("icon"),
            category: self.one("category"),
            kind: self.one("kind"),
            version: self.one("version"),
            tags: self.all("tag"),
            input_schema: self.one("input").unwrap_or_default(),
            output_schema: self.one("output"),
            strict: self.flag("strict"),
            annotations: types::Annotations {
                read_only: self.flag("read-only"),
                pure: self.flag("pure"),
                destructive: self.flag("destructive"),
                idempotent: self.flag("idempotent"),
                open_world: self.flag("open-world"),
                interactive: self.flag("interactive"),
            },
            concurrency: self.one("concurrency"),
            output_markdown: self.flag("markdown"),
            can_stream: false,
            can_background: false,
            timeout_ms: None,
            inactivity_timeout_ms: None,
            max_output_bytes: None,
            requires: self.all("requires"),
            depends_on: self.all("depends-on"),
            sinks: Vec::new(),
            sources: Vec::new(),
            hooks: self.all("hook"),
            extra: None,
            examples: self
                .all("example")
                .into_iter()
                .map(|input| types::Example {
                    description: input.clone(),
                    input,
                })
                .collect(),
        }
    }

    fn part(kind: &str, value: &str) -> types::Part {
        types::Part {
            kind: match kind {
                "link" => "resource-link".to_owned(),
                kind => kind.to_owned(),
            },
            text: Some(value.to_owned()),
            data: matches!(kind, "image" | "audio" | "file").then(|| value.as_bytes().to_vec()),
            media_type: Some(value.to_owned()),
            uri: Some(value.to_owned()),
            name: None,
        }
    }

    fn failure(&self) -> Option<types::Failure> {
        self.one("error").map(|message| types::Failure {
            code: self.one("code"),
            message,
            recommendations: self.all("advice"),
            retryable: false,
            cause: self.one("cause"),
            details: self.one("details"),
        })
    }

    fn outcome(&self) -> types::Outcome {
        let parts = ["text", "json", "image", "audio", "file", "link", "other"];
        let llm = self.0.iter().filter(|(kind, _)| parts.contains(kind));
        types::Outcome {
            summary: self.one("summary"),
            llm: llm.map(|(kind, value)| Self::part(kind, value)).collect(),
            structured: self.one("structured"),
            display: self.one("shown").map(|data| types::Display {
                kind: "table".to_owned(),
                text: None,
                diff: None,
                data: Some(data),
            }),
            error: self.failure(),
            truncated: None,
            tail: self.one("tail").map(|input| types::TailCall {
                tool: "next".to_owned(),
                input,
            }),
            meta: self.one("meta"),
        }
    }
}

/// Integers keep their digits; a number with a fraction or an exponent is meant as floating point.
fn same_integers(given: &str, read: &Value) {
    let is_integer = |text: &str| {
        let digits = text.strip_prefix('-').unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    if is_integer(given.trim()) {
        assert_eq!(read.to_string().replace("-0.0", "-0"), given.trim());
    }
}

#[test]
fn fuzz_returned() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, FRAGMENTS);
        let (described, returned) = text.split_once("---\n").unwrap_or((&text, ""));
        match descriptors(vec![Members::of(described).descriptor()], "1.0.0") {
            Err(reason) => check_message(&reason),
            Ok(tools) => tools.into_iter().for_each(check_descriptor),
        }
        let members = Members::of(returned);
        // Far below the size of the largest input, so that both sides of the limit are tested.
        for limit in [1_000, u64::MAX] {
            match outcome(members.outcome(), limit) {
                Err(error) => check_message(&error.to_string()),
                Ok(mut outcome) => {
                    assert!(limit == u64::MAX || outcome.model_text().len() < 64 << 10);
                    if let (Some(given), Some(read)) =
                        (members.one("structured"), &outcome.structured)
                    {
                        same_integers(&given, read);
                    }
                    outcome.remove_hidden_text();
                    let shown = outcome.model_text();
                    let is_tag = |c: char| ('\u{e0000}'..='\u{e0fff}').contains(&c);
                    assert!(!shown.contains(is_tag), "{shown:?}");
                    let once = outcome.clone();
                    outcome.remove_hidden_text();
                    assert_eq!(outcome, once);
                }
            }
        }
        if let Some(failure) = members.failure() {
            check_error(failure);
        }
    });
}

fn check_descriptor(mut tool: toolhost_contract::Descriptor) {
    assert!(tool.description.len() <= MAX_TEXT && tool.aliases.len() <= MAX_LIST);
    assert_eq!(tool.input_schema["type"], "object");
    assert_ne!(tool.timeout, Some(Duration::MAX));
    tool.remove_invisible();
    let visible = |text: &str| {
        let plain = text.replace(['\u{200c}', '\u{200d}'], "");
        check_message(toolhost_contract::text::head(&plain, 60_000));
    };
    visible(&tool.display_name);
    visible(&tool.description);
    visible(&tool.category);
    visible(&tool.kind);
    visible(&tool.version);
    for texts in [&tool.aliases, &tool.tags, &tool.requires] {
        for text in texts {
            visible(text);
        }
    }
    let once = tool.clone();
    tool.remove_invisible();
    assert_eq!(tool, once);
}

fn check_error(failure: types::Failure) {
    let given = failure.code.clone();
    let error = error(types::ToolError::Failed(failure));
    // Not a reserved code of the host.
    assert!(given.is_none_or(|given| given != error.code || !RESERVED.contains(&&*given)));
    assert!(error.message.len() <= 16 << 10 && error.recommendations.len() <= 16);
    if let Some(cause) = error.cause {
        check_message(&cause);
    }
}
