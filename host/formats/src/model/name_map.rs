//! Mapping between tool names and the names that an API supports.

use std::collections::{BTreeSet, HashMap};

use super::Format;
use toolhost_contract::text;

/// Maximum length of a name in all of these APIs.
const MAX_NAME_LEN: usize = 64;
/// Length of the suffix: `_` and eight hexadecimal digits.
const SUFFIX_LEN: usize = 9;

/// The names of a tool list in one format. Unsupported names are changed, and all names are unique.
///
/// The name of a tool depends on its own name and on similar names, not on the order of the list.
#[derive(Debug, Clone, Default)]
pub struct NameMap {
    listed: HashMap<String, String>,
    tools: HashMap<String, String>,
}

impl NameMap {
    pub fn new<'a>(format: Format, names: impl IntoIterator<Item = &'a str>) -> Self {
        let all: BTreeSet<&str> = names.into_iter().collect();
        let (fitting, other): (Vec<&str>, Vec<&str>) =
            all.into_iter().partition(|name| is_supported(format, name));
        let mut made = Self::default();
        let mut taken: BTreeSet<String> = fitting.into_iter().map(str::to_owned).collect();
        let plain: Vec<String> = other.iter().map(|name| replace_unsupported(name)).collect();
        for (index, name) in other.iter().enumerate() {
            let alone = plain
                .iter()
                .enumerate()
                .all(|(other, name)| other == index || *name != plain[index]);
            let mut shown = plain[index].clone();
            let cut = shown.len() > MAX_NAME_LEN;
            if cut || !alone || taken.contains(&shown) {
                // Keep the prefix, which identifies the plugin; the hash suffix makes the name unique.
                let front = text::head(&shown, MAX_NAME_LEN - SUFFIX_LEN).to_owned();
                let mut salt = 0;
                loop {
                    shown = format!("{front}_{:08x}", hash(name, salt));
                    if !taken.contains(&shown) {
                        break;
                    }
                    salt += 1;
                }
            }
            taken.insert(shown.clone());
            made.tools.insert(shown.clone(), (*name).to_owned());
            made.listed.insert((*name).to_owned(), shown);
        }
        made
    }

    /// Returns the name that is listed for a tool.
    pub fn to_listed<'n>(&'n self, own: &'n str) -> &'n str {
        self.listed.get(own).map_or(own, String::as_str)
    }

    /// Returns the tool for a listed name.
    pub fn to_tool<'n>(&'n self, shown: &'n str) -> &'n str {
        self.tools.get(shown).map_or(shown, String::as_str)
    }
}

fn is_supported(format: Format, name: &str) -> bool {
    let dotted = format.api().supports_dotted_names();
    let first = |c: char| c.is_ascii_alphabetic() || c == '_';
    !name.is_empty()
        && name.len() <= MAX_NAME_LEN
        // Only Google requires this, but names that are valid everywhere are simpler.
        && (dotted || name.starts_with(first))
        && name.chars().all(|c| is_plain(c) || dotted && c == '.')
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Replaces unsupported characters; does not limit the length.
fn replace_unsupported(name: &str) -> String {
    let mut fitted: String = name
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    if !fitted.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
        fitted.insert(0, '_');
    }
    fitted
}

fn hash(name: &str, salt: u32) -> u32 {
    name.bytes().fold(0x811c_9dc5 ^ salt, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
