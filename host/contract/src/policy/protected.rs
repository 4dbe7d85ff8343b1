//! Paths whose content decides what runs later, or who may come in: a write there is asked about in every mode but
//! the freest.

use std::collections::HashMap;

use super::Places;
use super::address::wildcard;
use super::place::{PathPattern, Spot};

/// One kind of protected paths.
#[derive(Debug, Clone, Copy)]
pub struct ProtectedKind {
    /// For the question: why a change is asked about.
    pub why: &'static str,
    /// Names of files and directories, wherever they lie and with everything in them, in any case; `*` stands for any
    /// characters of one name. Some are longer paths.
    pub anywhere: &'static [&'static str],
    /// Names of files only: many of them are names of directories with other contents. One in capitals is meant so and
    /// not in any case: a directory `build` is no `BUILD`.
    pub files: &'static [&'static str],
}

/// What a change of these files makes other programs do. A later kind does not repeat an earlier one.
pub const PROTECTED: &[ProtectedKind] = &[
    ProtectedKind {
        why: "version control runs programs that it names",
        anywhere: &[
            ".git",
            ".hg",
            ".svn",
            ".bzr",
            ".jj",
            ".husky",
            ".githooks",
            ".lefthook",
            ".config/git",
        ],
        files: &[
            ".gitconfig",
            ".gitmodules",
            ".gitattributes",
            ".hgrc",
            ".pre-commit-config.yaml",
            ".pre-commit-config.yml",
            ".pre-commit-hooks.yaml",
            "lefthook.yml",
            "lefthook.yaml",
            "lefthook.toml",
            "lefthook.json",
            "lefthook-local.yml",
            ".lefthook.yml",
            ".lefthook.yaml",
            ".overcommit.yml",
            ".huskyrc*",
            ".simple-git-hooks*",
            ".lintstagedrc*",
            "lint-staged.config.*",
            "commitlint.config.*",
            ".commitlintrc*",
        ],
    },
    ProtectedKind {
        why: "build tools run what it says",
        anywhere: &[
            ".cargo",
            ".mvn",
            ".bazel",
            "gradle/wrapper",
            ".config/nextest.toml",
        ],
        files: &[
            "makefile",
            "gnumakefile",
            "bsdmakefile",
            "makefile.*",
            "*.mk",
            "*.mak",
            "cmakelists.txt",
            "*.cmake",
            "cmakepresets.json",
            "cmakeuserpresets.json",
            "meson.build",
            "meson.options",
            "meson_options.txt",
            "BUILD",
            "build.bazel",
            "WORKSPACE",
            "workspace.bazel",
            "module.bazel",
            "*.bzl",
            ".bazelrc",
            "*.bazelrc",
            ".bazelversion",
            ".bazeliskrc",
            "configure",
            "configure.ac",
            "configure.in",
            "*.m4",
            "sconstruct",
            "sconscript",
            "wscript",
            "waf",
            "*.ninja",
            "justfile",
            ".justfile",
            "*.just",
            "taskfile.yml",
            "taskfile.yaml",
            "taskfile.dist.yml",
            "magefile.go",
            "xmake.lua",
            "premake5.lua",
            "build.zig",
            "build.zig.zon",
            "dune",
            "dune-project",
            "*.opam",
            "earthfile",
            "flake.nix",
            "shell.nix",
            "default.nix",
            "*.nix",
            "cargo.toml",
            "build.rs",
            "rust-toolchain",
            "rust-toolchain.toml",
            "build.gradle",
            "settings.gradle",
            "*.gradle",
            "*.gradle.kts",
            "gradle.properties",
            "gradlew",
            "gradlew.bat",
            "pom.xml",
            "mvnw",
            "mvnw.cmd",
            "build.xml",
            "build.sbt",
            "*.sbt",
            "build.sc",
            "build.mill",
            "*.csproj",
            "*.fsproj",
            "*.vbproj",
            "*.vcxproj",
            "*.proj",
            "*.props",
            "*.targets",
            "*.sln",
            "*.slnx",
            "nuget.config",
            "global.json",
            "dotnet-tools.json",
            "go.work",
            "mix.exs",
            "rebar.config",
            "rebar.config.script",
            "package.swift",
            "*.cabal",
            "cabal.project*",
            "setup.hs",
            "setup.lhs",
            "stack.yaml",
            "package.yaml",
            "makefile.pl",
            "build.pl",
            "cpanfile",
            "dub.json",
            "dub.sdl",
            "*.nimble",
            "*.nims",
            "shard.yml",
            "project.clj",
            "deps.edn",
            "build.boot",
            "bb.edn",
            "*.rockspec",
            "vagrantfile",
        ],
    },
    ProtectedKind {
        why: "package managers, interpreters and test runners load it",
        anywhere: &[".yarn", ".storybook", ".jupyter", ".ipython", ".config/pip"],
        files: &[
            "package.json",
            ".npmrc",
            ".yarnrc",
            ".yarnrc.yml",
            ".yarnrc.yaml",
            ".pnp.cjs",
            ".pnp.js",
            ".pnp.loader.mjs",
            ".pnpmfile.cjs",
            ".pnpmfile.mjs",
            "pnpmfile.js",
            "pnpm-workspace.yaml",
            "lerna.json",
            "nx.json",
            "turbo.json",
            "bunfig.toml",
            ".bunfig.toml",
            "deno.json",
            "deno.jsonc",
            "binding.gyp",
            "*.gyp",
            "*.gypi",
            "nodemon.json",
            "ecosystem.config.*",
            "angular.json",
            "*.config.js",
            "*.config.cjs",
            "*.config.mjs",
            "*.config.ts",
            "*.config.cts",
            "*.config.mts",
            "*.conf.js",
            "*.conf.cjs",
            "*.conf.mjs",
            "*.conf.ts",
            "*.setup.js",
            "*.setup.ts",
            "gulpfile.*",
            "gruntfile.*",
            "gatsby-*.js",
            "gatsby-*.ts",
            ".eslintrc*",
            ".babelrc*",
            ".prettierrc*",
            ".postcssrc*",
            ".stylelintrc*",
            ".mocharc*",
            ".releaserc*",
            ".nycrc*",
            ".c8rc*",
            ".taprc",
            ".swcrc",
            ".jestrc*",
            "setup.py",
            "setup.cfg",
            "pyproject.toml",
            "hatch_build.py",
            "pipfile",
            "tox.ini",
            "noxfile.py",
            "conftest.py",
            "pytest.ini",
            ".pytest.ini",
            ".coveragerc",
            "sitecustomize.py",
            "usercustomize.py",
            "*.pth",
            "pyvenv.cfg",
            ".pylintrc",
            "pylintrc",
            "mypy.ini",
            ".mypy.ini",
            ".flake8",
            "fabfile.py",
            "gemfile",
            "gems.rb",
            "rakefile",
            "rakefile.rb",
            "*.rake",
            "*.gemspec",
            ".rspec",
            ".irbrc",
            ".pryrc",
            "guardfile",
            "capfile",
            "fastfile",
            "podfile",
            "*.podspec",
            "dangerfile",
            "thorfile",
            "config.ru",
            "composer.json",
            "phpunit.xml",
            "phpunit.xml.dist",
            ".rprofile",
            ".renviron",
            "project.toml",
            "requirements*.txt",
            "pip.conf",
            "pip.ini",
            ".condarc",
            ".pypirc",
            ".ansible.cfg",
            "ansible.cfg",
            ".terraformrc",
            "terraform.rc",
        ],
    },
    ProtectedKind {
        why: "continuous integration or deployment runs it",
        anywhere: &[
            ".github/workflows",
            ".github/actions",
            ".gitea/workflows",
            ".forgejo/workflows",
            ".circleci",
            ".buildkite",
            ".woodpecker",
            ".teamcity",
            ".semaphore",
            ".azure-pipelines",
            ".gitlab",
        ],
        files: &[
            ".gitlab-ci.yml",
            ".gitlab-ci.yaml",
            ".travis.yml",
            "appveyor.yml",
            ".appveyor.yml",
            "jenkinsfile*",
            "azure-pipelines*.yml",
            "azure-pipelines*.yaml",
            "bitbucket-pipelines.yml",
            ".drone.yml",
            ".woodpecker.yml",
            ".cirrus.yml",
            "cloudbuild.yaml",
            "cloudbuild.yml",
            "buildspec.yml",
            "wercker.yml",
            "procfile",
            "netlify.toml",
            "vercel.json",
            "fly.toml",
            "render.yaml",
            "skaffold.yaml",
            "tiltfile",
            ".readthedocs.yaml",
            ".readthedocs.yml",
        ],
    },
    ProtectedKind {
        why: "containers are built and started from it",
        anywhere: &[".devcontainer"],
        files: &[
            "dockerfile",
            "dockerfile.*",
            "*.dockerfile",
            "containerfile",
            "containerfile.*",
            "docker-compose*.yml",
            "docker-compose*.yaml",
            "compose.yml",
            "compose.yaml",
            "compose.*.yml",
            "compose.*.yaml",
            "docker-bake.hcl",
            "docker-bake.json",
            ".devcontainer.json",
        ],
    },
    ProtectedKind {
        why: "editors run what it says",
        anywhere: &[
            ".vscode",
            ".idea",
            ".vim",
            ".config/nvim",
            ".emacs.d",
            ".config/emacs",
            ".zed",
            ".fleet",
            ".nova",
            ".helix",
            ".theia",
            ".vs",
        ],
        files: &[
            ".vimrc",
            "_vimrc",
            ".gvimrc",
            ".exrc",
            ".nexrc",
            ".nvimrc",
            ".nvim.lua",
            ".lvimrc",
            ".local.vimrc",
            ".vimrc.local",
            ".emacs",
            ".emacs.el",
            ".dir-locals.el",
            ".dir-locals-2.el",
            "*.code-workspace",
            "*.sublime-project",
        ],
    },
    ProtectedKind {
        why: "agents take instructions, tools or permissions from it",
        anywhere: &[
            ".claude",
            ".gemini",
            ".cursor",
            ".kode",
            ".sema",
            ".codex",
            ".windsurf",
            ".roo",
            ".clinerules",
            ".continue",
            ".kiro",
            ".amazonq",
            ".junie",
            ".opencode",
            ".goose",
            ".agents",
            ".toolhost",
            ".github/instructions",
            ".github/prompts",
            ".github/chatmodes",
            ".github/agents",
        ],
        files: &[
            "toolhost.toml",
            ".mcp.json",
            "mcp.json",
            "claude.md",
            "claude.local.md",
            "agents.md",
            "agents.override.md",
            "agent.md",
            "gemini.md",
            "qwen.md",
            "warp.md",
            "skill.md",
            ".cursorrules",
            ".windsurfrules",
            ".roomodes",
            ".roorules*",
            ".goosehints",
            ".aider.conf.yml",
            ".aider*",
            "copilot-instructions.md",
            "opencode.json",
            "opencode.jsonc",
            ".rules",
            ".claude.json",
        ],
    },
    ProtectedKind {
        why: "shells and other programs read it when they start",
        anywhere: &[
            ".config/fish",
            ".config/systemd",
            ".config/autostart",
            ".config/mise",
            ".config/tmux",
            ".config/environment.d",
            ".direnv",
            ".mise",
            ".local/bin",
            ".oh-my-zsh",
            "cron.d",
            "cron.daily",
            "cron.hourly",
            "profile.d",
            "init.d",
        ],
        files: &[
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".profile",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".kshrc",
            ".mkshrc",
            ".cshrc",
            ".tcshrc",
            ".login",
            ".logout",
            ".aliases",
            ".inputrc",
            ".envrc",
            ".env",
            ".tool-versions",
            "mise.toml",
            ".mise.toml",
            "mise.local.toml",
            ".mise.local.toml",
            ".rtx.toml",
            ".asdfrc",
            ".gdbinit",
            ".lldbinit",
            ".screenrc",
            ".tmux.conf",
            ".xprofile",
            ".xinitrc",
            ".xsession",
            ".xsessionrc",
            ".pam_environment",
            ".wgetrc",
            ".curlrc",
            ".psqlrc",
            ".sqliterc",
            ".ripgreprc",
            ".ackrc",
            ".lesskey",
            ".lessfilter",
            ".mailcap",
            ".muttrc",
            ".ghci",
            ".pdbrc",
            ".perldb",
            ".guile",
            ".octaverc",
            ".gnuplot",
            ".rlwrap",
            "*.service",
            "*.timer",
            "*.socket",
            "*.desktop",
            "crontab",
            ".crontab",
            "*.plist",
        ],
    },
    ProtectedKind {
        why: "it holds keys or decides who may log in",
        anywhere: &[
            ".ssh",
            ".gnupg",
            ".aws",
            ".kube",
            ".azure",
            ".docker",
            ".password-store",
        ],
        files: &[
            ".netrc",
            "_netrc",
            ".git-credentials",
            "authorized_keys",
            "known_hosts",
            "id_rsa*",
            "id_ed25519*",
            "id_ecdsa*",
            "id_dsa*",
            "*.pem",
            "*.key",
            "*.p12",
            "*.pfx",
            ".htpasswd",
            ".pgpass",
            ".my.cnf",
        ],
    },
];

