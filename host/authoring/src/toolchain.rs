//! Programs that a project's build needs, and the commands that install them.

use std::ffi::OsStr;
use std::fmt;
use std::path::Path;
use std::process::Command;

/// A program or target that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingTool {
    pub name: String,
    /// How to install it.
    pub remedy: String,
}

impl fmt::Display for MissingTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not installed: {}", self.name, self.remedy)
    }
}

/// The target of plugins in Rust, which is not a program.
const RUST_TARGET: &str = "wasm32-wasip2";

/// The commands that install the known requirements.
const REMEDIES: [(&str, &str); 6] = [
    ("cargo", "install Rust 1.95 or newer with rustup"),
    (RUST_TARGET, "run `rustup target add wasm32-wasip2`"),
    (
        "python3",
        "run `apt-get install python3-venv`, or install Python 3.10 or newer",
    ),
    (
        "node",
        "run `apt-get install nodejs`, or install Node 18 or newer",
    ),
    ("npm", "run `apt-get install npm`"),
    (
        "clang",
        "run `apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32`",
    ),
];

/// The requirements that are not installed. `path` is the variable `PATH`.
pub fn missing_tools(requires: &[String], path: Option<&OsStr>) -> Vec<MissingTool> {
    let is_missing = |name: &&String| match name.as_str() {
        RUST_TARGET => !has_rust_target(),
        name => !is_program(name, path),
    };
    let missing = requires.iter().filter(is_missing);
    missing
        .map(|name| {
            let known = REMEDIES.iter().find(|(known, _)| known == name);
            let remedy = known.map_or("install it", |(_, remedy)| remedy);
            MissingTool {
                name: name.clone(),
                remedy: remedy.to_owned(),
            }
        })
        .collect()
}

fn is_program(name: &str, path: Option<&OsStr>) -> bool {
    let mut directories = path.map(std::env::split_paths).into_iter().flatten();
    directories.any(|directory| directory.join(name).is_file())
}

/// Without rustc, only its own absence is reported.
fn has_rust_target() -> bool {
    let output = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", RUST_TARGET])
        .output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_named_with_the_command_that_installs_it() {
        let empty = tempfile::tempdir().unwrap();
        std::fs::write(empty.path().join("npm"), "").unwrap();
        let requires = ["clang", "npm", "frob"].map(str::to_owned);
        let missing = missing_tools(&requires, Some(empty.path().as_os_str()));
        let shown: Vec<String> = missing.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "`clang` is not installed: run `apt-get install clang lld wasi-libc libclang-rt-14-dev-wasm32`",
                "`frob` is not installed: install it",
            ]
        );
    }
}
