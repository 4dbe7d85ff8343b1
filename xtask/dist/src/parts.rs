//! What the packages share: the program, the plugins, the man pages and the completion scripts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use flate2::Compression;

use crate::Input;
use crate::program::Program;
use crate::tree::{Content, Tree};

/// The command of packages that are installed for all users: other packages have a program `host`.
pub const SYSTEM_COMMAND: &str = "toolhost";

pub struct Parts {
    pub program: Program,
    /// By their file names.
    pub plugins: Vec<(String, Content)>,
    pub readme: Content,
    pub license: Content,
    /// Of the command `host`.
    pub own: CommandFiles,
    /// Of the command `toolhost`.
    pub system: CommandFiles,
    pub compression: Compression,
}

/// Files by their names.
pub struct CommandFiles {
    pub man_pages: Vec<(String, Content)>,
    pub completions: Completions,
}

pub struct Completions {
    pub bash: Content,
    pub fish: Content,
    pub zsh: Content,
}

impl Parts {
    pub fn collect(input: &Input<'_>) -> Result<Self> {
        let read = |name: &str| read(&input.root.join(name));
        Ok(Self {
            program: Program::read(input.program)?,
            plugins: plugins(&input.root.join("plugins"))?,
            readme: read("README.md")?,
            license: read("LICENSE")?,
            own: CommandFiles::of("host", input.documented_by)?,
            system: CommandFiles::of(SYSTEM_COMMAND, input.documented_by)?,
            compression: input.compression,
        })
    }

    /// Adds the program and its plugins to the directory `place`, where the program finds them.
    pub fn add_program(&self, tree: &mut Tree, place: &str) {
        tree.program(format!("{place}/host"), self.program.content.clone());
        self.add_plugins(tree, &format!("{place}/plugins"));
    }

    pub fn add_plugins(&self, tree: &mut Tree, place: &str) {
        for (name, content) in &self.plugins {
            tree.file(format!("{place}/{name}"), content.clone());
        }
    }
}

impl CommandFiles {
    fn of(command: &str, documented_by: &Path) -> Result<Self> {
        let written = tempfile::tempdir().context("make a temporary directory")?;
        let status = Command::new(documented_by)
            .args(["package-files", command])
            .arg(written.path())
            .status()
            .with_context(|| format!("start {}", documented_by.display()))?;
        if !status.success() {
            bail!(
                "{} wrote no man pages: is it a debug build?",
                documented_by.display()
            );
        }
        let completions = written.path().join("completions");
        let script = |name: String| read(&completions.join(name));
        Ok(Self {
            man_pages: files(&written.path().join("man"), |_| true)?,
            completions: Completions {
                bash: script(format!("{command}.bash"))?,
                fish: script(format!("{command}.fish"))?,
                zsh: script(format!("_{command}"))?,
            },
        })
    }
}

/// The components that have a directory with their source, so that a file of an earlier build is left out.
fn plugins(folder: &Path) -> Result<Vec<(String, Content)>> {
    let plugins = files(folder, |name| {
        let stem = name.strip_suffix(".wasm");
        stem.is_some_and(|stem| folder.join(stem).join("plugin.toml").is_file())
    })?;
    if plugins.is_empty() {
        bail!(
            "{} has no built plugin: run `cargo xtask dist`",
            folder.display()
        );
    }
    Ok(plugins)
}

fn files(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Content)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if wanted(&name) {
            files.push((name, read(&entry.path())?));
        }
    }
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<Content> {
    let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    Ok(bytes.into())
}
