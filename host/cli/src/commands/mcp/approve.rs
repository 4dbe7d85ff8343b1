//! `host mcp approve`: shows what would run or which tools have changed, and saves an approval of exactly that.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolhost::mcp_servers::program_reads;
use toolhost_contract::{Digest, ToolName, text};
use toolhost_mcp_client::{
    AdoptedTool, ApprovedDefinition, ToolChange, private_file, private_folder,
};

use super::{ApproveArgs, approval_text, confirm_unless, find, is_discovery, load};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::servers::{ServerStorage, discovery_context, missing_approval, start};
use crate::settings::{CliSettings, DiscoverySettings};
use crate::terminal::{note, print};

/// Bytes of changes that are shown at the terminal, some hundreds of lines. Longer changes go to a file.
const MAX_TERMINAL_BYTES: usize = 32 << 10;
const MAX_SHOWN: usize = 16 << 20;
/// Time limit of all diffs together.
const DIFF_TIMEOUT: Duration = Duration::from_secs(2);

pub async fn approve(args: &ApproveArgs) -> Result<Exit, CliError> {
    let settings = load(&args.file)?;
    let keep = ServerStorage::from_settings(&settings);
    if is_discovery(&args.name) {
        return approve_discovery(args, &settings, &keep).await;
    }
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| CliError::new(Exit::Config, reason.clone()))?;
    let digest = config.digest();
    let reads = program_reads(config);
    let missing = missing_approval(&keep, config, &reads).or_exit(Exit::Store)?;
    if missing.is_some() {
        note(&approval_text(config, &reads));
        if let Some(exit) = confirm_or_exit("allow it to run?", args)? {
            return Ok(exit);
        }
        keep.approvals
            .approve(&args.name, digest, &reads)
            .or_exit(Exit::Store)?;
    }
    // A running host may have seen tools that the server does not list here.
    let waiting = keep.approvals.waiting(&args.name, digest);
    let waiting = waiting.or_exit(Exit::Store)?;
    // The current tools, including all that can be served once approved.
    let running = start(config.clone(), &settings, &keep, Arc::new(|_, _| ()));
    let listing = running.shared().first_listing().await;
    running.stop().await;
    let listing = match listing {
        Ok(listing) => listing,
        Err(error) => {
            let reason = text::escape_lines(&error.to_string(), 2_000);
            note(&format!(
                "warning: approved, but the server does not work: {reason}"
            ));
            return Ok(Exit::ToolFailed);
        }
    };
    let mut changed = listing.changed.clone();
    let name = |one: &AdoptedTool| one.descriptor.name.clone();
    let mut listed: BTreeSet<ToolName> = listing.tools.iter().map(name).collect();
    listed.extend(changed.iter().map(|change| name(&change.now)));
    changed.extend(
        waiting
            .into_iter()
            .filter(|change| !listed.contains(&name(&change.now))),
    );
    approve_tools(args, &keep, digest, &listing.tools, &changed)
}

async fn approve_discovery(
    args: &ApproveArgs,
    settings: &CliSettings,
    keep: &ServerStorage,
) -> Result<Exit, CliError> {
    let Some(wanted) = &settings.discovery else {
        return Err(CliError::new(
            Exit::Usage,
            "the configuration has no `tools.discovery_command`",
        ));
    };
    let (name, digest) = (DiscoverySettings::NAME, wanted.digest());
    if !keep
        .approvals
        .is_approved(name, digest)
        .or_exit(Exit::Store)?
    {
        note(&format!(
            "the discovery command is not sandboxed: it runs with your privileges\n  {}",
            wanted.discovery.description().replace('\n', "\n  ")
        ));
        if let Some(exit) = confirm_or_exit("allow it to run?", args)? {
            return Ok(exit);
        }
        let approved = keep.approvals.approve(name, digest, &BTreeSet::new());
        approved.or_exit(Exit::Store)?;
    }
    let mut found = wanted
        .discovery
        .discover(&discovery_context())
        .await
        .map_err(|reason| CliError::new(Exit::ToolFailed, text::escape_lines(&reason, 2_000)))?;
    found
        .retain_approved(&keep.approvals, name, digest)
        .map_err(|reason| CliError::new(Exit::Store, reason))?;
    approve_tools(args, keep, digest, &found.tools, &found.changed)
}

/// Shows all changes of tools, and saves an approval of exactly these.
fn approve_tools(
    args: &ApproveArgs,
    keep: &ServerStorage,
    digest: Digest,
    same: &[AdoptedTool],
    changed: &[ToolChange],
) -> Result<Exit, CliError> {
    if !changed.is_empty() {
        show_changes(args, keep, changed)?;
        if let Some(exit) = confirm_or_exit("approve these tools?", args)? {
            return Ok(exit);
        }
        keep.approvals
            .approve_tools(&args.name, digest, same, changed)
            .or_exit(Exit::Store)?;
    }
    let tools = same.len() + changed.len();
    print_line(&format!("approved {}, {tools} tools", args.name))?;
    Ok(Exit::Ok)
}

