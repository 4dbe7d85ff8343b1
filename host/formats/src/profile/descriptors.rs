//! Translation of descriptors to a profile: description, schema and examples.

use serde_json::{Map, Value};

use super::mapping::{DefaultValue, ParamMapping, ToolMapping, ValueConversion};
use super::name_replacement::UnlistedNames;
use super::params::{allows, items, property, to_agent};
use super::profiled_registry::ProfiledRegistry;
use super::render::has_shape;
use toolhost_contract::{Descriptor, Example};

impl ProfiledRegistry<'_> {
    pub(super) fn descriptor(&self, tool: &Descriptor, row: &ToolMapping) -> Descriptor {
        let replacer = self.replacer(Some(row), UnlistedNames::Mark);
        let mut shown = tool.clone();
        let listed = |text: &str| replacer.describe(text).unwrap_or_else(|| text.to_owned());
        shown.description = match row.description {
            Some(description) => description.to_owned(),
            None => listed(&tool.description),
        };
        let schema = &tool.input_schema;
        shown.input_schema = object_schema(schema, schema, row.params, row.defaults);
        replacer.apply_to_descriptions(&mut shown.input_schema);
        shown.examples = tool
            .examples
            .iter()
            .filter_map(|example| {
                Some(Example {
                    description: listed(&example.description),
                    input: example_input(schema, row, &example.input)?,
                })
            })
            .collect();
        // These are the listed hints only; rules use the canonical ones.
        if row.is_not_read_only {
            shown.annotations.read_only = Some(false);
            shown.annotations.pure = Some(false);
            shown.annotations.destructive = shown.annotations.destructive.or(Some(false));
        }
        // The output schema does not describe the changed shape, and clients validate against it.
        if has_shape(self.profile, row.canonical) {
            shown.output_schema = None;
        }
        shown
    }
}

/// Returns an object schema with the mapped properties, in the order of the table.
fn object_schema(
    root: &Value,
    schema: &Value,
    params: &[ParamMapping],
    fills: &[(&str, DefaultValue)],
) -> Value {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return schema.clone();
    };
    let required: Vec<&str> = strings(schema.get("required")).collect();
    let fill = |name: &str| {
        let mut fills = fills.iter();
        fills.find(|(ours, _)| property(schema, ours).is_some_and(|(own, _)| own == name))
    };
    let mut shown = Map::new();
    let mut needed: Vec<Value> = Vec::new();
    let mut used: Vec<&str> = Vec::new();
    for param in params {
        if let ValueConversion::Flatten(members) = param.conversion {
            if let Some(inner) = spread_schema(root, schema, param, members) {
                shown.insert(param.agent_name.to_owned(), inner);
            }
            continue;
        }
        let Some((name, own)) = property(schema, param.canonical) else {
            continue;
        };
        // Two agent parameters can map to one canonical parameter; the first one is shown.
        if used.contains(&name) {
            continue;
        }
        let fill = fill(name);
        let constant = fill.and_then(|(_, fill)| fill.constant());
        shown.insert(
            param.agent_name.to_owned(),
            property_schema(root, own, param, constant),
        );
        if param.required || required.contains(&name) && fill.is_none() {
            needed.push(param.agent_name.into());
        }
        used.push(name);
    }
    // Required parameters are always shown, because calls without them would fail.
    for (name, own) in properties {
        if required.contains(&name.as_str())
            && !used.contains(&name.as_str())
            && fill(name).is_none()
        {
            shown.insert(name.clone(), own.clone());
            needed.push(name.as_str().into());
        }
    }
    let mut whole = schema.as_object().cloned().unwrap_or_default();
    whole.insert("properties".to_owned(), Value::Object(shown));
    if needed.is_empty() {
        whole.shift_remove("required");
    } else {
        whole.insert("required".to_owned(), Value::Array(needed));
    }
    let mut whole = Value::Object(whole);
    remove_aliases(&mut whole);
    whole
}

fn property_schema(root: &Value, own: &Value, param: &ParamMapping, fill: Option<Value>) -> Value {
    let mut shown = own.clone();
    if let Some(value) = fill.filter(|value| allows(own, value)) {
        shown["default"] = value;
    }
    match param.conversion {
        ValueConversion::Same | ValueConversion::Flatten(_) | ValueConversion::Encoding => {}
        ValueConversion::Negate => {
            if let Some(Value::Bool(default)) = shown.get_mut("default") {
                *default = !*default;
            }
        }
        ValueConversion::Flag(_) => {
            shown = serde_json::json!({"type": "boolean", "default": false});
        }
        ValueConversion::Items(members) => {
            if let Some(items) = items(root, own) {
                shown["items"] = object_schema(root, items, members, &[]);
            }
        }
    }
    if let Some(shown) = shown.as_object_mut() {
        describe(shown, param.description);
        if param.required {
            shown.shift_remove("default");
        }
    }
    shown
}

/// Returns the schema of an object that contains canonical parameters, or `None` if the tool has none of them.
fn spread_schema(
    root: &Value,
    schema: &Value,
    param: &ParamMapping,
    members: &[ParamMapping],
) -> Option<Value> {
    let mut properties = object_schema(root, schema, members, &[])["properties"].take();
    let listed = properties.as_object_mut()?;
    listed.retain(|name, _| members.iter().any(|member| member.agent_name == name));
    if listed.is_empty() {
        return None;
    }
    let mut shown = Map::new();
    shown.insert("type".to_owned(), "object".into());
    describe(&mut shown, param.description);
    shown.insert("properties".to_owned(), properties);
    shown.insert("additionalProperties".to_owned(), false.into());
    Some(Value::Object(shown))
}

fn describe(schema: &mut Map<String, Value>, says: Option<&str>) {
    if let Some(says) = says {
        schema.insert("description".to_owned(), says.into());
    }
}

/// Removes aliases, which are for the repair of calls and would confuse a model.
fn remove_aliases(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.shift_remove("x-aliases");
            members.values_mut().for_each(remove_aliases);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_aliases),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Translates an example input. Returns `None` if the agent's tool cannot express it.
fn example_input(schema: &Value, row: &ToolMapping, input: &Value) -> Option<Value> {
    let mut input = input.as_object()?.clone();
    for (name, fill) in row.defaults {
        let Some((name, own)) = property(schema, name) else {
            continue;
        };
        let shown = row.params.iter().any(|param| {
            property(schema, param.canonical).is_some_and(|(listed, _)| listed == name)
        });
        let Some(constant) = fill.constant() else {
            input.shift_remove(name);
            continue;
        };
        let given = input.get(name).or_else(|| own.get("default"));
        if given == Some(&constant) {
            input.shift_remove(name);
        } else if shown {
            let given = given.cloned()?;
            input.insert(name.to_owned(), given);
        } else {
            return None;
        }
    }
    // Add parameters that only the agent requires.
    for param in row.params.iter().filter(|param| param.required) {
        if let Some((name, own)) = property(schema, param.canonical)
            && !input.contains_key(name)
        {
            input.insert(name.to_owned(), own.get("default")?.clone());
        }
    }
    to_agent(schema, schema, row.params, &input).map(Value::Object)
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    let list = list.and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str)
}
