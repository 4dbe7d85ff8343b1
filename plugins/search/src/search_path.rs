//! Resolution of paths to files and directories within the roots.

use std::fs::{self, Metadata};

use toolhost_sdk::prelude::*;

/// Minimum similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.6;
const SUGGESTIONS: usize = 3;

/// A path within the roots: absolute, without `.`, `..` or a trailing slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    path: String,
    /// Length of the root that contains it.
    root: usize,
    /// The first root, to which shown paths are relative.
    home: String,
}

impl SearchPath {
    /// Resolves `requested`: absolute or relative to the first root, possibly quoted. It need not exist.
    pub fn find(cx: &Context, requested: &str) -> Result<Self> {
        let text = unquoted(requested);
        if text.contains('\0') {
            let message = format!("the path {text:?} contains a NUL character; remove it");
            return Err(Error::invalid_input(message).code("invalid_path"));
        }
        let literal = Self::locate(cx, text);
        if literal.as_ref().is_ok_and(Self::exists) {
            return literal;
        }
        // `@src` is a file mention in a prompt, and `my\ notes` is shell-escaped. Both are also valid names, so the
        // literal reading comes first.
        let unescaped = text.replace("\\ ", " ");
        let mention = text.strip_prefix('@').filter(|rest| !rest.is_empty());
        let readings = mention
            .into_iter()
            .chain((unescaped != text).then_some(unescaped.as_str()));
        readings
            .filter_map(|reading| Self::locate(cx, reading).ok())
            .find(Self::exists)
            .map_or(literal, Ok)
    }

    /// Resolves lexically.
    pub fn locate(cx: &Context, requested: &str) -> Result<Self> {
        let roots = cx.roots();
        let Some(first) = roots.first() else {
            return Err(denied(
                requested,
                "none are granted; run host with --allow-path DIR",
            ));
        };
        let paths: Vec<&str> = roots.iter().map(|root| root.path.as_str()).collect();
        // A plugin has no home directory, so `~` is always outside.
        if requested == "~" || requested.starts_with("~/") {
            return Err(denied(requested, &paths.join(", ")));
        }
        let home = tidy(&first.path);
        let path = if requested.starts_with('/') {
            tidy(requested)
        } else {
            tidy(&format!("{home}/{requested}"))
        };
        let inside = roots
            .iter()
            .map(|root| tidy(&root.path))
            .filter(|root| below(root, &path).is_some());
        if let Some(root) = inside.map(|root| root.len()).max() {
            return Ok(Self { path, root, home });
        }
        Err(denied(requested, &paths.join(", ")))
    }

    /// True for a dangling link as well.
    fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// The path of the entry `name`.
    pub fn join(&self, name: &str) -> Self {
        Self {
            path: tidy(&format!("{}/{name}", self.path)),
            ..self.clone()
        }
    }

    /// The metadata, or an error with suggestions.
    pub fn metadata(&self, requested: &str) -> Result<Metadata> {
        fs::metadata(&self.path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                let alike = self.alike();
                let hint = if alike.is_empty() {
                    String::new()
                } else {
                    format!(". Did you mean: {}?", alike.join(", "))
                };
                Error::not_found(format!("File not found: {requested}{hint}"))
                    .code("search_path_not_found")
            }
            _ => error.into(),
        })
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path as shown in results: relative to the first root if it is inside.
    pub fn shown(&self) -> &str {
        self.show(&self.path)
    }

    /// Any other absolute path as shown in results.
    pub fn show<'a>(&self, path: &'a str) -> &'a str {
        match below(&self.home, path) {
            Some("") => ".",
            Some(relative) => relative,
            None => path,
        }
    }

    /// The absolute path of a shown path.
    pub fn absolute(&self, shown: &str) -> String {
        match shown {
            "." => self.home.clone(),
            shown if shown.starts_with('/') => shown.to_owned(),
            shown => format!("{}/{shown}", self.home),
        }
    }

    /// The directories from the root to the parent, whose rules apply here too.
    pub fn ancestors(&self) -> Vec<&str> {
        let mut ends: Vec<usize> = self
            .path
            .match_indices('/')
            .map(|(at, _)| at)
            .filter(|at| *at > self.root)
            .collect();
        if self.path.len() > self.root {
            ends.insert(0, self.root);
        }
        ends.into_iter().map(|end| &self.path[..end]).collect()
    }

    /// Existing paths similar to this one, with the first missing component replaced.
    fn alike(&self) -> Vec<String> {
        let mut path = self.path.as_str();
        while let Some((parent, wrong)) = path
            .rsplit_once('/')
            .filter(|(parent, _)| parent.len() >= self.root)
        {
            let Ok(entries) = fs::read_dir(if parent.is_empty() { "/" } else { parent }) else {
                path = parent;
                continue;
            };
            let mut names: Vec<(f64, String)> = entries
                .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
                .map(|name| {
                    (
                        similarity(&name.to_lowercase(), &wrong.to_lowercase()),
                        name,
                    )
                })
                .filter(|(likeness, _)| *likeness >= MIN_SIMILARITY)
                .collect();
            names.sort_by(|left, right| {
                right
                    .0
                    .total_cmp(&left.0)
                    .then_with(|| left.1.cmp(&right.1))
            });
            let rest = &self.path[path.len()..];
            let whole = |name: &str| {
                let neighbour = format!("{parent}/{name}");
                let whole = format!("{neighbour}{rest}");
                let there = if fs::metadata(&whole).is_ok() {
                    whole
                } else {
                    neighbour
                };
                self.show(&there).to_owned()
            };
            return names
                .iter()
                .take(SUGGESTIONS)
                .map(|(_, name)| whole(name))
                .collect();
        }
        Vec::new()
    }
}

