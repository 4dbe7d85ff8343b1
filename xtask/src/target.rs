//! Installation of the WASI target of rustc, with and without access to rustup's server.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::job::Job;
use crate::{debian, shell};

pub const TARGET: &str = "wasm32-wasip2";

/// Marker file in a target directory that we installed: the rustc that built it.
const STAMP: &str = "built-by";

/// The rustc in use and its library directory.
pub struct Toolchain {
    /// `1.95.0`
    pub version: String,
    /// The complete output of `rustc -vV`: two builds of one version do not share a standard library.
    pub identity: String,
    pub sysroot: PathBuf,
}

type InstallMethod = fn(&Toolchain) -> Result<()>;

const INSTALL_METHODS: [(&str, InstallMethod); 2] =
    [("rustup", rustup), ("Debian packages", debian::install)];

pub fn ensure(job: &Job) -> Result<()> {
    let toolchain = Toolchain::find()?;
    if toolchain.is_ready() {
        return Ok(());
    }
    let _lock = toolchain.lock()?;
    // Another xtask may have installed it while we waited for the lock.
    if toolchain.is_ready() {
        return Ok(());
    }
    toolchain.discard_outdated()?;
    let mut refusals: Vec<String> = Vec::new();
    for (name, way) in INSTALL_METHODS {
        if let Some(refusal) = refusals.last() {
            shell::note(refusal);
        }
        shell::note(&format!("not installed, trying {name}"));
        match way(&toolchain) {
            Ok(()) if toolchain.is_ready() => return remove_old_builds(job),
            Ok(()) => refusals.push(format!("{name}: succeeded, but the files are missing")),
            Err(error) => refusals.push(format!("{name}: {error:#}")),
        }
    }
    bail!(
        "the target {TARGET} is missing and could not be installed\n  {}\n{}",
        refusals.join("\n  "),
        toolchain.advice()
    );
}

impl Toolchain {
    fn find() -> Result<Self> {
        let identity = shell::capture(rustc().arg("-vV"))?;
        let version = identity
            .lines()
            .find_map(|line| line.strip_prefix("release: "))
            .context("`rustc -vV` names no release")?
            .to_owned();
        let sysroot = shell::capture(rustc().args(["--print", "sysroot"]))?
            .trim()
            .into();
        Ok(Self {
            version,
            identity,
            sysroot,
        })
    }

    /// The directory with one subdirectory per target.
    pub fn rustlib(&self) -> PathBuf {
        self.sysroot.join("lib/rustlib")
    }

    /// Checks the files instead of asking rustup, which knows only its own installations.
    fn is_ready(&self) -> bool {
        let folder = self.rustlib().join(TARGET);
        holds_std(&folder.join("lib")) && !self.is_outdated(&folder)
    }

    fn is_outdated(&self, folder: &Path) -> bool {
        fs::read_to_string(folder.join(STAMP)).is_ok_and(|identity| identity != self.identity)
    }

    /// rustup updates a toolchain in place and keeps a target that we installed for the previous rustc.
    fn discard_outdated(&self) -> Result<()> {
        let folder = self.rustlib().join(TARGET);
        if self.is_outdated(&folder) {
            shell::note("removing a standard library that was built for another rustc");
            fs::remove_dir_all(&folder).with_context(|| self.cannot_write())?;
        }
        Ok(())
    }

    /// Records the rustc for which `folder` was made, see `discard_outdated`.
    pub fn stamp(&self, folder: &Path) -> Result<()> {
        let file = folder.join(STAMP);
        fs::write(&file, &self.identity).with_context(|| format!("write {}", file.display()))
    }

    /// Held until dropped. The lock is on the directory itself, so a killed run leaves nothing behind.
    fn lock(&self) -> Result<File> {
        let rustlib = self.rustlib();
        let folder = File::open(&rustlib).with_context(|| format!("open {}", rustlib.display()))?;
        match folder.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                shell::note("waiting for another xtask");
                folder
                    .lock()
                    .with_context(|| format!("lock {}", rustlib.display()))?;
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("lock {}", rustlib.display()));
            }
        }
        Ok(folder)
    }

    pub fn cannot_write(&self) -> String {
        format!(
            "cannot write to {}: run `cargo xtask setup` once as a user who can, or use a toolchain of your own",
            self.rustlib().display()
        )
    }

    fn advice(&self) -> String {
        let Self { version, .. } = self;
        let folder = self.rustlib().join(TARGET);
        format!(
            "do one of these, then run `cargo xtask setup` again:
  - run `rustup target add {TARGET}` where rustup reaches its server
  - give apt a mirror that has rust-src {version} and wasi-libc in {}
  - copy {} from another machine with the same rustc {version}",
            debian::SUITE,
            folder.display()
        )
    }
}

pub fn rustc() -> Command {
    Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

fn rustup(_: &Toolchain) -> Result<()> {
    // No backtrace: without network access rustup panics, and its first line is the relevant one.
    let mut command = Command::new("rustup");
    command
        .args(["target", "add", TARGET])
        .env("RUST_BACKTRACE", "0");
    shell::run_within(Duration::from_mins(2), &mut command)
}

fn holds_std(lib: &Path) -> bool {
    let Ok(entries) = fs::read_dir(lib) else {
        return false;
    };
    let files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let has = |crate_name| files.iter().any(|file| is_rlib(file, crate_name));
    has("std") && has("core")
}

fn is_rlib(file: &Path, crate_name: &str) -> bool {
    let stem = file.file_stem().map(|stem| stem.to_string_lossy());
    file.extension()
        .is_some_and(|extension| extension == "rlib")
        && stem.is_some_and(|stem| stem.starts_with(&format!("lib{crate_name}-")))
}

/// Cargo does not consider the standard library for freshness, and rustc rejects crates compiled against another one.
fn remove_old_builds(job: &Job) -> Result<()> {
    let folder = job.target.join(TARGET);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a toolchain with `files` in its target directory is ready for rustc `new`.
    fn check(files: &[(&str, &str)], ready: bool) {
        let sysroot = tempfile::tempdir().unwrap();
        let toolchain = Toolchain {
            version: "1.0.0".into(),
            identity: "new".into(),
            sysroot: sysroot.path().to_path_buf(),
        };
        let folder = toolchain.rustlib().join(TARGET);
        fs::create_dir_all(folder.join("lib")).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        assert_eq!(toolchain.is_ready(), ready);
    }

    const CORE: (&str, &str) = ("lib/libcore-0.rlib", "");
    const STD: (&str, &str) = ("lib/libstd-0.rlib", "");

    #[test]
    fn a_target_is_ready_with_core_and_std() {
        check(&[CORE, STD], true);
        check(&[CORE], false);
        check(&[CORE, ("lib/libstd_detect-0.rlib", "")], false);
        check(&[], false);
    }

    #[test]
    fn a_target_that_another_rustc_built_is_not_ready() {
        check(&[CORE, STD, (STAMP, "new")], true);
        check(&[CORE, STD, (STAMP, "old")], false);
    }
}