/// Shows the changes, in a file if they are too long for a terminal. The prompt waits while the file is read, so that
/// the approval covers this list even if the server changes it in the meantime.
fn show_changes(
    args: &ApproveArgs,
    keep: &ServerStorage,
    changed: &[ToolChange],
) -> Result<(), CliError> {
    let Some(shown) = format_changes(changed, Instant::now() + DIFF_TIMEOUT) else {
        return Err(CliError::new(
            Exit::Denied,
            format!(
                "the changes of {} tools exceed {} MiB, which is too much to review; exclude tools with \
                 `exclude_tools`, or remove the server",
                changed.len(),
                MAX_SHOWN >> 20
            ),
        ));
    };
    let file = keep
        .changes
        .as_ref()
        .filter(|_| shown.len() > MAX_TERMINAL_BYTES);
    match file {
        None => note(&shown),
        Some(folder) => {
            let path = folder.join(format!("{}.txt", args.name));
            let write = || {
                private_folder(folder)?;
                let mut options = File::options();
                let options = options.create(true).truncate(true).write(true);
                private_file(options, &path)?.write_all(shown.as_bytes())
            };
            write().or_exit(Exit::Store)?;
            note(&format!(
                "{} tools differ from what was approved; all changes ({} bytes) are in\n  {}\nread them before you \
                 approve",
                changed.len(),
                shown.len(),
                path.display()
            ));
        }
    }
    if changed
        .iter()
        .any(|change| change.earlier == ApprovedDefinition::NoRoom)
    {
        note(
            "too many tools to store: approving these discards the approvals of tools that are not listed now; such a \
             tool counts as new when it returns",
        );
    }
    Ok(())
}

/// All changes as text, or `None` if they exceed [`MAX_SHOWN`] bytes.
fn format_changes(changed: &[ToolChange], deadline: Instant) -> Option<String> {
    let mut shown = String::new();
    for change in changed {
        let kind = match change.earlier {
            ApprovedDefinition::Other(_) => "tool",
            ApprovedDefinition::Nothing | ApprovedDefinition::NoRoom => "new tool",
        };
        let _ = writeln!(
            shown,
            "{kind} {} ({}):\n{}",
            change.now.descriptor.name,
            text::escape_line(&change.now.definition.tool, 256),
            change.difference(deadline)
        );
        if shown.len() > MAX_SHOWN {
            return None;
        }
    }
    Some(shown.trim_end().to_owned())
}

/// Asks for approval. Returns the exit code of the command if it was denied.
fn confirm_or_exit(question: &str, args: &ApproveArgs) -> Result<Option<Exit>, CliError> {
    match confirm_unless(question, args.yes) {
        Some(true) => Ok(None),
        Some(false) => {
            note("not approved");
            Ok(Some(Exit::Denied))
        }
        None => Err(CliError::new(
            Exit::Denied,
            "no terminal to prompt at; run this at a terminal, or with --yes",
        )),
    }
}

fn print_line(line: &str) -> Result<(), CliError> {
    print(line).or_exit(Exit::Internal)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolhost_contract::Descriptor;
    use toolhost_mcp_client::Definition;

    use super::*;

    fn change(text: &str) -> ToolChange {
        let name = ToolName::parse("mcp__a__get_sum").unwrap();
        ToolChange {
            earlier: ApprovedDefinition::Other(json!({"description": "Adds."}).to_string()),
            now: AdoptedTool {
                descriptor: Descriptor::new(name, "Adds."),
                definition: Definition {
                    tool: "get-sum\u{1b}".to_owned(),
                    digest: Digest([0; 32]),
                    json: json!({"description": text, "inputSchema": {"x": "EVIL"}}),
                },
            },
        }
    }

    #[test]
    fn approved_changes_are_shown_completely_or_not_at_all() {
        let deadline = Instant::now() + Duration::from_secs(60);
        let shown = format_changes(
            &[change(&"harmless ".repeat(10_000)), change("x")],
            deadline,
        )
        .unwrap();
        assert!(
            shown.starts_with("tool mcp__a__get_sum (get-sum\\u{1b}):\n"),
            "{shown}"
        );
        assert_eq!(shown.matches(r#"+    "x": "EVIL""#).count(), 2, "{shown}");
        assert!(format_changes(&[change(&"x".repeat(MAX_SHOWN))], deadline).is_none());
    }
}
