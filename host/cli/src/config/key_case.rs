//! Configuration keys in `snake_case` or `camelCase`: `maxResults` is `max_results`.
//!
//! A key in both spellings is an error, because one of the values would be ignored silently.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, Visitor};
use toolhost_contract::text;

/// Reads a struct whose fields are in snake_case from a table whose keys may be in camelCase.
pub fn any_case<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    struct Table<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Table<T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table")
        }

        // A YAML file or key that contains only comments.
        fn visit_unit<E: Error>(self) -> Result<T, E> {
            let nothing = std::iter::empty::<(String, String)>();
            T::deserialize(serde::de::value::MapDeserializer::new(nothing))
        }

        fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<T, M::Error> {
            let keys = SnakeCaseKeys {
                map,
                seen: BTreeMap::new(),
            };
            T::deserialize(MapAccessDeserializer::new(keys))
        }
    }
    deserializer.deserialize_map(Table(PhantomData))
}

/// Like [`any_case`], for an optional table.
pub fn optional<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    any_case(deserializer).map(Some)
}

/// Like [`any_case`], for a list of tables.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    Ok(Vec::<AnyCase<T>>::deserialize(deserializer)?
        .into_iter()
        .map(|item| item.0)
        .collect())
}

/// Deserializes `T` from keys in any spelling.
pub struct AnyCase<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for AnyCase<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        any_case(deserializer).map(AnyCase)
    }
}

/// Converts a key to `snake_case`.
pub fn to_snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len() + 4);
    for c in key.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// The error message for a table that contains both keys.
pub fn duplicate_message(first: &str, second: &str) -> String {
    let [first, second] = [first, second].map(|key| text::escape_line(key, 80));
    if first == second {
        format!("duplicate key `{first}`; keep one")
    } else {
        format!("`{first}` and `{second}` are the same setting; keep one")
    }
}

/// Converts each key to `snake_case`. Errors are raised while the key is read, because the parser knows the line only
/// then.
struct SnakeCaseKeys<M> {
    map: M,
    /// The keys as written, by their `snake_case` form.
    seen: BTreeMap<String, String>,
}

impl<'de, M: MapAccess<'de>> MapAccess<'de> for SnakeCaseKeys<M> {
    type Error = M::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, M::Error> {
        self.map.next_key_seed(SnakeCaseKey {
            seed,
            seen: &mut self.seen,
        })
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, M::Error> {
        self.map.next_value_seed(seed)
    }
}

struct SnakeCaseKey<'a, K> {
    seed: K,
    seen: &'a mut BTreeMap<String, String>,
}

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for SnakeCaseKey<'_, K> {
    type Value = K::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<K::Value, D::Error> {
        let written = String::deserialize(deserializer)?;
        let ours = to_snake_case(&written);
        if let Some(first) = self.seen.insert(ours.clone(), written.clone()) {
            return Err(D::Error::custom(duplicate_message(&first, &written)));
        }
        self.seed.deserialize(ours.into_deserializer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_converted_to_snake_case() {
        for (written, ours) in [
            ("timeout", "timeout"),
            ("toolTimeoutMs", "tool_timeout_ms"),
            ("tool_timeout_ms", "tool_timeout_ms"),
            ("httpUrl", "http_url"),
        ] {
            assert_eq!(to_snake_case(written), ours);
        }
    }
}
