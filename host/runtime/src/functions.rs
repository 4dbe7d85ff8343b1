//! The functions that a component without our interface exports, as tools.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::OnceLock;

use serde_json::{Value, json};
use toolhost_contract::manifest::FunctionEntry;
use toolhost_contract::{
    Call, CallError, Effect, ErrorClass, Failure, Manifest, Outcome, ToolName, text,
};
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Type, Val};
use wasmtime::{Engine, Store};

use crate::LoadError;
use crate::api::v0_1::{MAX_DETAILS, MAX_TEXT, MAX_TOOLS, error_code, too_large, types};
use crate::export::{Bindings, Export};
use crate::instance::CallEnvironment;
use crate::state::State;

pub mod docs;
mod json_schema;
mod values;

#[cfg(test)]
mod tests;

use docs::Docs;

/// Maximum size of a schema in bytes. Larger ones fill the context of a model.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum number of exported functions that are looked at.
const MAX_FUNCTIONS: usize = 1_000;

/// The exported functions of a component, linked.
pub(crate) struct FunctionsPre {
    linked: InstancePre<State>,
    functions: Vec<Function>,
    /// The other exported functions.
    skipped: Vec<SkippedFunction>,
    /// The functions of the tools, by name.
    tools: OnceLock<HashMap<ToolName, usize>>,
}

/// An exported function that can be a tool.
struct Function {
    /// `interface.function`, or `function` at the root. The manifest and the alias of the tool use it.
    id: String,
    /// Export of the component that contains it; `None` at the root.
    interface: Option<String>,
    name: String,
    index: ComponentExportIndex,
    parameters: Vec<(String, Type)>,
    returned: Returned,
    schemas: Schemas,
}

/// The JSON Schemas of a function.
struct Schemas {
    input: String,
    /// Of the structured result; `None` if the result is text or nothing.
    output: Option<String>,
}

/// What a function returns. A `result` as the whole type is the outcome of the call.
enum Returned {
    Nothing,
    Value(Type),
    Result { ok: Option<Type>, err: Option<Type> },
}

/// An exported function that cannot be a tool.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SkippedFunction {
    pub id: String,
    pub reason: String,
}

impl SkippedFunction {
    fn new(id: &str, reason: String) -> Self {
        Self {
            id: text::escape_line(id, 120),
            reason,
        }
    }
}

impl Bindings for FunctionsPre {
    type Instance = Instance;

    fn new(linked: InstancePre<State>) -> wasmtime::Result<Self> {
        let (functions, skipped) = exported(linked.component());
        Ok(Self {
            linked,
            functions,
            skipped,
            tools: OnceLock::new(),
        })
    }

    fn engine(&self) -> &Engine {
        self.linked.engine()
    }

    fn instantiate(
        &self,
        store: &mut Store<State>,
    ) -> impl Future<Output = wasmtime::Result<Instance>> + Send {
        self.linked.instantiate_async(store)
    }
}

/// Returns the functions that the component exports, in the order of its exports.
fn exported(component: &Component) -> (Vec<Function>, Vec<SkippedFunction>) {
    let engine = component.engine();
    let (mut functions, mut skipped) = (Vec::new(), Vec::new());
    let mut add = |interface: Option<&str>, name: &str, index, ty: &ComponentFunc| {
        if functions.len() + skipped.len() == MAX_FUNCTIONS {
            return;
        }
        let id = interface.map_or(name.to_owned(), |interface| {
            format!("{}.{name}", short_name(interface))
        });
        match Function::new(id.clone(), interface, name, index, ty) {
            Ok(function) => functions.push(function),
            Err(reason) => skipped.push(SkippedFunction::new(&id, reason)),
        }
    };
    for (export, item) in component.component_type().exports(engine) {
        let parent = component.get_export_index(None, export);
        match item.ty {
            ComponentItem::ComponentFunc(ty) => add(None, export, parent, &ty),
            ComponentItem::ComponentInstance(instance) => {
                for (name, item) in instance.exports(engine) {
                    if let ComponentItem::ComponentFunc(ty) = item.ty {
                        let index = component.get_export_index(parent.as_ref(), name);
                        add(Some(export), name, index, &ty);
                    }
                }
            }
            _ => {}
        }
    }
    (functions, skipped)
}

