//! Embeds a manifest in a component as a trailing custom section.

use std::io::Cursor;
use std::path::Path;

use toolhost_contract::Manifest;
use toolhost_contract::manifest::MANIFEST_SECTION;

use crate::{LoadError, scan};

/// `file` is the manifest's path, for errors.
pub fn pack(
    path: &Path,
    component: &[u8],
    file: &str,
    manifest: &str,
) -> Result<Vec<u8>, LoadError> {
    Manifest::parse(file, manifest).map_err(|error| LoadError::Manifest {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    if scan::manifest(path, &mut Cursor::new(component))?.is_some() {
        return Err(LoadError::Manifest {
            path: path.to_owned(),
            reason: "it already contains a manifest; pack the original component from the compiler"
                .to_owned(),
        });
    }
    let mut body = Vec::new();
    leb128(&mut body, MANIFEST_SECTION.len());
    body.extend_from_slice(MANIFEST_SECTION.as_bytes());
    body.extend_from_slice(manifest.as_bytes());
    let mut packed = component.to_vec();
    packed.push(0);
    leb128(&mut packed, body.len());
    packed.extend_from_slice(&body);
    Ok(packed)
}

/// Unsigned LEB128, the encoding of all lengths in WebAssembly binaries.
fn leb128(out: &mut Vec<u8>, mut value: usize) {
    loop {
        let low = u8::try_from(value & 0x7f).unwrap_or_default();
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}
