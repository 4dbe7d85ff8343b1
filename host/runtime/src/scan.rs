//! Scans components before they are compiled: file type, manifest, and limits against compilation bombs.
//!
//! File size does not bound compile time: a million empty functions fit into 4 MB and need gigabytes. The limits
//! are based on measurements of such files; the compiling child also has hard limits.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use toolhost_contract::manifest::{MANIFEST_SECTION, TOOLS_SECTION};
use wasmparser::{Chunk, ElementItems, ElementKind, Operator, Parser, Payload};

use crate::LoadError;
use crate::functions::docs;

/// Maximum size of a component file, in bytes.
pub const MAX_SIZE: u64 = 32 << 20;

/// Maximum size of the section with the descriptions of the tools, in bytes.
pub const MAX_TOOLS_BYTES: usize = 1 << 20;
/// Bytes that are read at once when only the manifest is needed.
const CHUNK: u64 = 16 << 10;
const MAX_FUNCTIONS: u64 = 50_000;
const MAX_BODY: u64 = 2 << 20;
const MAX_TYPES: u64 = 50_000;
const MAX_IMPORTS: u64 = 10_000;
const MAX_EXPORTS: u64 = 50_000;
const MAX_DATA: u64 = 20_000;
const MAX_ELEMENTS: u64 = 1_000_000;
/// Active element segments beyond it are compiled to code, at about a millisecond per item.
const MAX_TABLE_INDEX: u64 = 1 << 20;
const MAX_NESTED: u64 = 64;

/// What the top-level sections of a component contain.
#[derive(Default)]
pub struct Outline {
    pub manifest: Option<String>,
    /// The descriptions of its tools, as `host pack` stored them.
    pub tools: Option<Vec<u8>>,
    pub imports: Vec<String>,
    pub exports: Vec<String>,
    /// The doc comments of its WIT.
    pub docs: Option<Vec<u8>>,
}

fn within(what: &str, known: usize, more: u32, limit: u64) -> Result<(), String> {
    let count = known as u64 + u64::from(more);
    if count > limit {
        return Err(format!("it has {count} {what}; the limit is {limit}"));
    }
    Ok(())
}

