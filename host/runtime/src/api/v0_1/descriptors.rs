//! Validation and conversion of the tool descriptions of a plugin.

use std::time::Duration;

use serde_json::Value;
use toolhost_contract::{
    Annotations, Concurrency, Descriptor, Example, Source, ToolHook, ToolHooks, ToolName, text,
    value_counter,
};

use super::{RESERVED_PREFIX, types};

/// Limits of a plugin's tool descriptions, because the tool list is part of every model's context.
pub const MAX_TOOLS: usize = 256;
pub const MAX_TEXT: usize = 16 << 10;
const MAX_SCHEMA: usize = 256 << 10;
/// Maximum entries of a list in a description, and bytes of one entry.
pub(super) const MAX_LIST: usize = 64;
const MAX_ENTRY: usize = 256;

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
    if !value_counter::are_within_limit(described.iter().flat_map(json_texts)) {
        return Err(format!(
            "the schemas, examples and `extra` of its tools have more than {} JSON values",
            value_counter::MAX_VALUES
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

/// All texts of a description that are parsed as JSON.
fn json_texts(raw: &types::Descriptor) -> impl Iterator<Item = &str> {
    let examples = raw.examples.iter().map(|example| &example.input);
    [&raw.input_schema]
        .into_iter()
        .chain(&raw.output_schema)
        .chain(&raw.extra)
        .chain(examples)
        .map(String::as_str)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_values_of_all_descriptions_are_limited() {
        let described = |name: &str, extra: &str| -> types::Descriptor {
            serde_json::from_value(json!({
                "name": name, "aliases": [], "description": "", "tags": [], "input_schema": "{}",
                "annotations": {}, "can_stream": false, "can_background": false, "requires": [],
                "depends_on": [], "sinks": [], "sources": [], "hooks": [], "examples": [], "extra": extra,
            }))
            .unwrap()
        };
        let many = format!(r#"{{"a": [{}0]}}"#, "0,".repeat(60_000));
        let one = described("one", &many);
        assert!(descriptors(vec![one.clone()], "1").is_ok());
        let error = descriptors(vec![one, described("two", &many)], "1").unwrap_err();
        assert!(error.contains("100000 JSON values"), "{error}");
    }

    #[test]
    fn a_reserved_member_of_a_descriptor_is_refused() {
        assert_eq!(extra(r#"{"theme": 1}"#), Ok(json!({"theme": 1})));
        let error = extra(r#"{"dev.toolhost/later": 1}"#).unwrap_err();
        assert!(error.contains("`dev.toolhost/later`"), "{error}");
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
