//! `[tools]`: a table for each tool, and the settings that other systems have in the same place.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};
use toolhost_contract::{ToolName, VersionReq, text};

use super::other_systems::{McpServers, WebSearch};
use super::values::{self, Milliseconds};
use super::{PathEntry, UseTools, key_case};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolsTable {
    pub by_name: BTreeMap<ToolName, ToolTable>,
    pub timeout: Option<Duration>,
    pub max_concurrent: Option<NonZeroUsize>,
    pub allowed_paths: Option<Vec<PathEntry>>,
    pub use_tools: Option<UseTools>,
    pub web_search: Option<WebSearch>,
    pub mcp_servers: Option<McpServers>,
    pub discovery_command: Option<String>,
    pub call_command: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolTable {
    #[serde(deserialize_with = "values::duration")]
    pub timeout: Option<Duration>,
    pub enabled: Option<bool>,
    /// The version that is selected by name.
    #[serde(deserialize_with = "values::text")]
    pub version: Option<VersionReq>,
}

/// A key of `[tools]`.
enum ToolsKey {
    Timeout,
    MaxConcurrent,
    AllowedPaths,
    UseTools,
    WebSearch,
    McpServers,
    DiscoveryCommand,
    CallCommand,
    Tool(ToolName),
}

impl ToolsKey {
    /// A table named `web_search` or `mcp_servers` configures a tool; as settings these two are only recognized in
    /// `camelCase`. The other settings are not tables, so a table with such a name is rejected.
    fn parse(name: &str) -> Result<Self, String> {
        Ok(match name {
            "timeout" | "timeoutMs" | "timeout_ms" => ToolsKey::Timeout,
            "maxConcurrent" | "max_concurrent" => ToolsKey::MaxConcurrent,
            "allowedPaths" | "allowed_paths" => ToolsKey::AllowedPaths,
            "useTools" | "use_tools" => ToolsKey::UseTools,
            "webSearch" => ToolsKey::WebSearch,
            "mcpServers" => ToolsKey::McpServers,
            "discoveryCommand" | "discovery_command" => ToolsKey::DiscoveryCommand,
            "callCommand" | "call_command" => ToolsKey::CallCommand,
            name => ToolsKey::Tool(ToolName::parse(name).map_err(|error| error.to_string())?),
        })
    }

    /// An id that all spellings of a key share.
    fn id(&self) -> u8 {
        match self {
            ToolsKey::Timeout => 0,
            ToolsKey::MaxConcurrent => 1,
            ToolsKey::AllowedPaths => 2,
            ToolsKey::UseTools => 3,
            ToolsKey::WebSearch => 4,
            ToolsKey::McpServers => 5,
            ToolsKey::DiscoveryCommand => 6,
            ToolsKey::CallCommand => 7,
            ToolsKey::Tool(_) => 8,
        }
    }
}

impl<'de> Deserialize<'de> for ToolsTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Tools;
        impl<'de> Visitor<'de> for Tools {
            type Value = ToolsTable;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<ToolsTable, M::Error> {
                let mut table = ToolsTable::default();
                let mut seen: Vec<(u8, String)> = Vec::new();
                while let Some((key, written)) = map.next_key_seed(KeySeed { seen: &seen })? {
                    match &key {
                        ToolsKey::Timeout => {
                            let time: Milliseconds = setting(&mut map, &written)?;
                            table.timeout = Some(time.0);
                        }
                        ToolsKey::MaxConcurrent => {
                            table.max_concurrent = Some(setting(&mut map, &written)?);
                        }
                        ToolsKey::AllowedPaths => {
                            table.allowed_paths = Some(setting(&mut map, &written)?);
                        }
                        // May be a table, whose members are booleans, unlike those of a tool.
                        ToolsKey::UseTools => table.use_tools = Some(map.next_value()?),
                        ToolsKey::WebSearch => {
                            let key_case::AnyCase(search) = map.next_value()?;
                            table.web_search = Some(search);
                        }
                        ToolsKey::McpServers => table.mcp_servers = Some(map.next_value()?),
                        ToolsKey::DiscoveryCommand => {
                            table.discovery_command = Some(setting(&mut map, &written)?);
                        }
                        ToolsKey::CallCommand => {
                            table.call_command = Some(setting(&mut map, &written)?);
                        }
                        ToolsKey::Tool(name) => {
                            table.by_name.insert(name.clone(), map.next_value()?);
                        }
                    }
                    seen.push((key.id(), written));
                }
                Ok(table)
            }
        }
        deserializer.deserialize_map(Tools)
    }
}

struct KeySeed<'a> {
    seen: &'a [(u8, String)],
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = (ToolsKey, String);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        let written = String::deserialize(deserializer)?;
        let key = ToolsKey::parse(&written).map_err(D::Error::custom)?;
        let tool = matches!(key, ToolsKey::Tool(_));
        let same = |(id, other): &&(u8, String)| *id == key.id() && (!tool || *other == written);
        if let Some((_, first)) = self.seen.iter().find(same) {
            return Err(D::Error::custom(key_case::duplicate_message(
                first, &written,
            )));
        }
        Ok((key, written))
    }
}

/// Reads a setting that is not a table. A table means that the user intended a tool of that name.
fn setting<'de, M: MapAccess<'de>, T: Deserialize<'de>>(
    map: &mut M,
    key: &str,
) -> Result<T, M::Error> {
    map.next_value_seed(NonTable {
        key,
        value: PhantomData,
    })
}

struct NonTable<'a, T> {
    key: &'a str,
    value: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for NonTable<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for NonTable<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a value for `{}`", self.key)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        T::deserialize(serde::de::value::BoolDeserializer::new(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<T, E> {
        T::deserialize(serde::de::value::I64Deserializer::new(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<T, E> {
        T::deserialize(serde::de::value::U64Deserializer::new(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<T, E> {
        T::deserialize(serde::de::value::F64Deserializer::new(value))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<T, E> {
        T::deserialize(serde::de::value::StrDeserializer::new(value))
    }

    fn visit_seq<S: serde::de::SeqAccess<'de>>(self, seq: S) -> Result<T, S::Error> {
        T::deserialize(serde::de::value::SeqAccessDeserializer::new(seq))
    }

    fn visit_map<M: MapAccess<'de>>(self, _: M) -> Result<T, M::Error> {
        let key = text::escape_line(self.key, 40);
        Err(M::Error::custom(format!(
            "`{key}` under `tools` is a setting, so a tool of that name cannot be configured here; use `use_tools` and \
             `[plugin.NAME]`"
        )))
    }
}
