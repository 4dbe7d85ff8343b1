//! Builds the packages in which the host is installed: an archive, a wheel, an npm package, a `.deb` and an OCI image.
//!
//! All of them contain the same program and plugins. The program finds its plugins in `plugins` beside itself, or in
//! `lib/toolhost/plugins` beside its `bin` directory (`host/cli/src/shipped_plugins.rs`).
//!
//! The same input gives the same bytes: entries are sorted, and their times and owners are fixed.

mod archive;
mod deb;
mod npm;
mod oci;
mod parts;
mod program;
mod tree;
mod wheel;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

pub use flate2::Compression;
use parts::Parts;

/// What the packages are made of.
pub struct Input<'a> {
    /// The repository, with built plugins.
    pub root: &'a Path,
    /// The program that is installed.
    pub program: &'a Path,
    /// A debug build of the same program, which writes the man pages and completion scripts.
    pub documented_by: &'a Path,
    pub compression: Compression,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SUMMARY: &str = "Runs the tools of AI agents as sandboxed WebAssembly components";
const LICENSE: &str = env!("CARGO_PKG_LICENSE");

/// Builds all packages and `SHA256SUMS` into `output`, and returns their paths.
pub fn build(input: &Input<'_>, output: &Path) -> Result<Vec<PathBuf>> {
    let parts = &Parts::collect(input)?;
    fs::create_dir_all(output).with_context(|| format!("create {}", output.display()))?;
    let formats = [
        archive::build,
        wheel::build,
        npm::build,
        deb::build,
        oci::build,
    ];
    let packages = std::thread::scope(|scope| {
        let running = formats.map(|build| scope.spawn(move || build(parts)));
        running.map(|running| running.join().expect("a format does not panic"))
    });
    let mut written = Vec::new();
    let mut sums = String::new();
    for package in packages {
        let Package { name, bytes } = package?;
        let _ = writeln!(sums, "{}  {name}", hex_digest(&bytes));
        written.push(write(output, &name, &bytes)?);
    }
    written.push(write(output, "SHA256SUMS", sums.as_bytes())?);
    Ok(written)
}

/// One file for users.
struct Package {
    name: String,
    bytes: Vec<u8>,
}

/// Writes a file under a temporary name first, so that an interrupted build leaves no partial package.
fn write(output: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf> {
    let path = output.join(name);
    let draft = output.join(format!(".{name}"));
    fs::write(&draft, bytes)
        .and_then(|()| fs::rename(&draft, &path))
        .with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn hex_digest(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
