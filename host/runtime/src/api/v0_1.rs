//! `toolhost:plugin@0.1.0`: generated bindings, the `host` interface, and conversions between WIT and host types.

use std::time::Duration;

use serde_json::Value;
use toolhost_contract::{
    Annotations, CallError, CallEvent, Concurrency, Descriptor, ErrorClass, Example, Failure,
    Outcome, Part, Source, TailCall, ToolHook, ToolHooks, ToolName, Truncation, exact_integers,
    text,
};
use wasmtime::component::HasSelf;

use crate::state::State;

#[cfg(test)]
mod fuzz;
pub mod hooks;
pub mod preview;
pub mod services;

wasmtime::component::bindgen!({
    path: "../../wit/v0.1",
    world: "plugin",
    exports: { default: async },
});

pub use toolhost::plugin::types;

/// The version that components are built against.
pub const VERSION: &str = "0.1.0";
/// Functions of the interface `host`.
pub const HOST_FUNCTIONS: [&str; 6] = [
    "log",
    "progress",
    "output",
    "emit",
    "cancelled",
    "remaining-ms",
];

/// Limits of a plugin's tool descriptions, because the tool list is part of every model's context.
const MAX_TOOLS: usize = 256;
const MAX_TEXT: usize = 16 << 10;
const MAX_SCHEMA: usize = 256 << 10;
/// Maximum entries of a list in a description, and bytes of one entry.
const MAX_LIST: usize = 64;
const MAX_ENTRY: usize = 256;
/// Overhead that is counted for each chunk of live output, in bytes.
const EVENT_OVERHEAD: usize = 64;
/// Maximum size of one recommendation, in bytes.
const MAX_RECOMMENDATION: usize = 2_000;
/// Maximum size of the details of one failure, in bytes.
const MAX_DETAILS: usize = 16 << 10;
/// Member names of extensible JSON objects with this prefix belong to later versions of the contract.
const RESERVED_PREFIX: &str = "dev.toolhost/";

pub fn add_to_linker(linker: &mut wasmtime::component::Linker<State>) -> wasmtime::Result<()> {
    toolhost::plugin::host::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    services::add_to_linker(linker)
}

impl types::Host for State {}

impl toolhost::plugin::host::Host for State {
    fn log(&mut self, level: String, message: String) {
        State::log(self, &level, &message);
    }

    fn progress(&mut self, update: toolhost::plugin::host::ProgressUpdate) {
        State::progress(self, update.message, update.progress, update.total);
    }

    fn output(&mut self, stream: String, bytes: Vec<u8>) {
        self.deadline.restart_inactivity();
        // An event costs the host more than its bytes, so its overhead counts too.
        if !bytes.is_empty() && self.stdout.count(bytes.len() + EVENT_OVERHEAD) {
            let stream = text::escape_line(&stream, 64);
            self.sink.event(CallEvent::Output { stream, bytes });
        }
    }

    fn emit(&mut self, event: String, data: String) {
        self.custom(event, &data);
    }

    fn cancelled(&mut self) -> bool {
        self.remaining().is_zero() || self.sink.is_cancelled()
    }

    fn remaining_ms(&mut self) -> f64 {
        self.remaining().as_secs_f64() * 1000.0
    }
}

