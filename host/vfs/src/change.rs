//! File changes of a call as data: the same list is shown to the user, committed, journaled and undone.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{FileId, Stat};

/// One path before and after a call. In a list, a directory comes before its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: Location,
    pub before: PathState,
    pub after: PathState,
    /// The entry was moved from this path with all its contents. `before` is then [`Image::Absent`], and changes
    /// inside it are listed under the new path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<Location>,
}

/// A path below a granted directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The granted directory on the host, without symbolic links.
    pub root: PathBuf,
    /// Components separated by `/`; no `.` or `..`, never empty.
    pub path: String,
}

/// State of a path at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PathState {
    Absent,
    File(FileState),
    Dir { mode: u32 },
    Link { target: LinkTarget },
}

/// Mode bits that are set and compared. Set-user-id, set-group-id and sticky bits are excluded: the kernel clears
/// them on the first write, and new directories inherit them.
pub const PERMISSIONS: u32 = 0o777;

impl PathState {
    /// Whether both states are equal; of the modes, only [`PERMISSIONS`] are compared.
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::File(one), Self::File(other)) => {
                one.hash == other.hash
                    && one.size == other.size
                    && (one.mode ^ other.mode) & PERMISSIONS == 0
            }
            (Self::Dir { mode: one }, Self::Dir { mode: other }) => {
                (one ^ other) & PERMISSIONS == 0
            }
            (Self::Absent | Self::File(_) | Self::Dir { .. } | Self::Link { .. }, _) => {
                self == other
            }
        }
    }
}

/// Target of a symbolic link: arbitrary bytes. In JSON a string, or a list of bytes if it is not UTF-8.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkTarget(OsString);

impl LinkTarget {
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }
}

impl<T: Into<OsString>> From<T> for LinkTarget {
    fn from(target: T) -> Self {
        Self(target.into())
    }
}

/// Replaces invalid UTF-8 and escapes control characters.
impl fmt::Display for LinkTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.to_string_lossy().escape_debug())
    }
}

impl Serialize for LinkTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.to_str() {
            Some(text) => serializer.serialize_str(text),
            None => self.0.as_bytes().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for LinkTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Bytes(Vec<u8>),
        }
        Ok(match Either::deserialize(deserializer)? {
            Either::Text(text) => text.into(),
            Either::Bytes(bytes) => OsString::from_vec(bytes).into(),
        })
    }
}

/// A regular file. Two files with the same hash, size and mode count as equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileState {
    pub hash: ContentHash,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
}

/// Metadata of a file when the call first accessed it. While all of it matches, the content is assumed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseStat {
    pub id: FileId,
    pub size: u64,
    pub modified: Option<SystemTime>,
    pub changed: Option<SystemTime>,
}

impl From<&Stat> for BaseStat {
    fn from(stat: &Stat) -> Self {
        Self {
            id: stat.id,
            size: stat.size,
            modified: stat.modified,
            changed: stat.changed,
        }
    }
}

/// BLAKE3 hash of a file's content; hexadecimal in text and JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Reads to the end from the reader's current position.
    pub fn of_reader(reader: impl Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(reader)?;
        Ok(Self(hasher.finalize().into()))
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        blake3::Hash::from(self.0).to_hex().fmt(f)
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentHash {
    type Err = blake3::HexError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(blake3::Hash::from_hex(text)?.into()))
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
