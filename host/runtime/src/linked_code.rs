//! The linked code of a component. Code in the cache is read, verified and linked when it is first used.

use std::path::PathBuf;

use tokio::sync::{Mutex, OnceCell};
use toolhost_contract::{CallError, Digest, ErrorClass};
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::LoadError;
use crate::api::v0_1::{Plugin, PluginPre};
use crate::export::{Bindings, Export};
use crate::functions::FunctionsPre;
use crate::guards::GuardsPre;
use crate::load::Runtime;
use crate::state::State;

/// A component's code with each interface that it exports.
pub(crate) struct Linked {
    pub tools: Option<Tools>,
    pub guards: Option<Export<GuardsPre>>,
}

/// The tools of a component.
pub(crate) enum Tools {
    /// Of the interface `tool`.
    Interface(Export<PluginPre<State>>),
    /// Its exported functions.
    Functions(Export<FunctionsPre>),
}

impl Tools {
    /// For benchmarks of plugins with the interface `tool`.
    pub fn interface(&self) -> Result<&Export<PluginPre<State>>, &'static str> {
        match self {
            Self::Interface(tools) => Ok(tools),
            Self::Functions(_) => Err("the tools are functions"),
        }
    }
}

impl Bindings for PluginPre<State> {
    type Instance = Plugin;

    fn new(linked: InstancePre<State>) -> wasmtime::Result<Self> {
        PluginPre::new(linked)
    }

    fn engine(&self) -> &Engine {
        PluginPre::engine(self)
    }

    async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Plugin> {
        self.instantiate_async(store).await
    }
}

/// Code that may not have been read yet.
pub(crate) struct LinkedCode {
    runtime: Runtime,
    path: PathBuf,
    digest: Digest,
    linked: OnceCell<Linked>,
    /// Held while the code is compiled or read, so that it is compiled once. Contains the reason why it cannot be.
    failure: Mutex<Option<String>>,
}

impl LinkedCode {
    pub fn new(runtime: Runtime, path: PathBuf, digest: Digest, linked: Option<Linked>) -> Self {
        Self {
            runtime,
            path,
            digest,
            linked: OnceCell::new_with(linked),
            failure: Mutex::default(),
        }
    }

    /// Compiles the code into the cache, unless it is there.
    pub async fn compile(&self) -> Result<(), CallError> {
        let mut failure = self.failure.lock().await;
        if self.linked.initialized() {
            return Ok(());
        }
        let compiled = self.runtime.compile_to_cache(&self.path, self.digest).await;
        compiled.map_err(|error| failed(&error, &mut failure))
    }

    /// Whether the code is being compiled or read.
    pub fn is_preparing(&self) -> bool {
        !self.linked.initialized() && self.failure.try_lock().is_err()
    }

    pub fn is_linked(&self) -> bool {
        self.linked.initialized()
    }

    pub async fn get(&self) -> Result<&Linked, CallError> {
        let link = async || {
            let mut failure = self.failure.lock().await;
            if let Some(reason) = &*failure {
                return Err(unavailable(reason.clone()));
            }
            let linked = self.runtime.link_again(&self.path, self.digest).await;
            linked.map_err(|error| failed(&error, &mut failure))
        };
        self.linked.get_or_try_init(link).await
    }
}

/// Remembers a failure that would occur again, because compiling takes up to a minute.
fn failed(error: &LoadError, failure: &mut Option<String>) -> CallError {
    let reason = error.to_string();
    let is_final = matches!(
        error,
        LoadError::Compile { .. } | LoadError::Invalid { .. } | LoadError::Contract { .. }
    );
    if is_final {
        *failure = Some(reason.clone());
    }
    unavailable(reason)
}

fn unavailable(reason: String) -> CallError {
    CallError::new(ErrorClass::Unavailable, reason)
}

impl Linked {
    pub fn tools(&self) -> Result<&Tools, CallError> {
        self.tools
            .as_ref()
            .ok_or_else(|| CallError::new(ErrorClass::NotRegistered, "the plugin has no tools"))
    }
}

#[cfg(test)]
mod tests;
