//! Sets the executable bit of files that a call wrote.
//!
//! WASI preview 2 cannot set permission bits. Instead, a tool lists files in the `meta` of its outcome:
//! `{"executable": {"/workspace/run.sh": true}}`. The host sets the bit on the staged file, so the change is shown,
//! authorized, committed and undone like any other. It applies only to files that this call created or wrote, and
//! to no other mode bits.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use toolhost_contract::{CallError, ErrorClass, Outcome, Part, text};
use toolhost_vfs::{Scope, Stage};

const MEMBER: &str = "executable";
/// Maximum number of files per call; patches are smaller in practice.
const MAX_FILES: usize = 1_000;
/// Maximum number of files that are listed if the bit could not be set.
const MAX_NAMED: usize = 5;

/// One file, by its guest path, and whether it should be executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutableBit {
    path: String,
    on: bool,
}

/// Removes the member from `outcome.meta`. Ignores values of other types, and files beyond the limit.
pub(crate) fn take_bits(outcome: &mut Outcome) -> Vec<ExecutableBit> {
    let Some(Value::Object(meta)) = &mut outcome.meta else {
        return Vec::new();
    };
    let Some(Value::Object(files)) = meta.shift_remove(MEMBER) else {
        return Vec::new();
    };
    if meta.is_empty() {
        outcome.meta = None;
    }
    let bits = files.into_iter().take(MAX_FILES);
    bits.filter_map(|(path, on)| {
        Some(ExecutableBit {
            path,
            on: on.as_bool()?,
        })
    })
    .collect()
}

/// Sets the bits on staged files and returns those that could not be set. May block.
pub(crate) fn set_bits(
    stage: &Stage,
    bits: Vec<ExecutableBit>,
) -> Result<Vec<ExecutableBit>, CallError> {
    // A call writes no file outside of its grant, and none has the empty path.
    let host_path = |bit: &ExecutableBit| host_path(stage.scope(), &bit.path).unwrap_or_default();
    let files: Vec<_> = bits.iter().map(|bit| (host_path(bit), bit.on)).collect();
    let is_set = stage.set_executable(&files).map_err(|error| {
        CallError::new(ErrorClass::Failed, error.to_string()).code("stage_failed")
    })?;
    let bits = bits.into_iter().zip(is_set);
    Ok(bits
        .filter(|(_, is_set)| !is_set)
        .map(|(bit, _)| bit)
        .collect())
}

/// Reports to the model which bits were not set.
pub(crate) fn report_unset(outcome: &mut Outcome, left: &[ExecutableBit]) {
    if left.is_empty() {
        return;
    }
    let mut files: Vec<String> = left
        .iter()
        .take(MAX_NAMED)
        .map(|bit| text::escape_line(&bit.path, 200))
        .collect();
    if left.len() > MAX_NAMED {
        files.push(format!("{} more", left.len() - MAX_NAMED));
    }
    outcome.llm.push(Part::Text(format!(
        "warning: the host did not change the executable bit of {}; change it with chmod",
        files.join(", ")
    )));
}

/// Host path of a guest path, by comparing names only: the stage changes no file that the call did not write.
fn host_path(scope: &Scope, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    let nearest = scope
        .roots()
        .iter()
        .filter_map(|root| Some((root, path.strip_prefix(root.guest()).ok()?)))
        .min_by_key(|(_, rest)| rest.as_os_str().len());
    let (root, rest) = nearest?;
    rest.components()
        .all(|part| matches!(part, Component::Normal(_)))
        .then(|| root.host().join(rest))
}

#[cfg(test)]
mod tests;
