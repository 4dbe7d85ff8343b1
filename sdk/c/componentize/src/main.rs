//! Tool for building plugins in C and in languages without a tool of their own: generates the bindings of the contract for
//! C and Go, and converts a linked core module to a component.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasm_encoder::{ConstExpr, DataSection, Module, RawSection};
use wasmparser::{DataKind, DataSectionReader, Operator, Parser, Payload};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::{Resolve, WorldId};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// Largest gap between data segments that are joined, in bytes.
const MAX_GAP: usize = 64;

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bindings", wit, world, out] => bindings(wit.as_ref(), world, out.as_ref()),
        ["go-bindings", wit, world, out] => go_bindings(wit.as_ref(), world, out.as_ref()),
        ["embed", wit, world, encoding, module] => {
            embed(wit.as_ref(), world, encoding, module.as_ref())
        }
        ["join-data", module] => join_data(module.as_ref()),
        ["component", module, out] => component(module.as_ref(), out.as_ref()),
        _ => bail!(
            "usage: toolhost-componentize bindings WIT WORLD OUT-DIR | go-bindings WIT WORLD OUT-DIR | \
             embed WIT WORLD utf8|utf16 CORE.wasm | join-data CORE.wasm | component CORE.wasm OUT.wasm"
        ),
    }
}

/// Writes `plugin.h`, `plugin.c` and `plugin_component_type.o`, whatever the name of the world; the object embeds the
/// world in the linked module.
fn bindings(wit: &Path, world: &str, out: &Path) -> Result<()> {
    let (mut resolve, world) = select(wit, world)?;
    let mut files = Files::default();
    let options = wit_bindgen_c::Opts {
        rename_world: Some("plugin".to_owned()),
        ..Default::default()
    };
    options.build().generate(&mut resolve, world, &mut files)?;
    write(&files, out)
}

/// Writes a Go module without the functions that it exports.
fn go_bindings(wit: &Path, world: &str, out: &Path) -> Result<()> {
    let (mut resolve, world) = select(wit, world)?;
    let mut files = Files::default();
    let options = wit_bindgen_go::Opts {
        format: wit_bindgen_go::Format::False,
        ..Default::default()
    };
    options.build().generate(&mut resolve, world, &mut files)?;
    write(&files, out)
}

/// Embeds a world in a core module whose compiler does not. The encoding is that of its strings.
fn embed(wit: &Path, world: &str, encoding: &str, module: &Path) -> Result<()> {
    let encoding = match encoding {
        "utf8" => StringEncoding::UTF8,
        "utf16" => StringEncoding::UTF16,
        other => bail!("unknown encoding `{other}`: use utf8 or utf16"),
    };
    let (resolve, world) = select(wit, world)?;
    let mut core = fs::read(module).with_context(|| format!("read {}", module.display()))?;
    embed_component_metadata(&mut core, &resolve, world, encoding, false)?;
    fs::write(module, core).with_context(|| format!("write {}", module.display()))
}

/// Joins data segments with small gaps. Go's linker writes tens of thousands, and the host limits their number.
fn join_data(module: &Path) -> Result<()> {
    let core = fs::read(module).with_context(|| format!("read {}", module.display()))?;
    let mut joined = Module::new();
    for payload in Parser::new(0).parse_all(&core) {
        match payload? {
            Payload::DataCountSection { .. } => {
                bail!("the module names its data segments by index")
            }
            Payload::DataSection(segments) => {
                joined.section(&join(segments)?);
            }
            payload => {
                if let Some((id, range)) = payload.as_section() {
                    let range = usize::try_from(range.start)?..usize::try_from(range.end)?;
                    let data = &core[range];
                    joined.section(&RawSection { id, data });
                }
            }
        }
    }
    fs::write(module, joined.finish()).with_context(|| format!("write {}", module.display()))
}

fn join(segments: DataSectionReader) -> Result<DataSection> {
    let mut section = DataSection::new();
    let mut last: Option<(usize, Vec<u8>)> = None;
    let mut write = |(start, bytes): (usize, Vec<u8>)| -> Result<()> {
        let start = i32::try_from(start)?;
        section.active(0, &ConstExpr::i32_const(start), bytes);
        Ok(())
    };
    for segment in segments {
        let segment = segment?;
        let DataKind::Active { offset_expr, .. } = segment.kind else {
            bail!("the module has a passive data segment");
        };
        let Operator::I32Const { value } = offset_expr.get_operators_reader().read()? else {
            bail!("the offset of a data segment is not a constant");
        };
        let start = usize::try_from(value)?;
        match &mut last {
            // Memory is zero at the start, so a gap is filled with zeros.
            Some((from, bytes))
                if (0..=MAX_GAP).contains(&start.wrapping_sub(*from + bytes.len())) =>
            {
                bytes.resize(start - *from, 0);
                bytes.extend_from_slice(segment.data);
            }
            _ => {
                let next = (start, segment.data.to_vec());
                if let Some(ended) = last.replace(next) {
                    write(ended)?;
                }
            }
        }
    }
    if let Some(ended) = last {
        write(ended)?;
    }
    Ok(section)
}

fn select(wit: &Path, world: &str) -> Result<(Resolve, WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(wit)
        .with_context(|| format!("read {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(world))?;
    Ok((resolve, world))
}

fn write(files: &Files, out: &Path) -> Result<()> {
    for (name, contents) in files.iter() {
        let path = out.join(name);
        let folder = path.parent().unwrap_or(out);
        fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
        fs::write(&path, contents).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// wasi-libc uses WASI preview 1, a component host preview 2; the adapter translates.
fn component(module: &Path, out: &Path) -> Result<()> {
    let module = fs::read(module).with_context(|| format!("read {}", module.display()))?;
    let component = ComponentEncoder::default()
        .module(&module)?
        .adapter(
            WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
        )?
        .validate(true)
        .encode()?;
    fs::write(out, component).with_context(|| format!("write {}", out.display()))
}
