//! Benchmark baseline for the file system: the same compiled component and engine with wasmtime's own
//! `wasi:filesystem`, without policy, limits or clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::{Limits, NoSink};
use toolhost_vfs::Scope;
use wasmtime::Store;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

use super::request;
use crate::Plugin;
use crate::api::v0_1::toolhost::plugin::host;
use crate::api::v0_1::{PluginPre, types};
use crate::capabilities::CallCapabilities;
use crate::deadline::Deadline;
use crate::files::Files;
use crate::state::State;

/// The thread on which wasmtime makes blocking system calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// On a dedicated thread; wasmtime's default.
    BlockingThread,
    /// On the thread that runs the guest.
    GuestThread,
}

/// Calls a plugin's tools on a directory that the guest sees as `/workspace` and `.`.
pub struct StockWasi {
    pre: PluginPre<StockState>,
    host: PathBuf,
    blocking: Blocking,
}

/// State of one call: wasmtime's WASI context, and ours for the plugin contract.
struct StockState {
    wasi: WasiCtx,
    table: ResourceTable,
    state: State,
}

impl WasiView for StockState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl StockWasi {
    pub async fn new(plugin: &Plugin, host: &Path, blocking: Blocking) -> Result<Self, String> {
        let code = plugin.loaded().code().await;
        let code = code.map_err(|error| error.to_string())?;
        let tools = code.tools().map_err(|error| error.to_string())?;
        let pre = tools.interface()?.bindings();
        let linked = || {
            let mut linker = Linker::<StockState>::new(pre.engine());
            wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
            host::add_to_linker::<StockState, HasSelf<State>>(&mut linker, |all| &mut all.state)?;
            PluginPre::new(linker.instantiate_pre(pre.instance_pre().component())?)
        };
        Ok(Self {
            pre: linked().map_err(|error: wasmtime::Error| format!("{error:#}"))?,
            host: host.to_owned(),
            blocking,
        })
    }

    /// Makes a new instance and calls a tool once; returns its answer.
    pub async fn call(&self, tool: &str, input: &str) -> Result<Option<String>, String> {
        let around = self.state().map_err(|error| format!("{error:#}"))?;
        let mut store = Store::new(self.pre.engine(), around);
        store.set_epoch_deadline(1_000_000);
        let instance = self
            .pre
            .instantiate_async(&mut store)
            .await
            .map_err(|error| error.to_string())?;
        let outcome = instance
            .toolhost_plugin_tool()
            .call_call(&mut store, &request(tool, input))
            .await;
        match outcome.map_err(|error| error.to_string())? {
            Ok(types::Outcome { structured, .. }) => Ok(structured),
            Err(error) => Err(error.to_string()),
        }
    }

    fn state(&self) -> wasmtime::Result<StockState> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.allow_blocking_current_thread(self.blocking == Blocking::GuestThread)
            .initial_cwd("/workspace")
            .preopened_dir(&self.host, "/workspace", FsPerms::ReadOnly)?
            .preopened_dir(&self.host, ".", FsPerms::ReadOnly)?;
        let never = Arc::new(Deadline::after(Duration::from_secs(3_600), None));
        let nothing = Files::new(Scope::empty())?;
        Ok(StockState {
            wasi: wasi.build(),
            table: ResourceTable::new(),
            state: State::new(
                &Limits::default(),
                nothing,
                &[],
                never,
                CallCapabilities::default(),
                Arc::new(NoSink),
            ),
        })
    }
}