impl Function {
    /// Returns the reason if the function cannot be a tool.
    fn new(
        id: String,
        interface: Option<&str>,
        name: &str,
        index: Option<ComponentExportIndex>,
        ty: &ComponentFunc,
    ) -> Result<Self, String> {
        let refuse = |reason: &str| Err(reason.to_owned());
        let in_interface = |prefix: &str| interface.is_some_and(|name| name.starts_with(prefix));
        if in_interface("wasi:") {
            return refuse("it is a function of WASI, which only other hosts call");
        }
        if interface == Some("exports") && name == "init" {
            return refuse("componentize-py calls it when it builds a component");
        }
        if name.starts_with('[') {
            return refuse("it belongs to a resource");
        }
        if ty.async_() {
            return refuse("it is asynchronous");
        }
        let Some(index) = index else {
            return refuse("it is not exported");
        };
        let parameters = ty.params().map(|(name, ty)| (name.to_owned(), ty));
        let parameters: Vec<_> = parameters.collect();
        let returned = match ty.results().next() {
            None => Returned::Nothing,
            Some(Type::Result(result)) => Returned::Result {
                ok: result.ok(),
                err: result.err(),
            },
            Some(ty) => Returned::Value(ty),
        };
        Ok(Self {
            id,
            interface: interface.map(str::to_owned),
            name: name.to_owned(),
            index,
            schemas: Schemas::new(&parameters, &returned)?,
            parameters,
            returned,
        })
    }

    fn parameters(&self) -> impl Iterator<Item = (&str, &Type)> {
        self.parameters.iter().map(|(name, ty)| (name.as_str(), ty))
    }

    /// Default name of the tool: `calculate_eval_expression` for `calculate.eval-expression`.
    fn tool_name(&self) -> String {
        self.id.to_lowercase().replace(['-', '.'], "_")
    }

    /// The entry with the full name of the interface, or otherwise the one with its short name.
    fn entry_in<'a>(&self, manifest: &'a Manifest) -> Option<&'a FunctionEntry> {
        let entry = |id: &str| {
            let mut entries = manifest.functions.iter();
            entries.find(|entry| entry.function == id)
        };
        let full = self.interface.as_ref();
        let full = full.and_then(|interface| entry(&format!("{interface}.{}", self.name)));
        full.or_else(|| entry(&self.id))
    }

    fn describe(
        &self,
        name: &ToolName,
        entry: Option<&FunctionEntry>,
        docs: &Docs,
    ) -> types::Descriptor {
        let interface = self.interface.as_deref().map(short_name);
        let described = entry.and_then(|entry| entry.description.as_deref());
        let described = described.or_else(|| docs.of_function(interface, &self.name));
        let alias = (name.as_str() != self.id).then(|| self.id.clone());
        types::Descriptor {
            name: name.to_string(),
            aliases: alias.into_iter().collect(),
            description: described.map_or_else(
                || {
                    format!(
                        "The function `{}`; its author did not describe it.",
                        self.id
                    )
                },
                |text| text::head(text, MAX_TEXT).to_owned(),
            ),
            input_schema: self.schemas.input.clone(),
            output_schema: self.schemas.output.clone(),
            annotations: annotations(entry),
            requires: entry.map_or(Vec::new(), |entry| {
                let requires = entry.requires.iter();
                requires.map(|needed| needed.as_str().to_owned()).collect()
            }),
            output_markdown: Some(false),
            display_name: None,
            icon: None,
            category: None,
            kind: None,
            version: None,
            tags: Vec::new(),
            strict: None,
            concurrency: None,
            can_stream: false,
            can_background: false,
            timeout_ms: None,
            inactivity_timeout_ms: None,
            max_output_bytes: None,
            depends_on: Vec::new(),
            hooks: Vec::new(),
            sinks: Vec::new(),
            sources: Vec::new(),
            examples: Vec::new(),
            extra: None,
        }
    }

    /// Converts what the function returned. `limit` bounds its size as JSON or text, in bytes.
    fn outcome(&self, returned: Option<Val>, limit: u64) -> Result<Outcome, CallError> {
        let (value, ty) = match (returned, &self.returned) {
            (None, _) | (Some(Val::Result(Ok(None))), Returned::Result { .. }) => {
                return Ok(Outcome::default());
            }
            (Some(Val::Result(Err(error))), Returned::Result { err, .. }) => {
                let error = error.zip(err.as_ref()).map(|(error, ty)| (*error, ty));
                return failure(error, limit);
            }
            (Some(Val::Result(Ok(Some(value)))), Returned::Result { ok: Some(ty), .. }) => {
                (*value, ty)
            }
            (Some(value), Returned::Value(ty)) => (value, ty),
            _ => return Err(CallError::internal("a result is not of its type")),
        };
        let value = json(value, ty, limit)?;
        Ok(match value {
            Value::String(text) if self.returned.is_text() => Outcome::text(text),
            value => Outcome {
                structured: Some(json!({"result": value})),
                ..Outcome::default()
            },
        })
    }
}