/// Similarity from 0 to 1. Swapped letters and different endings have little weight.
fn similarity(left: &str, right: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(left, right).max(strsim::jaro_winkler(left, right) - 0.2)
}

/// Removes surrounding quotes and blanks. An empty path means the workspace.
fn unquoted(requested: &str) -> &str {
    let text = requested.trim();
    let text = ['"', '\'', '`']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(text)
        .trim();
    if text.is_empty() { "." } else { text }
}

/// The part of `path` below `root`.
pub fn below<'a>(root: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(root)?;
    if rest.is_empty() || root.is_empty() {
        Some(rest.trim_start_matches('/'))
    } else {
        rest.strip_prefix('/')
    }
}

/// Without `.`, `..` and redundant slashes. The root of the file system becomes the empty string.
fn tidy(path: &str) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in path.split('/') {
        match name {
            "" | "." => {}
            ".." => {
                names.pop();
            }
            name => names.push(name),
        }
    }
    names.iter().flat_map(|name| ["/", name]).collect()
}

fn denied(requested: &str, roots: &str) -> Error {
    let text = format!(
        "Permission denied: Access denied: {requested} is outside the allowed paths ({roots})"
    );
    Error::denied(text).code("path_not_in_workspace")
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(roots: &[&str], requested: &str, expected: Expect) {
        let cx = roots
            .iter()
            .fold(Context::test(), |cx, root| cx.with_root(root, "ro"));
        let text = match SearchPath::find(&cx, requested) {
            Ok(found) => format!(
                "{} shown as {}, below {:?}",
                found.path(),
                found.shown(),
                found.ancestors()
            ),
            Err(error) => error.to_string(),
        };
        expected.assert_eq(&text);
    }

    #[test]
    fn paths_are_relative_to_the_first_root() {
        check(
            &["/workspace", "/docs"],
            "src/./a/../b.rs",
            expect![[
                r#"/workspace/src/b.rs shown as src/b.rs, below ["/workspace", "/workspace/src"]"#
            ]],
        );
        check(
            &["/workspace", "/docs"],
            ".",
            expect!["/workspace shown as ., below []"],
        );
        check(
            &["/workspace"],
            "\"a b.txt\"\n",
            expect![[r#"/workspace/a b.txt shown as a b.txt, below ["/workspace"]"#]],
        );
    }

    #[test]
    fn other_roots_are_shown_in_full() {
        check(
            &["/workspace", "/docs"],
            "/docs/api/x.md",
            expect![[r#"/docs/api/x.md shown as /docs/api/x.md, below ["/docs", "/docs/api"]"#]],
        );
    }

    #[test]
    fn outside_is_denied() {
        check(
            &["/workspace", "/docs"],
            "../etc/passwd",
            expect![
                "Permission denied: Access denied: ../etc/passwd is outside the allowed paths (/workspace, /docs)"
            ],
        );
        check(
            &["/workspace"],
            "/workspace-secret",
            expect![
                "Permission denied: Access denied: /workspace-secret is outside the allowed paths (/workspace)"
            ],
        );
        check(
            &[],
            "src",
            expect![
                "Permission denied: Access denied: src is outside the allowed paths (none are granted; run host with --allow-path DIR)"
            ],
        );
    }

    #[test]
    fn the_whole_file_system_can_be_a_root() {
        check(
            &["/"],
            "/etc/hosts",
            expect![[r#"/etc/hosts shown as etc/hosts, below ["", "/etc"]"#]],
        );
    }
}
