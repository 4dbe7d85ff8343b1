//! `host approvals`: lists, explains, narrows and revokes saved approvals.

use std::collections::HashMap;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use toolhost_contract::lifecycle::mask_value;
use toolhost_contract::policy::{Approval, ApprovalScope, ApprovalState, Narrowing, ToolIdentity};
use toolhost_contract::units::parse_duration;
use toolhost_contract::{SessionId, text};
use toolhost_kernel::RegistrySnapshot;
use toolhost_store::{ApprovalError, ApprovalRow, Store};

use super::load_for_listing;
use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::json;
use crate::records::{self, StoreArgs, format_time, now};
use crate::settings::CliSettings;
use crate::terminal::print;
use crate::terminal::style::table;

pub const HELP: &str = "\
Examples:
  host approvals                               the approvals in effect
  host approvals revoke --tool write_file      ask about each call of this tool again
  host approvals explain a-1f0c9s8t7u6v5w4x    what an approval covers";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,

    #[command(flatten)]
    pub list: ListArgs,
}

#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// The same as `host approvals`
    #[command(hide = true)]
    List(ListArgs),
    /// Revoke approvals
    Revoke(RevokeArgs),
    /// Explain what an approval covers and whether it is in effect; with --plugins, also for the plugins as they are now
    Explain(Box<ExplainArgs>),
    /// Replace an approval with one that expires sooner or has fewer uses
    Narrow(NarrowArgs),
}

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Include approvals that are revoked, expired or used up, or whose session has ended
    #[arg(long)]
    pub all: bool,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
#[group(id = "which", required = true, multiple = false, args = ["ids", "tool", "all"])]
pub struct RevokeArgs {
    /// IDs of approvals, as `host approvals` prints them
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,

    /// Revoke all approvals of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,

    /// Revoke all approvals
    #[arg(long)]
    pub all: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// ID of an approval, as `host approvals` prints it
    #[arg(value_name = "ID")]
    pub id: String,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Args)]
#[group(id = "how", required = true, multiple = true, args = ["expires", "uses"])]
pub struct NarrowArgs {
    /// ID of an approval, as `host approvals` prints it
    #[arg(value_name = "ID")]
    pub id: String,

    /// Expire after this time, unless the approval expires sooner
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub expires: Option<Duration>,

    /// Limit the remaining uses, unless fewer remain
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub uses: Option<u32>,

    #[command(flatten)]
    pub store: StoreArgs,
}

pub async fn approvals(args: ApprovalsArgs) -> Result<Exit, CliError> {
    match args.command {
        None => list(&args.list),
        Some(ApprovalsCommand::List(args)) => list(&args),
        Some(ApprovalsCommand::Revoke(args)) => revoke(args).await,
        Some(ApprovalsCommand::Explain(args)) => explain(&args).await,
        Some(ApprovalsCommand::Narrow(args)) => narrow(&args).await,
    }
}

/// A saved approval with its current state.
struct StoredApproval {
    row: ApprovalRow,
    /// An error if another program changed the row; the kernel rejects such a row too.
    approval: Result<Approval, String>,
    /// When the session of the approval ended.
    ended_ms: Option<i64>,
}

impl StoredApproval {
    fn from_row(row: ApprovalRow, ended_ms: Option<i64>) -> Self {
        let body = row.body.get("approval").unwrap_or(&Value::Null);
        let approval = Approval::from_value(body)
            .map(|approval| Approval {
                uses_left: row.uses_left,
                ..approval
            })
            .map_err(|error| error.to_string());
        Self {
            row,
            approval,
            ended_ms,
        }
    }

    /// Whether the approval is in effect, and a description of its state.
    fn describe_state(&self, is: Option<&ToolIdentity>) -> (bool, String) {
        if let Some(at) = self.row.revoked_ms {
            return (false, format!("revoked {}", format_time(at)));
        }
        if let Some(at) = self.ended_ms {
            return (false, format!("its session ended {}", format_time(at)));
        }
        match &self.approval {
            Err(error) => (false, error.clone()),
            Ok(approval) => {
                let state = approval.state(is.unwrap_or(&approval.identity), now().0);
                (state == ApprovalState::Live, state.to_string())
            }
        }
    }

    fn describe_uses(&self) -> String {
        match self.row.uses_left {
            Some(left) => format!(
                "{} of {}",
                self.row.used,
                self.row.used.saturating_add(left)
            ),
            None => self.row.used.to_string(),
        }
    }

    fn describe_coverage(&self) -> String {
        self.approval.as_ref().map_or_else(
            |_| "nothing".to_owned(),
            |approval| describe_narrowing(&approval.narrowing),
        )
    }

    fn project(&self) -> Option<&str> {
        self.row.body.get("project").and_then(Value::as_str)
    }

