//! Tool for building C plugins: generates the C bindings of the contract, and converts the linked core module to a
//! component.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, bail};
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_bindgen_core::Files;
use wit_bindgen_core::wit_parser::Resolve;
use wit_component::ComponentEncoder;

fn main() -> Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bindings", wit, world, out] => bindings(wit.as_ref(), world, out.as_ref()),
        ["component", module, out] => component(module.as_ref(), out.as_ref()),
        _ => bail!(
            "usage: toolhost-componentize bindings WIT WORLD OUT-DIR | component CORE.wasm OUT.wasm"
        ),
    }
}

/// Writes `plugin.h`, `plugin.c` and `plugin_component_type.o`, whatever the name of the world; the object embeds the
/// world in the linked module.
fn bindings(wit: &Path, world: &str, out: &Path) -> Result<()> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve
        .push_path(wit)
        .with_context(|| format!("read {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(world))?;
    let mut files = Files::default();
    let options = wit_bindgen_c::Opts {
        rename_world: Some("plugin".to_owned()),
        ..Default::default()
    };
    options
        .build()
        .generate(&mut resolve, world, &mut files)?;
    fs::create_dir_all(out).with_context(|| format!("create {}", out.display()))?;
    for (name, contents) in files.iter() {
        let path = out.join(name);
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
