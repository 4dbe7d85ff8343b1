//! `host ui`: opens the web page of a running host, or serves the history without one.

use std::net::SocketAddr;

use clap::Args;
use toolhost::HostPaths;
use toolhost_ui::UiServer;

use crate::control::{ControlRequest, running_hosts, select_host};
use crate::exit::{CliError, Exit, OrExit as _};
use crate::records::StoreArgs;
use crate::serve::http::{count_signals, parse_address, wait_for_signals};
use crate::serve::ui::bind_history;
use crate::terminal::{note, print};

pub const HELP: &str = "\
Prints a link that can be opened once, for the page of the running host. The host then also asks on the page. If no host
runs, the command serves the history until Ctrl-C, and the page changes nothing.

Examples:
  host ui
  host ui --address 127.0.0.1:7070";

#[derive(Debug, Args)]
pub struct UiArgs {
    /// Process id of the host, if several are running
    #[arg(long)]
    pub pid: Option<String>,

    /// Address to serve, if the page is not served yet: 127.0.0.1:PORT or [::1]:PORT [default: a free port]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    pub address: Option<SocketAddr>,

    #[command(flatten)]
    pub store: StoreArgs,
}

pub async fn ui(args: UiArgs) -> Result<Exit, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    let hosts = running_hosts(paths.state.as_deref());
    if !hosts.is_empty() || args.pid.is_some() {
        let host = select_host(hosts, args.pid.as_deref())?;
        let answer = host.send(ControlRequest::OpenPage {
            address: args.address,
        })?;
        if let Some(error) = answer.errors.first() {
            return Err(CliError::new(Exit::Usage, error.clone()));
        }
        for link in &answer.changes {
            print(link).or_exit(Exit::Internal)?;
        }
        return Ok(Exit::Ok);
    }
    let store = args.store.open()?;
    let address = args.address.unwrap_or(UiServer::DEFAULT_ADDRESS);
    let (link, server) = bind_history(store, address).await?;
    print(&link).or_exit(Exit::Internal)?;
    note("no host is running, so the page shows the history only; Ctrl-C ends it");
    let signals = count_signals().or_exit(Exit::Internal)?;
    server.serve(wait_for_signals(1, signals)).await;
    Ok(Exit::Ok)
}
