//! Reads plugin files: their bytes, digest and manifest, within the limit of their size.
//!
//! The manifest of a component can be in a file beside it. The file then has the same bytes and digest for the host as if
//! `host pack` had embedded this manifest, so approvals, caches and records cover both.

use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sha2::{Digest as _, Sha256};
use toolhost_contract::manifest::{MANIFEST_SECTION, MAX_MANIFEST_BYTES};
use toolhost_contract::{Digest, Manifest, PluginName, side_manifest_path};

use crate::pack::custom_section;
use crate::scan::Outline;
use crate::{LoadError, scan};

/// The digest of a plugin file, which approvals and signatures refer to. Checks only that it is a component.
pub fn file_digest(path: &Path) -> Result<Digest, LoadError> {
    Ok(read_outline(path)?.digest)
}

/// Clocks of file systems are coarse: a file that was written a moment ago can be written again at the same time.
const SETTLED: Duration = Duration::from_secs(2);

/// Returns a hash of what identifies this version of a file: its device and inode, its size, and the times of its last
/// write and change, the latter of which the kernel sets. `None` if the file was just written or its manifest is in another file.
pub fn file_version(path: &Path) -> Option<Digest> {
    open(path).ok()?.version()
}

/// Reads the manifest of a component without compiling or running it.
pub fn read_manifest(path: &Path) -> Result<Manifest, LoadError> {
    let mut file = open(path)?;
    let outline = scan::outline(path, &mut file)?;
    file.check_manifest(path, &outline)?;
    manifest(path, outline.manifest.as_deref())
}

pub fn manifest(path: &Path, text: Option<&str>) -> Result<Manifest, LoadError> {
    let Some(text) = text else {
        return Ok(Manifest::without_needs(name_from_file(path)));
    };
    Manifest::parse("plugin.toml", text).map_err(|mut error| {
        let beside = side_manifest_path(path);
        if let Some(file) = beside.file_name().filter(|_| beside.is_file()) {
            error.file = file.to_string_lossy().into_owned();
        }
        LoadError::Manifest {
            path: path.to_owned(),
            reason: error.to_string(),
        }
    })
}

/// Reads the file once. It is hashed, scanned and compiled from this buffer, so that later changes do not matter.
pub fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    open(path)?.read_all(path)
}

/// Like [`read`], with the top-level sections.
pub fn read_with_outline(path: &Path) -> Result<(Vec<u8>, Outline), LoadError> {
    let mut file = open(path)?;
    let bytes = file.read_all(path)?;
    let outline = scan::outline(path, &mut Cursor::new(&bytes))?;
    file.check_manifest(path, &outline)?;
    Ok((bytes, outline))
}

/// A plugin file whose top-level sections were read.
pub struct OutlinedFile {
    pub outline: Outline,
    pub digest: Digest,
    /// In bytes.
    pub size: u64,
    /// The result of [`file_version`], if it stayed the same while the file was read.
    pub version: Option<Digest>,
}

/// Reads the top-level sections, and hashes the file in the same pass without keeping it in memory. So the digest is that
/// of these sections.
pub fn read_outline(path: &Path) -> Result<OutlinedFile, LoadError> {
    let mut file = HashedFile {
        file: open(path)?,
        hasher: Sha256::new(),
        position: 0,
    };
    let version = file.file.version();
    let outline = scan::outline(path, &mut file)?;
    file.file.check_manifest(path, &outline)?;
    file.read_to(scan::MAX_SIZE)
        .map_err(|error| read_error(path, error))?;
    let version = version.filter(|version| file.file.version() == Some(*version));
    Ok(OutlinedFile {
        outline,
        digest: Digest(file.hasher.finalize().into()),
        size: file.position,
        version,
    })
}

/// A component file, followed by the manifest beside it as a section.
struct PluginFile {
    component: std::fs::File,
    /// Size of the component in bytes.
    size: u64,
    /// The text of the file beside it.
    manifest: Option<String>,
    /// The section with this text.
    section: Cursor<Vec<u8>>,
}

