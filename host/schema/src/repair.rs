//! Repair of common mistakes in inputs, if the schema leaves no doubt about the intended value.
//!
//! A string is not changed if the schema accepts a string, so paths and commands are never changed. Every change is
//! reported to the caller.

use std::fmt;

use serde_json::{Map, Number, Value};
use toolhost_contract::{exact_integers, nearest, text};

use super::explain::{self, Problem};
use super::input_shape::{ExtraMembers, InputShape, Node, NodeId, TypeSet};
use super::{MAX_DEPTH, measure};

/// Parameters that some hosts add to every tool, so that models send them everywhere.
const COMMON_EXTRAS: [&str; 2] = ["wait_for_previous", "description"];

pub(super) struct Repair<'a> {
    shape: &'a InputShape,
    strict: bool,
    /// Remaining bytes for defaults, because those of a recursive schema could grow forever. `None` once exceeded.
    default_budget: Option<u64>,
    repairs: &'a mut Vec<String>,
    problems: Vec<Problem>,
}

/// A path into the input, built on the stack and formatted only for a message.
#[derive(Clone, Copy)]
enum Path<'a> {
    Root,
    Member(&'a Path<'a>, &'a str),
    Item(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Member(parent, name) => write!(
                f,
                "{parent}{}",
                explain::member(matches!(parent, Path::Root), name)
            ),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

impl<'a> Repair<'a> {
    pub(super) fn new(
        shape: &'a InputShape,
        strict: bool,
        room_for_defaults: u64,
        repairs: &'a mut Vec<String>,
    ) -> Self {
        Self {
            shape,
            strict,
            default_budget: Some(room_for_defaults),
            repairs,
            problems: Vec::new(),
        }
    }

    /// Repairs the input and returns the problems that could not be repaired.
    pub(super) fn run(mut self, input: &mut Map<String, Value>) -> Vec<Problem> {
        let root = self.shape.root();
        self.strip_extras(input, root);
        self.object(input, root, Path::Root, 1);
        self.problems
    }

    fn strip_extras(&mut self, input: &mut Map<String, Value>, root: &Node) {
        if root.others != ExtraMembers::Unknown {
            return;
        }
        for extra in COMMON_EXTRAS {
            let known = root.property(extra).is_some() || root.alias(extra).is_some();
            if !known && input.shift_remove(extra).is_some() {
                self.repairs
                    .push(format!("{extra}: removed, the tool has no such parameter"));
            }
        }
    }

    fn object(
        &mut self,
        object: &mut Map<String, Value>,
        node: &'a Node,
        path: Path<'_>,
        depth: usize,
    ) {
        if node.has_aliases() && object.keys().any(|name| node.alias(name).is_some()) {
            self.rename(object, node, path);
        }
        self.repair_properties(object, node, path, depth);
        self.fill(object, node, path);
        if node.others == ExtraMembers::Unknown
            && object.keys().any(|name| node.property(name).is_none())
        {
            self.unknown(object, node, path);
        }
        for (name, value) in object.iter_mut() {
            let child = match (node.property(name), node.others) {
                (Some(property), _) => property.node,
                (None, ExtraMembers::Each(child)) => child,
                (None, ExtraMembers::Free | ExtraMembers::Unknown) => continue,
            };
            self.value(value, child, Path::Member(&path, name), depth);
        }
    }

    fn value(&mut self, value: &mut Value, node: NodeId, path: Path<'_>, depth: usize) {
        // Only defaults of a recursive schema get this deep.
        if depth >= MAX_DEPTH {
            return;
        }
        let node = self.shape.node(node);
        match value {
            Value::Object(object) => self.object(object, node, path, depth + 1),
            Value::Array(items) => {
                let Some(item_node) = node.items else { return };
                for (index, item) in items.iter_mut().enumerate() {
                    let path = Path::Item(&path, index);
                    self.repair_value(item, self.shape.node(item_node).kinds, path, depth + 1);
                    self.value(item, item_node, path, depth + 1);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn rename(&mut self, object: &mut Map<String, Value>, node: &Node, path: Path<'_>) {
        let mut taken = Vec::new();
        let mut twice = Vec::new();
        for name in object.keys() {
            let Some(property) = node.alias(name) else {
                continue;
            };
            let real = Path::Member(&path, &property.name);
            let shown = text::escape_line(name, 80);
            if object.contains_key(&property.name) || taken.contains(&&property.name) {
                let reason =
                    format!("is given twice, once as its alias `{shown}`; use one of the two");
                self.problems.push(Problem::new(&real, reason));
                twice.push(name.clone());
            } else {
                self.repairs
                    .push(format!("{real}: renamed from its alias `{shown}`"));
                taken.push(&property.name);
            }
        }
        // Rebuilt to keep the order of members.
        let members = std::mem::take(object)
            .into_iter()
            .filter(|(name, _)| !twice.contains(name));
        *object = members
            .map(|(name, value)| match node.alias(&name) {
                Some(property) => (property.name.clone(), value),
                None => (name, value),
            })
            .collect();
    }

    fn repair_properties(
        &mut self,
        object: &mut Map<String, Value>,
        node: &Node,
        path: Path<'_>,
        depth: usize,
    ) {
        let mut nulls = false;
        for (name, value) in object.iter_mut() {
            if let Some(property) = node.property(name) {
                let kinds = self.shape.node(property.node).kinds;
                self.repair_value(value, kinds, Path::Member(&path, name), depth);
                nulls |= value.is_null() && self.is_needless_null(node, name);
            }
        }
        if nulls {
            object.retain(|name, value| {
                let drop = value.is_null() && self.is_needless_null(node, name);
                if drop {
                    self.repairs
                        .push(format!("{}: null removed", Path::Member(&path, name)));
                }
                !drop
            });
        }
    }

    /// Whether the property may be absent but not null.
    fn is_needless_null(&self, node: &Node, name: &str) -> bool {
        let property = node.property(name).filter(|property| !property.required);
        property.is_some_and(|property| !self.shape.node(property.node).kinds.has(TypeSet::NULL))
    }

    fn repair_value(&mut self, value: &mut Value, kinds: TypeSet, path: Path<'_>, depth: usize) {
        let (mended, from) = match value {
            Value::String(text) if !kinds.has(TypeSet::STRING) => {
                (read(text, kinds, depth), "text")
            }
            Value::Number(number)
                if !kinds.has(TypeSet::FRACTION) && kinds.has(TypeSet::INTEGER) =>
            {
                (whole(number), "fraction")
            }
            _ => return,
        };
        if let Some(mended) = mended {
            let to = match &mended {
                Value::Array(_) => "an array".to_owned(),
                Value::Object(_) => "an object".to_owned(),
                small => small.to_string(),
            };
            self.repairs.push(format!("{path}: {from} read as {to}"));
            *value = mended;
        }
    }

    fn fill(&mut self, object: &mut Map<String, Value>, node: &Node, path: Path<'_>) {
        for property in &node.properties {
            let Some(default) = &property.default else {
                continue;
            };
            if object.contains_key(&property.name) {
                continue;
            }
            let path = Path::Member(&path, &property.name);
            let bytes = default.max_bytes + property.name.len() as u64 + 4;
            let Some(room) = self.default_budget else {
                return;
            };
            self.default_budget = room.checked_sub(bytes);
            if self.default_budget.is_none() {
                let reason = "its default makes the input too large";
                self.problems.push(Problem::new(&path, reason));
                return;
            }
            object.insert(property.name.clone(), default.value.clone());
        }
    }

    fn unknown(&mut self, object: &mut Map<String, Value>, node: &Node, path: Path<'_>) {
        if self.strict {
            let names = || {
                node.properties
                    .iter()
                    .map(|property| property.name.as_str())
            };
            for name in object.keys().filter(|name| node.property(name).is_none()) {
                let reason = match nearest(name, names(), 1).first() {
                    Some(near) => format!("unknown parameter; did you mean `{near}`?"),
                    None if node.properties.is_empty() => {
                        "unknown parameter; the tool takes none".to_owned()
                    }
                    None => format!(
                        "unknown parameter; expected one of {}",
                        explain::list(names())
                    ),
                };
                self.problems
                    .push(Problem::new(&Path::Member(&path, name), reason));
            }
        } else {
            object.retain(|name, _| {
                let known = node.property(name).is_some();
                if !known {
                    self.repairs.push(format!(
                        "{}: unknown parameter removed",
                        Path::Member(&path, name)
                    ));
                }
                known
            });
        }
    }
}

/// Parses text where no string is accepted. Returns `None` if the result is of no accepted type.
fn read(text: &str, kinds: TypeSet, depth: usize) -> Option<Value> {
    let value = match text.trim() {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        text => exact_integers::parse_exact(text).ok()?,
    };
    // Text inside text must not bypass the depth limit.
    measure::size(&value, MAX_DEPTH.saturating_sub(depth))?;
    match &value {
        Value::Null | Value::String(_) => None,
        Value::Number(number) if !kinds.has(TypeSet::of(&value)) && kinds.has(TypeSet::INTEGER) => {
            whole(number)
        }
        _ => kinds.has(TypeSet::of(&value)).then_some(value),
    }
}

/// Converts `5.0` to `5`, because many guests cannot deserialize the former as an integer.
fn whole(number: &Number) -> Option<Value> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let float = number.as_f64().filter(|_| number.is_f64())?;
    let exact = float.fract() == 0.0 && float.abs() < EXACT;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "checked to be whole and small"
    )]
    exact.then(|| Value::from(float as i64))
}
