//! What neither `delete_file` nor `move_file` takes away, whoever asks.

use std::path::Path;

use toolhost_sdk::prelude::*;

use crate::path::Target;

/// Refuses to take `target` from its place if that is an allowed directory, holds one, or is a repository's `.git`.
/// `deed` is what would be done, such as "deleted".
pub fn check(cx: &Context, target: &Target, deed: &str) -> Result<()> {
    let refuse = |why: &str| {
        Err(Error::denied(format!(
            "Permission denied: {} cannot be {deed}: {why}",
            target.shown
        ))
        .code("path_is_protected")
        .recommend("name what is in it and has to go"))
    };
    let is_root = |root: &Path| root.starts_with(&target.path);
    if cx.roots().iter().any(|root| is_root(Path::new(&root.path))) {
        return refuse("it is or holds an allowed directory, in which all work is done");
    }
    // File systems that know no case would open `.GIT` too.
    let is_git = target
        .path
        .file_name()
        .is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    if is_git {
        return refuse("it is the history of a repository");
    }
    target.check_writable()
}
