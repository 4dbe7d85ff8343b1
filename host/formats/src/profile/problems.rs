//! Error messages in the names that the model knows, with the problems that the validation of an input found.

use serde_json::Value;

use super::clauses::{clauses, usable};
use super::mapping::{ParamMapping, ToolMapping};
use super::name_replacement::{NameReplacer, UnlistedNames};
use super::params::{follow, items, property};
use super::profiled_registry::ProfiledRegistry;
use toolhost_contract::{Descriptor, text};

const INVALID: &str = "Parameter validation failed: ";
const SCHEMA: &str = "schema of ";
const EXPECTED: &str = "expected one of ";

/// Maximum length of the schema of a parameter in bytes.
const MAX_SCHEMA: usize = 500;

/// The called tool, for errors of one call.
pub(super) struct ErrorNames<'a, 'r> {
    registry: &'r ProfiledRegistry<'a>,
    called: Option<(&'r ToolMapping, &'a Descriptor)>,
    all: NameReplacer<'a>,
    pub(super) listed: NameReplacer<'a>,
}

impl<'a> ProfiledRegistry<'a> {
    pub(super) fn error_names<'r>(&'r self, row: Option<&'r ToolMapping>) -> ErrorNames<'a, 'r> {
        ErrorNames {
            registry: self,
            called: row.and_then(|row| Some((row, self.tool(row.canonical)?))),
            all: self.replacer(row, UnlistedNames::Keep),
            listed: self.replacer(row, UnlistedNames::Mark),
        }
    }
}

impl ErrorNames<'_, '_> {
    /// Rewords an error message. What follows the problem is left out if the model cannot use it. Other texts than those of
    /// the shipped tools stay complete, as do further lines, which can be the output of a program.
    pub(super) fn message(&self, message: &str) -> String {
        let message = self.registry.reword_suggestions(message);
        if self.called.is_none() {
            return self.all.apply(&message);
        }
        if let Some(problems) = message.strip_prefix(INVALID) {
            return format!("{INVALID}{}", self.problems(problems));
        }
        let (first, rest) = message.split_at(message.find('\n').unwrap_or(message.len()));
        let mut shown = String::new();
        for (at, (separator, clause)) in clauses(first).into_iter().enumerate() {
            if at == 0 {
                shown.push_str(&self.problem(clause));
            } else if let Some(clause) = usable(&self.listed.apply(clause)) {
                shown.push_str(separator);
                shown.push_str(clause);
            }
        }
        shown.push_str(&self.all.apply(rest));
        shown
    }

    /// The first clause of a message, which is never left out.
    fn problem(&self, clause: &str) -> String {
        // The parameter that the model can set instead.
        let missing = clause.strip_prefix('`');
        if let Some(name) = missing.and_then(|clause| clause.strip_suffix("` is missing"))
            && self.listed.hides(name)
            && let Some((row, _)) = self.called
            && let Some(param) = row.params.iter().find(|param| param.required)
        {
            return format!("`{}` is missing", param.agent_name);
        }
        self.all.apply(clause)
    }

    /// Rewords `path: is required; edits[0].old_string: …`.
    fn problems(&self, problems: &str) -> String {
        let mut canonical = "";
        let mut shown: Vec<String> = Vec::new();
        for piece in problems.split("; ") {
            let Some((path, reason)) = piece.split_once(": ") else {
                shown.push(self.remedy(canonical, piece));
                continue;
            };
            canonical = path;
            let path = self.path(path);
            let alias = format!("is given twice, once as its alias `{}`", last_name(&path));
            let reason = if reason == alias {
                format!("is given twice, once as `{}`", last_name(canonical))
            } else {
                reason.to_owned()
            };
            shown.push(format!("{path}: {reason}"));
        }
        shown.join("; ")
    }

    /// Rewords what follows a problem of the parameter with this canonical path.
    fn remedy(&self, path: &str, text: &str) -> String {
        let near = text.strip_prefix("did you mean `");
        let near = near.and_then(|near| near.strip_suffix("`?"));
        if near.is_none() && !text.starts_with(EXPECTED) {
            return text.to_owned();
        }
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let listed = self.schema(&self.path(parent));
        let listed = listed
            .as_ref()
            .and_then(|schema| schema["properties"].as_object());
        let Some(listed) = listed else {
            return text.to_owned();
        };
        if let Some(near) = near {
            let theirs = self.path(&join(parent, near));
            let theirs = last_name(&theirs);
            if listed.contains_key(theirs) {
                return format!("did you mean `{theirs}`?");
            }
        }
        let names: Vec<&str> = listed.keys().map(String::as_str).collect();
        format!("{EXPECTED}{}", names.join(", "))
    }

    /// Rewords `schema of path: {…}`. Returns `None` for other recommendations.
    pub(super) fn schema_advice(&self, advice: &str) -> Option<String> {
        let (path, schema) = advice.strip_prefix(SCHEMA)?.split_once(": ")?;
        let path = self.path(path);
        let listed = self.schema(&path);
        let schema = listed.map_or_else(
            || schema.to_owned(),
            |listed| text::escape_line(&listed.to_string(), MAX_SCHEMA),
        );
        Some(format!("{SCHEMA}{path}: {schema}"))
    }

    /// Returns the schema of a parameter as the model sees it.
    fn schema(&self, path: &str) -> Option<Value> {
        let (row, tool) = self.called?;
        let root = self.registry.descriptor(tool, row).input_schema;
        let mut schema = &root;
        for (name, indices) in steps(path) {
            schema = follow(&root, schema.get("properties")?.get(name)?);
            for _ in indices.matches('[') {
                schema = items(&root, schema)?;
            }
        }
        Some(schema.clone())
    }

    /// Returns a path in the names of the model.
    fn path(&self, path: &str) -> String {
        let called = self
            .called
            .map(|(row, tool)| (row.params, &tool.input_schema));
        let (mut params, mut schema) = called.unzip();
        let root = schema;
        let mut shown = String::new();
        for (name, indices) in steps(path) {
            let found = params.into_iter().flatten().find_map(|param| {
                let (own, property) = property(schema?, param.canonical)?;
                (own == name).then_some((param, property))
            });
            let theirs = found.map_or(name, |(param, _)| param.agent_name);
            shown = join(&shown, &format!("{theirs}{indices}"));
            params = found.map(|(param, _)| ParamMapping::members(param));
            schema = found.and_then(|(_, property)| items(root?, property));
        }
        shown
    }
}

/// The names of a path, each with the indices after it.
fn steps(path: &str) -> impl Iterator<Item = (&str, &str)> {
    let steps = path.split('.').filter(|step| !step.is_empty());
    steps.map(|step| step.split_at(step.find('[').unwrap_or(step.len())))
}

fn last_name(path: &str) -> &str {
    steps(path).last().map_or("", |(name, _)| name)
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}
