//! Resolution of `$ref` and `allOf`, which Gemini does not support. Recursive schemas end at the first repetition;
//! expansion is bounded.

use serde_json::{Map, Value, json};

use crate::model::keywords::{merge_schema, resolve_reference, schemas, single_type};

/// Maximum nesting of references and `allOf`.
const MAX_NESTING: usize = 24;

pub(super) struct ReferenceResolver<'a> {
    document: &'a Value,
    /// The references that are being resolved.
    open: Vec<String>,
    left: usize,
    exhausted: bool,
}

/// The number of open references before a schema was resolved.
#[derive(Clone, Copy)]
pub(super) struct OpenReferences(usize);

impl<'a> ReferenceResolver<'a> {
    pub(super) fn new(document: &'a Value, left: usize) -> Self {
        Self {
            document,
            open: Vec::new(),
            left,
            exhausted: false,
        }
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Returns the schema with its references and `allOf` merged into it.
    pub(super) fn resolve(
        &mut self,
        schema: &Map<String, Value>,
    ) -> (Map<String, Value>, OpenReferences) {
        let before = OpenReferences(self.open.len());
        if !self.open.is_empty() {
            self.count();
        }
        (self.merged(schema, MAX_NESTING), before)
    }

    fn merged(&mut self, schema: &Map<String, Value>, hops: usize) -> Map<String, Value> {
        let mut whole = schema.clone();
        let reference = whole.shift_remove("$ref");
        let parts = whole.shift_remove("allOf");
        let Some(hops) = hops.checked_sub(1) else {
            return whole;
        };
        if let Some(found) = reference
            .as_ref()
            .and_then(Value::as_str)
            .and_then(|reference| self.follow(reference, &mut whole))
        {
            let found = self.merged(found, hops);
            merge_schema(&mut whole, &found);
        }
        for part in schemas(parts.as_ref()).filter_map(Value::as_object) {
            let part = self.merged(part, hops);
            merge_schema(&mut whole, &part);
        }
        whole
    }

    /// Resolves the alternatives of one schema. Their references stay open as well.
    pub(super) fn resolve_alternatives(
        &mut self,
        alternatives: &[Value],
    ) -> Vec<Map<String, Value>> {
        let before = self.open.len();
        let mut opened = Vec::new();
        let mut resolved = Vec::new();
        for alternative in alternatives.iter().filter_map(Value::as_object) {
            resolved.push(self.resolve(alternative).0);
            opened.extend(self.open.drain(before..));
        }
        self.open.extend(opened);
        resolved
    }

    pub(super) fn close(&mut self, before: OpenReferences) {
        self.open.truncate(before.0);
    }

    fn count(&mut self) -> bool {
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        self.exhausted |= left.is_none();
        left.is_some()
    }

    /// Returns the target of a reference. For a recursive reference, only its type and description are merged.
    fn follow(
        &mut self,
        reference: &str,
        whole: &mut Map<String, Value>,
    ) -> Option<&'a Map<String, Value>> {
        let found = resolve_reference(self.document, reference)?.as_object()?;
        let again = self.open.iter().any(|open| open == reference);
        if !again && self.open.len() < MAX_NESTING && self.count() {
            self.open.push(reference.to_owned());
            return Some(found);
        }
        whole
            .entry("type")
            .or_insert_with(|| json!(single_type(found).unwrap_or("object")));
        if let Some(description) = found.get("description") {
            whole
                .entry("description")
                .or_insert_with(|| description.clone());
        }
        None
    }
}
