//! The names of the plugins in the configured directories, which no package can take.

use std::path::PathBuf;

use toolhost::{HostParts, Launcher};
use toolhost_contract::{PluginName, text};
use toolhost_packages::{LockFile, LockedPlugin};

use super::Packages;
use crate::exit::{CliError, Exit};
use crate::load::{LoadPurpose, compiler};
use crate::settings::CliSettings;

/// A plugin of a configured directory.
pub struct ConfiguredPlugin {
    name: PluginName,
    file: PathBuf,
    /// All names that its tools take.
    tools: Vec<String>,
}

impl Packages {
    /// Refuses a package with the name of a tool of another installed package, or with the name of a plugin in the
    /// configured directories or of one of its tools.
    pub async fn refuse_taken_names(
        &self,
        installed: &LockFile,
        package: &LockedPlugin,
    ) -> Result<(), CliError> {
        if let Some(conflict) = installed.conflict(package) {
            return Err(conflict.into());
        }
        let read = || read(&self.settings);
        match find_conflict(self.configured.get_or_try_init(read).await?, package) {
            Some(message) => Err(CliError::new(Exit::Denied, message)),
            None => Ok(()),
        }
    }
}

/// Reads the plugins without compiling those whose files describe their tools. One that cannot be loaded takes no names.
async fn read(settings: &CliSettings) -> Result<Vec<ConfiguredPlugin>, CliError> {
    let mut core = settings.core.clone();
    core.packages = None;
    if core.plugins.is_empty() {
        return Ok(Vec::new());
    }
    let parts = HostParts {
        compiler: compiler()?,
        defers_compilation: true,
        launcher: Some(Launcher::this_program(["process-launcher".into()])),
        ..HostParts::new(core, LoadPurpose::List)
    };
    let host = parts.load(|_| {}).await?;
    let registry = host.kernel.registry();
    let loaded = host.loaded();
    let plugins = loaded.plugins.iter().map(|served| {
        let name = &served.manifest.name;
        let tools = registry.list_all();
        let tools = tools.filter(|entry| entry.plugin.name == *name);
        let names = tools.flat_map(|entry| {
            let aliases = entry.tool.aliases.iter().cloned();
            aliases.chain([entry.tool.name.to_string()])
        });
        ConfiguredPlugin {
            name: name.clone(),
            file: served.path.clone(),
            tools: names.collect(),
        }
    });
    Ok(plugins.collect())
}

fn find_conflict(configured: &[ConfiguredPlugin], package: &LockedPlugin) -> Option<String> {
    let name = &package.name;
    configured.iter().find_map(|owner| {
        let ConfiguredPlugin { name: other, .. } = owner;
        let file = text::escape_line(&owner.file.to_string_lossy(), 300);
        if other == name {
            return Some(format!(
                "the package {name} has the name of the plugin {other} in {file}; remove that file or its directory from the \
                 configuration, or rename the package"
            ));
        }
        let is_taken = |tool: &&str| owner.tools.iter().any(|taken| taken == tool);
        let taken = package.tool_names().find(is_taken)?;
        let taken = text::escape_line(taken, 80);
        Some(format!(
            "the package {name} has a tool `{taken}`, which is the name of a tool of the plugin {other} in {file}; remove \
             that file or its directory from the configuration, or rename the tool"
        ))
    })
}

#[cfg(test)]
mod tests {
    use toolhost_contract::{Digest, ToolName};
    use toolhost_packages::{LockedTool, Reference};

    use super::*;

    #[test]
    fn names_of_configured_plugins_and_their_tools_are_taken() {
        let configured = [ConfiguredPlugin {
            name: PluginName::parse("data").unwrap(),
            file: "/opt/plugins/data.wasm".into(),
            tools: vec!["base64_encode".to_owned(), "b64".to_owned()],
        }];
        let package = |name: &str, tool: &str, alias: &str| LockedPlugin {
            name: PluginName::parse(name).unwrap(),
            version: "99.0.0".to_owned(),
            source: Reference::File("/x.wasm".into()),
            resolved: None,
            content: Digest([0; 32]),
            size: 0,
            signer: None,
            needs: Vec::new(),
            tools: vec![LockedTool {
                name: ToolName::parse(tool).unwrap(),
                aliases: vec![alias.to_owned()],
                effect: "pure".to_owned(),
                definition: Digest([0; 32]),
            }],
        };
        for (package, expected) in [
            (package("notes", "add_note", "note"), None),
            (
                package("data", "add_note", "note"),
                Some("the plugin data in /opt"),
            ),
            (
                package("notes", "base64_encode", "note"),
                Some("`base64_encode`"),
            ),
            (package("notes", "b64", "note"), Some("`b64`")),
            (package("notes", "add_note", "b64"), Some("`b64`")),
        ] {
            let message = find_conflict(&configured, &package);
            match expected {
                Some(expected) => {
                    let message = message.unwrap();
                    assert!(message.contains(expected), "{message}");
                }
                None => assert_eq!(message, None),
            }
        }
    }
}
