//! Exclude patterns of a granted directory, in `.gitignore` syntax, for a directory below it.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};

/// Why a directory cannot be granted with the patterns of a directory above it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebaseError {
    /// A pattern hides the directory or one above it.
    #[error("it is hidden there")]
    Hidden,
    /// A wildcard of the pattern extends over several components of a path.
    #[error("the pattern `{0}` cannot be applied to a directory below its own")]
    Unsupported(String),
}

/// Returns the patterns that hide the same files in the directory `below`, a relative path, as `patterns` hide in the
/// directory above it. Patterns that match nothing there are left out. The last component counts as a directory.
pub fn rebase_excludes(patterns: &[String], below: &Path) -> Result<Vec<String>, RebaseError> {
    let unsupported = |text: &str| RebaseError::Unsupported(crate::text::escape_line(text, 80));
    let below = below
        .to_str()
        .ok_or_else(|| unsupported(&below.to_string_lossy()))?;
    let names: Vec<String> = below
        .split('/')
        .filter(|name| !name.is_empty())
        .map(str::to_lowercase)
        .collect();
    if names.is_empty() {
        return Ok(patterns.to_vec());
    }
    let mut is_hidden = vec![false; names.len()];
    let mut rebased = Vec::new();
    for text in patterns {
        let pattern = ExcludePattern::parse(text).ok_or_else(|| unsupported(text))?;
        let mut positions = pattern.with_skipped(vec![0]);
        for (name, is_hidden) in names.iter().zip(&mut is_hidden) {
            let (is_match, next) = pattern.after(&positions, name);
            if is_match {
                // The last matching pattern decides.
                *is_hidden = !pattern.includes;
            }
            positions = next;
        }
        rebased.extend(pattern.rests(&positions));
    }
    if is_hidden.contains(&true) {
        return Err(RebaseError::Hidden);
    }
    Ok(rebased)
}

struct ExcludePattern<'a> {
    text: &'a str,
    /// It begins with `!`.
    includes: bool,
    only_directories: bool,
    components: Vec<(&'a str, Component)>,
}

enum Component {
    /// `**`: any number of components, or everything below if it is the last one.
    Any,
    Glob(GlobMatcher),
}

impl<'a> ExcludePattern<'a> {
    /// Returns `None` if it cannot be split into components.
    fn parse(text: &'a str) -> Option<Self> {
        let text = if text.ends_with("\\ ") {
            text
        } else {
            text.trim_end()
        };
        let (includes, body) = match text.strip_prefix('!') {
            Some(body) => (true, body),
            None => (false, text),
        };
        let path = body.strip_suffix('/').unwrap_or(body);
        let mut components = Vec::new();
        if !path.contains('/') {
            components.push(("**", Component::Any));
        }
        for component in path.strip_prefix('/').unwrap_or(path).split('/') {
            let parsed = match component {
                "**" => Component::Any,
                // Names are compared in lower case, as in the sandbox.
                glob => Component::Glob(compile(&glob.to_lowercase())?),
            };
            components.push((component, parsed));
        }
        Some(Self {
            text,
            includes,
            only_directories: body.ends_with('/'),
            components,
        })
    }

    /// Adds the positions behind each `**`, which can match nothing.
    fn with_skipped(&self, positions: Vec<usize>) -> Vec<usize> {
        let mut all = Vec::new();
        for mut at in positions {
            while !all.contains(&at) {
                all.push(at);
                let is_any = matches!(self.components.get(at), Some((_, Component::Any)));
                if is_any && at + 1 < self.components.len() {
                    at += 1;
                }
            }
        }
        all
    }

    /// Returns whether the pattern matches the directory `name`, and the positions for what is in it.
    fn after(&self, positions: &[usize], name: &str) -> (bool, Vec<usize>) {
        let mut is_match = false;
        let mut next = Vec::new();
        for at in positions {
            let is_last = at + 1 == self.components.len();
            match self.components.get(*at) {
                Some((_, Component::Any)) => {
                    is_match |= is_last;
                    next.push(*at);
                }
                Some((_, Component::Glob(glob))) if glob.is_match(name) => {
                    is_match |= is_last;
                    next.push(at + 1);
                }
                Some(_) | None => {}
            }
        }
        (is_match, self.with_skipped(next))
    }

