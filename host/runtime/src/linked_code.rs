//! The linked code of a component. Code in the cache is read, verified and linked when it is first used.

use std::path::PathBuf;

use tokio::sync::OnceCell;
use toolhost_contract::{CallError, Digest, ErrorClass};
use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::api::v0_1::hooks::{Hook, HookPre};
use crate::api::v0_1::preview::{Previewer, PreviewerPre};
use crate::api::v0_1::{Plugin, PluginPre};
use crate::export::{Bindings, Export};
use crate::load::Runtime;
use crate::state::State;

/// A component's code with each interface that it exports.
pub(crate) struct Linked {
    pub tools: Option<Export<PluginPre<State>>>,
    pub hooks: Option<Export<HookPre<State>>>,
    pub preview: Option<Export<PreviewerPre<State>>>,
}

macro_rules! bindings {
    ($($pre:ident => $instance:ident),*) => {$(
        impl Bindings for $pre<State> {
            type Instance = $instance;

            fn new(linked: InstancePre<State>) -> wasmtime::Result<Self> {
                $pre::new(linked)
            }

            fn engine(&self) -> &Engine {
                $pre::engine(self)
            }

            fn instantiate(
                &self,
                store: &mut Store<State>,
            ) -> impl Future<Output = wasmtime::Result<$instance>> + Send {
                self.instantiate_async(store)
            }
        }
    )*};
}

bindings!(PluginPre => Plugin, HookPre => Hook, PreviewerPre => Previewer);

/// Code that may not have been read yet.
pub(crate) struct LinkedCode {
    runtime: Runtime,
    path: PathBuf,
    digest: Digest,
    linked: OnceCell<Linked>,
}

impl LinkedCode {
    pub fn new(runtime: Runtime, path: PathBuf, digest: Digest, linked: Option<Linked>) -> Self {
        Self {
            runtime,
            path,
            digest,
            linked: OnceCell::new_with(linked),
        }
    }

    #[cfg(test)]
    pub fn is_linked(&self) -> bool {
        self.linked.initialized()
    }

    pub async fn get(&self) -> Result<&Linked, CallError> {
        let link = || self.runtime.link_again(&self.path, self.digest);
        self.linked
            .get_or_try_init(link)
            .await
            .map_err(|error| CallError::new(ErrorClass::Unavailable, error.to_string()))
    }
}

impl Linked {
    pub fn tools(&self) -> Result<&Export<PluginPre<State>>, CallError> {
        self.tools
            .as_ref()
            .ok_or_else(|| CallError::new(ErrorClass::NotRegistered, "the plugin has no tools"))
    }
}

#[cfg(test)]
mod tests;
