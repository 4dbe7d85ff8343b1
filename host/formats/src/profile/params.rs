//! Lookup of schema properties, and conversion of inputs between canonical and agent parameters.

use serde_json::{Map, Value};

use super::mapping::{ParamMapping, ValueConversion};

/// Returns the property named `ours`, or with `ours` as an alias. `a|b` selects the first one that exists.
pub(super) fn property<'a>(schema: &'a Value, ours: &str) -> Option<(&'a str, &'a Value)> {
    let properties = schema.get("properties")?.as_object()?;
    let named = |name: &str| {
        let (name, property) = properties.get_key_value(name)?;
        Some((name.as_str(), property))
    };
    let aliased = |name: &str| {
        let (name, property) = properties
            .iter()
            .find(|(_, property)| is_alias(property, name))?;
        Some((name.as_str(), property))
    };
    ours.split('|')
        .find_map(|name| named(name).or_else(|| aliased(name)))
}

fn is_alias(property: &Value, name: &str) -> bool {
    let aliases = property.get("x-aliases").and_then(Value::as_array);
    aliases.into_iter().flatten().any(|alias| alias == name)
}

/// Returns the schema, or the target of its reference within `root`.
pub(super) fn follow<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema.get("$ref").and_then(Value::as_str);
    target
        .and_then(|target| root.pointer(target.strip_prefix('#')?))
        .unwrap_or(schema)
}

/// Converts a model's input to canonical parameters. Unknown members are unchanged and left to input validation.
pub(super) fn to_canonical(
    root: &Value,
    schema: &Value,
    params: &[ParamMapping],
    theirs: Map<String, Value>,
) -> Map<String, Value> {
    let written: Vec<String> = theirs.keys().cloned().collect();
    let mut ours = Map::new();
    for (name, value) in theirs {
        let Some(param) = params.iter().find(|param| param.agent_name == name) else {
            ours.entry(name).or_insert(value);
            continue;
        };
        if let ValueConversion::Flatten(members) = param.conversion {
            flatten(root, schema, members, (name, value), &written, &mut ours);
            continue;
        }
        let found = property(schema, param.canonical);
        // If a parameter is given under two names, both are kept, so that validation reports the conflict.
        let found = found.filter(|(own, _)| {
            *own == name || !written.iter().any(|other| other == own) && !ours.contains_key(*own)
        });
        let Some((property_name, property)) = found else {
            ours.insert(name, value);
            continue;
        };
        if let Some(value) = value_to_canonical(root, property, param.conversion, value) {
            ours.insert(property_name.to_owned(), value);
        }
    }
    ours
}

/// Flattens an object into the parameters, unless one of them is already present.
fn flatten(
    root: &Value,
    schema: &Value,
    members: &[ParamMapping],
    (name, value): (String, Value),
    written: &[String],
    ours: &mut Map<String, Value>,
) {
    let Value::Object(inner) = value else {
        if !value.is_null() {
            ours.insert(name, value);
        }
        return;
    };
    let renamed = to_canonical(root, schema, members, inner.clone());
    if renamed
        .keys()
        .any(|own| ours.contains_key(own) || written.contains(own))
    {
        ours.insert(name, Value::Object(inner));
    } else {
        ours.extend(renamed);
    }
}

/// Returns `None` if the value has no canonical equivalent and can be omitted.
fn value_to_canonical(
    root: &Value,
    property: &Value,
    change: ValueConversion,
    value: Value,
) -> Option<Value> {
    match change {
        ValueConversion::Same | ValueConversion::Flatten(_) => Some(value),
        ValueConversion::Negate => Some(match parse_bool(&value) {
            Some(truth) => Value::Bool(!truth),
            None => value,
        }),
        ValueConversion::Flag(flag) => match parse_bool(&value) {
            Some(true) => Some(flag.into()),
            Some(false) => None,
            None if value.is_null() => None,
            None => Some(value),
        },
        ValueConversion::Encoding => Some(match value.as_str() {
            Some(name) => encoding(name).into(),
            None => value,
        }),
        ValueConversion::Items(members) => {
            let schema = items(root, property);
            // Models sometimes write lists as text, whose member names must be converted as well.
            let list = match &value {
                Value::String(text) => serde_json::from_str(text).ok().filter(Value::is_array),
                _ => None,
            };
            Some(match list.unwrap_or(value) {
                Value::Array(items) => items
                    .into_iter()
                    .map(|item| match (item, schema) {
                        (Value::Object(item), Some(schema)) => {
                            Value::Object(to_canonical(root, schema, members, item))
                        }
                        (item, _) => item,
                    })
                    .collect(),
                other => other,
            })
        }
    }
}

