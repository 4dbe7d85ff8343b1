//! Plugin manifests (`plugin.toml`): identity and required capabilities, readable without running the plugin.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::units::{parse_positive_duration, parse_size};
use crate::{Effect, Limits, PluginName, ToolName, serde_errors};

/// Name of the custom section that contains the manifest in a component.
pub const MANIFEST_SECTION: &str = "toolhost:manifest";
/// Name of the custom section with the descriptions of the tools, if they are the same in every environment.
pub const TOOLS_SECTION: &str = "toolhost:tools";
/// Maximum size of a manifest.
pub const MAX_MANIFEST_BYTES: usize = 64 << 10;

/// The file with the manifest of a component that does not contain one: `x.plugin.toml` beside `x.wasm`.
pub fn side_manifest_path(component: &Path) -> PathBuf {
    component.with_extension("plugin.toml")
}

/// A validated plugin manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub name: PluginName,
    pub version: String,
    pub description: String,
    pub license: Option<String>,
    pub homepage: Option<String>,
    pub needs: Vec<CapabilityRequest>,
    pub limits: LimitsTable,
    /// For a component without the interface `tool`.
    pub functions: Vec<FunctionEntry>,
}

/// What is known about an exported function of a component that does not describe its tools.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionEntry {
    /// `interface.function`, or `function` if it is not in an interface.
    pub function: String,
    /// Name of the tool.
    pub name: Option<ToolName>,
    pub description: Option<String>,
    /// Without an effect, the tool is treated as `destroys`.
    pub effect: Option<Effect>,
    pub open_world: Option<bool>,
    /// Capabilities that the tool uses.
    #[serde(default)]
    pub requires: Vec<Capability>,
}

/// A capability that the plugin requests. The operator decides whether to grant it; other capabilities are never
/// granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapabilityRequest {
    pub capability: Capability,
    /// Variables for `env`, hosts for `net`, programs for `process`, tools for `tools`.
    pub names: Vec<String>,
    /// The reason, shown to the operator.
    pub why: String,
}

/// A capability that a plugin can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
pub enum Capability {
    #[serde(rename = "fs.read")]
    FsRead,
    #[serde(rename = "fs.write")]
    FsWrite,
    #[serde(rename = "env")]
    Env,
    /// `wasi:http`, to the hosts in `names`.
    #[serde(rename = "net")]
    Net,
    /// Host programs in `names`.
    #[serde(rename = "process")]
    Process,
    /// State that persists for the duration of a session.
    #[serde(rename = "session")]
    Session,
    #[serde(rename = "user")]
    User,
    #[serde(rename = "agents")]
    Agents,
    /// Calls of the tools in `names`.
    #[serde(rename = "tools")]
    Tools,
    #[serde(rename = "resources")]
    Resources,
    /// The directories that persist across sessions.
    #[serde(rename = "memory")]
    Memory,
    #[serde(rename = "skills")]
    Skills,
}

