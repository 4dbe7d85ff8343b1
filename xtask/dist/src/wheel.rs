//! The wheel: the program becomes a script, and the plugins are data files in `lib/toolhost` beside `bin`.
//!
//! Format: <https://packaging.python.org/en/latest/specifications/binary-distribution-format/>

use std::fmt::Write as _;
use std::io::{Cursor, Write as _};

use anyhow::Result;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::parts::Parts;
use crate::tree::Tree;
use crate::{LICENSE, Package, SUMMARY, VERSION};

/// `uvx toolhost` starts the command with the name of the package. A wheel cannot contain links.
const COMMAND_OF_PACKAGE: &str = "#!/bin/sh
exec \"$(dirname -- \"$(readlink -f -- \"$0\")\")/host\" \"$@\"
";

pub fn build(parts: &Parts) -> Result<Package> {
    let tag = platform_tag(parts.program.glibc, parts.program.machine.rust);
    let name = format!("toolhost-{VERSION}-{tag}.whl");
    let info = format!("toolhost-{VERSION}.dist-info");
    let data = format!("toolhost-{VERSION}.data");
    let mut tree = Tree::default();
    let program = parts.program.content.clone();
    tree.program(format!("{data}/scripts/host"), program);
    tree.program(
        format!("{data}/scripts/toolhost"),
        COMMAND_OF_PACKAGE.as_bytes(),
    );
    parts.add_plugins(&mut tree, &format!("{data}/data/lib/toolhost/plugins"));
    for (page, content) in &parts.own.man_pages {
        tree.file(
            format!("{data}/data/share/man/man1/{page}"),
            content.clone(),
        );
    }
    tree.file(format!("{info}/licenses/LICENSE"), parts.license.clone());
    tree.file(format!("{info}/METADATA"), metadata().into_bytes());
    tree.file(format!("{info}/WHEEL"), description(&tag).into_bytes());
    let record = format!("{info}/RECORD");
    let listed = list_files(&tree, &record).into_bytes();
    tree.file(record, listed);
    let bytes = zip(&tree, parts.compression.level())?;
    Ok(Package { name, bytes })
}

/// No Python code, so any version of Python 3 and any of its binary interfaces (PEP 425, PEP 600).
fn platform_tag((major, minor): (u32, u32), machine: &str) -> String {
    format!("py3-none-manylinux_{major}_{minor}_{machine}")
}

fn metadata() -> String {
    format!(
        "Metadata-Version: 2.4
Name: toolhost
Version: {VERSION}
Summary: {SUMMARY}
License-Expression: {LICENSE}
License-File: LICENSE
"
    )
}

fn description(tag: &str) -> String {
    format!(
        "Wheel-Version: 1.0
Generator: toolhost-dist ({VERSION})
Root-Is-Purelib: false
Tag: {tag}
"
    )
}

/// The list of all files with their digests. It has no digest of itself.
fn list_files(tree: &Tree, record: &str) -> String {
    let mut listed = String::new();
    for (path, _, content) in tree.files() {
        let digest = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        let _ = writeln!(listed, "{path},sha256={digest},{}", content.len());
    }
    listed + record + ",,\n"
}

fn zip(tree: &Tree, level: u32) -> Result<Vec<u8>> {
    let time = DateTime::from_date_and_time(1985, 10, 26, 8, 15, 0)?;
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, mode, content) in tree.files() {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level.into()))
            .last_modified_time(time)
            .unix_permissions(mode);
        archive.start_file(path, options)?;
        archive.write_all(content)?;
    }
    Ok(archive.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_lists_every_file() {
        let mut tree = Tree::default();
        tree.file("b", *b"x");
        tree.file("a", *b"");
        // `printf x | openssl sha256 -binary | basenc --base64url`
        assert_eq!(
            list_files(&tree, "RECORD"),
            "a,sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n\
             b,sha256=LXEWQrcmsEQBYnyp-6wy9chTD7GQPMTbAiWHF5IaSIE,1\n\
             RECORD,,\n"
        );
    }
}
