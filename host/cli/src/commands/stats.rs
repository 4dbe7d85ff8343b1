//! `host calls stats`: calls, failures and duration by tool and version, so that versions can be compared.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use toolhost_contract::text;
use toolhost_contract::units::{format_duration, parse_duration};
use toolhost_store::{CallFilter, CallRow};

use super::calls::tool_name;
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

/// The number of calls that ran, how many of them failed, and their total duration.
#[derive(Debug, Default)]
struct Tally {
    calls: u32,
    failures: u32,
    total: Duration,
}

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
        let tallies: Vec<Value> = tallies.iter().map(tally_to_json).collect();
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

/// Counts the calls that ran. Calls denied before they ran do not characterize a tool.
fn count(rows: &[CallRow]) -> BTreeMap<ToolVersion, Tally> {
    let mut tallies: BTreeMap<ToolVersion, Tally> = BTreeMap::new();
    for row in rows {
        let field = |name: &str| {
            let value = row.record.get(name).and_then(Value::as_str);
            value.unwrap_or("?").to_owned()
        };
        let supplied = row.record.get("suppliedBy").is_some();
        if row.record.get("startedAt").is_none() || !row.finished || supplied {
            continue;
        }
        let which = (tool_name(row), field("plugin"), field("toolVersion"));
        let tally = tallies.entry(which).or_default();
        tally.calls += 1;
        let is_error = row.record.get("isError") == Some(&Value::Bool(true));
        tally.failures += u32::from(is_error || row.state != "completed");
        let millis = row.record.get("durationMs").and_then(Value::as_f64);
        let took = Duration::try_from_secs_f64(millis.unwrap_or(0.0) / 1_000.0);
        tally.total = tally.total.saturating_add(took.unwrap_or_default());
    }
    tallies
}

fn cells(((tool, plugin, version), tally): (&ToolVersion, &Tally)) -> Vec<String> {
    vec![
        text::escape_line(tool, 80),
        text::escape_line(version, 64),
        text::escape_line(plugin, 80),
        tally.calls.to_string(),
        tally.failures.to_string(),
        format_duration(tally.total),
        format_duration(tally.total / tally.calls.max(1)),
    ]
}

fn tally_to_json(((tool, plugin, version), tally): (&ToolVersion, &Tally)) -> Value {
    json!({
        "tool": tool,
        "plugin": plugin,
        "version": version,
        "calls": tally.calls,
        "failures": tally.failures,
        "total_ms": tally.total.as_secs_f64() * 1_000.0,
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
