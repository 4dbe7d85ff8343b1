//! Parses the output of a discovery command into tools.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolhost_contract::{Annotations, Descriptor, ToolName, text};

use crate::config::TIMEOUT;
use crate::definition::{self, Definition};
use crate::tool_conversion::{
    AdoptedTool, ExcludedTool, MAX_TOOLS, ToolCheck, allow_additional_properties,
};
use crate::tool_names::discovered_name;

const MAX_DESCRIPTION: usize = 8_000;

/// A list of declarations, or of groups of them. `parameters` can omit `"type": "object"`.
pub fn declarations(
    output: &str,
    accept: &ToolCheck,
) -> Result<(Vec<AdoptedTool>, Vec<ExcludedTool>), String> {
    let list: Value = serde_json::from_str(output.trim()).map_err(|error| {
        format!(
            "the discovery command did not print a list of tools as JSON: {}; the output begins with: {}",
            text::escape_line(&error.to_string(), 200),
            text::escape_line(output.trim(), 100)
        )
    })?;
    let Value::Array(list) = list else {
        return Err("the discovery command printed JSON that is not a list".to_owned());
    };
    let grouped = list.into_iter().flat_map(|one| {
        let group = one
            .get("functionDeclarations")
            .or_else(|| one.get("function_declarations"));
        match group.and_then(Value::as_array) {
            Some(group) => group.clone(),
            None => vec![one],
        }
    });
    let mut adopted: BTreeMap<ToolName, AdoptedTool> = BTreeMap::new();
    let mut left_out = Vec::new();
    for (at, declaration) in grouped.enumerate() {
        if at == MAX_TOOLS {
            left_out.push(ExcludedTool::new(
                "…",
                format!("there are more than {MAX_TOOLS} tools"),
            ));
            break;
        }
        let own = declaration["name"].as_str().unwrap_or_default().to_owned();
        let taken = convert_declaration(&own, declaration, accept).and_then(|one| {
            let name = &one.descriptor.name;
            if adopted.contains_key(name) {
                return Err(format!("another tool is called `{name}`"));
            }
            Ok(one)
        });
        match taken {
            Ok(one) => {
                adopted.insert(one.descriptor.name.clone(), one);
            }
            Err(reason) => left_out.push(ExcludedTool::new(&own, reason)),
        }
    }
    Ok((adopted.into_values().collect(), left_out))
}

fn convert_declaration(
    own: &str,
    mut declaration: Value,
    accept: &ToolCheck,
) -> Result<AdoptedTool, String> {
    if own.is_empty()
        || own.starts_with('-')
        || own.chars().any(char::is_control)
        || own.len() > 256
    {
        return Err("its `name` is missing or cannot be a command argument".to_owned());
    }
    let mut schema = declaration
        .get("parameters")
        .or_else(|| declaration.get("parametersJsonSchema"))
        .cloned()
        .unwrap_or_else(|| json!({}));
    if let Some(schema) = schema.as_object_mut() {
        schema.entry("type").or_insert_with(|| json!("object"));
    }
    declaration.sort_all_objects();
    let definition = Definition {
        tool: own.to_owned(),
        digest: definition::digest(&declaration.to_string()),
        json: declaration,
    };
    if definition.size() > definition::MAX_BYTES {
        return Err(format!(
            "its declaration is {} bytes, the limit is {}",
            definition.size(),
            definition::MAX_BYTES
        ));
    }
    let declared = definition.json["description"].as_str().unwrap_or_default();
    let description = if declared.trim().is_empty() {
        format!("The tool {} of this project.", text::escape_line(own, 100))
    } else {
        declared.chars().take(MAX_DESCRIPTION).collect()
    };
    let mut tool = Descriptor::new(discovered_name(own), description);
    "discovered".clone_into(&mut tool.category);
    tool.tags = vec!["discovered".to_owned(), "not sandboxed".to_owned()];
    if let Some(schema) = schema.as_object_mut() {
        allow_additional_properties(schema);
    }
    tool.input_schema = schema;
    tool.strict = false;
    tool.annotations = Annotations {
        read_only: Some(false),
        destructive: Some(true),
        open_world: Some(true),
        ..Annotations::default()
    };
    tool.timeout = Some(TIMEOUT);
    accept(&tool)?;
    Ok(AdoptedTool {
        descriptor: tool,
        definition,
    })
}
