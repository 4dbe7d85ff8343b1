//! Descriptions of tools in a plugin file, so that a host lists the tools before it compiles the component.
//!
//! They are claims of the plugin, like those that it returns: the host checks them in the same way and enforces them.

use std::borrow::Cow;
use std::io::Cursor;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolhost_contract::manifest::TOOLS_SECTION;
use toolhost_contract::{Digest, Manifest};

use super::contract_check::{
    check_contract, check_exports, check_imports, described_tools, has_hooks,
};
use super::plugin_file::{OutlinedFile, manifest};
use super::{Description, Loaded, Runtime, describe};
use crate::LoadError;
use crate::api::v0_1::{VERSION, types};
use crate::compile_cache::EntryKind;
use crate::functions;
use crate::linked_code::Tools;
use crate::scan::{self, MAX_TOOLS_BYTES};

#[derive(Serialize, Deserialize)]
struct PackedTools<'a> {
    /// The version of the plugin contract that defines the members of `tools`.
    contract: Cow<'a, str>,
    tools: Vec<types::Descriptor>,
}

/// Checks that the file does not describe other tools than the component.
pub(super) fn check(
    path: &Path,
    section: Option<&[u8]>,
    described: &[types::Descriptor],
) -> Result<(), LoadError> {
    match section.and_then(parse) {
        Some(packed) if !are_equal(&packed.tools, described) => Err(LoadError::Describe {
            path: path.to_owned(),
            reason: format!(
                "its `{TOOLS_SECTION}` section differs from the result of `describe`; pack the component again"
            ),
        }),
        _ => Ok(()),
    }
}

/// `None` for a section of another version of the contract.
fn parse(section: &[u8]) -> Option<PackedTools<'_>> {
    let packed = serde_json::from_slice::<PackedTools<'_>>(section).ok();
    packed.filter(|packed| packed.contract == VERSION)
}

fn are_equal(one: &[types::Descriptor], other: &[types::Descriptor]) -> bool {
    serde_json::to_vec(one).ok() == serde_json::to_vec(other).ok()
}

impl Runtime {
    /// Returns the content of the section for this component. `None` if every host has to ask the component: its
    /// descriptions differ between these environments or are too large, or it has hooks.
    pub async fn packed_tools(
        &self,
        path: &Path,
        component: &[u8],
        manifest: &Manifest,
        environments: &[Vec<(String, String)>],
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let digest = Digest(Sha256::digest(component).into());
        let outline = scan::outline(path, &mut Cursor::new(component))?;
        let (component, _) = self.component(path, component, digest).await?;
        let (_, exports) = check_contract(path, &self.0.engine, &component)?;
        let linked = self.linked(path, &component, &exports)?;
        let described = match linked.tools {
            Some(Tools::Interface(tools)) => {
                let described = describe(path, tools.bindings(), &self.environment()).await?;
                for environment in environments {
                    let other = describe(path, tools.bindings(), environment).await?;
                    if !are_equal(&described, &other) {
                        return Ok(None);
                    }
                }
                described
            }
            Some(Tools::Functions(tools)) => {
                let docs = outline.docs.as_deref();
                functions::describe(path, tools.bindings(), manifest, docs)?.0
            }
            None => return Ok(None),
        };
        described_tools(path, described.clone(), "0.0.0", &exports)?;
        let section = PackedTools {
            contract: VERSION.into(),
            tools: described,
        };
        let json = serde_json::to_vec(&section).ok();
        let is_usable = |json: &Vec<u8>| json.len() <= MAX_TOOLS_BYTES && !has_hooks(&exports);
        Ok(json.filter(is_usable))
    }

    /// A component whose file describes its tools. `None` if it does not, or not for this version of the contract.
    pub(super) fn packed(
        &self,
        path: &Path,
        file: OutlinedFile,
    ) -> Result<Option<Loaded>, LoadError> {
        let outline = file.outline;
        let Some(packed) = outline.tools.as_deref().and_then(parse) else {
            return Ok(None);
        };
        let imports = check_imports(path, &outline.imports)?;
        let exports = check_exports(path, outline.exports.iter().map(String::as_str))?;
        // A host must not start without the hooks that it is configured to use.
        if has_hooks(&exports) {
            return Ok(None);
        }
        let code = self.code_state(file.digest);
        let manifest = manifest(path, outline.manifest.as_deref())?;
        let description = Description {
            host_version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
            environment: Cow::Borrowed(&[]),
            size: file.size,
            manifest: outline.manifest,
            imports,
            exports,
            has_checked_tools: self.accepts_tools(&packed.tools, &manifest.version),
            tools: packed.tools,
            skipped: Vec::new(),
        };
        let json = serde_json::to_vec(&description);
        let loaded = self.loaded(path, file.digest, manifest, description, code, None)?;
        if let (Some(cache), Ok(json)) = (&self.0.cache, json) {
            // Without the entry, the next start reads the file again.
            let _ = cache.put(EntryKind::PackedDescription, file.digest, &json);
        }
        Ok(Some(loaded))
    }
}

#[cfg(test)]
mod tests;
