//! Build of the WASI standard library from Debian packages, for machines without access to rustup's server.
//!
//! Everything happens in one directory inside the toolchain, under the lock of `target::ensure`. The finished target is
//! published by a single rename, so an interrupted run leaves no partial result; the next run removes the directory
//! first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::job;
use crate::shell;
use crate::target::{self, TARGET, Toolchain};

/// The suite with compilers newer than Debian's release.
pub const SUITE: &str = "trixie-backports";

const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Marks a source tree that we added to the toolchain and may remove.
const SOURCE_MARKER: &str = ".lent-by-xtask";

/// The objects of the C library that rustc links into every component.
const OBJECTS: [&str; 3] = ["crt1-command.o", "crt1-reactor.o", "libc.a"];

const NETWORK_LIMIT: Duration = Duration::from_mins(3);

pub fn install(toolchain: &Toolchain) -> Result<()> {
    let scratch = ScratchDirectory::create(toolchain)?;
    let source = toolchain.rustlib().join("src/rust/library");
    if source.join(SOURCE_MARKER).exists() {
        fs::remove_dir_all(&source).with_context(|| format!("remove {}", source.display()))?;
    }
    let lend = !source.exists();
    fetch(toolchain, &scratch.0, lend)?;
    let built = {
        let _lent = if lend {
            Some(TemporarySource::put(toolchain, &scratch.0, source)?)
        } else {
            None
        };
        build(&scratch.0)?
    };
    let sysroot = assemble(toolchain, &scratch.0, &built)?;
    check_links(&scratch.0, &sysroot)?;
    publish(toolchain, &scratch.0, &sysroot)
}

/// Unpacks packages of this machine's Debian release into a directory, from the first mirror that has them.
pub fn unpack(packages: &[&str], folder: &Path) -> Result<()> {
    unpack_with(packages, folder, |apt, scratch| {
        let wanted: Result<Vec<String>> = packages.iter().map(|name| apt.find(name, "")).collect();
        apt.download(&wanted?, scratch)
    })
}

/// Like [`unpack`], with the packages that these need and that are not installed on this machine.
pub fn unpack_with_dependencies(packages: &[&str], folder: &Path) -> Result<()> {
    unpack_with(packages, folder, |apt, scratch| {
        apt.download_all(packages, scratch)
    })
}

fn unpack_with(
    packages: &[&str],
    folder: &Path,
    download: impl Fn(&Apt, &Path) -> Result<()>,
) -> Result<()> {
    let release = fs::read_to_string("/etc/os-release").context("read the Debian release")?;
    let mut lines = release.lines();
    let suite = lines
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .context("/etc/os-release names no Debian release")?;
    let scratch = folder.join(".apt");
    fs::create_dir(&scratch)?;
    let mut refusals = Vec::new();
    for site in mirrors()? {
        let apt = Apt::with_mirror(&scratch.join("state"), &site, suite)?;
        match apt.update().and_then(|()| download(&apt, &scratch)) {
            Ok(()) => {
                for entry in fs::read_dir(scratch.join("unpacked"))? {
                    let entry = entry?;
                    fs::rename(entry.path(), folder.join(entry.file_name()))?;
                }
                return fs::remove_dir_all(&scratch).context("remove the packages");
            }
            Err(error) => refusals.push(format!("{error:#}")),
        }
    }
    bail!(
        "no mirror of apt's has {}: {}",
        packages.join(", "),
        refusals.join("; ")
    )
}

/// The working directory, removed on drop.
struct ScratchDirectory(PathBuf);

impl ScratchDirectory {
    fn create(toolchain: &Toolchain) -> Result<Self> {
        let folder = toolchain.rustlib().join(format!(".{TARGET}-setup"));
        if folder.exists() {
            fs::remove_dir_all(&folder).with_context(|| toolchain.cannot_write())?;
        }
        fs::create_dir(&folder).with_context(|| toolchain.cannot_write())?;
        Ok(Self(folder))
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Downloads and unpacks what is missing, from the first configured mirror that has it.
fn fetch(toolchain: &Toolchain, scratch: &Path, with_source: bool) -> Result<()> {
    let mut refusals = Vec::new();
    for site in mirrors()? {
        let apt = Apt::with_mirror(&scratch.join("apt"), &site, SUITE)?;
        let found = apt.update().and_then(|()| {
            let mut wanted = vec![apt.find("wasi-libc", "")?];
            if with_source {
                wanted.push(apt.find("rust-src", &format!("{}+", toolchain.version))?);
            }
            Ok(wanted)
        });
        match found {
            Ok(wanted) => return apt.download(&wanted, scratch),
            Err(error) => refusals.push(format!("{error:#}")),
        }
    }
    bail!(
        "no mirror of apt's has what is needed: {}",
        refusals.join("; ")
    )
}

/// The mirrors that apt uses for Debian's main archive.
fn mirrors() -> Result<Vec<String>> {
    if !Path::new(KEYRING).exists() {
        bail!("no {KEYRING}: this is not Debian, or the package debian-archive-keyring is missing");
    }
    let targets = shell::capture(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(SITE) $(RELEASE) $(COMPONENT)",
    ]))?;
    let sites = sites(&targets);
    if sites.is_empty() {
        bail!("apt knows no mirror: add one to its sources and run `apt-get update`");
    }
    Ok(sites)
}