impl Capability {
    pub fn as_str(self) -> &'static str {
        match self {
            Capability::FsRead => "fs.read",
            Capability::FsWrite => "fs.write",
            Capability::Env => "env",
            Capability::Net => "net",
            Capability::Process => "process",
            Capability::Session => "session",
            Capability::User => "user",
            Capability::Agents => "agents",
            Capability::Tools => "tools",
            Capability::Resources => "resources",
            Capability::Memory => "memory",
            Capability::Skills => "skills",
        }
    }

    /// Returns an error message if a name is invalid for this capability. Host patterns are validated where they are
    /// granted.
    fn name_error(self, name: &str) -> Option<String> {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let right = match self {
            Capability::Env => is_variable(name),
            Capability::Process => {
                !name.is_empty()
                    && name.len() <= 128
                    && name.chars().all(is_allowed)
                    && name != ".."
            }
            Capability::Tools => name == "*" || crate::ToolName::parse(name).is_ok(),
            _ => !name.is_empty() && name.len() <= 256,
        };
        let shown = crate::text::escape_line(name, 40);
        (!right).then(|| match self {
            Capability::Env => {
                format!("`{shown}` is not a variable name; wildcards are not supported")
            }
            Capability::Process => {
                format!("`{shown}` is not a program name such as `git`; paths are not supported")
            }
            Capability::Tools => format!("`{shown}` is not a tool name or `*`"),
            _ => format!("`{shown}` is not a name"),
        })
    }

    /// Returns the plural noun for `names`, or `None` if the capability has none.
    fn names_noun(self) -> Option<&'static str> {
        match self {
            Capability::Env => Some("variables"),
            Capability::Net => Some("hosts"),
            Capability::Process => Some("programs"),
            Capability::Tools => Some("tools"),
            Capability::FsRead
            | Capability::FsWrite
            | Capability::Session
            | Capability::User
            | Capability::Agents
            | Capability::Resources
            | Capability::Memory
            | Capability::Skills => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ManifestError {
    pub file: String,
    pub line: Option<usize>,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawManifest {
    name: toml::Spanned<String>,
    version: toml::Spanned<String>,
    description: String,
    license: Option<String>,
    homepage: Option<String>,
    #[serde(default)]
    needs: Vec<RawNeed>,
    #[serde(default)]
    limits: LimitsTable,
    #[serde(default)]
    functions: Vec<toml::Spanned<FunctionEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNeed {
    capability: toml::Spanned<Capability>,
    #[serde(default)]
    names: Vec<String>,
    why: String,
}

/// Limits in a manifest or configuration file. Absent limits keep their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsTable {
    #[serde(default, deserialize_with = "size")]
    pub memory: Option<u64>,
    #[serde(default, deserialize_with = "size")]
    pub output: Option<u64>,
    #[serde(default, deserialize_with = "size")]
    pub stdout: Option<u64>,
    #[serde(default, deserialize_with = "duration")]
    pub timeout: Option<Duration>,
}

impl LimitsTable {
    /// Overrides `limits`, up to the maximum that the host allows.
    pub fn apply(&self, limits: &mut Limits) {
        if let Some(memory) = self.memory {
            limits.memory = memory.min(Limits::MAX_MEMORY);
        }
        if let Some(output) = self.output {
            limits.output = output.min(64 << 20);
        }
        if let Some(stdout) = self.stdout {
            limits.stdout = stdout.min(64 << 20);
        }
        if let Some(timeout) = self.timeout {
            limits.timeout = Some(timeout.min(Limits::MAX_TIMEOUT));
        }
    }
}

fn size<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parse_size(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

fn duration<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    parse_positive_duration(&String::deserialize(deserializer)?)
        .map(Some)
        .map_err(serde::de::Error::custom)
}

impl Manifest {
    /// Parses a manifest. `file` is the name to use in error messages.
    pub fn parse(file: &str, text: &str) -> Result<Self, ManifestError> {
        let at = |span: Option<std::ops::Range<usize>>, message: String| ManifestError {
            file: file.to_owned(),
            line: span.map(|span| line_of(text, span.start)),
            message,
        };
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(at(
                None,
                format!(
                    "the manifest is {} bytes; the limit is {MAX_MANIFEST_BYTES}",
                    text.len()
                ),
            ));
        }
        let raw: RawManifest = toml::from_str(text).map_err(|error| {
            at(
                error.span(),
                serde_errors::describe_serde_error(error.message()),
            )
        })?;
        let name = PluginName::parse(raw.name.get_ref())
            .map_err(|error| at(Some(raw.name.span()), error.to_string()))?;
        if !is_semver(raw.version.get_ref()) {
            let shown = crate::text::escape_line(raw.version.get_ref(), 40);
            return Err(at(
                Some(raw.version.span()),
                format!("`{shown}` is not a version such as `1.2.3`"),
            ));
        }
        let mut needs = Vec::with_capacity(raw.needs.len());
        for need in raw.needs {
            let span = need.capability.span();
            let capability = *need.capability.get_ref();
            if need.why.trim().is_empty() {
                return Err(at(
                    Some(span),
                    format!(
                        "need `{}` has no `why`; state the reason for the user",
                        capability.as_str()
                    ),
                ));
            }
            let label = capability.as_str();
            let wrong = match capability.names_noun() {
                Some(noun) if need.names.is_empty() => {
                    Some(format!("need `{label}` has no `names`; list the {noun}"))
                }
                None if !need.names.is_empty() => Some(format!(
                    "`names` is only valid for the needs `env`, `net`, `process` and `tools`, not for `{label}`"
                )),
                Some(_) | None => need
                    .names
                    .iter()
                    .find_map(|name| capability.name_error(name)),
            };
            if let Some(message) = wrong {
                return Err(at(Some(span), message));
            }
            needs.push(CapabilityRequest {
                capability,
                names: need.names,
                why: need.why,
            });
        }
        let functions =
            functions(raw.functions, &needs).map_err(|(span, message)| at(Some(span), message))?;
        Ok(Self {
            name,
            version: raw.version.into_inner(),
            description: raw.description,
            license: raw.license,
            homepage: raw.homepage,
            needs,
            limits: raw.limits,
            functions,
        })
    }

    /// Returns the manifest of a component without one: a name, and no needs.
    pub fn without_needs(name: PluginName) -> Self {
        Self {
            name,
            version: "0.0.0".to_owned(),
            description: String::new(),
            license: None,
            homepage: None,
            needs: Vec::new(),
            limits: LimitsTable::default(),
            functions: Vec::new(),
        }
    }

    /// Returns whether the plugin requests a capability.
    pub fn needs(&self, capability: Capability) -> bool {
        self.needs.iter().any(|need| need.capability == capability)
    }

    /// Returns the environment variables that the plugin requests.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.names(Capability::Env)
    }

    /// Returns the names of a need: variables, hosts, programs or tools.
    pub fn names(&self, capability: Capability) -> impl Iterator<Item = &str> {
        self.needs
            .iter()
            .filter(move |need| need.capability == capability)
            .flat_map(|need| need.names.iter().map(String::as_str))
    }
}

