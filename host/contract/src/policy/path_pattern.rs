//! Paths of calls and path patterns of rules, compared as text.
//!
//! The sandbox decides which file a path opens; rules are a second barrier. If a path is ambiguous, an allow rule must
//! match every interpretation of it, while a deny or ask rule needs only one.

use globset::{GlobBuilder, GlobMatcher};
use serde::{Deserialize, Serialize};

use super::DeniedPath;

/// Maximum length of a path or pattern in bytes.
const MAX_PATH: usize = 4_096;

/// Base directories for relative paths and anchored patterns. All are absolute; `home` and `root` are paths on the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathContext {
    pub cwd: String,
    pub home: Option<String>,
    /// Root of the settings file's project; `None`: the working directory.
    pub root: Option<String>,
    /// Directories that have another path inside the guest.
    pub mounts: Vec<Mount>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mount {
    pub guest: String,
    pub host: String,
}

impl PathContext {
    /// Translates the working directory from its guest path, because patterns are compared with host paths.
    pub(super) fn with_host_names(mut self) -> Self {
        self.cwd = self.resolve(&self.cwd);
        self
    }

    /// Resolves a path to its path on the host.
    pub(super) fn resolve(&self, path: &str) -> String {
        let text = normalize(&self.cwd, path).0;
        self.mounted_path(&text).unwrap_or(text)
    }

    fn mounted_path(&self, path: &str) -> Option<String> {
        let mounted = self.mounts.iter().filter_map(|mount| {
            let guest = normalize("/", &mount.guest).0;
            let rest = strip_dir(path, &guest)?;
            Some((
                guest.len(),
                normalize(&normalize("/", &mount.host).0, rest).0,
            ))
        });
        // Of nested mounts, the innermost contains it.
        mounted
            .max_by_key(|(depth, _)| *depth)
            .map(|(_, host)| host)
    }
}

impl Default for PathContext {
    fn default() -> Self {
        Self {
            cwd: "/workspace".to_owned(),
            home: None,
            root: None,
            mounts: Vec::new(),
        }
    }
}

/// A path of a call with every possible interpretation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathRef {
    /// Absolute, without `.` and `..`. An allow rule must match all of them.
    certain: Vec<String>,
    /// Further interpretations, which deny and ask rules also match.
    possible: Vec<String>,
    /// The directory reached with `..`; the path may refer to anything below it.
    climbed_to: Option<String>,
}

impl PathRef {
    pub(super) fn parse(path: &str, path_context: &PathContext) -> Self {
        let mut path_ref = Self::from_host(path, path_context);
        let Some(text) = path_ref.certain.first().cloned() else {
            return path_ref;
        };
        if let Some(rest) = path.strip_prefix('~') {
            match (&path_context.home, rest.strip_prefix('/')) {
                (Some(home), Some(rest)) => path_ref.certain.push(normalize(home, rest).0),
                (Some(home), None) if rest.is_empty() => {
                    path_ref.certain.push(normalize("/", home).0);
                }
                _ => {}
            }
        }
        if let Some(host) = path_context.mounted_path(&text)
            && host != text
        {
            path_ref.possible = std::mem::replace(&mut path_ref.certain, vec![host]);
        }
        path_ref
    }

    /// A path that the host resolved itself, so it is unambiguous.
    pub(super) fn from_host(path: &str, path_context: &PathContext) -> Self {
        if path.len() > MAX_PATH || path.contains('\0') {
            return Self::unknown();
        }
        let (text, climbed) = normalize(&path_context.cwd, path);
        Self {
            certain: vec![text],
            possible: Vec::new(),
            climbed_to: climbed,
        }
    }

    /// An unknown path.
    pub(super) fn unknown() -> Self {
        Self {
            certain: Vec::new(),
            possible: Vec::new(),
            climbed_to: Some("/".to_owned()),
        }
    }

    /// The path, if it has only one interpretation.
    pub(super) fn exact(&self) -> Option<&str> {
        match (self.certain.as_slice(), &self.climbed_to) {
            ([path], None) => Some(path),
            _ => None,
        }
    }

    /// Whether its target cannot be determined.
    pub(super) fn is_ambiguous(&self) -> bool {
        self.climbed_to.is_some()
    }

    /// Every interpretation.
    pub(super) fn interpretations(&self) -> impl Iterator<Item = &str> {
        self.certain
            .iter()
            .chain(&self.possible)
            .map(String::as_str)
    }

    /// The host paths that it is most likely to mean.
    pub(super) fn host_paths(&self) -> impl Iterator<Item = &str> {
        self.certain.iter().map(String::as_str)
    }

