//! Paths whose content decides what runs later, or who may come in: a write there is asked about in every mode but
//! the freest.

use std::collections::HashSet;

use super::Places;
use super::place::{PathPattern, Spot};

/// Files and directories by name, wherever they lie, and a few longer paths.
pub const PROTECTED: &[&str] = &[
    ".git",
    ".hg",
    ".svn",
    ".gitconfig",
    ".gitmodules",
    ".husky",
    ".pre-commit-config.yaml",
    ".toolhost",
    "toolhost.toml",
    ".claude",
    ".gemini",
    ".kode",
    ".sema",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".devcontainer",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    ".inputrc",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "build.rs",
    ".cargo",
    ".gitlab-ci.yml",
    ".circleci",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "//**/.github/workflows",
    "//**/.github/actions",
    "//**/.config/fish",
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    "authorized_keys",
    "//**/id_rsa*",
    "//**/id_ed25519*",
    "//**/*.pem",
    "//**/*.key",
];

#[derive(Debug, Clone)]
pub(super) struct Protected {
    /// In lower case. A set, because every write looks here.
    names: HashSet<String>,
    patterns: Vec<PathPattern>,
}

impl Protected {
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        places: &Places,
    ) -> Result<Self, String> {
        let mut protected = Self {
            names: HashSet::new(),
            patterns: Vec::new(),
        };
        for text in texts {
            let name = text.trim_end_matches('/');
            if name.is_empty() || name.contains(['/', '*', '?', '[', '{', '\\', '~']) {
                protected.patterns.push(PathPattern::parse(text, places)?);
            } else {
                protected.names.insert(name.to_lowercase());
            }
        }
        Ok(protected)
    }

    pub(super) fn holds(&self, spot: &Spot) -> bool {
        spot.is_unsure()
            || spot
                .readings()
                .flat_map(|path| path.split('/'))
                .any(|part| self.names.contains(&part.to_lowercase()))
            || self.patterns.iter().any(|pattern| pattern.maybe(spot))
    }
}
