//! Paths that neither `delete_file` nor `move_file` may remove.

use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Refuses to remove `target` if it is or contains an allowed directory, or is a repository's `.git`. `operation` is a
/// participle, such as "deleted".
pub fn check(cx: &Context, target: &Target, operation: &str) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::denied(format!(
            "Permission denied: {} cannot be {operation}: {why}",
            target.shown
        ))
        .code("path_is_protected")
        .recommend("list its entries and remove those instead"))
    };
    let is_root = |root: &Path| root.starts_with(&target.path);
    if cx.roots().iter().any(|root| is_root(Path::new(&root.path))) {
        return refuse("it is or contains an allowed directory");
    }
    // Case-insensitive file systems would open `.GIT` too.
    let is_git = target
        .path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    if is_git {
        return refuse("it is the history of a repository");
    }
    target.check_writable()
}
