//! Input and output schemas: validation, repair of common mistakes, and error messages for models.

mod cost;
mod explain;
mod input_shape;
mod measure;
mod repair;

use std::sync::OnceLock;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::{Map, Value};
use toolhost_contract::{CallError, Descriptor, ErrorClass, Outcome, exact_integers, text, units};

use cost::Cost;
use explain::{Problem, explain, failed};
use input_shape::InputShape;
use repair::Repair;

const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the {which} schema is not valid: {reason}")]
pub struct SchemaError {
    which: &'static str,
    /// Escaped and shortened, because the author of a plugin chose it.
    reason: String,
}

/// Checks whether a tool with these schemas can be registered.
pub fn check_schemas(tool: &Descriptor) -> Result<(), SchemaError> {
    ToolSchemas::compile(tool).map(drop)
}

/// The schemas of one tool. By default they are compiled when they are first used.
#[derive(Default)]
pub struct ToolSchemas(OnceLock<CompiledSchemas>);

struct CompiledSchemas {
    input: CostedValidator,
    output: Option<CostedValidator>,
    shape: InputShape,
}

/// A validator and the cost of running it.
struct CostedValidator {
    validator: Validator,
    cost: Cost,
}

impl CompiledSchemas {
    fn compile(tool: &Descriptor) -> Result<Self, SchemaError> {
        let refuse = |which, reason: String| SchemaError {
            which,
            reason: text::escape_line(&reason, 300),
        };
        let input =
            CostedValidator::of(&tool.input_schema).map_err(|reason| refuse("input", reason))?;
        if !input_shape::accepts_objects(&tool.input_schema) {
            let reason = "it must accept objects, as `{\"type\": \"object\"}` does";
            return Err(refuse("input", reason.to_owned()));
        }
        let output = tool
            .output_schema
            .as_ref()
            .map(CostedValidator::of)
            .transpose();
        let output = output.map_err(|reason| refuse("output", reason))?;
        Ok(Self {
            input,
            output,
            shape: InputShape::of(&tool.input_schema),
        })
    }
}

impl ToolSchemas {
    pub fn compile(tool: &Descriptor) -> Result<Self, SchemaError> {
        CompiledSchemas::compile(tool).map(|compiled| Self(OnceLock::from(compiled)))
    }

    fn compiled(&self, tool: &Descriptor) -> Result<&CompiledSchemas, Box<CallError>> {
        if let Some(compiled) = self.0.get() {
            return Ok(compiled);
        }
        let compiled = CompiledSchemas::compile(tool);
        let compiled = compiled.map_err(|error| CallError::internal(error.to_string()))?;
        Ok(self.0.get_or_init(|| compiled))
    }

    /// Validates an input. Returns an object that matches the schema, with aliases resolved and defaults filled in.
    pub fn check(
        &self,
        tool: &Descriptor,
        input: Value,
        max_bytes: u64,
        repairs: &mut Vec<String>,
    ) -> Result<Value, Box<CallError>> {
        let schemas = self.compiled(tool)?;
        let mut input = object(input, max_bytes, repairs)?;
        bounds(&input, max_bytes)?;
        let problems = Repair::new(&schemas.shape, tool.strict, max_bytes, repairs).run(&mut input);
        let input = Value::Object(input);
        match schemas.input.validate(&tool.input_schema, &input, problems) {
            None => Ok(input),
            Some(problems) => Err(invalid(problems).into()),
        }
    }

    /// Validates the output of a tool against its declared schema, because clients rely on it.
    pub fn check_output(&self, tool: &Descriptor, outcome: &Outcome) -> Result<(), Box<CallError>> {
        let Some(schema) = tool.output_schema.as_ref().filter(|_| !outcome.is_error()) else {
            return Ok(());
        };
        let Some(validator) = &self.compiled(tool)?.output else {
            return Ok(());
        };
        let Some(value) = &outcome.structured else {
            let message = format!(
                "`{}` has an output schema and returned no structured result",
                tool.name
            );
            let error = CallError::new(ErrorClass::Failed, message).code("invalid_output");
            return Err(error.into());
        };
        let Some(problems) = validator.validate(schema, value, Vec::new()) else {
            return Ok(());
        };
        let message = format!(
            "the structured result of `{}` does not fit its output schema",
            tool.name
        );
        Err(failed(ErrorClass::Failed, &message, problems)
            .code("invalid_output")
            .into())
    }
}

