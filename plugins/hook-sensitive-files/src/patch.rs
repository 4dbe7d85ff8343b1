//! The paths in the headers of a patch, as the tool `apply_patch` reads them.

use std::borrow::Cow;

use toolhost_sdk::text::unquoted_file_name;

/// Headers of the `*** Begin Patch` format and of git, each followed by one path.
const HEADERS: [&str; 8] = [
    "*** Add File:",
    "*** Delete File:",
    "*** Update File:",
    "*** Move to:",
    "rename from ",
    "rename to ",
    "copy from ",
    "copy to ",
];

/// The paths that `patch` reads, changes or creates. Git's prefixes (`a/`, `b/`) are removed.
pub fn paths(patch: &str) -> Vec<Cow<'_, str>> {
    let mut paths = Vec::new();
    let mut lines = patch.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(path) = HEADERS.iter().find_map(|header| line.strip_prefix(header)) {
            paths.push(decoded(path));
        } else if let Some(names) = line.strip_prefix("diff --git ") {
            // Names with spaces are checked in parts, which end like the name.
            paths.extend(names.split(' ').map(without_prefix));
        } else if let Some(old) = line.strip_prefix("--- ")
            && let Some(new) = lines.peek().and_then(|next| next.strip_prefix("+++ "))
        {
            paths.extend([old, new].map(without_prefix));
        }
    }
    paths
}

/// The path after `--- ` without its timestamp and git's prefix.
fn without_prefix(name: &str) -> Cow<'_, str> {
    let name = name.split('\t').next().unwrap_or_default();
    match decoded(name) {
        Cow::Borrowed(path) => strip_prefix(path).into(),
        Cow::Owned(path) => strip_prefix(&path).to_owned().into(),
    }
}

/// `a/src/x` as `src/x`. Directories with a name of one letter are removed as well, which changes the kind of no path
/// except below `/etc`, where patches are refused.
fn strip_prefix(path: &str) -> &str {
    match path.as_bytes() {
        [letter, b'/', ..] if letter.is_ascii_lowercase() => &path[2..],
        _ => path,
    }
}

/// Decodes a C-quoted name, which git uses for unusual bytes.
fn decoded(name: &str) -> Cow<'_, str> {
    let name = name.trim();
    match unquoted_file_name(name) {
        Some(bytes) => String::from_utf8_lossy(&bytes).into_owned().into(),
        None => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patch: &str, expected: &[&str]) {
        assert_eq!(paths(patch), expected, "{patch}");
    }

    #[test]
    fn every_header_names_its_files() {
        check(
            "*** Begin Patch\n*** Add File: .env\n+*** Add File: x\n*** Update File:a b\r\n*** Move to: c\n a\n*** Delete \
             File: d\n*** End Patch",
            &[".env", "a b", "c", "d"],
        );
        check(
            "diff --git a/x b/.env\nrename from x\nrename to .env\n--- a/x\t2026-01-01\n+++ /dev/null\n@@ -1 +1 @@\n-- y\n",
            &["x", ".env", "x", ".env", "x", "/dev/null"],
        );
        check("--- y\n text\n", &[]);
    }

    #[test]
    fn quoted_names_are_decoded() {
        check(
            "--- \"a/\\151d_rsa\"\n+++ \"b/\\303\\244 \\\"q\\\"\"\n",
            &["id_rsa", "ä \"q\""],
        );
    }
}
