//! A simplified form of an input schema for repairs: types, properties, aliases and defaults.
//!
//! It contains less than the schema and never decides whether an input is valid. If a schema allows several forms, it
//! contains none of them and the repair leaves the value alone.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::cost::MAX_NESTING;
use super::{MAX_DEPTH, measure};

/// Nodes refer to each other by index, so that a recursive schema has a finite representation.
pub(super) struct InputShape {
    nodes: Vec<Node>,
}

pub(super) type NodeId = usize;

pub(super) struct Node {
    pub(super) kinds: TypeSet,
    pub(super) properties: Vec<Property>,
    names: HashMap<String, usize>,
    aliases: HashMap<String, usize>,
    pub(super) others: ExtraMembers,
    pub(super) items: Option<NodeId>,
}

pub(super) struct Property {
    pub(super) name: String,
    pub(super) node: NodeId,
    pub(super) required: bool,
    pub(super) default: Option<Default>,
}

pub(super) struct Default {
    pub(super) value: Value,
    pub(super) max_bytes: u64,
}

/// How members that are not listed in `properties` are handled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ExtraMembers {
    /// Allowed, or left to the validator.
    Free,
    Unknown,
    Each(NodeId),
}

/// A set of JSON types. Integers are a separate type from other numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeSet(u8);

impl TypeSet {
    const NONE: TypeSet = TypeSet(0);
    pub(super) const NULL: TypeSet = TypeSet(1);
    pub(super) const BOOL: TypeSet = TypeSet(2);
    pub(super) const INTEGER: TypeSet = TypeSet(4);
    pub(super) const FRACTION: TypeSet = TypeSet(8);
    pub(super) const STRING: TypeSet = TypeSet(16);
    pub(super) const ARRAY: TypeSet = TypeSet(32);
    pub(super) const OBJECT: TypeSet = TypeSet(64);
    const ANY: TypeSet = TypeSet(127);

    pub(super) fn has(self, kind: TypeSet) -> bool {
        self.0 & kind.0 != 0
    }

    fn or(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 | other.0)
    }

    fn and(self, other: TypeSet) -> TypeSet {
        TypeSet(self.0 & other.0)
    }

    pub(super) fn of(value: &Value) -> TypeSet {
        match value {
            Value::Null => TypeSet::NULL,
            Value::Bool(_) => TypeSet::BOOL,
            Value::Number(number) if number.is_f64() => TypeSet::FRACTION,
            Value::Number(_) => TypeSet::INTEGER,
            Value::String(_) => TypeSet::STRING,
            Value::Array(_) => TypeSet::ARRAY,
            Value::Object(_) => TypeSet::OBJECT,
        }
    }

    fn named(name: &Value) -> TypeSet {
        match name.as_str() {
            Some("null") => TypeSet::NULL,
            Some("boolean") => TypeSet::BOOL,
            Some("integer") => TypeSet::INTEGER,
            Some("number") => TypeSet::INTEGER.or(TypeSet::FRACTION),
            Some("string") => TypeSet::STRING,
            Some("array") => TypeSet::ARRAY,
            Some("object") => TypeSet::OBJECT,
            _ => TypeSet::NONE,
        }
    }
}

impl InputShape {
    pub(super) fn of(schema: &Value) -> Self {
        let mut builder = Builder::new(schema);
        builder.id(schema);
        let mut nodes = Vec::new();
        while let Some(schema) = builder.schemas.get(nodes.len()).copied() {
            nodes.push(builder.node(schema));
        }
        Self { nodes }
    }

    pub(super) fn root(&self) -> &Node {
        self.node(0)
    }

    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id]
    }
}

impl Node {
    pub(super) fn property(&self, name: &str) -> Option<&Property> {
        self.names
            .get(name)
            .map(|position| &self.properties[*position])
    }

    pub(super) fn has_aliases(&self) -> bool {
        !self.aliases.is_empty()
    }

    pub(super) fn alias(&self, name: &str) -> Option<&Property> {
        self.aliases
            .get(name)
            .map(|position| &self.properties[*position])
    }
}