/// Validates the tool descriptions of a plugin. Errors name the tool.
pub fn descriptors(
    described: Vec<types::Descriptor>,
    version: &str,
) -> Result<Vec<Descriptor>, String> {
    if described.is_empty() {
        return Err("it has no tools".to_owned());
    }
    if described.len() > MAX_TOOLS {
        return Err(format!(
            "it has {} tools; the limit is {MAX_TOOLS}",
            described.len()
        ));
    }
    let mut tools: Vec<Descriptor> = Vec::with_capacity(described.len());
    for raw in described {
        let shown = text::escape_line(&raw.name, 80);
        let tool =
            descriptor(raw, version).map_err(|reason| format!("tool `{shown}`: {reason}"))?;
        if tools.iter().any(|other| other.name == tool.name) {
            return Err(format!("it has two tools named `{}`", tool.name));
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn concurrency(mode: Option<&str>, annotations: Annotations) -> Result<Concurrency, String> {
    match mode {
        Some("parallel") => Ok(Concurrency::Parallel),
        Some("serial") => Ok(Concurrency::Serial),
        Some("exclusive") => Ok(Concurrency::Exclusive),
        Some(other) => Err(format!(
            "`{}` is not a concurrency mode; use parallel, serial or exclusive",
            text::escape_line(other, 40)
        )),
        None if annotations.read_only == Some(true) || annotations.pure == Some(true) => {
            Ok(Concurrency::Parallel)
        }
        None => Ok(Concurrency::Serial),
    }
}

fn descriptor(raw: types::Descriptor, plugin_version: &str) -> Result<Descriptor, String> {
    let name = ToolName::parse(&raw.name).map_err(|error| error.to_string())?;
    for (label, text) in [
        ("description", &raw.description),
        (
            "display name",
            raw.display_name.as_ref().unwrap_or(&raw.name),
        ),
    ] {
        if text.len() > MAX_TEXT {
            return Err(format!(
                "{label} of {} bytes; the limit is {MAX_TEXT}",
                text.len()
            ));
        }
    }
    check_lists(&raw)?;
    let annotations = Annotations {
        read_only: raw.annotations.read_only,
        pure: raw.annotations.pure,
        destructive: raw.annotations.destructive,
        idempotent: raw.annotations.idempotent,
        open_world: raw.annotations.open_world,
        interactive: raw.annotations.interactive,
    };
    let concurrency = concurrency(raw.concurrency.as_deref(), annotations)?;
    let examples = raw
        .examples
        .into_iter()
        .map(|example| {
            Ok(Example {
                description: example.description,
                input: object("an example's input", &example.input)?,
            })
        })
        .collect::<Result<_, String>>()?;
    let millis = |ms: u32| Duration::from_millis(ms.into());
    let description = if raw.description.trim().is_empty() {
        format!("The tool `{name}`; its author did not describe it.")
    } else {
        raw.description
    };
    Ok(Descriptor {
        display_name: raw.display_name.unwrap_or_else(|| name.title()),
        name,
        aliases: raw.aliases,
        description,
        icon: raw.icon,
        category: raw.category.unwrap_or_else(|| "custom".to_owned()),
        kind: raw.kind.unwrap_or_else(|| "other".to_owned()),
        version: raw.version.unwrap_or_else(|| plugin_version.to_owned()),
        tags: raw.tags,
        input_schema: schema("input schema", &raw.input_schema)?,
        output_schema: raw
            .output_schema
            .map(|text| object("output schema", &text))
            .transpose()?,
        strict: raw.strict.unwrap_or(true),
        annotations,
        concurrency,
        output_markdown: raw.output_markdown.unwrap_or(true),
        can_stream: raw.can_stream,
        can_background: raw.can_background,
        timeout: raw.timeout_ms.map(millis),
        inactivity_timeout: raw.inactivity_timeout_ms.map(millis),
        max_output_bytes: raw.max_output_bytes.map(u64::from),
        requires: raw.requires,
        depends_on: raw.depends_on,
        hooks: hooks(&raw.hooks)?,
        sinks: sinks(raw.sinks, &raw.input_schema)?,
        sources: sources(&raw.sources)?,
        examples,
        extra: raw.extra.as_deref().map(extra).transpose()?,
    })
}

fn extra(text: &str) -> Result<Value, String> {
    let extra = object("extra", text)?;
    let mut names = extra
        .as_object()
        .into_iter()
        .flat_map(|members| members.keys());
    match names.find(|name| name.starts_with(RESERVED_PREFIX)) {
        Some(name) => Err(format!(
            "extra has the reserved member `{}`, which this host does not know; use a newer host, or remove it",
            text::escape_line(name, 80)
        )),
        None => Ok(extra),
    }
}

fn hooks(names: &[String]) -> Result<ToolHooks, String> {
    let hooks = names.iter().map(|name| {
        ToolHook::parse(name).ok_or_else(|| {
            format!(
                "`{}` is not a hook; use {}",
                text::escape_line(name, 40),
                ToolHook::ALL.map(ToolHook::as_str).join(", ")
            )
        })
    });
    hooks.collect()
}

fn sinks(pointers: Vec<String>, input_schema: &str) -> Result<Vec<String>, String> {
    let schema = object("input schema", input_schema)?;
    let properties = schema.get("properties").and_then(Value::as_object);
    for pointer in &pointers {
        let shown = text::escape_line(pointer, 80);
        let Some(first) = pointer
            .strip_prefix('/')
            .and_then(|rest| rest.split('/').next())
        else {
            return Err(format!(
                "sink `{shown}` is not a JSON Pointer such as `/path`"
            ));
        };
        let first = first.replace("~1", "/").replace("~0", "~");
        if properties.is_some_and(|properties| !properties.contains_key(&first)) {
            return Err(format!(
                "sink `{shown}` names no property of the input schema"
            ));
        }
    }
    Ok(pointers)
}

fn sources(names: &[String]) -> Result<Vec<Source>, String> {
    let sources = names.iter().map(|name| {
        Source::parse(name).ok_or_else(|| {
            format!(
                "`{}` is not a source; use {}",
                text::escape_line(name, 40),
                Source::ALL.map(Source::as_str).join(", ")
            )
        })
    });
    sources.collect()
}

/// Lists and short fields end up in registries and menus, so their number and length are limited.
fn check_lists(raw: &types::Descriptor) -> Result<(), String> {
    let lists = [
        ("aliases", &raw.aliases),
        ("tags", &raw.tags),
        ("requires", &raw.requires),
        ("depends-on", &raw.depends_on),
        ("hooks", &raw.hooks),
        ("sinks", &raw.sinks),
        ("sources", &raw.sources),
    ];
    for (label, list) in lists {
        if list.len() > MAX_LIST || list.iter().any(|entry| entry.len() > MAX_ENTRY) {
            return Err(format!(
                "{label} may have at most {MAX_LIST} entries of {MAX_ENTRY} bytes"
            ));
        }
    }
    let fields = [
        ("icon", &raw.icon),
        ("category", &raw.category),
        ("kind", &raw.kind),
        ("version", &raw.version),
    ];
    for (label, field) in fields {
        if field.as_ref().is_some_and(|field| field.len() > MAX_ENTRY) {
            return Err(format!("{label} is longer than {MAX_ENTRY} bytes"));
        }
    }
    let long = raw
        .examples
        .iter()
        .any(|example| example.description.len() > MAX_TEXT);
    if raw.examples.len() > MAX_LIST || long {
        return Err(format!(
            "at most {MAX_LIST} examples, with descriptions of {MAX_TEXT} bytes"
        ));
    }
    Ok(())
}

fn schema(label: &str, json: &str) -> Result<Value, String> {
    let mut schema = object(label, json)?;
    // Agents written for the older format omit the type, but all model APIs require it.
    let object = schema
        .as_object_mut()
        .ok_or_else(|| format!("{label} is not an object"))?;
    match object.get("type") {
        None => {
            object.insert("type".to_owned(), Value::String("object".to_owned()));
        }
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => {
            let other = text::escape_line(&other.to_string(), 80);
            return Err(format!("{label} has type {other}; it must be \"object\""));
        }
    }
    Ok(schema)
}

fn object(label: &str, text: &str) -> Result<Value, String> {
    if text.len() > MAX_SCHEMA {
        return Err(format!(
            "{label} of {} bytes; the limit is {MAX_SCHEMA}",
            text.len()
        ));
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => Err(format!("{label} is not a JSON object")),
        Err(error) => Err(format!("{label} is not JSON: {error}")),
    }
}

/// Converts the outcome of a call. `limit` bounds the total size of its texts and blobs, in bytes.
pub fn outcome(raw: types::Outcome, limit: u64) -> Result<Outcome, CallError> {
    let size = outcome_size(&raw);
    if size > limit {
        return Err(CallError::new(
            ErrorClass::OutputLimit,
            format!("the result is {size} bytes; the limit is {limit} bytes"),
        )
        .recommend("ask for less: a narrower path or pattern, or a range"));
    }
    let bad = |label: &str, error: String| {
        CallError::new(
            ErrorClass::Failed,
            format!("the tool returned an invalid {label}: {error}"),
        )
        .code("invalid_output")
    };
    let json = |label: &'static str, text: Option<String>| {
        text.map(|text| {
            exact_integers::parse_exact::<Value>(&text).map_err(|error| bad(label, error))
        })
        .transpose()
    };
    let llm = raw
        .llm
        .into_iter()
        .map(|raw| part(raw).map_err(|error| bad("content part", error)))
        .collect::<Result<_, _>>()?;
    Ok(Outcome {
        summary: raw.summary,
        llm,
        structured: json("structured result", raw.structured)?,
        display: raw.display.map(preview::display).transpose()?,
        error: raw.error.map(failure),
        truncated: raw.truncated.map(|truncated| Truncation {
            original_bytes: truncated.original_bytes,
            shown_bytes: truncated.shown_bytes,
            saved_to: truncated.saved_to,
        }),
        tail: raw
            .tail
            .map(|tail| {
                Ok::<_, CallError>(TailCall {
                    tool: tail.tool,
                    input: json("tail call", Some(tail.input))?.unwrap_or_default(),
                })
            })
            .transpose()?,
        meta: json("meta", raw.meta)?.map(without_reserved),
    })
}

fn outcome_size(raw: &types::Outcome) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let parts: usize = raw
        .llm
        .iter()
        .map(|part| {
            let names =
                part.kind.len() + text(&part.media_type) + text(&part.uri) + text(&part.name);
            text(&part.text) + part.data.as_ref().map_or(0, Vec::len) + names + 64
        })
        .sum();
    let error = raw.error.as_ref().map_or(0, |error| {
        let advice: usize = error
            .recommendations
            .iter()
            .map(|advice| advice.len() + 24)
            .sum();
        text(&error.code) + error.message.len() + advice + text(&error.cause) + text(&error.details)
    });
    let tail = raw
        .tail
        .as_ref()
        .map_or(0, |tail| tail.tool.len() + tail.input.len());
    let saved_to = raw
        .truncated
        .as_ref()
        .map_or(0, |truncated| text(&truncated.saved_to));
    let rest = text(&raw.summary) + text(&raw.structured) + text(&raw.meta);
    (parts + error + tail + saved_to + rest) as u64 + raw.display.as_ref().map_or(0, display_size)
}

fn display_size(display: &types::Display) -> u64 {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let diff = display.diff.as_ref().map_or(0, |diff| {
        diff.file_name.len() + diff.diff.len() + text(&diff.original) + diff.new.len()
    });
    (display.kind.len() + text(&display.text) + text(&display.data) + diff) as u64
}

fn part(raw: types::Part) -> Result<Part, String> {
    let media =
        |media: Option<String>| media.unwrap_or_else(|| "application/octet-stream".to_owned());
    Ok(match (raw.kind.as_str(), raw.data) {
        ("text", _) => Part::Text(raw.text.unwrap_or_default()),
        ("json", _) => Part::Json(exact_integers::parse_exact(&raw.text.unwrap_or_default())?),
        ("image", Some(data)) => Part::Image {
            data,
            media_type: media(raw.media_type),
        },
        ("audio", Some(data)) => Part::Audio {
            data,
            media_type: media(raw.media_type),
        },
        ("file", Some(data)) => Part::File {
            data,
            media_type: media(raw.media_type),
            uri: raw.uri,
            name: raw.name,
        },
        ("resource-link", _) => Part::ResourceLink {
            uri: raw.uri.unwrap_or_default(),
            name: raw.name,
            media_type: raw.media_type,
        },
        (kind, _) => Part::Other {
            kind: text::escape_line(kind, 64),
            text: raw.text,
        },
    })
}

/// Error codes of the host. A tool that uses one could imitate a denial or cancellation.
const RESERVED: [&str; 12] = [
    "approval_pending",
    "cancelled",
    "capability_missing",
    "duplicate_call_id",
    "hook_denied",
    "policy_violation",
    "repeated_failure",
    "sealed",
    "sibling_cancelled",
    "stop_execution",
    "store_unavailable",
    "user_denied",
];

fn code(raw: &str) -> String {
    if RESERVED.contains(&raw) {
        format!("tool:{raw}")
    } else {
        text::escape_line(raw, 64)
    }
}

fn failure(mut raw: types::Failure) -> Failure {
    Failure {
        details: details(&mut raw),
        code: raw.code.as_deref().map(code),
        message: raw.message,
        recommendations: raw.recommendations,
        retryable: raw.retryable,
        cause: raw.cause,
    }
}

/// The details of a failure. Invalid details must not hide the failure, so they are replaced by a note in its cause.
fn details(raw: &mut types::Failure) -> Option<Value> {
    let text = raw.details.take()?;
    let problem = if text.len() > MAX_DETAILS {
        format!("{} bytes; the limit is {MAX_DETAILS}", text.len())
    } else {
        match exact_integers::parse_exact::<Value>(&text) {
            Ok(value) if value.is_object() => return Some(without_reserved(value)),
            Ok(_) => "not a JSON object".to_owned(),
            Err(error) => format!("not JSON: {error}"),
        }
    };
    let cause = raw.cause.take().map_or(String::new(), |cause| cause + "\n");
    raw.cause = Some(format!("{cause}the details of the failure are {problem}"));
    None
}

/// Removes members that belong to later versions of the contract, so that this host passes on only what it understands.
fn without_reserved(mut value: Value) -> Value {
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !name.starts_with(RESERVED_PREFIX));
    }
    value
}

