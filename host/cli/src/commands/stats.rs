//! `host calls stats`: calls, failures and duration by tool and version, so that versions can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_contract::units::{format_duration, parse_duration};
use toolhost_kernel::records::{CallSummary, TextPool, Usage};
use toolhost_store::{CallFilter, CallRow};

use crate::exit::{CliError, Exit, OrExit};
use crate::json;
use crate::records::{StoreArgs, now};
use crate::terminal::print;
use crate::terminal::style::table;

/// Number of newest records that are counted.
const MAX_CALLS: u32 = 10_000;

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// Count only calls of this tool
    #[arg(long, value_name = "NAME")]
    pub tool: Option<String>,

    /// Count only calls within this duration before now, for example `90m` or `24h`
    #[arg(long, value_name = "DUR", value_parser = parse_duration)]
    pub since: Option<Duration>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub store: StoreArgs,
}

/// Tool, plugin and version.
type ToolVersion = (String, String, String);

pub fn stats(args: StatsArgs) -> Result<Exit, CliError> {
    let store = args.store.open_verified()?;
    let since = args
        .since
        .map(|since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX));
    let rows = store
        .calls(&CallFilter {
            tool: args.tool,
            after_ms: since.map(|since| now().0.saturating_sub(since)),
            limit: MAX_CALLS,
            ..CallFilter::default()
        })
        .or_exit(Exit::Store)?;
    let tallies = count(&rows);
    let shown = if args.json {
        let tallies: Vec<Value> = tallies.iter().map(usage_to_json).collect();
        json::pretty(&tallies).or_exit(Exit::Internal)?
    } else {
        table(
            &[
                "TOOL", "VERSION", "PLUGIN", "CALLS", "FAILURES", "TOTAL", "AVERAGE",
            ],
            tallies.iter().map(cells),
        )
    };
    print(&shown).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// The use of each version of a tool. Calls denied before they ran do not characterize a tool.
fn count(rows: &[CallRow]) -> BTreeMap<ToolVersion, Usage> {
    let mut texts = TextPool::default();
    let mut calls: BTreeMap<ToolVersion, Vec<CallSummary>> = BTreeMap::new();
    for call in rows
        .iter()
        .filter_map(|row| CallSummary::of(row, &mut texts))
    {
        if call.ran {
            let texts = [&call.tool, &call.plugin, &call.version];
            let [tool, plugin, version] = texts.map(ToString::to_string);
            calls.entry((tool, plugin, version)).or_default().push(call);
        }
    }
    let calls = calls.into_iter();
    calls
        .map(|(which, calls)| (which, Usage::of(&calls)))
        .collect()
}

fn cells(((tool, plugin, version), usage): (&ToolVersion, &Usage)) -> Vec<String> {
    vec![
        text::escape_line(tool, 80),
        text::escape_line(version, 64),
        text::escape_line(plugin, 80),
        usage.calls.to_string(),
        usage.failures.to_string(),
        format_duration(usage.total),
        format_duration(usage.total / usage.calls.max(1)),
    ]
}

fn usage_to_json(((tool, plugin, version), usage): (&ToolVersion, &Usage)) -> Value {
    json!({
        "tool": tool,
        "plugin": plugin,
        "version": version,
        "calls": usage.calls,
        "failures": usage.failures,
        "total_ms": usage.total.as_secs_f64() * 1_000.0,
    })
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn row(id: u32, state: &str, record: Value) -> CallRow {
        CallRow {
            id: id.to_string(),
            session: String::new(),
            batch: None,
            parent: None,
            tool: Some("grep".to_owned()),
            plugin: Some("search".to_owned()),
            state: state.to_owned(),
            finished: state != "executing",
            deferred: false,
            effectful: false,
            created_ms: 0,
            updated_ms: 0,
            record,
        }
    }

    #[test]
    fn r_495_calls_are_counted_by_version() {
        let ran = |version: &str, is_error: bool, millis: u32| {
            json!({
                "plugin": "search", "toolVersion": version, "startedAt": 1, "isError": is_error, "durationMs": millis,
            })
        };
        let rows = [
            row(1, "completed", ran("1.0.0", false, 10)),
            row(2, "completed", ran("1.0.0", true, 20)),
            row(3, "failed", ran("1.1.0", false, 5)),
            row(4, "executing", ran("1.1.0", false, 5)),
            row(
                5,
                "denied",
                json!({"plugin": "search", "toolVersion": "1.1.0"}),
            ),
            row(
                6,
                "completed",
                json!({"plugin": "search", "toolVersion": "1.1.0", "startedAt": 1, "suppliedBy": "cache"}),
            ),
        ];
        let shown: Vec<String> = count(&rows)
            .iter()
            .map(|one| cells(one).join(" | "))
            .collect();
        expect![[r#"
            grep | 1.0.0 | search | 2 | 1 | 30ms | 15ms
            grep | 1.1.0 | search | 1 | 1 | 5ms | 5ms"#]]
        .assert_eq(&shown.join("\n"));
    }
}
