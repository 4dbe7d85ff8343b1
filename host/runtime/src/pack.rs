//! Embeds a manifest, and the descriptions of its tools, in a component as trailing custom sections.

use std::io::Cursor;
use std::path::Path;

use toolhost_contract::Manifest;
use toolhost_contract::manifest::{MANIFEST_SECTION, TOOLS_SECTION};

use crate::{LoadError, scan};

/// `file` is the manifest's path, for errors. `tools` is the result of [`crate::Runtime::packed_tools`].
pub fn pack(
    path: &Path,
    component: &[u8],
    file: &str,
    manifest: &str,
    tools: Option<&[u8]>,
) -> Result<Vec<u8>, LoadError> {
    Manifest::parse(file, manifest).map_err(|error| LoadError::Manifest {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let outline = scan::outline(path, &mut Cursor::new(component))?;
    if outline.manifest.is_some() || outline.tools.is_some() {
        return Err(LoadError::Manifest {
            path: path.to_owned(),
            reason: "it already contains a manifest; pack the original component from the compiler"
                .to_owned(),
        });
    }
    let mut packed = component.to_vec();
    packed.extend(custom_section(MANIFEST_SECTION, manifest.as_bytes()));
    if let Some(tools) = tools {
        packed.extend(custom_section(TOOLS_SECTION, tools));
    }
    Ok(packed)
}

/// Returns the component without the sections that [`pack`] appends.
pub(crate) fn unpacked<'a>(path: &Path, component: &'a [u8]) -> Result<&'a [u8], LoadError> {
    let outline = scan::outline(path, &mut Cursor::new(component))?;
    let manifest = outline.manifest.as_ref().map(String::as_bytes);
    let mut unpacked = component;
    for (name, content) in [
        (TOOLS_SECTION, outline.tools.as_deref()),
        (MANIFEST_SECTION, manifest),
    ] {
        if let Some(content) = content {
            let section = custom_section(name, content);
            unpacked = unpacked.strip_suffix(&section[..]).unwrap_or(unpacked);
        }
    }
    Ok(unpacked)
}

pub(crate) fn custom_section(name: &str, content: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    leb128(&mut body, name.len());
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(content);
    let mut section = vec![0];
    leb128(&mut section, body.len());
    section.extend_from_slice(&body);
    section
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