impl Returned {
    fn is_text(&self) -> bool {
        matches!(
            self,
            Self::Value(Type::String)
                | Self::Result {
                    ok: Some(Type::String),
                    ..
                }
        )
    }
}

impl Schemas {
    /// Returns the reason if there is no schema for a type.
    fn new(parameters: &[(String, Type)], returned: &Returned) -> Result<Self, String> {
        let parameters = parameters.iter().map(|(name, ty)| (name.as_str(), ty));
        let input = json_schema::of_parameters(parameters);
        let input = input.map_err(|error| error.to_string())?.to_string();
        let (value, error) = match returned {
            Returned::Nothing => (None, None),
            Returned::Value(ty) => (Some(ty), None),
            Returned::Result { ok, err } => (ok.as_ref(), err.as_ref()),
        };
        let of_result = |ty| json_schema::of_result(ty).map_err(|error| error.to_string());
        // The schema of an error is not listed, but its type must have one.
        error.map(of_result).transpose()?;
        let output = value.map(of_result).transpose()?;
        let output = output.filter(|_| !returned.is_text());
        let output = output.map(|schema| schema.to_string());
        let size = input.len().max(output.as_ref().map_or(0, String::len));
        if size > MAX_SCHEMA {
            return Err(format!(
                "its schema has {size} bytes; the limit is {MAX_SCHEMA}"
            ));
        }
        Ok(Self { input, output })
    }
}

/// Without an effect in the manifest, nothing is known, and the tool is treated as `destroys`.
fn annotations(entry: Option<&FunctionEntry>) -> types::Annotations {
    let effect = entry.and_then(|entry| entry.effect);
    types::Annotations {
        pure: effect.map(|effect| effect == Effect::Pure),
        read_only: effect.map(|effect| effect <= Effect::Reads),
        destructive: effect.map(|effect| effect == Effect::Destroys),
        idempotent: None,
        open_world: entry.and_then(|entry| entry.open_world),
        interactive: None,
    }
}

fn json(value: Val, ty: &Type, limit: u64) -> Result<Value, CallError> {
    let value = values::to_json(value, ty);
    let value = value.ok_or_else(|| CallError::internal("a result is not of its type"))?;
    let size = match &value {
        Value::String(text) => text.len(),
        value => value.to_string().len(),
    };
    if size as u64 > limit {
        return Err(too_large(size as u64, limit));
    }
    Ok(value)
}

/// The outcome of a function that returned an error.
fn failure(error: Option<(Val, &Type)>, limit: u64) -> Result<Outcome, CallError> {
    let name = match &error {
        Some((Val::Enum(name) | Val::Variant(name, _), _)) => Some(name.clone()),
        _ => None,
    };
    let value = error
        .map(|(error, ty)| json(error, ty, limit))
        .transpose()?;
    let json = value.as_ref().map(Value::to_string);
    let json = json.unwrap_or("the function returned an error without a value".to_owned());
    let message = value.as_ref().and_then(|value| match value {
        Value::String(text) => Some(text.as_str()),
        value => value.get("message")?.as_str(),
    });
    let message = text::head(message.unwrap_or(&json), MAX_TEXT).to_owned();
    let details = value.filter(|value| !value.is_string() && json.len() <= MAX_DETAILS);
    Ok(Outcome {
        error: Some(Failure {
            code: name.as_deref().map(error_code),
            message,
            recommendations: Vec::new(),
            retryable: false,
            cause: None,
            details: details.map(|error| json!({"error": error})),
        }),
        ..Outcome::default()
    })
}