    fn to_json(&self) -> Value {
        let (holds, state) = self.describe_state(None);
        let row = &self.row;
        json!({
            "id": row.id, "tool": row.tool, "plugin": row.plugin, "identity": row.identity, "scope": row.scope,
            "session": row.session, "project": self.project(), "covers": self.describe_coverage(), "holds": holds,
            "state": state, "createdAt": row.created_ms, "expiresAt": row.expires_ms, "used": row.used,
            "usesLeft": row.uses_left, "revokedAt": row.revoked_ms,
            "by": self.approval.as_ref().ok().map(|approval| &approval.by),
            "mode": self.approval.as_ref().ok().map(|approval| approval.mode_min.as_str()),
        })
    }
}

/// What the approval covers, in the terms of the question. Secrets in an input are masked.
fn describe_narrowing(narrowing: &Narrowing) -> String {
    let mut clauses: Vec<String> = Vec::new();
    for command in &narrowing.commands {
        clauses.push(format!(
            "`{} …`",
            text::escape_line(&command.join(" "), 120)
        ));
    }
    for path in &narrowing.paths {
        let verb = if path.write { "write" } else { "read" };
        let shown = text::escape_line(&path.path, 300);
        clauses.push(if path.tree {
            format!("{verb} below `{shown}/`")
        } else {
            format!("{verb} `{shown}`")
        });
    }
    for domain in &narrowing.domains {
        clauses.push(format!("reach `{}`", text::escape_line(domain, 120)));
    }
    if narrowing.tool {
        clauses.push("every call".to_owned());
    }
    let mut coverage = clauses.join(" and ");
    if let Some(input) = &narrowing.input {
        let input = text::escape_line(&mask_value(input).to_string(), 200);
        let with = if coverage.is_empty() { "" } else { ", " };
        coverage = format!("{coverage}{with}with exactly this input: {input}");
    }
    for list in &narrowing.only_paths {
        coverage = format!("{coverage}, only in {list}");
    }
    coverage
}

fn load_all(store: &Store) -> Result<Vec<StoredApproval>, CliError> {
    let rows = store.approvals().or_exit(Exit::Store)?;
    let sessions = store.sessions(u32::MAX).or_exit(Exit::Store)?;
    let ended: HashMap<&str, i64> = sessions
        .iter()
        .filter_map(|session| Some((session.id.as_str(), session.ended_ms?)))
        .collect();
    let approvals = rows.into_iter().map(|row| {
        let session = row.session.as_deref().filter(|_| row.scope == "session");
        let ended_ms = session.and_then(|session| ended.get(session).copied());
        StoredApproval::from_row(row, ended_ms)
    });
    Ok(approvals.collect())
}

fn find(store: &Store, id: &str) -> Result<StoredApproval, CliError> {
    let found = load_all(store)?
        .into_iter()
        .find(|stored| stored.row.id == id);
    found.ok_or_else(|| {
        let message = format!(
            "no approval `{}`; list approvals with `host approvals --all`",
            text::escape_line(id, 80)
        );
        CliError::new(Exit::Usage, message)
    })
}

