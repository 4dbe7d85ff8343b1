//! The cost of validating a value against a schema, computed before the work is done.
//!
//! A schema comes from a plugin and is evaluated by the host, outside the limits of the sandbox. Forty lines of `allOf`
//! that refer to each other twice would take a machine more than a year. The subschemas for one value are therefore
//! counted at registration, and how the count grows with the depth of a value is computed once.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::MAX_DEPTH;
use super::input_shape::follow;
use super::measure::Size;

/// Maximum number of subschemas that may apply to one value.
const MAX_AT_ONCE: usize = 2_000;
/// Maximum nesting of references, alternatives and combinations for one value. Each level takes validator stack.
pub(super) const MAX_NESTING: usize = 16;
/// Maximum number of links between subschemas in the whole schema.
const MAX_LINKS: usize = 50_000;
const MAX_PARTS: usize = 5_000;
/// Limit for validating one value: some tenths of a second.
const MAX_STEPS: u64 = 20_000_000;

pub(super) struct Cost {
    /// Steps along one path through a value, by depth. The last entry applies to all deeper values.
    by_depth: Vec<u64>,
}

impl Cost {
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let mut builder = Builder {
            root: schema,
            parts: vec![schema],
            known: HashMap::new(),
            links: 0,
        };
        builder.known.insert(schema, 0);
        let mut closures = Vec::new();
        while let Some(part) = builder.parts.get(closures.len()).copied() {
            closures.push(builder.closure(part)?);
            if builder.parts.len() > MAX_PARTS {
                return Err(format!("it has more than {MAX_PARTS} parts"));
            }
        }
        Ok(Self {
            by_depth: by_depth(&closures),
        })
    }

    pub(super) fn steps(&self, size: Size) -> u64 {
        let along_one_path = self.by_depth.get(size.depth).or(self.by_depth.last());
        // Text is cheaper than structure, but a pattern scans every byte of it.
        along_one_path.map_or(0, |steps| {
            steps.saturating_mul(size.values + size.at_most / 64)
        })
    }

    pub(super) fn allows(&self, size: Size) -> bool {
        self.steps(size) <= MAX_STEPS
    }
}

/// All subschemas that apply to one value, including references and alternatives.
#[derive(Default)]
struct Closure {
    own: u64,
    /// Subschemas for the member or item with that name, with their multiplicity.
    named: BTreeMap<String, Vec<(usize, u64)>>,
    /// Subschemas for any member or item.
    any: Vec<(usize, u64)>,
}

struct Builder<'a> {
    root: &'a Value,
    parts: Vec<&'a Value>,
    known: HashMap<*const Value, usize>,
    links: usize,
}

impl<'a> Builder<'a> {
    fn closure(&mut self, part: &'a Value) -> Result<Closure, String> {
        let mut closure = Closure::default();
        let mut waiting = vec![(part, 1_u64, 0)];
        let mut visits = 0;
        while let Some((schema, times, nesting)) = waiting.pop() {
            visits += 1;
            self.links += 1;
            if visits > MAX_AT_ONCE || self.links > MAX_LINKS || nesting > MAX_NESTING {
                return Err(
                    "its references and alternatives grow exponentially or are circular".to_owned(),
                );
            }
            closure.own = closure.own.saturating_add(times);
            let Some(keywords) = schema.as_object() else {
                continue;
            };
            // `unevaluated…` requires evaluating everything else a second time.
            let twice = keywords
                .keys()
                .any(|keyword| keyword.starts_with("unevaluated"));
            let times = times.saturating_mul(if twice { 2 } else { 1 });
            let nesting = nesting + 1;
            for (keyword, value) in keywords {
                match keyword.as_str() {
                    "$ref" => waiting.push((self.target(schema)?, times, nesting)),
                    "$dynamicRef" | "$recursiveRef" => {
                        return Err(format!("`{keyword}` is not supported; use `$ref`"));
                    }
                    "$id" if !std::ptr::eq(schema, self.root) => {
                        return Err("only its root may have an `$id`".to_owned());
                    }
                    "allOf" | "anyOf" | "oneOf" | "not" | "if" | "then" | "else" => {
                        waiting.extend(one_or_many(value).map(|schema| (schema, times, nesting)));
                    }
                    "dependentSchemas" | "dependencies" => {
                        let schemas = value.as_object().into_iter().flat_map(|all| all.values());
                        waiting.extend(schemas.map(|schema| (schema, times, nesting)));
                    }
                    "properties" => {
                        for (name, schema) in value.as_object().into_iter().flatten() {
                            let id = self.part(schema);
                            closure
                                .named
                                .entry(name.clone())
                                .or_default()
                                .push((id, times));
                        }
                    }
                    "prefixItems" => {
                        for (index, schema) in value.as_array().into_iter().flatten().enumerate() {
                            let id = self.part(schema);
                            closure
                                .named
                                .entry(index.to_string())
                                .or_default()
                                .push((id, times));
                        }
                    }
                    "patternProperties" => {
                        for schema in value.as_object().into_iter().flat_map(|all| all.values()) {
                            closure.any.push((self.part(schema), times));
                        }
                    }
                    "additionalProperties"
                    | "unevaluatedProperties"
                    | "propertyNames"
                    | "items"
                    | "contains"
                    | "additionalItems"
                    | "unevaluatedItems" => {
                        for schema in one_or_many(value) {
                            closure.any.push((self.part(schema), times));
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(closure)
    }

    fn target(&self, schema: &'a Value) -> Result<&'a Value, String> {
        follow(self.root, schema).ok_or_else(|| {
            let reference = schema.get("$ref").unwrap_or(&Value::Null);
            format!("the reference {reference} does not exist in it; use `#/$defs/NAME`")
        })
    }

    fn part(&mut self, schema: &'a Value) -> usize {
        self.links += 1;
        *self
            .known
            .entry(std::ptr::from_ref(schema))
            .or_insert_with(|| {
                self.parts.push(schema);
                self.parts.len() - 1
            })
    }
}

fn by_depth(closures: &[Closure]) -> Vec<u64> {
    let mut steps: Vec<u64> = closures.iter().map(|closure| closure.own).collect();
    let mut by_depth = vec![steps[0]];
    for _ in 0..=MAX_DEPTH {
        let sum = |parts: &[(usize, u64)]| {
            parts.iter().fold(0_u64, |sum, (part, times)| {
                sum.saturating_add(steps[*part].saturating_mul(*times))
            })
        };
        let deeper = |closure: &Closure| {
            let named = closure
                .named
                .values()
                .map(|parts| sum(parts))
                .max()
                .unwrap_or(0);
            closure
                .own
                .saturating_add(sum(&closure.any))
                .saturating_add(named)
        };
        let next: Vec<u64> = closures.iter().map(deeper).collect();
        if next == steps {
            break;
        }
        by_depth.push(next[0]);
        steps = next;
    }
    by_depth
}

fn one_or_many(value: &Value) -> impl Iterator<Item = &Value> {
    let (one, many) = match value {
        Value::Array(many) => (None, Some(many)),
        one => (Some(one), None),
    };
    one.into_iter().chain(many.into_iter().flatten())
}
