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

impl StoreArgs {
    pub fn open(&self) -> Result<Store, CliError> {
        let settings = CliSettings::load(&HostArgs {
            config: self.config.clone(),
            ..HostArgs::default()
        })?;
        open(&settings)
    }

    /// Opens the store and verifies the audit chain against its head. Rows are compared with the chain when read.
    pub fn open_verified(&self) -> Result<Store, CliError> {
        let store = self.open()?;
        match store.verify_chain().or_exit(Exit::Store)? {
            Verification::Verified { .. } => Ok(store),
            Verification::Broken { seq, reason } => Err(chain_broken(seq, &reason)),
        }
    }
}

pub fn chain_broken(seq: i64, reason: &ChainDefect) -> CliError {
    let words = format!("the audit chain is broken at step {seq}: {reason}");
    CliError::new(Exit::ToolFailed, words)
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
    let seconds = at_ms.div_euclid(1_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date_from_days(days);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02}Z",
        second % 60
    )
}

/// The Gregorian date `days` after 1970-01-01. Years are counted from March, which puts the leap day last.
fn date_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
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
