//! Checks a component against the plugin contract: what it imports and exports, and how it describes its tools.

use std::path::Path;

use toolhost_contract::{Descriptor, ToolHook, text};
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::ComponentItem;

use crate::LoadError;
use crate::api::v0_1::{self, HOST_FUNCTIONS, VERSION, services, types};

/// WASI 0.2 packages that every plugin may import. HTTP refuses all requests without the capability `net`. Sockets
/// refuse all addresses; they are linked because some language runtimes import them.
const WASI_PACKAGES: [&str; 7] = [
    "wasi:cli",
    "wasi:clocks",
    "wasi:filesystem",
    "wasi:http",
    "wasi:io",
    "wasi:random",
    "wasi:sockets",
];

/// Checks imports and exports, for clearer errors than the linker's.
pub fn check_contract(
    path: &Path,
    engine: &Engine,
    component: &Component,
) -> Result<(Vec<String>, Vec<String>), LoadError> {
    let refuse = |reason| Err(contract_error(path, reason));
    let kind = component.component_type();
    let mut imports = Vec::new();
    for (name, item) in kind.imports(engine) {
        let (interface, shown) = check_import(path, name)?;
        if interface.starts_with("toolhost:plugin/")
            && let ComponentItem::ComponentInstance(instance) = item.ty
        {
            for (function, item) in instance.exports(engine) {
                let known = !matches!(item.ty, ComponentItem::ComponentFunc(_))
                    || (interface == "toolhost:plugin/host" && HOST_FUNCTIONS.contains(&function))
                    || services::FUNCTIONS.iter().any(|(name, functions)| {
                        interface.strip_prefix("toolhost:plugin/") == Some(*name)
                            && functions.contains(&function)
                    });
                if !known {
                    return refuse(format!(
                        "built for a newer revision of tool-api {VERSION} than this host's; missing import `{shown}` function `{}`",
                        text::escape_line(function, 80)
                    ));
                }
            }
        }
        imports.push(shown);
    }
    let exports = kind.exports(engine).map(|(name, _)| name);
    Ok((imports, check_exports(path, exports)?))
}

fn contract_error(path: &Path, reason: String) -> LoadError {
    LoadError::Contract {
        path: path.to_owned(),
        reason,
    }
}

/// Checks that the host has an interface with this name. Returns the name without its version, and as it is shown.
fn check_import<'a>(path: &Path, name: &'a str) -> Result<(&'a str, String), LoadError> {
    let refuse = |reason| Err(contract_error(path, reason));
    let (interface, version) = name.split_once('@').unwrap_or((name, ""));
    let package = interface.split('/').next().unwrap_or(interface);
    let shown = text::escape_line(name, 120);
    if package == "toolhost:plugin" {
        if version != VERSION {
            return refuse(format!(
                "built for tool-api {}, host has {VERSION}; missing import `{shown}`; rebuild it with an SDK for {VERSION}",
                text::escape_line(version, 20)
            ));
        }
    } else if !(WASI_PACKAGES.contains(&package) && version.starts_with("0.2.")) {
        return refuse(format!(
            "it imports `{shown}`, which this host does not provide; available are toolhost:plugin@{VERSION} and {} of WASI 0.2",
            WASI_PACKAGES
                .map(|package| package.trim_start_matches("wasi:"))
                .join(", ")
        ));
    }
    Ok((interface, shown))
}

/// Checks that the host has all interfaces with these names. Returns the names as they are shown.
pub fn check_imports(path: &Path, names: &[String]) -> Result<Vec<String>, LoadError> {
    let names = names.iter().map(|name| check_import(path, name));
    names.map(|import| import.map(|(_, shown)| shown)).collect()
}

/// Where the tools of a component come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolSource {
    /// The interface `tool`, which describes them.
    Interface,
    /// All exported functions, because it has none of our interfaces.
    Functions,
    /// It has hooks only.
    Nothing,
}

pub fn tool_source(exports: &[String]) -> ToolSource {
    if exports.contains(&exported("tool")) {
        ToolSource::Interface
    } else if has_hooks(exports) {
        ToolSource::Nothing
    } else {
        ToolSource::Functions
    }
}

/// Checks that the component exports tools, hooks or functions. Returns the names as they are shown.
pub fn check_exports<'a>(
    path: &Path,
    exports: impl Iterator<Item = &'a str>,
) -> Result<Vec<String>, LoadError> {
    let refuse = |reason| Err(contract_error(path, reason));
    let exports: Vec<String> = exports.map(|name| text::escape_line(name, 120)).collect();
    let wanted = exported("tool");
    let has_ours = exports
        .iter()
        .any(|name| name.starts_with("toolhost:plugin/"));
    if tool_source(&exports) == ToolSource::Functions && (has_ours || exports.is_empty()) {
        return match exports.iter().find_map(|name| {
            name.strip_prefix("toolhost:plugin/tool@")
                .or_else(|| name.strip_prefix("toolhost:plugin/hooks@"))
        }) {
            Some(version) => refuse(format!(
                "built for tool-api {version}, host has {VERSION}; rebuild it with an SDK for {VERSION}"
            )),
            None => refuse(format!(
                "it does not export `{wanted}`, so it is not a plugin for this host; its exports are: {}",
                if exports.is_empty() {
                    "none".to_owned()
                } else {
                    exports.join(", ")
                }
            )),
        };
    }
    Ok(exports)
}

/// Checks the descriptions of the tools.
pub fn described_tools(
    path: &Path,
    tools: Vec<types::Descriptor>,
    version: &str,
    exports: &[String],
) -> Result<Vec<Descriptor>, LoadError> {
    if tool_source(exports) == ToolSource::Nothing {
        return Ok(Vec::new());
    }
    let tools = v0_1::descriptors(tools, version).map_err(|reason| LoadError::Describe {
        path: path.to_owned(),
        reason,
    })?;
    check_hooks(path, &tools, exports)?;
    Ok(tools)
}

pub fn has_hooks(exports: &[String]) -> bool {
    exports.contains(&exported("hooks"))
}

/// Checks that the component exports the functions that its tools list.
fn check_hooks(path: &Path, tools: &[Descriptor], exports: &[String]) -> Result<(), LoadError> {
    for tool in tools {
        let missing = |hook: &ToolHook| !exports.contains(&exported(hook.interface()));
        if let Some(hook) = tool.hooks.iter().find(missing) {
            return Err(LoadError::Describe {
                path: path.to_owned(),
                reason: format!(
                    "tool `{}` lists the hook `{}`, but the component does not export `{}`",
                    tool.name,
                    hook.as_str(),
                    exported(hook.interface())
                ),
            });
        }
    }
    Ok(())
}

/// Name under which a component exports one of our interfaces.
pub fn exported(interface: &str) -> String {
    format!("toolhost:plugin/{interface}@{VERSION}")
}

pub fn link_error(path: &Path, error: &wasmtime::Error) -> LoadError {
    let text = format!("{error:#}");
    let reason = format!(
        "it is not compatible with tool-api {VERSION} and WASI 0.2: {}",
        text::escape_line(text.lines().next().unwrap_or_default(), 300)
    );
    contract_error(path, reason)
}