    /// Whether every interpretation lies below `dir`.
    pub(super) fn is_below(&self, dir: &str) -> bool {
        self.climbed_to.is_none()
            && !self.certain.is_empty()
            && self
                .certain
                .iter()
                .all(|path| strip_dir(path, dir).is_some())
    }
}

/// The rest of `path` after `dir`, if it is that directory or lies below it.
pub(super) fn strip_dir<'a>(path: &'a str, dir: &str) -> Option<&'a str> {
    if dir == "/" {
        return path.strip_prefix('/');
    }
    let rest = path.strip_prefix(dir)?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix('/')
    }
}

/// Removes `.`, `..` and doubled slashes. If `..` left the base, also returns the highest directory reached.
pub(super) fn normalize(base: &str, path: &str) -> (String, Option<String>) {
    let base = if path.starts_with('/') { "" } else { base };
    let mut stack: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    let floor = stack.len();
    let mut lowest = floor;
    let mut left_root = false;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                left_root |= stack.pop().is_none();
                lowest = lowest.min(stack.len());
            }
            part => stack.push(part),
        }
    }
    // The first `lowest` components of the base were never left, so they are still known.
    let climbed = (lowest < floor || left_root).then(|| {
        let parts: Vec<&str> = base
            .split('/')
            .filter(|part| !part.is_empty())
            .take(lowest)
            .collect();
        format!("/{}", parts.join("/"))
    });
    (format!("/{}", stack.join("/")), climbed)
}

/// Path pattern of a rule: `//absolute`, `~/home`, `/from the settings file's root`, `from the working directory`, with
/// gitignore wildcards. A directory covers everything below it; a trailing slash has no effect.
#[derive(Debug, Clone)]
pub(super) struct PathPattern {
    /// The directory above the first wildcard.
    literal_dir: String,
    /// The pattern covers that directory and everything in it.
    is_tree: bool,
    strict: PatternMatcher,
    lenient: PatternMatcher,
}

#[derive(Debug, Clone)]
enum PatternMatcher {
    /// No wildcard: the path itself and everything below it.
    Tree,
    Globs(Vec<GlobMatcher>),
}

/// Returns the directory that a pattern is relative to, the rest of the pattern, and whether it matches only at that
/// directory. Returns `None` if the pattern needs an unknown home directory.
fn base_of_pattern<'a>(
    text: &'a str,
    path_context: &PathContext,
) -> Option<(String, &'a str, bool)> {
    let root = path_context.root.as_deref().unwrap_or(&path_context.cwd);
    let (base, rest, anchored) = if let Some(rest) = text.strip_prefix("//") {
        ("/", rest, true)
    } else if let Some(rest) = text.strip_prefix("~/") {
        let home = path_context.home.as_deref()?;
        (home, rest, true)
    } else if let Some(rest) = text.strip_prefix('/') {
        (root, rest, true)
    } else {
        (
            path_context.cwd.as_str(),
            text,
            text.trim_end_matches('/').contains('/') || matches!(text, "." | "./" | ".." | "../"),
        )
    };
    let mut base = normalize("/", base).0;
    let mut rest = rest.trim_matches('/');
    // Leading `./` and `../` move the base; after a wildcard they would be ambiguous.
    loop {
        let (step, tail) = rest.split_once('/').unwrap_or((rest, ""));
        if !matches!(step, "." | "..") {
            break;
        }
        base = normalize(&base, step).0;
        rest = tail.trim_start_matches('/');
    }
    Some((base, rest, anchored))
}

