//! Access to the store for commands that load no plugins, and formatting of times.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use toolhost_contract::lifecycle::Timestamp;
use toolhost_store::{ChainDefect, Store, Verification};

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::settings::CliSettings;

/// Flags of commands that read records.
#[derive(Debug, Clone, Default, Args)]
pub struct StoreArgs {
    /// Use this configuration file to locate the records instead of the user's toolhost.toml
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
}

/// The store of these settings, whose audit chain is verified.
pub struct Records {
    pub settings: CliSettings,
    pub store: Store,
    /// Number of the last step of the chain.
    pub last_step: i64,
}

impl StoreArgs {
    pub fn open(&self) -> Result<Store, CliError> {
        open(&self.load()?)
    }

    /// Opens the store and verifies the audit chain against its head. Rows are compared with the chain when read.
    pub fn open_verified(&self) -> Result<Store, CliError> {
        self.open_records().map(|records| records.store)
    }

    /// Like [`Self::open_verified`], with the settings and the last step.
    pub fn open_records(&self) -> Result<Records, CliError> {
        let settings = self.load()?;
        let store = open(&settings)?;
        match store.verify_chain().or_exit(Exit::Store)? {
            Verification::Verified { rows, .. } => Ok(Records {
                settings,
                store,
                last_step: rows,
            }),
            Verification::HeadRemoved { seq, removed } => Err(head_removed(seq, removed)),
            Verification::Broken { seq, reason } => Err(chain_broken(seq, &reason)),
        }
    }

    fn load(&self) -> Result<CliSettings, CliError> {
        CliSettings::load(&HostArgs {
            config: self.config.clone(),
            ..HostArgs::default()
        })
    }
}

pub fn chain_broken(seq: i64, reason: &ChainDefect) -> CliError {
    let message = format!("the audit chain is broken at step {seq}: {reason}");
    CliError::new(Exit::ToolFailed, message)
}

/// The step of a recorded head is not stored any more, and no segment ended there.
pub fn head_removed(seq: Option<i64>, removed: i64) -> CliError {
    let what = match seq {
        Some(seq) => {
            format!("step {seq} was removed by retention, so this head cannot be checked")
        }
        None => format!(
            "no stored step has this hash; pass the number of the step too (`SEQ:HASH`), because retention removed the first {removed} steps"
        ),
    };
    let message = format!(
        "{what}; the stored steps are unchanged. Heads that `host audit head` prints can be checked after their steps are removed"
    );
    CliError::new(Exit::ToolFailed, message)
}

pub fn open(settings: &CliSettings) -> Result<Store, CliError> {
    let Some(dir) = &settings.core.store else {
        return Err(CliError::new(
            Exit::Config,
            "no records are kept: the store is disabled in the configuration, or there is no home directory for it",
        ));
    };
    Store::open(dir).or_exit(Exit::Store)
}

pub fn now() -> Timestamp {
    toolhost_kernel::Clock::system().now()
}

/// Formats a time as `2026-11-22 02:43:05Z`, in UTC so that records of different machines can be compared.
pub fn format_time(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_dates_in_utc() {
        for (at_ms, shown) in [
            (0, "1970-01-01 00:00:00Z"),
            (-1, "1969-12-31 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_199_999, "2024-02-29 23:59:59Z"),
            (4_107_542_400_000, "2100-03-01 00:00:00Z"),
        ] {
            assert_eq!(format_time(at_ms), shown);
        }
    }
}
