//! The environment of a run: checkout, target directory and host profile.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

pub struct Job {
    pub root: PathBuf,
    /// Cargo's target directory, wherever it is configured.
    pub target: PathBuf,
    pub profile: Profile,
    /// The arguments after the verb.
    pub rest: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

impl Profile {
    pub fn title(self) -> &'static str {
        match self {
            Self::Dev => "dev profile",
            Self::Release => "release profile",
        }
    }

    /// Cargo's profile for plugins and guests.
    pub fn of_plugins(self) -> &'static str {
        match self {
            Self::Dev => "plugin-dev",
            Self::Release => "plugin",
        }
    }
}

impl Job {
    pub fn find(profile: Profile, rest: Vec<OsString>) -> Result<Self> {
        // Read at run time, because two checkouts can share one target directory and this program.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = PathBuf::from(package)
            .parent()
            .context("xtask has no parent directory")?
            .to_path_buf();
        let metadata = shell::capture(
            cargo()
                .args([
                    "metadata",
                    "--no-deps",
                    "--format-version=1",
                    "--manifest-path",
                ])
                .arg(root.join("Cargo.toml")),
        )?;
        let target = string_member(&metadata, "target_directory")
            .context("`cargo metadata` names no target_directory: is this cargo older than rust-version asks?")?;
        Ok(Self {
            root,
            target: target.into(),
            profile,
            rest,
        })
    }

    /// Cargo on this workspace, regardless of the current directory.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut command = cargo();
        command
            .arg(verb)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// The program `host` as built by `Step::Host`.
    pub fn host(&self) -> PathBuf {
        let folder = match self.profile {
            Profile::Dev => "debug",
            Profile::Release => "release",
        };
        self.target.join(folder).join("host")
    }

    /// `rest` without the `--` that separates it from cargo's arguments.
    pub fn rest_after_dashes(&self) -> &[OsString] {
        match self.rest.split_first() {
            Some((first, others)) if first == "--" => others,
            _ => &self.rest,
        }
    }
}

/// The cargo that started us, so that the whole job uses one toolchain.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The string member `key` in cargo's single-line JSON.
///
/// A JSON parser would dominate the compile time of this crate. The last occurrence counts: cargo writes its own
/// members after those of packages, whose strings are arbitrary.
pub fn string_member(json: &str, key: &str) -> Option<String> {
    let start = format!("\"{key}\":\"");
    let mut letters = json[json.rfind(&start)? + start.len()..].chars();
    let mut value = String::new();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<&str>) {
        assert_eq!(string_member(json, "target_directory").as_deref(), expected);
    }

    #[test]
    fn the_target_folder_is_found_in_what_cargo_says() {
        check(
            r#"{"packages":[],"target_directory":"/a/b","version":1}"#,
            Some("/a/b"),
        );
        check(
            r#"{"target_directory":"C:\\a \"b\"","version":1}"#,
            Some(r#"C:\a "b""#),
        );
        check(r#"{"target_directory":null}"#, None);
        check(r#"{"target_directory":"/a"#, None);
    }
}
