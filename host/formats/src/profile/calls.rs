//! Translation of model calls to canonical calls.

use serde_json::{Map, Value};

use super::mapping::{ParamMapping, ToolMapping};
use super::params::{allows, property, to_agent, to_canonical};
use super::profiled_registry::ProfiledRegistry;
use toolhost_contract::exact_integers::parse_exact;

/// Maximum depth of nested calls (`background_run` of a `background_run` …) that are translated. Deeper ones are
/// refused when they run.
const MAX_NESTED_CALLS: usize = 8;

impl ProfiledRegistry<'_> {
    /// Returns the canonical name and input of a call. Names that the profile does not know are unchanged: canonical
    /// names are valid in every profile.
    pub fn accept(&self, name: &str, input: Value) -> (String, Value) {
        self.translated(name, input, MAX_NESTED_CALLS)
    }

    /// Returns the name and input with which a model makes a canonical call, for displays, or `None` if they are the same
    /// or the agent has no tool for the call. Parameters that the agent does not have keep their canonical names, and
    /// values that it defaults to are omitted.
    pub fn agent_call(&self, canonical: &str, input: &Value) -> Option<(&'static str, Value)> {
        self.shown(canonical, input, MAX_NESTED_CALLS)
    }

    fn shown(&self, canonical: &str, input: &Value, depth: usize) -> Option<(&'static str, Value)> {
        let (Some(tool), Some(given)) = (self.tool(canonical), input.as_object()) else {
            // Also for a call that runs while its tool is removed.
            let row = self.mappings(canonical).next()?;
            return (row.name != canonical).then(|| (row.name, input.clone()));
        };
        let schema = &tool.input_schema;
        // Several tools of the agent can be one canonical tool with different values of a parameter.
        let row = self
            .mappings(canonical)
            .find(|row| is_made_with(row, schema, given))?;
        let unchanged = || (row.name != canonical).then(|| (row.name, input.clone()));
        let mut theirs = Map::new();
        for (name, value) in given {
            let mut defaults = constant_defaults(row, schema);
            if defaults.any(|default| (default.0, &default.1) == (name.as_str(), value)) {
                continue;
            }
            let one = Map::from_iter([(name.clone(), value.clone())]);
            let converted = to_agent(schema, schema, row.params, &one);
            // An invalid input, with a parameter under two names.
            if converted.is_none() && row.params.iter().any(|param| param.agent_name == name) {
                return unchanged();
            }
            let converted = converted.unwrap_or(one);
            for (name, value) in converted {
                match (theirs.get_mut(&name), value) {
                    (Some(Value::Object(outer)), Value::Object(members)) => outer.extend(members),
                    (Some(_), _) => return unchanged(),
                    (None, value) => drop(theirs.insert(name, value)),
                }
            }
        }
        if canonical == "background_run"
            && let Some(depth) = depth.checked_sub(1)
        {
            self.show_inner_call(&mut theirs, depth);
        }
        (row.name != canonical || theirs != *given).then(|| (row.name, Value::Object(theirs)))
    }

    fn show_inner_call(&self, call: &mut Map<String, Value>, depth: usize) {
        let member = |names: &[&'static str]| {
            let mut names = names.iter();
            names.find(|name| call.contains_key(**name)).copied()
        };
        if let (Some(tool), Some(params)) = (member(&NAMES), member(&INPUTS))
            && let Some(inner) = call[tool].as_str()
            && let Some((name, input)) = self.shown(inner, &call[params], depth)
        {
            call.insert(tool.to_owned(), name.into());
            call.insert(params.to_owned(), input);
        }
    }

    /// Returns the canonical name of a tool.
    fn canonical<'n>(&self, name: &'n str) -> &'n str {
        self.mapping(name).map_or(name, |row| row.canonical)
    }

    fn translated(&self, name: &str, input: Value, depth: usize) -> (String, Value) {
        let canonical = self.canonical(name).to_owned();
        let input = match object(input) {
            Ok(members) => {
                let mut members = match self.mapping(name) {
                    Some(row) => self.canonical_input(row, members),
                    None => members,
                };
                self.inner_calls(&canonical, &mut members, depth);
                Value::Object(members)
            }
            Err(other) => other,
        };
        (canonical, input)
    }

    fn canonical_input(
        &self,
        row: &ToolMapping,
        members: Map<String, Value>,
    ) -> Map<String, Value> {
        let Some(tool) = self.tool(row.canonical) else {
            return members;
        };
        let schema = &tool.input_schema;
        let mut ours = to_canonical(schema, schema, row.params, members);
        for (name, fill) in row.defaults {
            let Some((name, property)) = property(schema, name) else {
                continue;
            };
            // Models write null for parameters that they omit.
            if ours.get(name).is_none_or(Value::is_null)
                && let Some(value) = fill.value(&ours)
                && allows(property, &value)
            {
                ours.insert(name.to_owned(), value);
            }
        }
        ours
    }

    /// Translates the tool names and inputs that tools which call other tools take as parameters.
    fn inner_calls(&self, canonical: &str, members: &mut Map<String, Value>, depth: usize) {
        let Some(depth) = depth.checked_sub(1) else {
            return;
        };
        match canonical {
            "background_run" => self.inner_call(members, depth),
            "tool_chain" => {
                for step in objects(members.get_mut("steps")) {
                    self.inner_call(step, depth);
                }
            }
            "task" => {
                let tools = members.get_mut("tools").and_then(Value::as_array_mut);
                for tool in tools.into_iter().flatten() {
                    if let Value::String(name) = tool {
                        *name = self.canonical(name).to_owned();
                    }
                }
            }
            _ => {}
        }
    }

    fn inner_call(&self, call: &mut Map<String, Value>, depth: usize) {
        let named = NAMES.iter().find_map(|member| {
            let name = call.get(*member)?.as_str()?;
            Some((*member, name.to_owned()))
        });
        let Some((member, name)) = named else {
            return;
        };
        if let Some((row, tool)) = self
            .mapping(&name)
            .and_then(|row| Some((row, self.tool(row.canonical)?)))
            && let Some(Value::String(piped)) = call.get_mut("with")
            && let Some(param) = row
                .params
                .iter()
                .find(|param| param.agent_name == piped.as_str())
            && let Some((ours, _)) = property(&tool.input_schema, param.canonical)
        {
            ours.clone_into(piped);
        }
        call.insert(member.to_owned(), self.canonical(&name).into());
        let given = INPUTS
            .iter()
            .find_map(|member| Some((*member, call.get(*member)?.clone())));
        if let Some((member, input)) = given {
            let (_, input) = self.translated(&name, input, depth);
            call.insert(member.to_owned(), input);
        }
    }
}