/// Why a path that the configuration names is asked about.
const CONFIGURED: &str = "the configuration protects it";
/// Why a path is asked about that leads nobody knows where.
const UNSURE: &str = "where it leads is not certain";
/// Why a change of a file is asked about that may be run as a program.
pub(super) const EXECUTABLE: &str = "it is executable";

#[derive(Debug, Clone)]
pub(super) struct Protected {
    anywhere: Names,
    files: Names,
    patterns: Vec<PathPattern>,
}

/// Names in lower case, and why they are protected.
#[derive(Debug, Clone, Default)]
struct Names {
    /// A map, because every write looks here.
    plain: HashMap<String, &'static str>,
    /// In capitals.
    exact: HashMap<&'static str, &'static str>,
    /// Names that follow one another anywhere in a path; `*` stands for any characters of one name.
    runs: Vec<(Vec<String>, &'static str)>,
}

impl Names {
    fn add(&mut self, name: &str, why: &'static str) {
        let name = name.to_lowercase();
        if name.contains(['/', '*']) {
            let run = name.split('/').map(str::to_owned).collect();
            self.runs.push((run, why));
        } else {
            self.plain.entry(name).or_insert(why);
        }
    }

    fn why(&self, parts: &[&str]) -> Option<&'static str> {
        let plain = parts.iter().find_map(|part| self.plain.get(*part).copied());
        let fits = |run: &[String], found: &[&str]| {
            run.iter()
                .zip(found)
                .all(|(name, part)| wildcard(name, part))
        };
        let run = || {
            self.runs.iter().find_map(|(run, why)| {
                let mut windows = parts.windows(run.len());
                windows.any(|found| fits(run, found)).then_some(*why)
            })
        };
        plain.or_else(run)
    }
}