impl CostedValidator {
    fn of(schema: &Value) -> Result<Self, String> {
        // The schema comes from a plugin: references are not fetched, and patterns have a backtracking limit.
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(10_000)
            .size_limit(1 << 20);
        let options = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .offline()
            .with_pattern_options(patterns);
        let cost = Cost::of(schema)?;
        let validator =
            options
                .build(schema)
                .map_err(|error| match error.instance_path().as_str() {
                    "" => error.to_string(),
                    path if path.ends_with("/type") => {
                        let types = "array, boolean, integer, null, number, object or string";
                        format!(
                            "{path}: {} is not a type; use {types}",
                            explain::show(error.instance())
                        )
                    }
                    path => format!("{path}: {error}"),
                })?;
        Ok(Self { validator, cost })
    }

    /// Returns `None` if the value is valid and there were no earlier problems.
    fn validate(
        &self,
        schema: &Value,
        value: &Value,
        mut problems: Vec<Problem>,
    ) -> Option<Vec<Problem>> {
        let size = measure::size(value, MAX_DEPTH).filter(|size| self.cost.allows(*size));
        let Some(size) = size else {
            problems.push(Problem::new(
                "input",
                "is too large or too deep to be validated against this schema",
            ));
            return Some(problems);
        };
        if problems.is_empty() && self.validator.is_valid(value) {
            return None;
        }
        Some(explain(
            &self.validator,
            schema,
            value,
            self.cost.steps(size),
            problems,
        ))
    }
}

/// Accepts a missing input or an object as text, which models send instead of an object.
fn object(
    input: Value,
    max_bytes: u64,
    repairs: &mut Vec<String>,
) -> Result<Map<String, Value>, Box<CallError>> {
    let expected = |got: &str| input_problem(format!("expected an object, got {got}"));
    match input {
        Value::Object(map) => Ok(map),
        Value::Null => {
            repairs.push("input: null read as {}".to_owned());
            Ok(Map::new())
        }
        Value::String(text) => {
            if text.len() as u64 > max_bytes {
                return Err(too_large(text.len() as u64, max_bytes).into());
            }
            match exact_integers::parse_exact(&text) {
                Ok(Value::Object(map)) => {
                    repairs.push("input: text read as an object".to_owned());
                    Ok(map)
                }
                Ok(other) => {
                    Err(expected(&format!("text that holds {}", explain::show(&other))).into())
                }
                Err(error) => Err(expected(&format!("text that is not JSON ({error})"))
                    .code("invalid_json")
                    .into()),
            }
        }
        other => Err(expected(&explain::show(&other)).into()),
    }
}

fn bounds(input: &Map<String, Value>, max_bytes: u64) -> Result<(), Box<CallError>> {
    let Some(size) = measure::size_of_object(input, MAX_DEPTH) else {
        return Err(input_problem(format!("nested deeper than {MAX_DEPTH} levels")).into());
    };
    if size.at_most > max_bytes {
        let bytes = measure::serialized_size(input);
        if bytes > max_bytes {
            return Err(too_large(bytes, max_bytes).into());
        }
    }
    Ok(())
}

fn too_large(bytes: u64, max: u64) -> CallError {
    let (bytes, max) = (units::format_size(bytes), units::format_size(max));
    input_problem(format!("{bytes} exceed the limit of {max}"))
        .recommend("split the input into several calls")
}

fn input_problem(reason: String) -> CallError {
    invalid(vec![Problem::new("input", reason)])
}

fn invalid(problems: Vec<Problem>) -> CallError {
    failed(
        ErrorClass::InvalidInput,
        "Parameter validation failed",
        problems,
    )
}

#[cfg(test)]
#[expect(
    clippy::needless_pass_by_value,
    clippy::needless_raw_string_hashes,
    reason = "expectations are handed over where they stand, and written by expect-test"
)]
mod tests;