/// Checks the entries of functions. Returns the position of an invalid one as an error.
fn functions(
    entries: Vec<toml::Spanned<FunctionEntry>>,
    needs: &[CapabilityRequest],
) -> Result<Vec<FunctionEntry>, (std::ops::Range<usize>, String)> {
    let mut functions: Vec<FunctionEntry> = Vec::with_capacity(entries.len());
    for entry in entries {
        let span = entry.span();
        let entry = entry.into_inner();
        let requested = |capability| needs.iter().any(|need| need.capability == capability);
        let missing = entry.requires.iter().find(|needed| !requested(**needed));
        if let Some(missing) = missing {
            let label = missing.as_str();
            let message = format!("`requires` lists `{label}`, which is not in `[[needs]]`");
            return Err((span, message));
        }
        let is_same = |other: &&FunctionEntry| {
            let named = entry.name.is_some() && entry.name == other.name;
            other.function == entry.function || named
        };
        if let Some(other) = functions.iter().find(is_same) {
            let shown = |text: &str| crate::text::escape_line(text, 80);
            let message = format!(
                "`{}` and `{}` are the same function or have the same name",
                shown(&other.function),
                shown(&entry.function)
            );
            return Err((span, message));
        }
        functions.push(entry);
    }
    Ok(functions)
}

/// Returns the 1-based line of a byte offset.
pub fn line_of(text: &str, offset: usize) -> usize {
    text.bytes()
        .take(offset)
        .filter(|byte| *byte == b'\n')
        .count()
        + 1
}

