//! The functions of a component that describe and guard calls: those of the interfaces `preview` and `hooks`. Those of one
//! call share an instance.

use wasmtime::component::InstancePre;
use wasmtime::{Engine, Store};

use crate::api::v0_1::hooks::{Hook, HookIndices};
use crate::api::v0_1::preview::{Previewer, PreviewerIndices};
use crate::export::Bindings;
use crate::load::exported;
use crate::state::State;

pub(crate) struct GuardsPre {
    linked: InstancePre<State>,
    preview: Option<PreviewerIndices>,
    hooks: Option<HookIndices>,
}

/// The functions of an instance. A component exports at least one of the interfaces.
pub(crate) struct Guards {
    preview: Option<Previewer>,
    hooks: Option<Hook>,
}

impl GuardsPre {
    pub fn has_preview(&self) -> bool {
        self.preview.is_some()
    }

    pub fn has_hooks(&self) -> bool {
        self.hooks.is_some()
    }
}

impl Guards {
    pub fn preview(&self) -> wasmtime::Result<&Previewer> {
        let preview = self.preview.as_ref();
        preview.ok_or_else(|| wasmtime::Error::msg("the component has no `preview`"))
    }

    pub fn hooks(&self) -> wasmtime::Result<&Hook> {
        let hooks = self.hooks.as_ref();
        hooks.ok_or_else(|| wasmtime::Error::msg("the component has no `hooks`"))
    }
}

impl Bindings for GuardsPre {
    type Instance = Guards;

    fn new(linked: InstancePre<State>) -> wasmtime::Result<Self> {
        let component = linked.component();
        let has = |interface| {
            let name = exported(interface);
            component.get_export_index(None, &name).is_some()
        };
        Ok(Self {
            preview: has("preview")
                .then(|| PreviewerIndices::new(&linked))
                .transpose()?,
            hooks: has("hooks")
                .then(|| HookIndices::new(&linked))
                .transpose()?,
            linked,
        })
    }

    fn engine(&self) -> &Engine {
        self.linked.engine()
    }

    async fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Guards> {
        let instance = self.linked.instantiate_async(&mut *store).await?;
        let preview = self.preview.as_ref();
        let hooks = self.hooks.as_ref();
        Ok(Guards {
            preview: preview
                .map(|preview| preview.load(&mut *store, &instance))
                .transpose()?,
            hooks: hooks
                .map(|hooks| hooks.load(&mut *store, &instance))
                .transpose()?,
        })
    }
}