/// The canonical parameters that the agent's tool fills with a constant, and the constants.
pub(super) fn constant_defaults<'a>(
    row: &'static ToolMapping,
    schema: &'a Value,
) -> impl Iterator<Item = (&'a str, Value)> {
    row.defaults.iter().filter_map(move |(name, fill)| {
        let (own, _) = property(schema, name)?;
        Some((own, fill.constant()?))
    })
}

/// Whether the agent's tool makes calls with this input: it has the values that the tool always passes, for which it has
/// no parameters.
fn is_made_with(row: &'static ToolMapping, schema: &Value, given: &Map<String, Value>) -> bool {
    constant_defaults(row, schema).all(|(own, constant)| {
        let is_param = |param: &ParamMapping| {
            let params = std::iter::once(param).chain(param.members());
            params
                .filter_map(|param| property(schema, param.canonical))
                .any(|(canonical, _)| canonical == own)
        };
        let passed = given
            .get(own)
            .unwrap_or(&schema["properties"][own]["default"]);
        row.params.iter().any(is_param) || *passed == constant
    })
}

/// The members with the tool name and the input of a nested call, in all spellings.
const NAMES: [&str; 2] = ["tool", "name"];
const INPUTS: [&str; 4] = ["params", "args", "arguments", "input"];

fn objects(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let list = list.and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

/// Returns the members of an input, which can also be encoded as text. Other values are returned as the error and left
/// to input validation.
fn object(input: Value) -> Result<Map<String, Value>, Value> {
    match input {
        Value::Object(members) => Ok(members),
        Value::String(text) => match parse_exact(&text) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) | Err(_) => Err(Value::String(text)),
        },
        other => Err(other),
    }
}
