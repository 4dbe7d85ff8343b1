//! The commands. Each function takes the parsed arguments of one and returns the exit code.

pub mod answer;
pub mod approvals;
pub mod audit;
pub mod batch;
pub mod bench;
pub mod call;
pub mod calls;
pub mod cancel;
pub mod check;
pub mod completions;
pub mod config;
pub mod dev;
pub mod doctor;
pub mod init;
pub mod inspect;
pub mod key;
pub mod mcp;
pub mod new;
pub mod pack;
#[cfg(debug_assertions)]
pub mod package_files;
pub mod packages;
pub mod plugins;
pub mod policy;
pub mod prune;
pub mod run;
pub mod sessions;
pub mod sign;
pub mod stats;
pub mod test;
pub mod tools;
pub mod turns;
pub mod ui;
pub mod undo;

use std::sync::Arc;

use toolhost_kernel::{NoPrompter, Prompter};

use crate::exit::CliError;
use crate::host_args::HostArgs;
use crate::load::{LoadPurpose, RunningHost, load};
use crate::settings::CliSettings;

/// Loads plugins for commands that inspect them and call none.
async fn load_for_listing(args: &HostArgs) -> Result<RunningHost, CliError> {
    let prompter: Arc<dyn Prompter> = Arc::new(NoPrompter);
    Box::pin(load(CliSettings::load(args)?, prompter, LoadPurpose::List)).await
}
