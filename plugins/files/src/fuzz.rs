//! Fuzz targets for contents of files.

use crate::notebook::Notebook;
use crate::text::{Encoding, decode};

#[test]
fn fuzz_text_encodings() {
    bolero::check!().for_each(|bytes: &[u8]| {
        for encoding in [
            Encoding::Auto,
            Encoding::Utf8,
            Encoding::Utf16le,
            Encoding::Utf16be,
            Encoding::Latin1,
        ] {
            let _ = decode(bytes.to_vec(), encoding, "file");
        }
    });
}

#[test]
fn fuzz_notebook() {
    bolero::check!().for_each(|bytes: &[u8]| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            let _ = Notebook::parse(text, "a.ipynb");
        }
    });
}