fn sites(targets: &str) -> Vec<String> {
    let mut sites = Vec::new();
    for target in targets.lines() {
        let [site, release, "main"] = target.split_whitespace().collect::<Vec<_>>()[..] else {
            continue;
        };
        if !release.contains("security") && !sites.iter().any(|known| known == site) {
            sites.push(site.to_owned());
        }
    }
    sites
}

/// apt with separate lists and cache, so that those of the machine stay unchanged.
struct Apt {
    suite: String,
    options: Vec<String>,
}

impl Apt {
    fn with_mirror(state: &Path, site: &str, suite: &str) -> Result<Self> {
        let sources = state.join("sources.list");
        let (lists, cache) = (state.join("lists"), state.join("cache"));
        if state.exists() {
            fs::remove_dir_all(state).with_context(|| format!("remove {}", state.display()))?;
        }
        fs::create_dir_all(lists.join("partial"))?;
        fs::create_dir_all(cache.join("archives/partial"))?;
        fs::write(
            &sources,
            format!("deb [signed-by={KEYRING}] {site} {suite} main\n"),
        )?;
        let options = [
            format!("Dir::Etc::SourceList={}", sources.display()),
            "Dir::Etc::SourceParts=/dev/null".into(),
            format!("Dir::State::Lists={}", lists.display()),
            format!("Dir::Cache={}", cache.display()),
            // apt's own user has no access to the toolchain's directory.
            "APT::Sandbox::User=root".into(),
            "APT::Update::Error-Mode=any".into(),
            "Acquire::Languages=none".into(),
            "Acquire::Retries=2".into(),
        ];
        Ok(Self {
            suite: suite.to_owned(),
            options: options
                .into_iter()
                .flat_map(|option| ["-o".into(), option])
                .collect(),
        })
    }

    fn command(&self, program: &str, verb: &str) -> Command {
        let mut command = Command::new(program);
        command.arg(verb).args(&self.options);
        command
    }

    fn update(&self) -> Result<()> {
        let suite = &self.suite;
        shell::note(&format!("asking apt's mirror for {suite}"));
        shell::run_within(NETWORK_LIMIT, &mut self.command("apt-get", "update"))
            .with_context(|| format!("read the list of {suite}"))
    }

    /// The package version that starts with `start`, as `name=version`.
    fn find(&self, name: &str, start: &str) -> Result<String> {
        let table = shell::capture(self.command("apt-cache", "madison").arg(name))?;
        let versions: Vec<&str> = table
            .lines()
            .filter_map(|row| row.split('|').nth(1))
            .map(str::trim)
            .collect();
        let suite = &self.suite;
        match versions.iter().find(|version| version.starts_with(start)) {
            Some(version) => Ok(format!("{name}={version}")),
            None if versions.is_empty() => bail!("{suite} has no {name}"),
            None => bail!(
                "{suite} has {name} {}, wanted is {start}…",
                versions.join(", ")
            ),
        }
    }

    /// Downloads the packages and unpacks them into the directory `unpacked`.
    fn download(&self, packages: &[String], scratch: &Path) -> Result<()> {
        shell::note(&format!("downloading {}", packages.join(", ")));
        let debs = scratch.join("debs");
        fs::create_dir(&debs)?;
        shell::run_within(
            NETWORK_LIMIT,
            self.command("apt-get", "download")
                .args(packages)
                .current_dir(&debs),
        )?;
        unpack_files(&debs, scratch)
    }

    /// Downloads and unpacks the packages and what they need.
    fn download_all(&self, packages: &[&str], scratch: &Path) -> Result<()> {
        shell::note(&format!(
            "downloading {} with what they need",
            packages.join(", ")
        ));
        let mut install = self.command("apt-get", "install");
        install
            // Nothing is installed, so the lock of the package database is not needed.
            .args(["-o", "Debug::NoLocking=true"])
            .args(["--yes", "--download-only", "--no-install-recommends"])
            .args(packages);
        shell::run_within(NETWORK_LIMIT, &mut install)?;
        unpack_files(&scratch.join("state/cache/archives"), scratch)
    }
}

/// Unpacks the packages of a directory into `unpacked`.
fn unpack_files(debs: &Path, scratch: &Path) -> Result<()> {
    for deb in fs::read_dir(debs)? {
        let deb = deb?.path();
        if deb.extension().is_some_and(|kind| kind == "deb") {
            let mut dpkg = Command::new("dpkg");
            dpkg.arg("-x").arg(deb).arg(scratch.join("unpacked"));
            shell::run_within(NETWORK_LIMIT, &mut dpkg)?;
        }
    }
    Ok(())
}

/// The library's source at the path expected by `-Zbuild-std`, removed on drop.
///
/// It takes space and would be wrong for the next rustc that rustup installs into this directory.
struct TemporarySource(PathBuf);

