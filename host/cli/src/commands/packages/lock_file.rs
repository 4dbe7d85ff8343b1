//! `host lock` and `host sync`: the plugins of a project.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use toolhost_contract::text;
use toolhost_packages::{InstalledPackages, LockFile, LockedPlugin, Reference, changes};

use super::candidate::Candidate;
use super::install::{ProjectLock, installed};
use super::show::describe;
use super::{AcceptArgs, Packages, ask, not_installed, refuse_unsigned, relative_to, store};
use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::print;

#[derive(Debug, Args)]
pub struct LockArgs {
    /// Names of installed plugins [default: all]
    pub names: Vec<String>,

    /// Lock file to write
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = toolhost_packages::LOCK_FILE)]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct SyncArgs {
    /// Check that what is installed is what the lock file states, without the network; change nothing
    #[arg(long)]
    pub check: bool,

    /// Lock file to read
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, default_value = toolhost_packages::LOCK_FILE)]
    pub file: PathBuf,

    #[command(flatten)]
    pub accept: AcceptArgs,
}

pub fn lock(args: &LockArgs) -> Result<Exit, CliError> {
    let installed = store()?.installed()?;
    let path = std::path::absolute(&args.file).or_exit(Exit::Internal)?;
    let directory = path.parent().unwrap_or(&path);
    let mut lock = LockFile::default();
    for plugin in installed.plugins() {
        if args.names.is_empty() || args.names.iter().any(|name| plugin.name.as_str() == name) {
            lock.insert(relative_to(directory, plugin.clone()));
        }
    }
    if let Some(missing) = args.names.iter().find(|name| lock.get(name).is_none()) {
        return Err(not_installed(missing, &installed));
    }
    lock.write(&path)?;
    let count = match lock.plugins().len() {
        1 => "1 plugin".to_owned(),
        count => format!("{count} plugins"),
    };
    let message = format!("wrote {count} to {}", args.file.display());
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

pub async fn sync(args: SyncArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(args.accept.config.as_ref())?;
    let path = std::path::absolute(&args.file).or_exit(Exit::Internal)?;
    let Some(lock) = LockFile::read(&path)? else {
        let message = format!(
            "{} does not exist; write it with `host lock`",
            args.file.display()
        );
        return Err(CliError::new(Exit::Usage, message));
    };
    let directory = path.parent().unwrap_or(&path);
    let entries = lock
        .plugins()
        .iter()
        .map(|one| absolute_source(directory, one));
    let entries: Vec<LockedPlugin> = entries.collect();
    if args.check {
        return check(&packages, &entries);
    }
    let mut candidates = Vec::new();
    let installed_now = packages.store.installed()?;
    for entry in installed_now.plugins() {
        if entries.contains(entry) {
            packages.refresh_revocations(entry).await?;
        }
    }
    let now = Installed::read(&packages)?;
    for entry in &entries {
        if now.difference(&packages, entry).is_some() {
            let candidate = locked_candidate(&packages, entry, &args.accept).await?;
            print(&describe(&candidate, &packages.settings)).or_exit(Exit::Internal)?;
            refuse_unsigned(entry, &args.accept)?;
            candidates.push(candidate);
        }
    }
    if candidates.is_empty() {
        print("all plugins of the lock file are installed").or_exit(Exit::Internal)?;
        return Ok(Exit::Ok);
    }
    ask("install them?", args.accept.yes)?;
    let mut added = Vec::new();
    let committed = candidates.into_iter().try_for_each(|candidate| {
        added.push(packages.commit(candidate)?);
        Ok(())
    });
    // Those that were installed before a failure are in use.
    installed(&added, ProjectLock::Add)?;
    committed.map(|()| Exit::Ok)
}

/// The entry with a source that does not depend on the current directory.
fn absolute_source(directory: &Path, entry: &LockedPlugin) -> LockedPlugin {
    let mut entry = entry.clone();
    if let Reference::File(path) = &entry.source {
        let path = directory.join(path.strip_prefix(".").unwrap_or(path));
        // As `host add` stores it, and as rules for signatures name it. A file that does not exist is an error later.
        entry.source = Reference::File(path.canonicalize().unwrap_or(path));
    }
    entry
}

/// Fetches exactly the version of an entry.
async fn locked_candidate(
    packages: &Packages,
    entry: &LockedPlugin,
    accept: &AcceptArgs,
) -> Result<Candidate, CliError> {
    let name = &entry.name;
    let context = |error: CliError| CliError {
        error: error.error.context(format!("{name} was not installed")),
        ..error
    };
    let pinned = match (&entry.source, entry.resolved) {
        (Reference::Registry(reference), Some(digest)) => {
            if let Some(named) = reference.digest.filter(|named| *named != digest) {
                let message = format!(
                    "{name}: `resolved` of the lock file is {digest}, but its source names {named}; write the lock file again"
                );
                return Err(CliError::new(Exit::Signature, message));
            }
            Reference::Registry(reference.with_digest(digest))
        }
        (source, _) => source.clone(),
    };
    // The installed version decides who may replace it, and not the lock file.
    let installed = packages.store.installed()?;
    let installed = installed.get(name.as_str());
    let installed = installed.and_then(|one| one.signer.clone());
    let mut options = accept.options(installed.or_else(|| entry.signer.clone()))?;
    // The lock file states that it is not signed.
    options.allow_unsigned |= entry.signer.is_none();
    let mut candidate = packages
        .candidate(&pinned, Some(name), &options, Some(entry.content))
        .await
        .map_err(context)?;
    candidate.locked.source = entry.source.clone();
    candidate.changes = changes(candidate.old.as_ref(), &candidate.locked);
    if candidate.locked != *entry {
        let message = format!(
            "{name} is not what the lock file states ({}); check where it comes from, then write the lock file again",
            first_difference(entry, &candidate.locked)
        );
        return Err(CliError::new(Exit::Signature, message));
    }
    Ok(candidate)
}

/// Compares without the network: entries, files on disk, their signatures, and revocations.
fn check(packages: &Packages, entries: &[LockedPlugin]) -> Result<Exit, CliError> {
    let now = Installed::read(packages)?;
    let mut is_same = true;
    if entries.is_empty() {
        print("the lock file has no plugins").or_exit(Exit::Internal)?;
    }
    for entry in entries {
        let name = &entry.name;
        let line = match now.difference(packages, entry) {
            None => format!("{name} {}: ok", entry.version),
            Some(reason) => {
                is_same = false;
                format!("{name} {}: {reason}", entry.version)
            }
        };
        print(&line).or_exit(Exit::Internal)?;
    }
    Ok(if is_same { Exit::Ok } else { Exit::LockDiffers })
}

/// What is installed, read once for all entries.
struct Installed {
    plugins: LockFile,
    /// As hosts check files before they load them.
    loading: InstalledPackages,
}

impl Installed {
    fn read(packages: &Packages) -> Result<Self, CliError> {
        let loading = InstalledPackages::new(Some(packages.store.clone()));
        loading.refresh()?;
        Ok(Self {
            plugins: packages.store.installed()?,
            loading,
        })
    }

    /// How it differs from an entry.
    fn difference(&self, packages: &Packages, entry: &LockedPlugin) -> Option<String> {
        let Some(plugin) = self.plugins.get(entry.name.as_str()) else {
            return Some("not installed".to_owned());
        };
        if plugin != entry {
            let field = first_difference(entry, plugin);
            return Some(format!("installed with another {field}"));
        }
        let file = packages.store.file(plugin);
        match packages.store.digest(&file) {
            Ok(actual) if actual == entry.content => {}
            Ok(actual) => return Some(format!("the installed file has the digest {actual}")),
            Err(error) => return Some(error.to_string()),
        }
        let trust = &packages.settings.core.trust;
        if let Some(signer) = &entry.signer
            && let Err(error) = trust.signer(&file, entry.content, std::slice::from_ref(signer))
        {
            return Some(error.to_string());
        }
        let checked = self.loading.check(&file, entry.content, trust);
        checked.err().map(|error| error.to_string())
    }
}

/// The name of the first field that differs.
fn first_difference(expected: &LockedPlugin, actual: &LockedPlugin) -> String {
    let fields = [
        ("content", expected.content == actual.content),
        ("signer", expected.signer == actual.signer),
        ("version", expected.version == actual.version),
        ("needs", expected.needs == actual.needs),
        ("tools", expected.tools == actual.tools),
        ("source", expected.source == actual.source),
        ("size", expected.size == actual.size),
        ("name", expected.name == actual.name),
    ];
    let differs = fields.into_iter().find(|(_, same)| !same);
    text::escape_line(differs.map_or("manifest", |(name, _)| name), 20)
}