pub fn error(raw: types::ToolError) -> CallError {
    let (class, mut raw) = match raw {
        types::ToolError::InvalidInput(failure) => (ErrorClass::InvalidInput, failure),
        types::ToolError::NotFound(failure) => (ErrorClass::NotFound, failure),
        types::ToolError::Denied(failure) => (ErrorClass::Denied, failure),
        types::ToolError::Interrupted(failure) if failure.code.as_deref() == Some("timeout") => {
            (ErrorClass::TimedOut, failure)
        }
        types::ToolError::Interrupted(failure) => (ErrorClass::Cancelled, failure),
        types::ToolError::Unavailable(failure) => (ErrorClass::Unavailable, failure),
        types::ToolError::Failed(failure) => (ErrorClass::Failed, failure),
    };
    let mut error = CallError::new(class, text::head(&raw.message, 16 << 10));
    error.details = details(&mut raw);
    if let Some(code) = raw.code {
        error.code = self::code(&code);
    }
    error.recommendations = raw
        .recommendations
        .iter()
        .take(16)
        .map(|advice| text::head(advice, MAX_RECOMMENDATION).to_owned())
        .collect();
    error.retryable = raw.retryable;
    error.cause = raw.cause.map(|cause| text::escape_lines(&cause, 2_000));
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn with_details(details: &str) -> CallError {
        error(types::ToolError::Unavailable(types::Failure {
            code: Some("busy".to_owned()),
            message: "the server is busy".to_owned(),
            recommendations: Vec::new(),
            retryable: true,
            cause: Some("503".to_owned()),
            details: Some(details.to_owned()),
        }))
    }

    #[test]
    fn details_of_a_failure_are_passed_on_without_reserved_members() {
        let error = with_details(r#"{"retry_after_ms": 2000, "dev.toolhost/later": 1}"#);
        assert_eq!(error.details, Some(json!({"retry_after_ms": 2000})));
        assert_eq!(error.cause.as_deref(), Some("503"));
    }

    #[test]
    fn invalid_details_do_not_hide_the_failure() {
        let long = format!(r#"{{"a": "{}"}}"#, "x".repeat(MAX_DETAILS));
        for (details, problem) in [
            ("[1]", "not a JSON object"),
            ("{", "not JSON"),
            (long.as_str(), "the limit is 16384"),
        ] {
            let error = with_details(details);
            assert_eq!((error.code.as_str(), error.details), ("busy", None));
            let cause = error.cause.unwrap();
            assert!(
                cause.starts_with("503\nthe details") && cause.contains(problem),
                "{cause}"
            );
        }
    }

    #[test]
    fn a_reserved_member_of_a_descriptor_is_refused() {
        assert_eq!(extra(r#"{"theme": 1}"#), Ok(json!({"theme": 1})));
        let error = extra(r#"{"dev.toolhost/later": 1}"#).unwrap_err();
        assert!(error.contains("`dev.toolhost/later`"), "{error}");
        let reserved = json!({"a": 1, "dev.toolhost/later": 1});
        assert_eq!(without_reserved(reserved), json!({"a": 1}));
    }

    #[test]
    fn a_hook_that_the_host_does_not_know_is_an_error() {
        let hooks = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            super::hooks(&names).map(|hooks| hooks.iter().collect::<Vec<_>>())
        };
        assert_eq!(
            hooks(&["confirm", "validate"]),
            Ok(vec![ToolHook::Validate, ToolHook::Confirm])
        );
        assert_eq!(
            hooks(&["confirm", "re\u{1b}nder"]),
            Err(
                "`re\\u{1b}nder` is not a hook; use validate, describe-call, locations, confirm, \
                 render-permission, render-result, pre-tool-use, post-tool-use"
                    .to_owned()
            )
        );
    }
}
