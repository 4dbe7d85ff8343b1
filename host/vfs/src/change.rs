//! What a call did to files, as data: the same list is shown to a person, committed, written into the journal and
//! undone.

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

/// One path before and after a call. In a list a directory comes before what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub at: Location,
    pub before: Image,
    pub after: Image,
    /// The thing itself was moved here from there, with all that is in it. `before` is then [`Image::Absent`], and
    /// changes inside of it are listed under the new place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_from: Option<Location>,
}

/// A path below a granted directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The granted directory on the host, without links.
    pub root: PathBuf,
    /// Components with `/` between them; no `.`, no `..`, never empty.
    pub path: String,
}

/// What a path is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Image {
    Absent,
    File(FileImage),
    Dir { mode: u32 },
    Link { target: LinkTarget },
}

/// Where a symbolic link leads: any bytes, as the file system has them. In JSON a text, or a list of bytes when it is
/// not UTF-8.
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

/// What is not UTF-8 is replaced, and characters that a terminal acts on are escaped.
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

/// A regular file: the same hash, size and mode are the same file to everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileImage {
    pub hash: ContentHash,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
}

/// How a file looked when the call first touched it. While all of it is the same, the content is taken to be.
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

/// BLAKE3 of a file's bytes; in hexadecimal where people or JSON see it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    pub fn of(bytes: &[u8]) -> Self {
        Self(blake3::hash(bytes).into())
    }

    /// Reads to the end from where the reader is.
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