impl Protected {
    /// The table, and what the configuration adds to it.
    pub(super) fn new<'a>(
        texts: impl IntoIterator<Item = &'a str>,
        places: &Places,
    ) -> Result<Self, String> {
        let mut protected = Self {
            anywhere: Names::default(),
            files: Names::default(),
            patterns: Vec::new(),
        };
        for kind in PROTECTED {
            for name in kind.anywhere {
                protected.anywhere.add(name, kind.why);
            }
            for name in kind.files {
                if name.chars().any(|c| c.is_ascii_uppercase()) {
                    protected.files.exact.insert(name, kind.why);
                } else {
                    protected.files.add(name, kind.why);
                }
            }
        }
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
            } else {
                protected.anywhere.add(&name, CONFIGURED);
            }
        }
        Ok(protected)
    }

    /// Why a change of this path is asked about; None: it is not protected.
    pub(super) fn why(&self, spot: &Spot) -> Option<&'static str> {
        let of_path = |path: &str| {
            let lower = path.to_lowercase();
            let parts: Vec<&str> = lower.split('/').collect();
            let last = parts.last().copied().unwrap_or_default();
            let written = path.rsplit('/').next().unwrap_or_default();
            self.anywhere
                .why(&parts)
                .or_else(|| self.files.why(&[last]))
                .or_else(|| self.files.exact.get(written).copied())
        };
        let by_pattern = || {
            let mut patterns = self.patterns.iter();
            patterns
                .any(|pattern| pattern.maybe(spot))
                .then_some(CONFIGURED)
        };
        spot.readings()
            .find_map(of_path)
            .or_else(by_pattern)
            .or_else(|| spot.is_unsure().then_some(UNSURE))
    }
}