pub(super) fn accepts_objects(schema: &Value) -> bool {
    Builder::new(schema).kinds(schema, 0).has(TypeSet::OBJECT)
}

/// Resolves a local reference.
pub(super) fn follow<'a>(root: &'a Value, schema: &'a Value) -> Option<&'a Value> {
    let pointer = schema.get("$ref")?.as_str()?.strip_prefix('#')?;
    if pointer.contains('%') {
        root.pointer(&percent_decoded(pointer)?)
    } else {
        root.pointer(pointer)
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut parts = text.split('%');
    bytes.extend_from_slice(parts.next()?.as_bytes());
    for part in parts {
        bytes.push(u8::from_str_radix(part.get(..2)?, 16).ok()?);
        bytes.extend_from_slice(part.get(2..)?.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// Uses a work list instead of recursion, because an untrusted schema may contain a long chain.
struct Builder<'a> {
    root: &'a Value,
    schemas: Vec<&'a Value>,
    /// Keyed by address: each subschema is built once, however many references point to it.
    known: HashMap<*const Value, NodeId>,
    kinds: HashMap<*const Value, TypeSet>,
}

impl<'a> Builder<'a> {
    fn new(root: &'a Value) -> Self {
        Self {
            root,
            schemas: Vec::new(),
            known: HashMap::new(),
            kinds: HashMap::new(),
        }
    }

    fn id(&mut self, schema: &'a Value) -> NodeId {
        *self
            .known
            .entry(std::ptr::from_ref(schema))
            .or_insert_with(|| {
                self.schemas.push(schema);
                self.schemas.len() - 1
            })
    }

    fn node(&mut self, schema: &'a Value) -> Node {
        let kinds = self.kinds(schema, 0);
        let inner = self.inner(schema);
        let properties = self.properties(inner);
        let names: HashMap<_, _> = properties
            .iter()
            .enumerate()
            .map(|(i, property)| (property.name.clone(), i))
            .collect();
        let mut aliases = HashMap::new();
        for (position, property) in properties.iter().enumerate() {
            let schema = inner
                .get("properties")
                .and_then(|all| all.get(&property.name));
            let listed = schema
                .and_then(|schema| schema.get("x-aliases"))
                .and_then(Value::as_array);
            // The name of a property takes precedence over an alias, and an earlier alias over a later one.
            for alias in listed
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .filter(|alias| !names.contains_key(*alias))
            {
                aliases.entry(alias.to_owned()).or_insert(position);
            }
        }
        let others = self.others(inner, std::ptr::eq(schema, self.root));
        let items = inner
            .get("items")
            .filter(|items| items.is_object())
            .map(|items| self.id(items));
        Node {
            kinds,
            properties,
            names,
            aliases,
            others,
            items,
        }
    }

    /// Resolves references and the `null` alternative of an optional value to the schema with the structure.
    fn inner(&self, schema: &'a Value) -> &'a Value {
        let mut schema = schema;
        for _ in 0..MAX_NESTING {
            if schema.get("properties").is_some() || schema.get("items").is_some() {
                break;
            }
            let only = |keyword| {
                let mut forms = array(schema, keyword)
                    .filter(|form| form.get("type") != Some(&Value::from("null")));
                forms.next().filter(|_| forms.next().is_none())
            };
            let next = follow(self.root, schema)
                .or_else(|| ["allOf", "anyOf", "oneOf"].into_iter().find_map(only));
            let Some(next) = next else { break };
            schema = next;
        }
        schema
    }

    fn properties(&mut self, schema: &'a Value) -> Vec<Property> {
        let all = schema.get("properties").and_then(Value::as_object);
        let required: Vec<_> = array(schema, "required")
            .filter_map(Value::as_str)
            .collect();
        all.into_iter()
            .flatten()
            .map(|(name, property)| {
                let default = property
                    .get("default")
                    .or_else(|| self.inner(property).get("default"));
                Property {
                    name: name.clone(),
                    node: self.id(property),
                    required: required.contains(&name.as_str()),
                    default: default.and_then(|value| {
                        Some(Default {
                            max_bytes: measure::size(value, MAX_DEPTH)?.at_most,
                            value: value.clone(),
                        })
                    }),
                }
            })
            .collect()
    }

    fn others(&mut self, schema: &'a Value, top: bool) -> ExtraMembers {
        let Some(schema) = schema.as_object() else {
            return ExtraMembers::Free;
        };
        let elsewhere = [
            "patternProperties",
            "$ref",
            "$dynamicRef",
            "allOf",
            "anyOf",
            "oneOf",
            "if",
            "dependentSchemas",
        ];
        match schema.get("additionalProperties") {
            Some(Value::Bool(false)) if !schema.contains_key("patternProperties") => {
                ExtraMembers::Unknown
            }
            Some(Value::Object(each)) if !each.is_empty() => {
                ExtraMembers::Each(self.id(&schema["additionalProperties"]))
            }
            // The parameters of a tool are a closed list unless its author declares otherwise. Nested objects are
            // left as declared.
            None if top && schema.contains_key("properties") => {
                if elsewhere
                    .iter()
                    .any(|keyword| schema.get(*keyword).is_some_and(names_properties))
                {
                    ExtraMembers::Free
                } else {
                    ExtraMembers::Unknown
                }
            }
            Some(_) | None => ExtraMembers::Free,
        }
    }

    fn kinds(&mut self, schema: &'a Value, depth: usize) -> TypeSet {
        let Some(schema_object) = schema.as_object() else {
            return if *schema == Value::Bool(false) {
                TypeSet::NONE
            } else {
                TypeSet::ANY
            };
        };
        if let Some(kinds) = self.kinds.get(&std::ptr::from_ref(schema)) {
            return *kinds;
        }
        if depth > MAX_NESTING {
            return TypeSet::ANY;
        }
        // The placeholder result for a reference cycle.
        self.kinds.insert(schema, TypeSet::ANY);
        let kinds = self.kinds_of(schema, schema_object, depth + 1);
        self.kinds.insert(schema, kinds);
        kinds
    }

    fn kinds_of(
        &mut self,
        schema: &'a Value,
        object: &'a Map<String, Value>,
        depth: usize,
    ) -> TypeSet {
        let union =
            |kinds: &mut dyn Iterator<Item = TypeSet>| kinds.fold(TypeSet::NONE, TypeSet::or);
        let mut kinds = match object.get("type") {
            None => TypeSet::ANY,
            Some(Value::Array(names)) => union(&mut names.iter().map(TypeSet::named)),
            Some(name) => TypeSet::named(name),
        };
        if let Some(Value::Array(values)) = object.get("enum") {
            kinds = kinds.and(union(&mut values.iter().map(TypeSet::of)));
        }
        if let Some(value) = object.get("const") {
            kinds = kinds.and(TypeSet::of(value));
        }
        if let Some(target) = follow(self.root, schema) {
            kinds = kinds.and(self.kinds(target, depth));
        }
        for form in array(schema, "allOf") {
            kinds = kinds.and(self.kinds(form, depth));
        }
        for forms in ["anyOf", "oneOf"].map(|keyword| array(schema, keyword)) {
            let mut forms = forms.peekable();
            if forms.peek().is_some() {
                kinds = kinds.and(union(&mut forms.map(|form| self.kinds(form, depth))));
            }
        }
        kinds
    }
}

/// Whether the schema allows members that are not listed in its `properties`.
fn names_properties(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => {
            object
                .keys()
                .any(|key| ["properties", "$ref", "patternProperties"].contains(&key.as_str()))
                || object.values().any(names_properties)
        }
        Value::Array(forms) => forms.iter().any(names_properties),
        // The target of a `$ref`.
        Value::String(text) => text.starts_with('#'),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn array<'a>(schema: &'a Value, keyword: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    schema
        .get(keyword)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}
