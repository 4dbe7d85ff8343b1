//! Where this run works: the checkout, the target folder, the profile of the host.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell;

pub struct Job {
    pub root: PathBuf,
    /// Cargo's target folder, wherever the user's settings put it.
    pub target: PathBuf,
    pub profile: Profile,
    /// The words after the verb, for the verbs that pass them on.
    pub rest: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Dev,
    Release,
}

impl Job {
    pub fn find(profile: Profile, rest: Vec<OsString>) -> Result<Self> {
        // Asked at run time first: two checkouts may share one target folder, and with it this program.
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = PathBuf::from(package)
            .parent()
            .context("xtask has no folder above it")?
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

    /// Cargo on this workspace, whatever folder the user called from.
    pub fn cargo(&self, verb: &str) -> Command {
        let mut command = cargo();
        command
            .arg(verb)
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        command
    }

    /// The program `host`, as `Step::Host` leaves it.
    pub fn host(&self) -> PathBuf {
        let folder = match self.profile {
            Profile::Dev => "debug",
            Profile::Release => "release",
        };
        self.target.join(folder).join("host")
    }

    /// `rest` without the `--` that keeps cargo's alias from reading it.
    pub fn rest_after_dashes(&self) -> &[OsString] {
        match self.rest.split_first() {
            Some((first, others)) if first == "--" => others,
            _ => &self.rest,
        }
    }
}

/// The cargo that started us, so that one toolchain does the whole job.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The string member `key` in cargo's one-line JSON.
///
/// A JSON parser would be most of this crate's compile time, and there is one member to find. The last one
/// counts: cargo writes its own members after the packages, whose texts might hold anything.
fn string_member(json: &str, key: &str) -> Option<String> {
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
