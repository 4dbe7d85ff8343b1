//! Selection of files by globs and by ripgrep's file types.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::types::{Types, TypesBuilder};
use toolhost_sdk::prelude::*;

use crate::walk::Entry;

/// Number of known type names listed in an error.
const TYPES_SHOWN: usize = 5;

/// A set of globs. A glob without a slash matches the name at any depth; one with a slash matches the path.
pub struct NameGlobs {
    bare: GlobSet,
    paths: GlobSet,
    /// One of them is `**/*`, which matches everything.
    all: bool,
}

/// Case sensitivity of globs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Sensitive,
    Insensitive,
}

impl NameGlobs {
    /// Globs of files to include.
    pub fn wanted<'a>(globs: impl IntoIterator<Item = &'a str>, case: Case) -> Result<Self> {
        Self::new(globs.into_iter(), case)
    }

    /// Globs of files to exclude. `dist/**` excludes `dist` as well, so it is not listed.
    pub fn unwanted<'a>(globs: impl IntoIterator<Item = &'a str>, case: Case) -> Result<Self> {
        Self::new(
            globs
                .into_iter()
                .flat_map(|glob| std::iter::once(glob).chain(glob.strip_suffix("/**"))),
            case,
        )
    }

    fn new<'a>(globs: impl Iterator<Item = &'a str>, case: Case) -> Result<Self> {
        let mut names = GlobSetBuilder::new();
        let mut paths = GlobSetBuilder::new();
        let mut all = false;
        for glob in globs {
            let bare = glob.trim_start_matches("./").trim_end_matches('/');
            let set = if bare.contains('/') {
                &mut paths
            } else {
                &mut names
            };
            let bare = bare.trim_start_matches('/');
            all |= matches!(bare, "**" | "**/*");
            let glob = GlobBuilder::new(bare)
                .literal_separator(true)
                .backslash_escape(true)
                .empty_alternates(true)
                .case_insensitive(case == Case::Insensitive)
                .build();
            set.add(glob.map_err(|error| invalid(bare, &error))?);
        }
        let build = |set: GlobSetBuilder| set.build().map_err(|error| invalid("…", &error));
        Ok(Self {
            bare: build(names)?,
            paths: build(paths)?,
            all,
        })
    }

    /// Matches the path relative to the start of the search or to the first root.
    pub fn matches(&self, entry: &Entry<'_>) -> bool {
        self.matches_below(entry) || !self.paths.is_empty() && self.paths.is_match(entry.shown)
    }

    /// Matches the path relative to the start of the search only.
    pub fn matches_below(&self, entry: &Entry<'_>) -> bool {
        self.all
            || !self.bare.is_empty() && self.bare.is_match(entry.name)
            || !self.paths.is_empty() && self.paths.is_match(entry.below)
    }
}

fn invalid(glob: &str, error: &globset::Error) -> Error {
    Error::invalid_input(format!("invalid glob `{glob}`: {}", error.kind()))
        .code("invalid_glob")
        .recommend("escape special characters with a backslash: `\\[id\\].tsx`")
}

/// Looks up a ripgrep file type, such as `rust` or `py`.
pub fn file_type(name: &str) -> Result<Types> {
    let mut builder = TypesBuilder::new();
    builder.add_defaults();
    builder.select(name).build().map_err(|_| {
        let mut known: Vec<(f64, String)> = builder
            .definitions()
            .iter()
            .map(|definition| {
                (
                    strsim::jaro_winkler(definition.name(), name),
                    definition.name().to_owned(),
                )
            })
            .collect();
        known.sort_by(|left, right| right.0.total_cmp(&left.0));
        let known: Vec<String> = known
            .into_iter()
            .take(TYPES_SHOWN)
            .map(|(_, name)| name)
            .collect();
        Error::invalid_input(format!(
            "unknown file type `{name}`; did you mean one of {}?",
            known.join(", ")
        ))
        .code("unknown_file_type")
        .recommend("use `glob`, for example \"*.ext\"")
    })
}
