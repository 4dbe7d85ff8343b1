//! Settings shared with other systems: web search and MCP servers.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toolhost_contract::text;
use toolhost_mcp_client::ServerConfig;

use super::values::{self, Milliseconds};
use super::{Variable, key_case};

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SettingsTable {
    #[serde(deserialize_with = "key_case::any_case")]
    pub agent: AgentTable,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentTable {
    pub max_concurrent_tools: Option<std::num::NonZeroUsize>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSearch {
    pub provider: SearchProvider,
    pub api_key: Option<Secret>,
    pub max_results: Option<NonZeroU32>,
    /// URL of the service, if it differs from the provider's default.
    pub url: Option<String>,
    /// Google's ID of a custom search engine.
    pub engine: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SearchProvider {
    Tavily,
    Google,
    Bing,
    #[serde(rename = "duckduckgo")]
    DuckDuckGo,
    Brave,
    Searxng,
}

impl SearchProvider {
    /// The name of the provider and the default URL of its service.
    pub fn name_and_url(self) -> (&'static str, Option<&'static str>) {
        match self {
            SearchProvider::Tavily => ("tavily", Some("https://api.tavily.com")),
            SearchProvider::Google => ("google", Some("https://www.googleapis.com")),
            SearchProvider::Bing => ("bing", Some("https://api.bing.microsoft.com")),
            SearchProvider::DuckDuckGo => ("duckduckgo", Some("https://html.duckduckgo.com")),
            SearchProvider::Brave => ("brave", Some("https://api.search.brave.com")),
            SearchProvider::Searxng => ("searxng", None),
        }
    }
}

/// A value that is never printed. `${NAME}` in it is replaced by an environment variable.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

/// One MCP server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct McpServer {
    /// Required in a list. In a table the key is the name.
    pub name: Option<String>,
    pub enabled: Option<bool>,
    #[serde(alias = "type")]
    pub transport: Option<String>,
    pub url: Option<String>,
    pub http_url: Option<String>,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    #[serde(deserialize_with = "values::unique_map")]
    pub env: BTreeMap<Variable, Secret>,
    #[serde(deserialize_with = "values::unique_map")]
    pub headers: BTreeMap<String, Secret>,
    pub timeout: Option<Milliseconds>,
    pub trust: bool,
    /// Allows unencrypted connections.
    pub insecure: bool,
    pub description: Option<String>,
    pub include_tools: Vec<String>,
    pub exclude_tools: Vec<String>,
    #[serde(deserialize_with = "key_case::any_case")]
    pub oauth: OAuthTable,
    /// What a `command` may access.
    pub sandbox: Option<SandboxSetting>,
}

/// The sandbox of a server: `"none"`, or a table of what it may access.
#[derive(Debug, Clone, PartialEq)]
pub enum SandboxSetting {
    None,
    Table(SandboxTable),
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxTable {
    /// Files and directories: `PATH`, or `PATH:rw` to allow changes.
    pub paths: Vec<String>,
    /// Rules for hosts, as in `allowed_hosts`.
    pub hosts: Vec<String>,
    /// All hosts and ports.
    pub network: bool,
}

impl<'de> Deserialize<'de> for SandboxSetting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = SandboxSetting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`\"none\"`, or a table of `paths`, `hosts` and `network`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<SandboxSetting, E> {
                match text {
                    "none" => Ok(SandboxSetting::None),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<SandboxSetting, M::Error> {
                let table = SandboxTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(SandboxSetting::Table(table))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Registration data for an authorization server.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OAuthTable {
    pub client_id: Option<String>,
    pub client_secret: Option<Secret>,
    pub scopes: Vec<String>,
    pub hosts: Vec<String>,
    pub client_metadata_url: Option<String>,
}

/// Servers by name, from a table or from a list with names.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct McpServers(pub BTreeMap<String, McpServer>);

impl McpServers {
    fn add<E: Error>(&mut self, name: String, server: McpServer) -> Result<(), E> {
        let shown = text::escape_line(&name, 80);
        ServerConfig::check_name(&name).map_err(E::custom)?;
        if server.name.as_ref().is_some_and(|own| *own != name) {
            return Err(E::custom(format!(
                "server `{shown}` has a different `name` in its table; keep one"
            )));
        }
        let ways = [&server.url, &server.http_url, &server.command];
        if ways.into_iter().flatten().count() != 1 {
            return Err(E::custom(format!(
                "server `{shown}` needs exactly one of `url`, `httpUrl` and `command`"
            )));
        }
        if self.0.insert(name, server).is_some() {
            return Err(E::custom(format!("duplicate server `{shown}`; keep one")));
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for McpServers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = McpServers;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of servers { name, url }, or a table of them by name")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<McpServers, S::Error> {
                let mut servers = McpServers::default();
                while let Some(key_case::AnyCase(server)) =
                    seq.next_element::<key_case::AnyCase<McpServer>>()?
                {
                    let name = server
                        .name
                        .clone()
                        .ok_or_else(|| S::Error::missing_field("name"))?;
                    servers.add(name, server)?;
                }
                Ok(servers)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<McpServers, M::Error> {
                let table: BTreeMap<String, key_case::AnyCase<McpServer>> =
                    values::unique_map(MapAccessDeserializer::new(map))?;
                let mut servers = McpServers::default();
                for (name, key_case::AnyCase(server)) in table {
                    servers.add(name, server)?;
                }
                Ok(servers)
            }
        }
        deserializer.deserialize_any(Either)
    }
}
