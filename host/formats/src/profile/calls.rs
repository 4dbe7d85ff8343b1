//! Translation of model calls to canonical calls.

use serde_json::{Map, Value};

use super::mapping::ToolMapping;
use super::params::{allows, property, to_canonical};
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