impl Outline {
    fn add(&mut self, payload: Payload<'_>) -> Result<(), String> {
        let twice = |name| format!("it has two `{name}` sections");
        match payload {
            Payload::CustomSection(section) if section.name() == MANIFEST_SECTION => {
                let text = std::str::from_utf8(section.data())
                    .map_err(|_| format!("its `{MANIFEST_SECTION}` section is not UTF-8"))?;
                if self.manifest.replace(text.to_owned()).is_some() {
                    let twice = twice(MANIFEST_SECTION);
                    return Err(format!(
                        "{twice}; a manifest beside it is only for a component without one"
                    ));
                }
                // They were described without this manifest, which can restrict them.
                if self.tools.is_some() {
                    return Err(format!(
                        "its `{TOOLS_SECTION}` section precedes its manifest; pack the component again"
                    ));
                }
            }
            Payload::CustomSection(section) if section.name() == TOOLS_SECTION => {
                if section.data().len() > MAX_TOOLS_BYTES {
                    return Err(format!(
                        "its `{TOOLS_SECTION}` section is larger than {MAX_TOOLS_BYTES} bytes"
                    ));
                }
                if self.tools.replace(section.data().to_owned()).is_some() {
                    return Err(twice(TOOLS_SECTION));
                }
            }
            // Only for descriptions: a section that is too large is the same as none.
            Payload::CustomSection(section)
                if section.name() == docs::SECTION && section.data().len() <= docs::MAX_SECTION =>
            {
                self.docs = Some(section.data().to_owned());
            }
            Payload::ComponentImportSection(section) => {
                within("imports", self.imports.len(), section.count(), MAX_IMPORTS)?;
                for import in section {
                    let import = import.map_err(|error| shown(&error))?;
                    self.imports.push(import.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) => {
                within("exports", self.exports.len(), section.count(), MAX_EXPORTS)?;
                for export in section {
                    let export = export.map_err(|error| shown(&error))?;
                    self.exports.push(export.name.name.to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Checks the file type and reads the top-level sections. Skips modules without reading them.
pub fn outline(path: &Path, component: &mut (impl Read + Seek)) -> Result<Outline, LoadError> {
    let failed = |error| LoadError::Read {
        path: path.to_owned(),
        error,
    };
    let invalid = |reason: String| LoadError::Invalid {
        path: path.to_owned(),
        reason,
    };
    let end = component.seek(SeekFrom::End(0)).map_err(failed)?;
    component.rewind().map_err(failed)?;
    let mut parser = Parser::new(0);
    // What was read and not yet parsed.
    let mut bytes = Vec::new();
    read_more(component, &mut bytes, CHUNK).map_err(failed)?;
    kind(path, &bytes)?;
    let mut found = Outline::default();
    let mut is_complete = false;
    loop {
        let (consumed, skipped) = match parser
            .parse(&bytes, is_complete)
            .map_err(|error| invalid(shown(&error)))?
        {
            Chunk::NeedMoreData(wanted) => {
                let wanted = wanted.clamp(CHUNK, MAX_SIZE);
                is_complete = read_more(component, &mut bytes, wanted).map_err(failed)? == 0;
                continue;
            }
            Chunk::Parsed { consumed, payload } => match payload {
                // Nested binaries are skipped: only the outermost sections count.
                Payload::ModuleSection {
                    unchecked_range: range,
                    ..
                }
                | Payload::ComponentSection {
                    unchecked_range: range,
                    ..
                } => (consumed, range.end - range.start),
                Payload::End(_) => return Ok(found),
                payload => {
                    found.add(payload).map_err(invalid)?;
                    (consumed, 0)
                }
            },
        };
        bytes.drain(..consumed);
        let in_memory = skipped.min(bytes.len());
        bytes.drain(..in_memory);
        if skipped > in_memory {
            let rest = (skipped - in_memory) as u64;
            let position = component.stream_position().map_err(failed)?;
            if end.saturating_sub(position) < rest {
                return Err(invalid("the file ends within a module".to_owned()));
            }
            let next = position + rest;
            component.seek(SeekFrom::Start(next)).map_err(failed)?;
        }
    }
}

/// Reads at most `count` bytes. Returns the number of bytes; 0 at the end.
fn read_more(source: &mut impl Read, bytes: &mut Vec<u8>, count: u64) -> io::Result<usize> {
    source.by_ref().take(count).read_to_end(bytes)
}

fn kind(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let not = |found: &str| {
        Err(LoadError::NotAComponent {
            path: path.to_owned(),
            found: found.to_owned(),
        })
    };
    match bytes {
        [] => not("it is empty"),
        [0, b'a', b's', b'm', 0x0d, 0, 1, 0, ..] => Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Err(LoadError::CoreModule {
            path: path.to_owned(),
        }),
        [0, b'a', b's', b'm', ..] => not("it has an unknown WebAssembly version, or is truncated"),
        [0x7f, b'E', b'L', b'F', ..] => {
            not("it is native code (ELF); precompiled plugins are not supported")
        }
        [b'P', b'K', ..] => not("it is a zip archive"),
        _ if bytes.starts_with(b"(module") || bytes.starts_with(b"(component") => {
            not("it is WebAssembly text; assemble it with `wasm-tools parse`")
        }
        _ => not("it does not start with the WebAssembly magic number"),
    }
}

/// Checks the limits of everything that costs compile time.
pub fn check(path: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let invalid = |reason: String| LoadError::Invalid {
        path: path.to_owned(),
        reason,
    };
    let broken = |error: wasmparser::BinaryReaderError| invalid(shown(&error));
    let (mut functions, mut types, mut imports, mut exports) = (0_u64, 0_u64, 0_u64, 0_u64);
    let (mut data, mut elements, mut nested) = (0_u64, 0_u64, 0_u64);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(broken)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => nested += 1,
            Payload::FunctionSection(section) => functions += u64::from(section.count()),
            Payload::TypeSection(section) => types += u64::from(section.count()),
            Payload::ComponentTypeSection(section) => types += u64::from(section.count()),
            Payload::CoreTypeSection(section) => types += u64::from(section.count()),
            Payload::ImportSection(section) => imports += u64::from(section.count()),
            Payload::ComponentImportSection(section) => imports += u64::from(section.count()),
            Payload::ExportSection(section) => exports += u64::from(section.count()),
            Payload::ComponentExportSection(section) => exports += u64::from(section.count()),
            Payload::DataSection(section) => data += u64::from(section.count()),
            Payload::ElementSection(section) => {
                for element in section {
                    let element = element.map_err(broken)?;
                    let count = match &element.items {
                        ElementItems::Functions(items) => u64::from(items.count()),
                        ElementItems::Expressions(_, items) => u64::from(items.count()),
                    };
                    elements += count;
                    if let ElementKind::Active { offset_expr, .. } = &element.kind {
                        let start =
                            match offset_expr.get_operators_reader().read().map_err(broken)? {
                                Operator::I32Const { value } => u64::from(value.cast_unsigned()),
                                Operator::I64Const { value } => value.cast_unsigned(),
                                _ => 0,
                            };
                        if start.saturating_add(count) > MAX_TABLE_INDEX {
                            return Err(invalid(format!(
                                "an element segment exceeds table index {MAX_TABLE_INDEX}"
                            )));
                        }
                    }
                }
            }
            Payload::CodeSectionEntry(body) => {
                let size = (body.range().end - body.range().start) as u64;
                if size > MAX_BODY {
                    return Err(invalid(format!(
                        "a function of {size} bytes; the limit is {MAX_BODY}"
                    )));
                }
            }
            _ => {}
        }
        for (count_name, count, limit) in [
            ("functions", functions, MAX_FUNCTIONS),
            ("types", types, MAX_TYPES),
            ("imports", imports, MAX_IMPORTS),
            ("exports", exports, MAX_EXPORTS),
            ("data segments", data, MAX_DATA),
            ("table elements", elements, MAX_ELEMENTS),
            ("nested modules and components", nested, MAX_NESTED),
        ] {
            if count > limit {
                return Err(invalid(format!(
                    "it has {count} {count_name}; the limit is {limit}"
                )));
            }
        }
    }
    Ok(())
}

fn shown(error: &wasmparser::BinaryReaderError) -> String {
    format!("{} (at byte {})", error.message(), error.offset())
}