/// `add` of `docs:adder/add@0.1.0`.
fn short_name(export: &str) -> &str {
    let path = export.split('@').next().unwrap_or(export);
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the name of the tool of each function, or the reason why it is not a tool.
fn assign_names(functions: &[Function], manifest: &Manifest) -> Vec<Result<ToolName, String>> {
    let mut used = HashSet::new();
    let mut assign = |function: &Function| {
        let entry = function.entry_in(manifest);
        if entry.is_none() && !manifest.functions.is_empty() {
            return Err("the manifest does not list it".to_owned());
        }
        if used.len() == MAX_TOOLS {
            return Err(format!("a component has at most {MAX_TOOLS} tools"));
        }
        let name = match entry.and_then(|entry| entry.name.clone()) {
            Some(name) => name,
            None => ToolName::parse(&function.tool_name())
                .map_err(|error| format!("{error}; set its `name` in the manifest"))?,
        };
        if !used.insert(name.clone()) {
            return Err(format!(
                "another function has the tool name `{name}`; set its `name` in the manifest"
            ));
        }
        Ok(name)
    };
    functions.iter().map(&mut assign).collect()
}

/// Describes the functions as tools. Runs no guest code.
pub(crate) fn describe(
    path: &Path,
    exported: &FunctionsPre,
    manifest: &Manifest,
    docs: Option<&[u8]>,
) -> Result<(Vec<types::Descriptor>, Vec<SkippedFunction>), LoadError> {
    let docs = docs.map(Docs::parse).unwrap_or_default();
    let functions = &exported.functions;
    let mut skipped = exported.skipped.clone();
    check_entries(functions, &skipped, manifest).map_err(|reason| LoadError::Manifest {
        path: path.to_owned(),
        reason,
    })?;
    let mut tools: Vec<types::Descriptor> = Vec::new();
    for (function, name) in functions.iter().zip(assign_names(functions, manifest)) {
        match name {
            Ok(name) => tools.push(function.describe(&name, function.entry_in(manifest), &docs)),
            Err(reason) => skipped.push(SkippedFunction::new(&function.id, reason)),
        }
    }
    if tools.is_empty() {
        return Err(LoadError::Contract {
            path: path.to_owned(),
            reason: no_tools(&skipped),
        });
    }
    Ok((tools, skipped))
}

/// Checks that each entry of the manifest is for a function that can be a tool.
fn check_entries(
    functions: &[Function],
    skipped: &[SkippedFunction],
    manifest: &Manifest,
) -> Result<(), String> {
    for entry in &manifest.functions {
        let is_its = |function: &Function| {
            let found = function.entry_in(manifest);
            found.is_some_and(|found| std::ptr::eq(found, entry))
        };
        if !functions.iter().any(is_its) {
            let known = skipped.iter().find(|skipped| skipped.id == entry.function);
            let reason = known.map_or("the component exports no such function", |known| {
                &known.reason
            });
            let shown = text::escape_line(&entry.function, 120);
            return Err(format!("function `{shown}` in the manifest: {reason}"));
        }
    }
    Ok(())
}

/// Runs a call of a function in a new instance. The second value is a notice from the host to the caller.
pub(crate) async fn call(
    functions: &Export<FunctionsPre>,
    environment: CallEnvironment<'_>,
    call: &Call,
    manifest: &Manifest,
    limit: u64,
) -> Result<(Outcome, Option<String>), CallError> {
    let all = functions.bindings();
    let tools = all.tools.get_or_init(|| {
        let names = assign_names(&all.functions, manifest)
            .into_iter()
            .enumerate();
        let named = names.filter_map(|(index, name)| Some((name.ok()?, index)));
        named.collect()
    });
    let function = tools.get(&call.tool).map(|index| &all.functions[*index]);
    let function = function.ok_or_else(|| {
        CallError::new(
            ErrorClass::NotRegistered,
            "the component has no such function",
        )
    })?;
    let arguments = values::arguments(&call.input, function.parameters());
    let arguments = arguments.map_err(|error| {
        CallError::new(
            ErrorClass::InvalidInput,
            text::escape_line(&error.to_string(), 500),
        )
    })?;
    let (returned, notice) = functions
        .run(environment, async |store, instance| {
            let exported = instance.get_func(&mut *store, function.index);
            let exported =
                exported.ok_or_else(|| wasmtime::format_err!("the function is not exported"))?;
            let count = usize::from(!matches!(function.returned, Returned::Nothing));
            let mut returned = vec![Val::Bool(false); count];
            exported
                .call_async(&mut *store, &arguments, &mut returned)
                .await?;
            Ok((returned.pop(), store.data().unnamed.notice()))
        })
        .await?;
    Ok((function.outcome(returned, limit)?, notice))
}

/// The text of the error if a component has no function that can be a tool.
fn no_tools(skipped: &[SkippedFunction]) -> String {
    let skipped = skipped.iter().take(5);
    let skipped: Vec<_> = skipped
        .map(|one| format!("`{}`: {}", one.id, one.reason))
        .collect();
    if skipped.is_empty() {
        return "it exports no functions".to_owned();
    }
    format!(
        "none of its functions can be a tool: {}",
        skipped.join("; ")
    )
}