    /// Returns the pattern for each position.
    fn rests(&self, positions: &[usize]) -> Vec<String> {
        let is_any = |at: usize| matches!(self.components[at].1, Component::Any);
        // A rest that begins with `**` matches what the rest behind it matches.
        let is_covered = |at: usize| at > 0 && is_any(at - 1) && positions.contains(&(at - 1));
        let open = positions.iter().copied();
        let open = open.filter(|at| *at < self.components.len() && !is_covered(*at));
        open.map(|at| {
            if at == 0 {
                return self.text.to_owned();
            }
            let rest: Vec<&str> = self.components[at..]
                .iter()
                .map(|(text, _)| *text)
                .collect();
            let sign = if self.includes { "!" } else { "" };
            let anchor = if is_any(at) { "" } else { "/" };
            let end = if self.only_directories { "/" } else { "" };
            format!("{sign}{anchor}{}{end}", rest.join("/"))
        })
        .collect()
    }
}

/// With the options of `.gitignore` patterns.
fn compile(component: &str) -> Option<GlobMatcher> {
    let mut glob = GlobBuilder::new(component);
    let glob = glob.literal_separator(true).backslash_escape(true).build();
    glob.ok().map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(patterns: &[&str], below: &str, expected: Result<&[&str], RebaseError>) {
        let patterns: Vec<String> = patterns.iter().map(ToString::to_string).collect();
        let rebased = rebase_excludes(&patterns, Path::new(below));
        let expected = expected.map(|list| list.iter().map(ToString::to_string).collect());
        assert_eq!(rebased, expected, "{patterns:?} in {below}");
    }

    #[test]
    fn patterns_hide_the_same_files_in_a_directory_below() {
        let cases: [(&[&str], &str, &[&str]); 12] = [
            (&["sub/secret"], "sub", &["/secret"]),
            (&["/sub/secret/"], "sub", &["/secret/"]),
            (&["Sub/a/b"], "sub/A", &["/b"]),
            (&["a/b", ".env", "**/x/y"], "", &["a/b", ".env", "**/x/y"]),
            (&["other/secret", "/x"], "sub", &[]),
            (&[".env", "*.log/"], "sub", &[".env", "*.log/"]),
            (
                &["**/.docker/config.json"],
                "sub",
                &["**/.docker/config.json"],
            ),
            (
                &["**/.docker/config.json"],
                "a/.docker",
                &["**/.docker/config.json", "/config.json"],
            ),
            (&["sub/**"], "sub", &["**"]),
            (&["a/**/b"], "a/x/y", &["**/b"]),
            (&["s*/keys", "!sub/keys/ok"], "sub", &["/keys", "!/keys/ok"]),
            (&["/*", "!/sub/", "sub/{a,b}"], "sub", &["/{a,b}"]),
        ];
        for (patterns, below, expected) in cases {
            check(patterns, below, Ok(expected));
        }
    }

    #[test]
    fn a_hidden_directory_and_what_is_in_it_cannot_be_granted() {
        for (patterns, below) in [
            (&["sub/"][..], "sub"),
            (&["sub"], "sub/deep"),
            (&["*.SSH"], "a/b.ssh/c"),
            (&["/a/*"], "a/b"),
            (&["a/**"], "a/b"),
            (&["!sub", "sub"], "sub"),
            (&["sub", "!sub/deep"], "sub/deep"),
        ] {
            check(patterns, below, Err(RebaseError::Hidden));
        }
    }

    #[test]
    fn a_wildcard_over_several_components_is_an_error() {
        for pattern in ["{x/a,b}", "[a/]b"] {
            let error = RebaseError::Unsupported(pattern.to_owned());
            check(&[".env", pattern], "sub", Err(error));
        }
    }
}