fn is_semver(version: &str) -> bool {
    version.len() <= 64 && semver::Version::parse(version).is_ok()
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    const HEAD: &str = "name = \"files\"\nversion = \"0.1.0\"\ndescription = \"Files\"\n";

    fn check_error(text: &str, expect: Expect) {
        expect.assert_eq(
            &Manifest::parse("plugin.toml", text)
                .unwrap_err()
                .to_string(),
        );
    }

    #[test]
    fn a_complete_manifest_is_parsed() {
        let text = format!(
            "{HEAD}license = \"MIT\"\n[[needs]]\ncapability = \"fs.read\"\nwhy = \"to read\"\n\
             [[needs]]\ncapability = \"env\"\nnames = [\"TZ\"]\nwhy = \"local time\"\n[limits]\nmemory = \"128MiB\"\ntimeout = \"90s\"\n"
        );
        let manifest = Manifest::parse("plugin.toml", &text).unwrap();
        assert!(manifest.needs(Capability::FsRead) && !manifest.needs(Capability::FsWrite));
        assert_eq!(manifest.variables().collect::<Vec<_>>(), ["TZ"]);
        let mut limits = Limits::default();
        manifest.limits.apply(&mut limits);
        assert_eq!(
            (limits.memory, limits.timeout),
            (128 << 20, Some(Duration::from_secs(90)))
        );
    }

    #[test]
    fn an_unknown_key_is_an_error_with_its_line_and_the_nearest_name() {
        check_error(
            &format!("{HEAD}licence = \"MIT\"\n"),
            expect!["plugin.toml:4: unknown key `licence`; did you mean `license`?"],
        );
        check_error(
            &format!("{HEAD}[[needs]]\ncapability = \"fs.raed\"\nwhy = \"x\"\n"),
            expect!["plugin.toml:5: unknown value `fs.raed`; did you mean `fs.read`?"],
        );
        check_error(
            &format!("{HEAD}[limits]\ncpu = \"1\"\n"),
            expect![
                "plugin.toml:5: unknown key `cpu`; expected one of: memory, output, stdout, timeout"
            ],
        );
    }

    #[test]
    fn x_01_manifest_errors_are_bounded_and_escaped() {
        let hostile = "\u{1b}[2J\u{202e}x".repeat(5_000);
        let quoted = hostile.replace('\u{1b}', "\\u001b");
        for text in [
            format!("{HEAD}\"{quoted}\" = 1\n"),
            format!("{HEAD}[[needs]]\ncapability = \"{quoted}\"\nwhy = \"x\"\n"),
            format!("{HEAD}[[needs]]\n\"{quoted}\" = 1\n"),
            format!("{HEAD}[limits]\nmemory = \"{quoted}\"\n"),
            format!("{HEAD}license = [\"{quoted}\"]\n"),
            format!("{HEAD}\"{quoted}\" = 1\n\"{quoted}\" = 1\n"),
            format!("{HEAD}{hostile} = 1\n"),
            format!("{HEAD}x = {}\n", "[".repeat(20_000)),
        ] {
            let error = Manifest::parse("plugin.toml", &text)
                .unwrap_err()
                .to_string();
            assert!(error.is_ascii() || error.contains('…'), "{error}");
            assert!(
                !error.contains(['\u{1b}', '\u{202e}']) && error.len() < 1_000,
                "{error}"
            );
        }
    }

    #[test]
    fn errors_contain_the_line() {
        check_error("", expect!["plugin.toml:1: missing key `name`"]);
        check_error(
            "name = \"../x\"\nversion = \"0.1.0\"\ndescription = \"\"\n",
            expect![
                "plugin.toml:1: plugin name `../x` is not valid: a lower-case letter followed by up to 63 lower-case letters, digits or hyphens"
            ],
        );
        check_error(
            "name = \"x\"\nversion = \"one\"\ndescription = \"\"\n",
            expect!["plugin.toml:2: `one` is not a version such as `1.2.3`"],
        );
        check_error(
            &format!("{HEAD}[[needs]]\ncapability = \"env\"\nwhy = \"x\"\n"),
            expect!["plugin.toml:5: need `env` has no `names`; list the variables"],
        );
        check_error(
            &format!("{HEAD}[[needs]]\ncapability = \"env\"\nnames = [\"AWS_*\"]\nwhy = \"x\"\n"),
            expect!["plugin.toml:5: `AWS_*` is not a variable name; wildcards are not supported"],
        );
        check_error(
            &format!(
                "{HEAD}[[needs]]\ncapability = \"process\"\nnames = [\"/bin/sh\"]\nwhy = \"x\"\n"
            ),
            expect![
                "plugin.toml:5: `/bin/sh` is not a program name such as `git`; paths are not supported"
            ],
        );
        check_error(
            &format!("{HEAD}[[needs]]\ncapability = \"session\"\nnames = [\"x\"]\nwhy = \"x\"\n"),
            expect![
                "plugin.toml:5: `names` is only valid for the needs `env`, `net`, `process` and `tools`, not for `session`"
            ],
        );
        check_error(
            &format!("{HEAD}[limits]\nmemory = \"lots\"\n"),
            expect!["plugin.toml:5: `lots` is not a size such as `512KiB` or `64MiB`"],
        );
        check_error(
            &format!("{HEAD}[limits]\ntimeout = \"0s\"\n"),
            expect!["plugin.toml:5: `0s` is not a duration of at least `1ms`"],
        );
    }
}
