//! Paths whose content decides what runs later, or who may come in: a write there is asked about in every mode but
//! the freest.

use std::collections::HashSet;

use super::Places;
use super::address::wildcard;
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
    ".github/workflows",
    ".github/actions",
    ".config/fish",
    ".ssh",
    ".gnupg",
    ".aws",
    ".kube",
    "authorized_keys",
    "id_rsa*",
    "id_ed25519*",
    "*.pem",
    "*.key",
];

#[derive(Debug, Clone)]
pub(super) struct Protected {
    /// In lower case. A set, because every write looks here.
    names: HashSet<String>,
    /// Names that follow one another anywhere in a path; `*` stands for any characters of one name.
    runs: Vec<Vec<String>>,
    patterns: Vec<PathPattern>,
}

impl Protected {
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        places: &Places,
    ) -> Result<Self, String> {
        let mut protected = Self {
            names: HashSet::new(),
            runs: Vec::new(),
            patterns: Vec::new(),
        };
        for text in texts {
            let name = text.trim_end_matches('/').to_lowercase();
            let anchored = ["/", "~/", "./", "../"]
                .iter()
                .any(|anchor| name.starts_with(anchor));
            if name.is_empty()
                || anchored
                || name.contains("**")
                || name.contains(['?', '[', '{', '\\'])
            {
                protected.patterns.push(PathPattern::parse(text, places)?);
            } else if name.contains(['/', '*']) {
                protected
                    .runs
                    .push(name.split('/').map(str::to_owned).collect());
            } else {
                protected.names.insert(name);
            }
        }
        Ok(protected)
    }

    pub(super) fn holds(&self, spot: &Spot) -> bool {
        let holds = |path: &str| {
            let lower = path.to_lowercase();
            let parts: Vec<&str> = lower.split('/').collect();
            let is_run = |run: &Vec<String>| {
                let fits = |found: &[&str]| {
                    run.iter()
                        .zip(found)
                        .all(|(name, part)| wildcard(name, part))
                };
                parts.windows(run.len()).any(fits)
            };
            parts.iter().any(|part| self.names.contains(*part)) || self.runs.iter().any(is_run)
        };
        spot.is_unsure()
            || spot.readings().any(holds)
            || self.patterns.iter().any(|pattern| pattern.maybe(spot))
    }
}
