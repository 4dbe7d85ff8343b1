//! The program of the packages: for which machines it is, and which libraries and version of glibc it needs.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use object::elf::DT_NEEDED;
use object::read::elf::ElfFile64;
use object::{Architecture, Object as _};

use crate::tree::Content;

/// Libraries that every Linux with glibc has (PEP 600); a wheel must not need others.
const USUAL_LIBRARIES: [&str; 7] = [
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "ld-linux",
];

pub struct Program {
    pub content: Content,
    pub machine: Machine,
    /// The oldest version of glibc with which it starts, as in `2.34`.
    pub glibc: (u32, u32),
}

/// How the formats call the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine {
    pub rust: &'static str,
    pub debian: &'static str,
    pub node: &'static str,
}

impl Program {
    /// Reads a program and removes its symbols.
    pub fn read(path: &Path) -> Result<Self> {
        let stripped = tempfile::NamedTempFile::new().context("make a temporary file")?;
        let status = Command::new("strip")
            .arg("-o")
            .args([stripped.path(), path])
            .status();
        if !status.context("start `strip`: install binutils")?.success() {
            bail!("`strip` failed on {}", path.display());
        }
        let content = fs::read(stripped.path())?;
        Self::parse(content).with_context(|| path.display().to_string())
    }

    fn parse(content: Vec<u8>) -> Result<Self> {
        let elf: ElfFile64 = ElfFile64::parse(&content[..]).context("not a program for Linux")?;
        let machine = match elf.architecture() {
            Architecture::X86_64 => Machine {
                rust: "x86_64",
                debian: "amd64",
                node: "x64",
            },
            Architecture::Aarch64 => Machine {
                rust: "aarch64",
                debian: "arm64",
                node: "arm64",
            },
            other => bail!("no package names are known for processors of the kind {other:?}"),
        };
        let glibc = glibc_version(&elf)?;
        Ok(Self {
            machine,
            glibc,
            content: content.into(),
        })
    }
}

/// The highest version of glibc that it imports. All libraries have to be usual ones.
fn glibc_version(elf: &ElfFile64<'_>) -> Result<(u32, u32)> {
    let dynamic = elf.elf_dynamic_table()?;
    for entry in dynamic.iter().filter(|entry| entry.tag == DT_NEEDED) {
        let library = String::from_utf8_lossy(dynamic.string(entry)?);
        if !USUAL_LIBRARIES
            .iter()
            .any(|usual| library.starts_with(usual))
        {
            bail!("it needs the library {library}, which not every Linux has");
        }
    }
    let (endian, data) = (elf.endian(), elf.data());
    let imported = elf.elf_section_table().gnu_verneed(endian, data)?;
    let (libraries, _) = imported.context("it imports no versions of libraries")?;
    let mut highest = None;
    for library in libraries {
        let (_, versions) = library?;
        for version in versions {
            let name = version?.name(endian, *dynamic.strings())?;
            highest = highest.max(parse_glibc(&String::from_utf8_lossy(name)));
        }
    }
    highest.context("it imports nothing from glibc")
}

/// `GLIBC_2.34` and `GLIBC_2.2.5`; other libraries have other prefixes.
fn parse_glibc(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.strip_prefix("GLIBC_")?.split_once('.')?;
    let minor = rest.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        let parsed = [
            "GLIBC_2.34",
            "GLIBC_2.2.5",
            "GLIBC_2.9",
            "GCC_3.0",
            "GLIBC_PRIVATE",
        ]
        .map(parse_glibc);
        assert_eq!(
            parsed,
            [Some((2, 34)), Some((2, 2)), Some((2, 9)), None, None]
        );
        assert_eq!(parsed.into_iter().max(), Some(Some((2, 34))));
    }

    #[test]
    fn the_needs_of_a_program_are_read() {
        let program = Program::read(&std::env::current_exe().unwrap()).unwrap();
        assert_eq!(program.machine.rust, std::env::consts::ARCH);
        // Rust 1.64 and newer need 2.17.
        assert!(program.glibc >= (2, 17), "{:?}", program.glibc);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let error = Program::parse(b"#!/bin/sh\n".to_vec()).err().unwrap();
        assert_eq!(error.to_string(), "not a program for Linux");
    }
}
