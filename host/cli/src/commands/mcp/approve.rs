//! `host mcp approve`: shows what would run, or what of a server has changed, and keeps a person's yes for exactly that.

use std::sync::Arc;

use toolhost_contract::text;
use toolhost_mcp_client::{Definition, LeftOut};

use super::{ApproveArgs, ask, find, is_discovery, load};
use crate::exit::{Exit, Failure, OrExit as _};
use crate::load::servers::{Keep, ground, start};
use crate::settings::{DiscoverySettings, Settings};
use crate::terminal::{note, print};

pub async fn approve(args: &ApproveArgs) -> Result<Exit, Failure> {
    let settings = load(&args.file)?;
    let keep = Keep::of(&settings);
    if is_discovery(&args.name) {
        return discovery(args, &settings, &keep).await;
    }
    let server = find(&settings, &args.name)?;
    let config = server
        .config
        .as_ref()
        .map_err(|reason| Failure::new(Exit::Config, reason.clone()))?;
    let digest = config.digest();
    if !keep
        .approvals
        .is_approved(&args.name, digest)
        .or_exit(Exit::Store)?
    {
        note(&format!(
            "server `{}` is not sandboxed: it runs with your rights\n  {}",
            args.name,
            config.shown().replace('\n', "\n  ")
        ));
        if let Some(exit) = refused("let it run?", args)? {
            return Ok(exit);
        }
        keep.approvals
            .approve(&args.name, digest)
            .or_exit(Exit::Store)?;
    }
    // Its tools as they are now: nothing is left out that is fit to be served.
    let running = start(config.clone(), &settings, &keep, Arc::new(|_, _| ()));
    let listing = running.shared().first().await;
    running.stop().await;
    let listing = match listing {
        Ok(listing) => listing,
        Err(error) => {
            let reason = text::block(&error.to_string(), 2_000);
            note(&format!(
                "warning: it is approved, and does not work: {reason}"
            ));
            return Ok(Exit::ToolFailed);
        }
    };
    let changed: Vec<&LeftOut> = listing.left_out.iter().filter(|one| one.changed).collect();
    if changed.is_empty() {
        say(&format!(
            "approved {}, {} tools",
            args.name,
            listing.tools.len()
        ))?;
        return Ok(Exit::Ok);
    }
    for one in &changed {
        note(&format!(
            "tool {}: {}",
            one.tool,
            text::block(&one.reason, 10_000)
        ));
    }
    if let Some(exit) = refused("take these tools as they are now?", args)? {
        return Ok(exit);
    }
    let mut now: Vec<&Definition> = listing.tools.iter().map(|one| &one.definition).collect();
    now.extend(listing.changed.iter());
    keep.approvals
        .approve_tools(&args.name, &now)
        .or_exit(Exit::Store)?;
    say(&format!("approved {}, {} tools", args.name, now.len()))?;
    Ok(Exit::Ok)
}

async fn discovery(args: &ApproveArgs, settings: &Settings, keep: &Keep) -> Result<Exit, Failure> {
    let Some(wanted) = &settings.discovery else {
        return Err(Failure::new(
            Exit::Usage,
            "the configuration names no tools.discovery_command",
        ));
    };
    let (name, digest) = (DiscoverySettings::NAME, wanted.digest());
    if !keep
        .approvals
        .is_approved(name, digest)
        .or_exit(Exit::Store)?
    {
        note(&format!(
            "the discovery command is not sandboxed: it runs with your rights\n  {}",
            wanted.discovery.shown().replace('\n', "\n  ")
        ));
        if let Some(exit) = refused("let it run?", args)? {
            return Ok(exit);
        }
        keep.approvals.approve(name, digest).or_exit(Exit::Store)?;
    }
    let mut found = wanted
        .discovery
        .discover(&ground())
        .await
        .map_err(|reason| Failure::new(Exit::ToolFailed, text::block(&reason, 2_000)))?;
    let all: Vec<Definition> = found
        .tools
        .iter()
        .map(|one| one.definition.clone())
        .collect();
    found
        .hold_against(&keep.approvals, name, digest)
        .map_err(|reason| Failure::new(Exit::Store, reason))?;
    let changed: Vec<&LeftOut> = found.left_out.iter().filter(|one| one.changed).collect();
    for one in &changed {
        note(&format!(
            "tool {}: {}",
            one.tool,
            text::block(&one.reason, 10_000)
        ));
    }
    if !changed.is_empty() {
        if let Some(exit) = refused("take these tools as they are now?", args)? {
            return Ok(exit);
        }
        let now: Vec<&Definition> = all.iter().collect();
        keep.approvals
            .approve_tools(name, &now)
            .or_exit(Exit::Store)?;
    }
    say(&format!("approved {name}, {} tools", all.len()))?;
    Ok(Exit::Ok)
}

/// How the command ends when there was no yes.
fn refused(question: &str, args: &ApproveArgs) -> Result<Option<Exit>, Failure> {
    match ask(question, args.yes).or_exit(Exit::Internal)? {
        Some(true) => Ok(None),
        Some(false) => {
            note("nothing was approved");
            Ok(Some(Exit::Denied))
        }
        None => Err(Failure::new(
            Exit::Denied,
            "nobody is there to say yes; run it at a terminal, or with --yes",
        )),
    }
}

fn say(words: &str) -> Result<(), Failure> {
    print(words).or_exit(Exit::Internal)
}
