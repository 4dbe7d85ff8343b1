//! `--ui`: the web page of a running host.

use std::net::SocketAddr;
use std::sync::Arc;

use clap::Args;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;
use toolhost_kernel::{Clock, Kernel, Prompter};
use toolhost_store::Store;
use toolhost_ui::{Inbox, Permission, UiOptions, UiPrompter, UiServer, UiServerError};

use super::host_view::{LoadedHost, PageView};
use super::http::parse_address;
use crate::exit::{CliError, Exit, OrExit as _};
use crate::load::RunningHost;
use crate::terminal::working_directory;

#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Web page options")]
pub struct UiArgs {
    /// Serve a web page for approvals and history, and print its link. The port is free unless an address is given:
    /// 127.0.0.1:PORT. The page listens on [::1] too
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0", value_parser = parse_address)]
    pub ui: Option<SocketAddr>,

    /// The page shows everything and changes nothing
    #[arg(long, requires = "ui")]
    pub ui_read_only: bool,
}

impl UiArgs {
    pub fn permission(&self) -> Permission {
        if self.ui_read_only {
            Permission::ReadOnly
        } else {
            Permission::ReadWrite
        }
    }

    /// The address to serve, if a page is wanted from the start.
    pub fn address(&self) -> Option<SocketAddr> {
        self.ui
    }

    /// Whether users can answer questions on the page.
    pub fn answers(&self) -> bool {
        self.ui.is_some() && !self.ui_read_only
    }
}

/// The page of a host. It is served from the start with `--ui`, or when `host ui` asks for it.
pub struct WebPage {
    inbox: Arc<Inbox>,
    host: LoadedHost,
    running: Mutex<Option<RunningPage>>,
}

struct RunningPage {
    new_link: Box<dyn Fn() -> Result<String, UiServerError> + Send + Sync>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl WebPage {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            inbox: Inbox::new(Clock::system(), working_directory()),
            host: LoadedHost::default(),
            running: Mutex::default(),
        })
    }

    /// Tells the page which host it shows, once its plugins are loaded.
    pub fn set_host(&self, host: &Arc<RunningHost>) {
        let _ = self.host.set(Arc::downgrade(host));
    }

    /// Returns a prompter that asks on the page too, while it is served.
    pub fn prompter(&self, inner: Arc<dyn Prompter>) -> Arc<dyn Prompter> {
        Arc::new(UiPrompter::new(inner, Arc::clone(&self.inbox)))
    }

    /// Returns a new link, and starts the server if it does not run. `block_address` keeps tools from connecting.
    pub async fn open(
        &self,
        kernel: &Arc<Kernel>,
        address: SocketAddr,
        permission: Permission,
        block_address: impl Fn(SocketAddr),
    ) -> Result<String, CliError> {
        let mut running = self.running.lock().await;
        if running.is_none() {
            let options = UiOptions {
                inbox: Arc::clone(&self.inbox),
                kernel: Some(Arc::clone(kernel)),
                store: kernel.store().cloned(),
                view: Some(Arc::new(PageView::new(kernel, &self.host))),
                permission,
                user: user_name(),
            };
            let server = UiServer::bind(address, options)
                .await
                .or_exit(Exit::Usage)?;
            server.addresses().into_iter().for_each(block_address);
            let (stop, stopped) = oneshot::channel();
            *running = Some(RunningPage {
                new_link: Box::new(server.links()),
                stop,
                task: tokio::spawn(server.serve(async {
                    let _ = stopped.await;
                })),
            });
        }
        let page = running.as_ref().expect("it was started above");
        (page.new_link)().or_exit(Exit::Internal)
    }

    /// Tells open pages that the host exits, and stops the server.
    pub async fn close(&self) {
        if let Some(page) = self.running.lock().await.take() {
            // The receiver is gone if the server has already stopped.
            let _ = page.stop.send(());
            let _ = page.task.await;
        }
    }
}

/// Serves the history of a store without a running host. Returns the link and the server.
pub async fn bind_history(
    store: Store,
    address: SocketAddr,
) -> Result<(String, UiServer), CliError> {
    let options = UiOptions {
        inbox: Inbox::new(Clock::system(), working_directory()),
        kernel: None,
        store: Some(store),
        view: None,
        permission: Permission::ReadOnly,
        user: user_name(),
    };
    let server = UiServer::bind(address, options)
        .await
        .or_exit(Exit::Usage)?;
    let link = server.links()().or_exit(Exit::Internal)?;
    Ok((link, server))
}

/// The user of this process, for the record of who answered.
fn user_name() -> String {
    let named = ["USER", "LOGNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok());
    named
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("uid {}", rustix::process::geteuid().as_raw()))
}