impl TemporarySource {
    fn put(toolchain: &Toolchain, scratch: &Path, destination: PathBuf) -> Result<Self> {
        let unpacked = scratch.join(format!(
            "unpacked/usr/src/rustc-{}/library",
            toolchain.version
        ));
        let sign = unpacked.join(SOURCE_MARKER);
        fs::write(&sign, "").with_context(|| format!("write {}", sign.display()))?;
        let parent = destination
            .parent()
            .context("the source has no parent directory")?;
        fs::create_dir_all(parent).with_context(|| toolchain.cannot_write())?;
        fs::rename(&unpacked, &destination).with_context(|| toolchain.cannot_write())?;
        Ok(Self(destination))
    }
}

impl Drop for TemporarySource {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
        // Empty parent directories are removed as well.
        for folder in self.0.ancestors().skip(1).take(2) {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Compiles std by building an empty crate; returns the directory with the libraries.
fn build(scratch: &Path) -> Result<PathBuf> {
    shell::note("compiling the standard library, about half a minute");
    let project = scratch.join("excuse");
    fs::create_dir_all(project.join("src"))?;
    fs::write(project.join("src/lib.rs"), "")?;
    fs::write(
        project.join("Cargo.toml"),
        "[package]\nname = \"excuse\"\nedition = \"2024\"\n\n# Not a member of anything further up.\n[workspace]\n",
    )?;
    shell::run(
        job::cargo()
            .args([
                "build",
                "--quiet",
                "--offline",
                "--release",
                "--target",
                TARGET,
            ])
            .arg("-Zbuild-std=std,panic_abort")
            .current_dir(&project)
            .env("CARGO_TARGET_DIR", project.join("target"))
            .env("RUSTC_BOOTSTRAP", "1")
            // Bitcode lets guests use `lto = true`. Setting the variable also overrides the flags of configuration
            // files.
            .env("RUSTFLAGS", "-Cembed-bitcode=yes")
            .env_remove("CARGO_ENCODED_RUSTFLAGS"),
    )?;
    Ok(project.join("target").join(TARGET).join("release/deps"))
}

/// Arranges the target like in a toolchain, in a temporary sysroot.
fn assemble(toolchain: &Toolchain, scratch: &Path, built: &Path) -> Result<PathBuf> {
    let sysroot = scratch.join("sysroot");
    let folder = sysroot.join("lib/rustlib").join(TARGET);
    let lib = folder.join("lib");
    let objects = lib.join("self-contained");
    fs::create_dir_all(&objects)?;
    for entry in fs::read_dir(built)? {
        let path = entry?.path();
        let Some(name) = path.file_name() else {
            continue;
        };
        let excuse = name.to_string_lossy().starts_with("libexcuse-");
        if path
            .extension()
            .is_some_and(|extension| extension == "rlib")
            && !excuse
        {
            fs::rename(&path, lib.join(name))?;
        }
    }
    for name in OBJECTS {
        let from = scratch.join("unpacked/usr/lib").join(TARGET).join(name);
        fs::rename(&from, objects.join(name))
            .with_context(|| format!("the package wasi-libc has no {TARGET}/{name}"))?;
    }
    toolchain.stamp(&folder)?;
    Ok(sysroot)
}

/// Links a small component against the new library, to fail here rather than in later builds.
fn check_links(scratch: &Path, sysroot: &Path) -> Result<()> {
    shell::note("trying it out");
    let source = scratch.join("probe.rs");
    fs::write(
        &source,
        "#[unsafe(no_mangle)]\npub extern \"C\" fn probe() { println!(\"hello\"); }\n",
    )?;
    shell::run(
        target::rustc()
            .args(["--edition=2024", "--crate-type=cdylib", "--target", TARGET])
            .args(["-Clto=fat", "-Copt-level=s", "-Cpanic=abort"])
            .arg("--sysroot")
            .arg(sysroot)
            .arg("-o")
            .arg(scratch.join("probe.wasm"))
            .arg(&source),
    )
    .context("the new standard library does not link")
}

/// Publishes the target with a single rename.
fn publish(toolchain: &Toolchain, scratch: &Path, sysroot: &Path) -> Result<()> {
    let destination = toolchain.rustlib().join(TARGET);
    if destination.exists() {
        fs::rename(&destination, scratch.join("before"))
            .with_context(|| toolchain.cannot_write())?;
    }
    fs::rename(sysroot.join("lib/rustlib").join(TARGET), &destination)
        .with_context(|| toolchain.cannot_write())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(targets: &str, expected: &[&str]) {
        assert_eq!(sites(targets), expected);
    }

    #[test]
    fn mirrors_are_the_sites_of_main_each_once() {
        check(
            "file:/m bookworm main\nfile:/m bookworm-updates main\nfile:/n sid main\n",
            &["file:/m", "file:/n"],
        );
    }

    #[test]
    fn the_security_archive_and_other_components_are_no_mirrors() {
        check(
            "file:/s bookworm-security main\nfile:/x stable contrib\n\n",
            &[],
        );
    }
}
