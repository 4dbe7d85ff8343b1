//! Value types shared by the command line and the configuration file.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use toolhost_contract::units::{UnitError, parse_duration, parse_positive_duration, parse_size};
use toolhost_contract::{Access, ToolName, text};
use toolhost_formats::profile::Profile;

/// A directory or file to grant, as written: `src`, `data:rw`, or a table with further settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathEntry {
    pub path: String,
    pub access: Access,
    /// The guest path; `None` derives it from the position in the list.
    pub guest: Option<String>,
    /// The user confirms that this is a home directory or similarly broad.
    pub dangerous: bool,
    /// `.gitignore` patterns of files to hide in it.
    pub exclude: Vec<String>,
    /// Whether to hide files that usually contain secrets; `None` uses the global setting.
    pub default_excludes: Option<bool>,
}

impl FromStr for PathEntry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Only a trailing `:ro` or `:rw` is an access; any other colon belongs to the path.
        let (path, access) = match text.rsplit_once(':') {
            Some((path, access @ ("ro" | "rw"))) => (path, access.parse()?),
            _ => (text, Access::ReadOnly),
        };
        if path.is_empty() {
            return Err("the path is empty; use a directory such as `.` or `src:rw`".to_owned());
        }
        Ok(Self {
            path: path.to_owned(),
            access,
            guest: None,
            dangerous: false,
            exclude: Vec::new(),
            default_excludes: None,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathTable {
    path: String,
    access: Option<FromText<Access>>,
    guest: Option<GuestName>,
    #[serde(default)]
    dangerous: bool,
    #[serde(default)]
    exclude: Vec<String>,
    default_excludes: Option<bool>,
}

impl<'de> Deserialize<'de> for PathEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Implemented by hand, because serde's untagged enums lose the cause and position of an error.
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PathEntry;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a path such as \"src\" or \"data:rw\", or a table { path, access, guest, exclude }",
                )
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<PathEntry, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<PathEntry, M::Error> {
                let table = PathTable::deserialize(MapAccessDeserializer::new(map))?;
                Ok(PathEntry {
                    path: table.path,
                    access: table.access.map_or(Access::ReadOnly, |text| text.0),
                    guest: table.guest.map(|guest| guest.0),
                    dangerous: table.dangerous,
                    exclude: table.exclude,
                    default_excludes: table.default_excludes,
                })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

struct GuestName(String);

impl<'de> Deserialize<'de> for GuestName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains(['\0', '\\']);
        match name.strip_prefix('/') {
            Some(rest) if rest.split('/').all(plain) => Ok(Self(name)),
            _ => {
                let shown = text::escape_line(&name, 80);
                Err(D::Error::custom(format!(
                    "`{shown}` is not a valid guest path such as `/data`"
                )))
            }
        }
    }
}

/// Deserializes any type that implements [`FromStr`].
struct FromText<T>(T);

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for FromText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map(FromText)
            .map_err(D::Error::custom)
    }
}

/// The name of one environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variable(String);

impl Variable {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Variable {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let fits = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if fits {
            Ok(Self(name.to_owned()))
        } else {
            let shown = text::escape_line(name, 80);
            Err(format!(
                "`{shown}` is not a variable name; wildcards and values are not accepted"
            ))
        }
    }
}

impl<'de> Deserialize<'de> for Variable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        FromText::deserialize(deserializer).map(|text| text.0)
    }
}

/// The enabled tools: a list of them, or a table of `true` and `false` by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UseTools {
    Only(Vec<ToolName>),
    Switches(BTreeMap<ToolName, bool>),
}

impl<'de> Deserialize<'de> for UseTools {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = UseTools;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tool names, or a table of tool = true or false")
            }

            fn visit_seq<S: SeqAccess<'de>>(self, mut seq: S) -> Result<UseTools, S::Error> {
                let mut names = Vec::new();
                while let Some(name) = seq.next_element()? {
                    names.push(name);
                }
                Ok(UseTools::Only(names))
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<UseTools, M::Error> {
                unique_map(MapAccessDeserializer::new(map)).map(UseTools::Switches)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Deserializes a value from a string.
pub fn text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    FromText::deserialize(deserializer).map(|text| Some(text.0))
}

/// Deserializes a list of values from strings.
pub fn text_list<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error> {
    let items = Vec::<FromText<T>>::deserialize(deserializer)?;
    Ok(Some(items.into_iter().map(|item| item.0).collect()))
}

/// A duration as a number of milliseconds, as in other systems, or as a string with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Milliseconds(pub Duration);

impl<'de> Deserialize<'de> for Milliseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Milliseconds;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of milliseconds, or a duration such as \"30s\"")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Milliseconds, E> {
                match number {
                    0 => Err(E::custom("0 ms is too short for a call; use at least 1")),
                    number => Ok(Milliseconds(Duration::from_millis(number))),
                }
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Milliseconds, E> {
                let number = u64::try_from(number)
                    .map_err(|_| E::custom(format!("{number} ms is negative; use at least 1")))?;
                self.visit_u64(number)
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Milliseconds, E> {
                parse_positive_duration(text)
                    .map(Milliseconds)
                    .map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A limit, or `unlimited`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound<T>(pub Option<T>);

impl<'de> Deserialize<'de> for Bound<Duration> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bound(deserializer, parse_duration)
    }
}

impl<'de> Deserialize<'de> for Bound<u64> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bound(deserializer, parse_size)
    }
}

fn bound<'de, T, D: Deserializer<'de>>(
    deserializer: D,
    parse: impl FnOnce(&str) -> Result<T, UnitError>,
) -> Result<Bound<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match text.as_str() {
        "unlimited" => Ok(Bound(None)),
        text => {
            let limit = parse(text);
            let limit = limit.map_err(|error| D::Error::custom(format!("{error}, or `unlimited`")));
            limit.map(|limit| Bound(Some(limit)))
        }
    }
}

/// Deserializes a duration from a string with a unit. 0 is an error.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    struct Unit;
    impl Visitor<'_> for Unit {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as \"30s\"")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
            parse_positive_duration(text).map_err(E::custom)
        }
    }
    deserializer.deserialize_str(Unit).map(Some)
}

pub fn profile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Profile>, D::Error> {
    FromText::deserialize(deserializer).map(|text: FromText<Profile>| Some(text.0))
}

/// Deserializes a map and rejects duplicate keys. JSON parsers would use the last value, so a second `"enabled": true`
/// further down could override the first.
pub fn unique_map<'de, D, K, V>(deserializer: D) -> Result<BTreeMap<K, V>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord + fmt::Display,
    V: Deserialize<'de>,
{
    struct Unique<K, V>(PhantomData<(K, V)>);
    impl<'de, K, V> Visitor<'de> for Unique<K, V>
    where
        K: Deserialize<'de> + Ord + fmt::Display,
        V: Deserialize<'de>,
    {
        type Value = BTreeMap<K, V>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut entries = BTreeMap::new();
            while let Some(key) = map.next_key::<K>()? {
                if entries.contains_key(&key) {
                    return Err(M::Error::custom(format!("duplicate key `{key}`; keep one")));
                }
                entries.insert(key, map.next_value()?);
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Unique(PhantomData))
}
