//! `host prune`: deletes data that exceeds the configured retention.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IntoInnerError};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use toolhost::{retention, staging};
use toolhost_contract::units::format_size;
use toolhost_store::{Segment, Store, Verification};
use toolhost_vfs::ContentHash;

use super::audit::{self, ExportError};
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::records::{chain_broken, format_time};
use crate::settings::CliSettings;
use crate::terminal::print;

#[derive(Debug, Args)]
pub struct PruneArgs {
    /// Delete nothing; print which records would be deleted (not content for undo, compiled code and logs)
    #[arg(long)]
    pub dry_run: bool,

    /// Before deleting a segment of the audit chain, write its steps to a file in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub export: Option<PathBuf>,

    /// Use this configuration file instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

pub async fn prune(args: PruneArgs) -> Result<Exit, CliError> {
    let settings = CliSettings::load(&HostArgs {
        config: args.config,
        ..HostArgs::default()
    })?;
    let core = &settings.core;
    let store = crate::records::open(&settings)?;
    // A modified chain is not pruned, because that would make the modification harder to find.
    if let Verification::Broken { seq, reason } = store.verify_chain().or_exit(Exit::Store)? {
        return Err(chain_broken(seq, &reason));
    }
    let limits = core.retention.record_limits();
    store.end_old_segment(&limits).await.or_exit(Exit::Store)?;
    let due = store.due(&limits).or_exit(Exit::Store)?;
    if args.dry_run {
        return print_plan(&store, &due);
    }
    if let Some(folder) = &args.export {
        export(&store, &due, folder)?;
    }
    // Only exported segments are deleted.
    let until = args.export.is_some().then(|| last_step(&due));
    let dropped = retention::prune_records(&store, &core.retention, until).await;
    let dropped = dropped.or_exit(Exit::Store)?;
    let used = store.used_bytes().or_exit(Exit::Store)?;
    let mut lines = vec![format!(
        "records: deleted {} with {} steps and {} rows, kept {} rows that are still needed; {} in use",
        format_segments(dropped.segments),
        dropped.steps,
        dropped.rows,
        dropped.kept,
        format_size(used)
    )];
    let staging = staging::open_in_store(&store).or_exit(Exit::Store)?;
    lines.push(
        match retention::sweep_undo_data(&store, &staging, &core.retention) {
            None => "undo: nothing removed, because an unfinished commit cannot be read".to_owned(),
            Some(swept) => {
                let swept = swept.or_exit(Exit::Store)?;
                format!(
                    "undo: {} contents removed, {} kept",
                    swept.removed,
                    format_size(swept.kept)
                )
            }
        },
    );
    let [code, logs] = retention::remove_old_files(&core.host_paths, &core.retention);
    for (category, removed) in [("compiled code", code), ("logs", logs)] {
        let size = format_size(removed.bytes);
        lines.push(format!(
            "{category}: {} files removed, {size}",
            removed.files
        ));
    }
    print(&lines.join("\n")).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn last_step(due: &[Segment]) -> i64 {
    due.last().map_or(0, |segment| segment.last)
}

fn format_segments(count: usize) -> String {
    let noun = if count == 1 { "segment" } else { "segments" };
    format!("{count} {noun}")
}

fn print_plan(store: &Store, due: &[Segment]) -> Result<Exit, CliError> {
    let used = format_size(store.used_bytes().or_exit(Exit::Store)?);
    let message = match due.last() {
        None => format!("records: nothing to delete; {used} in use"),
        Some(last) => format!(
            "records: would delete {}, all steps up to {} of {}; {used} in use",
            format_segments(due.len()),
            last.last,
            format_time(last.at_ms)
        ),
    };
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// Writes one file for each segment and syncs it to disk. Files are not overwritten, because the numbers of steps start
/// again in a new database.
fn export(store: &Store, due: &[Segment], folder: &Path) -> Result<(), CliError> {
    let mut first = match due.first() {
        Some(_) => store.first_step().or_exit(Exit::Store)?,
        None => return Ok(()),
    };
    let failed = || format!("cannot write to {}", folder.display());
    std::fs::create_dir_all(folder)
        .with_context(failed)
        .or_exit(Exit::Internal)?;
    for segment in due {
        export_segment(store, first, segment, folder)?;
        first = segment.last + 1;
    }
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .with_context(failed)
        .or_exit(Exit::Internal)
}

fn export_segment(
    store: &Store,
    first: i64,
    segment: &Segment,
    folder: &Path,
) -> Result<(), CliError> {
    let path = folder.join(format!("steps-{first}-{}.jsonl", segment.last));
    let failed = || format!("cannot write {}", path.display());
    let partial = tempfile::Builder::new()
        .prefix(".steps-")
        .tempfile_in(folder)
        .with_context(failed)
        .or_exit(Exit::Internal)?;
    let mut out = BufWriter::new(partial);
    let written = audit::write_steps(store, first - 1, Some(segment.last), &mut out);
    written.map_err(|error| match error {
        ExportError::Store(failure) => failure,
        ExportError::Output(error) => {
            CliError::new(Exit::Internal, format!("{}: {error}", failed()))
        }
    })?;
    let persisted = out.into_inner().map_err(IntoInnerError::into_error);
    let persisted = persisted.and_then(|partial| {
        partial.as_file().sync_all()?;
        match partial.persist_noclobber(&path) {
            // From an export after which the segment was not deleted.
            Err(error) if is_same(error.file.path(), &path) => Ok(()),
            persisted => persisted.map(drop).map_err(|failed| failed.error),
        }
    });
    match persisted {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let path = path.display();
            let message = format!(
                "{path} contains other steps, so nothing was deleted; choose another directory, or move the file away"
            );
            Err(CliError::new(Exit::Usage, message))
        }
        persisted => persisted.with_context(failed).or_exit(Exit::Internal),
    }
}

/// Whether both files can be read and have the same content.
fn is_same(one: &Path, other: &Path) -> bool {
    let hash = |path| ContentHash::of_reader(File::open(path)?);
    matches!((hash(one), hash(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests;