/// Converts canonical parameters to agent parameters, for examples and for results that contain inputs. Returns `None`
/// if the input cannot be expressed.
pub(super) fn to_agent(
    root: &Value,
    schema: &Value,
    params: &[ParamMapping],
    ours: &Map<String, Value>,
) -> Option<Map<String, Value>> {
    let mut theirs = Map::new();
    for (name, value) in ours {
        let param = params
            .iter()
            .find(|param| maps_to(schema, param, name) && can_express(param, value));
        if let Some(param) = param {
            let value = value_to_agent(root, schema, param, value)?;
            theirs.insert(param.agent_name.to_owned(), value);
            continue;
        }
        let (outer, inner) = params.iter().find_map(|outer| match outer.conversion {
            ValueConversion::Flatten(members) => {
                let inner = members.iter().find(|inner| maps_to(schema, inner, name));
                inner.map(|inner| (outer, inner))
            }
            _ => None,
        })?;
        let value = value_to_agent(root, schema, inner, value)?;
        theirs
            .entry(outer.agent_name)
            .or_insert_with(|| Value::Object(Map::new()))
            .as_object_mut()?
            .insert(inner.agent_name.to_owned(), value);
    }
    Some(theirs)
}

fn maps_to(schema: &Value, param: &ParamMapping, name: &str) -> bool {
    !matches!(param.conversion, ValueConversion::Flatten(_))
        && property(schema, param.canonical).is_some_and(|(own, _)| own == name)
}

fn can_express(param: &ParamMapping, value: &Value) -> bool {
    match param.conversion {
        ValueConversion::Flag(flag) => value == flag,
        ValueConversion::Same
        | ValueConversion::Negate
        | ValueConversion::Items(_)
        | ValueConversion::Flatten(_)
        | ValueConversion::Encoding => true,
    }
}

fn value_to_agent(
    root: &Value,
    schema: &Value,
    param: &ParamMapping,
    value: &Value,
) -> Option<Value> {
    Some(match param.conversion {
        ValueConversion::Same | ValueConversion::Flatten(_) | ValueConversion::Encoding => {
            value.clone()
        }
        ValueConversion::Negate => Value::Bool(!value.as_bool()?),
        ValueConversion::Flag(flag) => Value::Bool(value == flag),
        ValueConversion::Items(members) => {
            let (_, property) = property(schema, param.canonical)?;
            let schema = items(root, property)?;
            let list = value.as_array()?.iter();
            list.map(|item| {
                let item = to_agent(root, schema, members, item.as_object()?)?;
                Some(Value::Object(item))
            })
            .collect::<Option<_>>()?
        }
    })
}

/// Returns whether the property allows the value, if it enumerates its values. A tool may not have the value that the
/// agent defaults to.
pub(super) fn allows(property: &Value, value: &Value) -> bool {
    let listed = property.get("enum").and_then(Value::as_array);
    let named = ["oneOf", "anyOf"].iter().find_map(|keyword| {
        let choices = property.get(keyword)?.as_array()?;
        Some(choices.iter().filter_map(|choice| choice.get("const")))
    });
    match (listed, named) {
        (Some(values), _) => values.contains(value),
        (None, Some(mut values)) => values.any(|one| one == value),
        (None, None) => true,
    }
}

pub(super) fn items<'a>(root: &'a Value, property: &'a Value) -> Option<&'a Value> {
    let items = follow(root, property).get("items")?;
    Some(follow(root, items))
}

/// Parses a boolean, also if it was written as text.
fn parse_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(truth) => Some(*truth),
        Value::String(text) => match text.trim() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Converts the Node.js name of a text encoding to the standard name.
fn encoding(name: &str) -> &str {
    match name.to_ascii_lowercase().as_str() {
        "utf8" => "utf-8",
        "utf16le" | "ucs2" | "ucs-2" => "utf-16le",
        "binary" | "ascii" => "latin1",
        _ => name,
    }
}
