//! The templates and SDKs that `build.rs` embeds.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

include!(concat!(env!("OUT_DIR"), "/index.rs"));

static COMPRESSED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/files.zlib"));

/// The embedded files, by name.
pub struct Bundle {
    contents: Vec<u8>,
}

impl Bundle {
    pub fn read() -> Self {
        let size = INDEX.iter().map(|(_, size)| size).sum();
        let contents = decompress_to_vec_zlib_with_limit(COMPRESSED, size);
        Self {
            contents: contents.expect("build.rs compressed it"),
        }
    }

    /// The files whose names start with `folder/`, with the rest of their names. A name that is `folder` is a file.
    pub fn files<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'static str, &'a [u8])> {
        let mut start = 0;
        INDEX.iter().filter_map(move |(name, size)| {
            let content = &self.contents[start..start + size];
            start += size;
            let rest = name.strip_prefix(folder)?;
            if rest.is_empty() {
                return Some((*name, content));
            }
            Some((rest.strip_prefix('/')?, content))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_files_are_small_and_complete() {
        let bundle = Bundle::read();
        let crates: Vec<&str> = bundle.files("rust").map(|(name, _)| name).collect();
        for name in [
            "toolhost-sdk/src/lib.rs",
            "toolhost-sdk/README.md",
            "toolhost-sdk-macros/Cargo.toml",
        ] {
            assert!(crates.contains(&name), "{name} in {crates:?}");
        }
        assert_eq!(bundle.files("wit").count(), 9);
        assert_eq!(bundle.files("complete.wit").count(), 1);
        assert!(COMPRESSED.len() < 128 << 10, "{} bytes", COMPRESSED.len());
    }
}
