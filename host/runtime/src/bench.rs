//! Benchmark baseline: the same component, pre-linked and pooled the same way, called without policy, limits or
//! clock.

mod stock_wasi;

use std::sync::Arc;
use std::time::Duration;

use toolhost_contract::{Limits, NoSink};
use toolhost_vfs::Scope;
use wasmtime::Store;

use crate::Plugin;
use crate::api::v0_1::types;
use crate::capabilities::CallCapabilities;
use crate::deadline::Deadline;
use crate::files::Files;
use crate::state::State;

pub use self::stock_wasi::{Blocking, StockWasi};

/// Calls one tool of a plugin directly.
pub struct DirectCaller<'a> {
    plugin: &'a Plugin,
    files: Files,
    request: types::Request,
}

impl<'a> DirectCaller<'a> {
    pub fn new(plugin: &'a Plugin, tool: &str, input: &str) -> std::io::Result<Self> {
        Ok(Self {
            plugin,
            files: Files::new(Scope::empty())?,
            request: request(tool, input),
        })
    }

    /// Makes a new instance and calls the tool once.
    pub async fn call(&self) -> Result<(), String> {
        let code = self.plugin.loaded().code().await;
        let code = code.map_err(|error| error.to_string())?;
        let tools = code.tools().map_err(|error| error.to_string())?;
        let pre = tools.interface()?.bindings();
        let never = Arc::new(Deadline::after(Duration::from_secs(3_600), None));
        let state = State::new(
            &Limits::default(),
            self.files.clone(),
            &[],
            never,
            CallCapabilities::default(),
            Arc::new(NoSink),
        );
        let mut store = Store::new(pre.engine(), state);
        store.set_epoch_deadline(1_000_000);
        let instance = pre
            .instantiate_async(&mut store)
            .await
            .map_err(|error| error.to_string())?;
        let outcome = instance
            .toolhost_plugin_tool()
            .call_call(&mut store, &self.request)
            .await;
        match outcome.map_err(|error| error.to_string())? {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}

fn request(tool: &str, input: &str) -> types::Request {
    types::Request {
        call_id: "bench".to_owned(),
        tool: tool.to_owned(),
        input: input.to_owned(),
        context: types::Context {
            agent_id: "bench".to_owned(),
            parent_agent_id: None,
            session_id: "bench".to_owned(),
            task_id: "bench".to_owned(),
            user_id: None,
            mode: "default".to_owned(),
            roots: Vec::new(),
            extra: None,
        },
    }
}
