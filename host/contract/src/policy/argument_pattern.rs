//! Rules about the value of a parameter: `Tool(parameter:value)` and `args`.

use serde_json::Value;

use super::call_analysis::CallAnalysis;
use super::domain_pattern::{matches_wildcard, scalar_text};
use super::path_pattern::{PathPattern, PathRef};
use super::{Decision, PathContext};
use crate::path_members::is_path_member;

/// A parameter, given by name or JSON pointer, and the value that it must have. A string may contain `*`; `*` alone
/// matches every value.
#[derive(Debug, Clone)]
pub(super) struct ArgumentPattern {
    pub name: String,
    wanted: Value,
    /// The value as a pattern, for a parameter that contains a path.
    path: Option<PathPattern>,
}

impl ArgumentPattern {
    pub(super) fn new(name: &str, wanted: Value, path_context: &PathContext) -> Self {
        let path = wanted.as_str().filter(|text| *text != "*");
        Self {
            name: name.to_owned(),
            path: path.and_then(|path| PathPattern::parse(path, path_context).ok()),
            wanted,
        }
    }

    /// Whether the parameter has the value. Values are compared as text. Several texts can name one file, so an allow
    /// rule does not match a path with `..`, and a deny or ask rule also matches another spelling of the path.
    pub(super) fn matches(&self, analysis: &CallAnalysis, decision: Decision) -> bool {
        let input = analysis.request.input;
        let found = if self.name.starts_with('/') {
            input.pointer(&self.name)
        } else {
            input.get(&self.name)
        };
        let Some(found) = found else {
            return false;
        };
        let is_equal = match self.wanted.as_str() {
            Some("*") => return true,
            Some(pattern) => {
                scalar_text(found).is_some_and(|found| matches_wildcard(pattern, &found))
            }
            None => *found == self.wanted,
        };
        let path = found.as_str().filter(|path| self.is_path(path, analysis));
        match (path, decision) {
            (None, _) => is_equal,
            (Some(path), Decision::Allow) => is_equal && path.split('/').all(|part| part != ".."),
            (Some(path), Decision::Ask | Decision::Deny) => {
                let path_ref = PathRef::parse(path, analysis.path_context);
                let is_same = |pattern: &PathPattern| pattern.may_match(&path_ref);
                is_equal || self.path.as_ref().is_some_and(is_same)
            }
        }
    }

    /// Whether the parameter contains paths, by its name or because the tool says so of this value.
    fn is_path(&self, value: &str, analysis: &CallAnalysis) -> bool {
        let name = self.name.rsplit('/').next().unwrap_or_default();
        let mut paths = analysis.request.subject.paths.iter();
        is_path_member(name) || paths.any(|one| !one.on_host && one.path == value)
    }
}
