//! `host sessions`: lists client sessions with their times and mode.

use clap::Args;
use serde_json::{Value, json};
use toolhost_contract::text;

use crate::exit::{CliError, Exit, OrExit};
use crate::json;
use crate::records::{StoreArgs, format_time};
use crate::terminal::print;
use crate::terminal::style::table;

#[derive(Debug, Args)]
pub struct SessionsArgs {
    /// Maximum number of sessions
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

pub fn sessions(args: &SessionsArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let rows = store.sessions(args.limit).or_exit(Exit::Store)?;
    let shown = if args.json {
        let rows: Vec<Value> = rows
            .iter()
            .map(|row| {
                json!({
                    "id": row.id, "client": row.client, "mode": row.mode,
                    "startedAt": row.started_ms, "endedAt": row.ended_ms,
                })
            })
            .collect();
        json::pretty(&rows).or_exit(Exit::Internal)?
    } else {
        table(
            &["STARTED", "SESSION", "CLIENT", "MODE", "ENDED"],
            rows.iter().map(|row| {
                vec![
                    format_time(row.started_ms),
                    text::escape_line(&row.id, 80),
                    text::escape_line(&row.client, 60),
                    text::escape_line(&row.mode, 40),
                    // Unset while the host runs, and if it was killed.
                    row.ended_ms.map_or_else(|| "-".to_owned(), format_time),
                ]
            }),
        )
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}