fn list(args: &ListArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let mut approvals = load_all(&store)?;
    approvals.retain(|stored| args.all || stored.describe_state(None).0);
    let shown = if args.json {
        let rows: Vec<Value> = approvals.iter().map(StoredApproval::to_json).collect();
        json::pretty(&rows).or_exit(Exit::Internal)?
    } else if approvals.is_empty() {
        "no saved approvals are in effect".to_owned()
    } else {
        table(
            &["APPROVAL", "TOOL", "SCOPE", "USED", "STATE", "COVERS"],
            approvals.iter().map(|stored| {
                vec![
                    text::escape_line(&stored.row.id, 80),
                    text::escape_line(&stored.row.tool, 80),
                    text::escape_line(&stored.row.scope, 40),
                    stored.describe_uses(),
                    text::escape_line(&stored.describe_state(None).1, 80),
                    stored.describe_coverage(),
                ]
            }),
        )
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

async fn revoke(args: RevokeArgs) -> Result<Exit, CliError> {
    let store = args.store.open()?;
    let ids = if args.ids.is_empty() {
        let rows = load_all(&store)?.into_iter().map(|stored| stored.row);
        rows.filter(|row| row.revoked_ms.is_none())
            .filter(|row| args.tool.as_ref().is_none_or(|tool| *tool == row.tool))
            .map(|row| row.id)
            .collect()
    } else {
        // All ids are looked up before the first is revoked, so that a typo changes nothing.
        for id in &args.ids {
            find(&store, id)?;
        }
        args.ids
    };
    for id in &ids {
        store
            .revoke_approval(id, now().0)
            .await
            .map_err(approval_error)?;
        print(&format!("revoked {}", text::escape_line(id, 80))).or_exit(Exit::Internal)?;
    }
    if ids.is_empty() {
        print("nothing to revoke").or_exit(Exit::Internal)?;
    }
    Ok(Exit::Ok)
}

async fn explain(args: &ExplainArgs) -> Result<Exit, CliError> {
    let settings = CliSettings::load(&args.host)?;
    let stored = find(&records::open(&settings)?, &args.id)?;
    let registry = if settings.core.has_plugins() {
        Some(load_for_listing(&args.host).await?.kernel.registry())
    } else {
        None
    };
    let shown = describe(&stored, registry.as_deref());
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn describe(stored: &StoredApproval, registry: Option<&RegistrySnapshot>) -> String {
    let row = &stored.row;
    let mut lines = Vec::new();
    let mut say = |label: &str, value: String| lines.push(format!("{label:<9} {value}"));
    say("approval", text::escape_line(&row.id, 80));
    say(
        "tool",
        format!(
            "{} of plugin {}",
            text::escape_line(&row.tool, 80),
            text::escape_line(&row.plugin, 80)
        ),
    );
    if !row.identity.is_empty() {
        say("digest", text::escape_line(&row.identity, 100));
    }
    say("covers", stored.describe_coverage());
    let mut is = None;
    if let Ok(approval) = &stored.approval {
        say("scope", describe_scope(stored, approval));
        say(
            "granted",
            format!(
                "{} by {}",
                format_time(row.created_ms),
                text::escape_line(&approval.by, 80)
            ),
        );
        is = registry.and_then(|registry| current_identity(registry, &approval.identity));
    }
    if let Some(at) = row.expires_ms {
        say("expires", format_time(at));
    }
    say("used", stored.describe_uses());
    say("state", stored.describe_state(is.as_ref()).1);
    if registry.is_some() && is.is_none() {
        say(
            "plugin",
            "not loaded, so its identity cannot be checked".to_owned(),
        );
    }
    lines.join("\n")
}

fn describe_scope(stored: &StoredApproval, approval: &Approval) -> String {
    let user = match approval.user.name() {
        Some(name) => format!("for user {}, ", text::escape_line(name, 80)),
        None => String::new(),
    };
    let scope = match approval.scope {
        ApprovalScope::Once => "for one call".to_owned(),
        ApprovalScope::Session => format!(
            "in session {}",
            text::escape_line(approval.session.as_ref().map_or("?", SessionId::as_str), 80)
        ),
        ApprovalScope::Project => format!(
            "in project {}",
            text::escape_line(stored.project().unwrap_or("?"), 300)
        ),
        ApprovalScope::User => "in every project".to_owned(),
    };
    format!(
        "{user}{scope}, in mode {} and more permissive modes",
        approval.mode_min
    )
}

/// The identity of the same tool of the same plugin as currently loaded.
fn current_identity(registry: &RegistrySnapshot, was: &ToolIdentity) -> Option<ToolIdentity> {
    let entry = registry
        .list_all()
        .find(|entry| entry.plugin.name == was.plugin && entry.tool.name == was.tool)?;
    Some(ToolIdentity {
        plugin: was.plugin.clone(),
        tool: was.tool.clone(),
        digest: entry.plugin.digest,
        definition: was.definition,
    })
}

async fn narrow(args: &NarrowArgs) -> Result<Exit, CliError> {
    let store = args.store.open()?;
    let stored = find(&store, &args.id)?;
    let at = now().0;
    if let (false, state) = stored.describe_state(None) {
        return Err(not_in_effect(&args.id, &state));
    }
    // Revoked first, so that it cannot be used in the meantime. Then read again, because it may have been used just
    // before, or another process may have revoked it.
    store
        .revoke_approval(&args.id, at)
        .await
        .map_err(approval_error)?;
    let stored = find(&store, &args.id)?;
    if stored.row.revoked_ms != Some(at) {
        return Err(not_in_effect(&args.id, &stored.describe_state(None).1));
    }
    let old = match &stored.approval {
        Ok(approval) => approval,
        Err(error) => return Err(not_in_effect(&args.id, error)),
    };
    let new = narrowed(
        old,
        args,
        format!("a-{}", toolhost_kernel::id::random()),
        at,
    );
    let row = toolhost_kernel::approval_row(&new, stored.project());
    store.put_approval(row).await.map_err(approval_error)?;
    let message = format!("{} replaces {}", new.id, text::escape_line(&args.id, 80));
    print(&message).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// Never widens: the earlier expiry and the smaller number of uses apply.
fn narrowed(old: &Approval, args: &NarrowArgs, id: String, at: i64) -> Approval {
    let expires = args
        .expires
        .map(|expires| at.saturating_add(i64::try_from(expires.as_millis()).unwrap_or(i64::MAX)));
    let least = |one: Option<i64>, two: Option<i64>| one.into_iter().chain(two).min();
    Approval {
        id,
        created_ms: at,
        expires_ms: least(old.expires_ms, expires),
        uses_left: old.uses_left.into_iter().chain(args.uses).min(),
        ..old.clone()
    }
}

fn not_in_effect(id: &str, state: &str) -> CliError {
    let message = format!(
        "approval `{}` is no longer in effect ({state}) and cannot be narrowed",
        text::escape_line(id, 80)
    );
    CliError::new(Exit::Usage, message)
}

fn approval_error(error: ApprovalError) -> CliError {
    let exit = match error {
        ApprovalError::Store(_) => Exit::Store,
        ApprovalError::Unknown { .. } | ApprovalError::Exists { .. } => Exit::Usage,
    };
    CliError::new(exit, error)
}

#[cfg(test)]
mod tests;
