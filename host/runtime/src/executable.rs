//! The executable bit of files that a call wrote.
//!
//! WASI preview 2 has no call that sets permission bits. A tool names the files in the `meta` of its outcome instead:
//! `{"executable": {"/workspace/run.sh": true}}`. The host sets the bit on the staged file, so that the change is shown,
//! judged, committed and undone like any other. It does so only for files that this call created or wrote. Nothing else
//! of a mode can be asked for.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;
use toolhost_contract::{CallError, ErrorClass, Outcome, Part, text};
use toolhost_vfs::{Scope, Stage};

const MEMBER: &str = "executable";
/// Files of one call. A patch is about fewer.
const MAX_FILES: usize = 1_000;
/// Files that are named where the bit was not set.
const MAX_NAMED: usize = 5;

/// One file, by the name that the guest uses, and whether it is to be executable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutableBit {
    path: String,
    on: bool,
}

/// Takes the member out of `outcome.meta`. Values of another type, and files past the limit, are ignored.
pub(crate) fn take(outcome: &mut Outcome) -> Vec<ExecutableBit> {
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

/// Sets the bits on the stage and returns those that could not be set. May block.
pub(crate) fn apply(
    stage: &Stage,
    bits: Vec<ExecutableBit>,
) -> Result<Vec<ExecutableBit>, CallError> {
    let mut left = Vec::new();
    for bit in bits {
        let is_set = match host_path(stage.scope(), &bit.path) {
            Some(path) => stage.set_executable(&path, bit.on).map_err(|error| {
                CallError::new(ErrorClass::Failed, error.to_string()).code("stage_failed")
            })?,
            None => false,
        };
        if !is_set {
            left.push(bit);
        }
    }
    Ok(left)
}

/// Tells the model which bits were not set.
pub(crate) fn tell(outcome: &mut Outcome, left: &[ExecutableBit]) {
    if left.is_empty() {
        return;
    }
    let mut files: Vec<String> = left
        .iter()
        .take(MAX_NAMED)
        .map(|bit| text::inline(&bit.path, 200))
        .collect();
    if left.len() > MAX_NAMED {
        files.push(format!("{} more", left.len() - MAX_NAMED));
    }
    outcome.llm.push(Part::Text(format!(
        "warning: the host did not change the executable bit of {}; change it with chmod",
        files.join(", ")
    )));
}

/// Where the guest's path is on the host. Only names are compared: the stage changes nothing that the call did not write.
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
