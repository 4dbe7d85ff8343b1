//! `host search`: packages of registries that list their repositories.

use std::time::Duration;

use clap::Args;
use toolhost_contract::text;
use toolhost_packages::{PackageError, Reference, RegistryReference};

use super::Packages;
use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::style::table;
use crate::terminal::{note, print};

/// Maximum number of packages that a search prints.
const MAX_FOUND: usize = 200;
/// Maximum number of listed packages without tags that a search skips.
const MAX_SKIPPED: usize = 50;
const SEARCH_TIMEOUT: Duration = Duration::from_mins(1);

#[derive(Debug, Args)]
pub struct SearchArgs {
    /// Part of a name
    pub term: String,

    /// Registry, such as `registry.example.org` [default: those of installed plugins]
    #[arg(long)]
    pub registry: Vec<String>,
}

pub async fn search(args: SearchArgs) -> Result<Exit, CliError> {
    let packages = Packages::open(None)?;
    let mut registries = args.registry.clone();
    if registries.is_empty() {
        for plugin in packages.store.installed()?.plugins() {
            if let Reference::Registry(reference) = &plugin.source
                && !registries.contains(&reference.registry)
            {
                registries.push(reference.registry.clone());
            }
        }
    }
    if registries.is_empty() {
        let message = "name a registry with --registry; no plugin is installed from one";
        return Err(CliError::new(Exit::Usage, message));
    }
    let mut rows = Vec::new();
    let searching = find(&packages, &registries, &args.term, &mut rows);
    let ended = tokio::time::timeout(SEARCH_TIMEOUT, searching).await;
    let found_any = !rows.is_empty();
    if found_any {
        print(&table(&["NAME", "TAGS"], rows)).or_exit(Exit::Internal)?;
    }
    ended.unwrap_or_else(|_| {
        let seconds = SEARCH_TIMEOUT.as_secs();
        let message = format!(
            "the search was not complete after {seconds} s; search for a longer name, or name one registry with --registry"
        );
        Err(CliError::new(Exit::Registry, message))
    })?;
    if !found_any {
        print("nothing found").or_exit(Exit::Internal)?;
        return Ok(Exit::ToolFailed);
    }
    Ok(Exit::Ok)
}

/// Adds what it finds to `rows`, also if it ends with an error.
async fn find(
    packages: &Packages,
    registries: &[String],
    term: &str,
    rows: &mut Vec<Vec<String>>,
) -> Result<(), CliError> {
    let mut skipped = 0;
    for registry in registries {
        // Any name: the list belongs to the registry.
        let reference: RegistryReference = match format!("{registry}/any").parse() {
            Ok(Reference::Registry(reference)) => reference,
            Ok(_) => return Err(CliError::new(Exit::Usage, "not a registry")),
            Err(error) => return Err(CliError::new(Exit::Usage, error)),
        };
        for repository in packages.registry.repositories(&reference).await? {
            if !repository.contains(term) {
                continue;
            }
            if rows.len() == MAX_FOUND {
                note(&format!(
                    "only the first {MAX_FOUND} packages are shown; search for a longer name"
                ));
                return Ok(());
            }
            let found = RegistryReference {
                repository: repository.clone(),
                ..reference.clone()
            };
            match packages.registry.tags(&found).await {
                Ok(tags) => {
                    let tags = tags.join(", ");
                    rows.push(vec![format!("{registry}/{repository}"), tags]);
                }
                // A name that the registry lists and does not answer for.
                Err(
                    PackageError::NotFound { .. }
                    | PackageError::Unauthorized { .. }
                    | PackageError::Registry { .. },
                ) if skipped < MAX_SKIPPED => skipped += 1,
                Err(error) => {
                    let name = text::escape_line(&format!("{registry}/{repository}"), 300);
                    let message = format!("the search ended at {name}: {error}");
                    return Err(CliError::new(Exit::from(&error), message));
                }
            }
        }
    }
    Ok(())
}