impl PathPattern {
    pub(super) fn parse(text: &str, path_context: &PathContext) -> Result<Self, String> {
        let shown = crate::text::escape_line(text, 120);
        if text.len() > MAX_PATH {
            return Err(format!("pattern `{shown}` is longer than {MAX_PATH} bytes"));
        }
        if text.starts_with('!') {
            return Err(format!(
                "pattern `{shown}` starts with `!`; write a separate rule with the opposite decision"
            ));
        }
        let (base, rest, anchored) = base_of_pattern(text, path_context).ok_or_else(|| {
            format!("pattern `{shown}` starts with `~/`, but the home directory is unknown")
        })?;
        if rest.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(format!(
                "pattern `{shown}` contains `.` or `..`; write the resolved path"
            ));
        }
        if rest.is_empty() && text.is_empty() {
            return Err("empty pattern; write a path such as `src/**`".to_owned());
        }
        let literal: Vec<&str> = rest
            .split('/')
            .take_while(|part| !part.contains(['*', '?', '[', '{', '\\']))
            .collect();
        let start = normalize(&base, &literal.join("/")).0;
        if anchored && literal.len() == rest.split('/').count() {
            return Ok(Self {
                strict: PatternMatcher::Tree,
                lenient: PatternMatcher::Tree,
                is_tree: true,
                literal_dir: start,
            });
        }
        let base = escape_glob(base.trim_end_matches('/'));
        let mut exact = vec![format!("{base}/{rest}")];
        if !anchored {
            exact.push(format!("{base}/**/{rest}"));
        }
        let mut wary = exact.clone();
        if !anchored {
            wary.push(format!("/**/{rest}"));
        }
        if let Some(dir) = rest.strip_suffix("/**") {
            // Listing a directory reveals the names of its entries.
            wary.push(format!("{base}/{dir}"));
        }
        let wrong = |error: String| format!("pattern `{shown}`: {error}");
        let exact = PatternMatcher::Globs(compile_globs(&exact, false).map_err(wrong)?);
        let wary = PatternMatcher::Globs(compile_globs(&wary, true).map_err(wrong)?);
        let whole =
            anchored && literal.len() + 1 == rest.split('/').count() && rest.ends_with("/**");
        let start = if anchored { start } else { "/".to_owned() };
        Ok(Self {
            literal_dir: start,
            is_tree: whole,
            strict: exact,
            lenient: wary,
        })
    }

    /// The part of the file system where the pattern can deny reads.
    pub(super) fn denied_path(&self) -> DeniedPath {
        if self.is_tree {
            DeniedPath::Tree(self.literal_dir.clone())
        } else {
            DeniedPath::Below(self.literal_dir.clone())
        }
    }

    /// For an allow rule: whether every interpretation of the path matches.
    pub(super) fn matches_all(&self, path_ref: &PathRef) -> bool {
        path_ref.climbed_to.is_none()
            && !path_ref.certain.is_empty()
            && path_ref.certain.iter().all(|path| {
                strip_dir(path, &self.literal_dir).is_some() && self.strict.matches(path)
            })
    }

    /// Whether any interpretation of the path matches, ignoring where `..` leads.
    pub(super) fn matches_any(&self, path_ref: &PathRef) -> bool {
        path_ref
            .interpretations()
            .any(|path| is_below_ignore_case(path, &self.literal_dir) && self.lenient.matches(path))
    }

    /// For an ask or deny rule: whether any interpretation may match. Ignores case, because a volume may.
    pub(super) fn may_match(&self, path_ref: &PathRef) -> bool {
        self.matches_any(path_ref)
            || path_ref.climbed_to.as_deref().is_some_and(|base| {
                strip_dir(&self.literal_dir, base).is_some()
                    || strip_dir(base, &self.literal_dir).is_some()
            })
    }
}

impl PatternMatcher {
    fn matches(&self, path: &str) -> bool {
        match self {
            // The caller has compared the start; nothing else is left to match.
            PatternMatcher::Tree => true,
            PatternMatcher::Globs(globs) => globs.iter().any(|glob| glob.is_match(path)),
        }
    }
}

/// Like [`strip_dir`], but ignores case. Called for every pattern of every rule, so the common case compares bytes and does
/// not allocate.
pub(super) fn is_below_ignore_case(path: &str, dir: &str) -> bool {
    if dir == "/" {
        return true;
    }
    let (bytes, start) = (path.as_bytes(), dir.as_bytes());
    let plain = bytes.len() >= start.len()
        && bytes[..start.len()].eq_ignore_ascii_case(start)
        && matches!(bytes.get(start.len()), None | Some(b'/'));
    plain || !path.is_ascii() && strip_dir(&path.to_lowercase(), &dir.to_lowercase()).is_some()
}

/// Compiles each pattern as written and with `/**` appended.
fn compile_globs(patterns: &[String], any_case: bool) -> Result<Vec<GlobMatcher>, String> {
    let mut out = Vec::new();
    for pattern in patterns {
        let mut forms = vec![pattern.clone()];
        if !pattern.ends_with("/**") {
            forms.push(format!("{}/**", pattern.trim_end_matches('/')));
        }
        for form in forms {
            let glob = GlobBuilder::new(&form)
                .literal_separator(true)
                .backslash_escape(true)
                .case_insensitive(any_case)
                .build()
                .map_err(|error| crate::text::escape_line(&error.kind().to_string(), 200))?;
            out.push(glob.compile_matcher());
        }
    }
    Ok(out)
}

/// Escapes the characters that have a meaning in patterns.
fn escape_glob(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
