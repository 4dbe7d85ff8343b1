//! Fuzz targets for parsing components before they are compiled.

use std::io::Cursor;
use std::path::Path;

use toolhost_contract::Manifest;
use toolhost_fuzz_input::check_message;

use crate::scan;

#[test]
fn fuzz_component_scan() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let path = Path::new("plugin.wasm");
        // The first eight bytes mark every input as a component.
        let component = [b"\0asm\x0d\0\x01\0", bytes].concat();
        for bytes in [bytes, &component] {
            match scan::outline(path, &mut Cursor::new(bytes)) {
                Ok(outline) => {
                    if let Some(text) = outline.manifest {
                        drop(Manifest::parse("plugin.toml", &text));
                    }
                }
                Err(error) => check_message(&error.to_string()),
            }
            if let Err(error) = scan::check(path, bytes) {
                check_message(&error.to_string());
            }
        }
    });
}