impl PluginFile {
    fn version(&self) -> Option<Digest> {
        if self.manifest.is_some() {
            return None;
        }
        let metadata = self.component.metadata().ok()?;
        let changed = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
        let settled = UNIX_EPOCH.checked_add(changed)?.checked_add(SETTLED)?;
        // Images of file systems have times in seconds, and two of them can have the same.
        if SystemTime::now() < settled || metadata.ctime_nsec() == 0 {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for number in [metadata.dev(), metadata.ino(), metadata.size()] {
            hasher.update(&number.to_le_bytes());
        }
        for time in [
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ] {
            hasher.update(&time.to_le_bytes());
        }
        Some(Digest(*hasher.finalize().as_bytes()))
    }

    fn size(&self) -> u64 {
        self.size + self.section.get_ref().len() as u64
    }

    fn read_all(&mut self, path: &Path) -> Result<Vec<u8>, LoadError> {
        let mut bytes = Vec::new();
        self.take(scan::MAX_SIZE + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| read_error(path, error))?;
        let size = bytes.len() as u64;
        if size > scan::MAX_SIZE {
            return Err(too_big(path, size));
        }
        Ok(bytes)
    }

    /// Checks that the manifest beside the component is the one that was found. A component whose last section extends
    /// beyond its end could hide it.
    fn check_manifest(&self, path: &Path, outline: &Outline) -> Result<(), LoadError> {
        if self.manifest.is_some() && self.manifest != outline.manifest {
            return Err(LoadError::Invalid {
                path: path.to_owned(),
                reason: "its last section is longer than the file".to_owned(),
            });
        }
        Ok(())
    }
}

impl Read for PluginFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.component.read(buffer)? {
            0 => self.section.read(buffer),
            count => Ok(count),
        }
    }
}

impl Seek for PluginFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => position,
            SeekFrom::End(0) => self.size(),
            SeekFrom::Current(0) => {
                return Ok(self.component.stream_position()? + self.section.position());
            }
            _ => return Err(ErrorKind::Unsupported.into()),
        };
        let in_component = position.min(self.size);
        self.component.seek(SeekFrom::Start(in_component))?;
        self.section.set_position(position - in_component);
        Ok(position)
    }
}

/// A file that is read once from its start to its end.
struct HashedFile {
    file: PluginFile,
    hasher: Sha256,
    position: u64,
}

impl HashedFile {
    /// Reads up to this position, or to the end of the file.
    fn read_to(&mut self, end: u64) -> io::Result<()> {
        let mut buffer = vec![0; 256 << 10];
        while self.position < end {
            let rest = usize::try_from(end - self.position).unwrap_or(usize::MAX);
            let rest = rest.min(buffer.len());
            match self.read(&mut buffer[..rest]) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Read for HashedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for HashedFile {
    /// Moves forward only. The end is returned without moving.
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::End(0) => return Ok(self.file.size()),
            SeekFrom::Start(to) if to >= self.position => self.read_to(to)?,
            SeekFrom::Current(0) => {}
            _ => return Err(ErrorKind::Unsupported.into()),
        }
        Ok(self.position)
    }
}

fn open(path: &Path) -> Result<PluginFile, LoadError> {
    let failed = |error| read_error(path, error);
    let component = toolhost_hostfiles::open_regular(path).map_err(failed)?;
    let size = component.metadata().map_err(failed)?.len();
    if size > scan::MAX_SIZE {
        return Err(too_big(path, size));
    }
    let manifest = side_manifest(path)?;
    let section = manifest.as_ref().map_or(Vec::new(), |manifest| {
        custom_section(MANIFEST_SECTION, manifest.as_bytes())
    });
    Ok(PluginFile {
        component,
        size,
        manifest,
        section: Cursor::new(section),
    })
}

fn side_manifest(path: &Path) -> Result<Option<String>, LoadError> {
    let path = side_manifest_path(path);
    let file = match toolhost_hostfiles::open_regular_no_follow(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(read_error(&path, error)),
    };
    let mut text = Vec::new();
    file.take(MAX_MANIFEST_BYTES as u64 + 1)
        .read_to_end(&mut text)
        .map_err(|error| read_error(&path, error))?;
    if text.len() > MAX_MANIFEST_BYTES {
        return Err(LoadError::Manifest {
            path,
            reason: format!("it is larger than {MAX_MANIFEST_BYTES} bytes"),
        });
    }
    match String::from_utf8(text) {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(LoadError::Manifest {
            path,
            reason: "it is not UTF-8".to_owned(),
        }),
    }
}

fn read_error(path: &Path, error: std::io::Error) -> LoadError {
    LoadError::Read {
        path: path.to_owned(),
        error,
    }
}

fn too_big(path: &Path, size: u64) -> LoadError {
    LoadError::TooBig {
        path: path.to_owned(),
        size,
        limit: scan::MAX_SIZE,
    }
}

/// Plugin name for a component without a manifest, derived from its file name.
fn name_from_file(path: &Path) -> PluginName {
    let stem = path
        .file_stem()
        .map(|stem| stem.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let mut name: String = stem
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    if !name.starts_with(|c: char| c.is_ascii_lowercase()) {
        name.insert_str(0, "plugin-");
    }
    name.truncate(64);
    // Cannot fail: the steps above produce a valid name.
    PluginName::parse(&name)
        .unwrap_or_else(|_| PluginName::parse("plugin").expect("`plugin` is a valid name"))
}
