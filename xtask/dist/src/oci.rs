//! The container image as an OCI image layout in a tar archive: the program, its plugins and its libraries, and nothing
//! else.
//!
//! Format: <https://github.com/opencontainers/image-spec>

use std::fs;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::parts::{Parts, SYSTEM_COMMAND};
use crate::tree::{Tree, gzip};
use crate::{LICENSE, Package, SUMMARY, VERSION, hex_digest};

/// The user in the container: no user of a usual system.
const USER: u64 = 65_532;
/// Its home directory, for configuration, records and compiled plugins.
const HOME: &str = "var/lib/toolhost";

pub fn build(parts: &Parts) -> Result<Package> {
    let machine = parts.program.machine.debian;
    let layer = files(parts)?.tar()?;
    let config = image_config(machine, &layer);
    let mut layout = Layout::default();
    let config = layout.add_json("application/vnd.oci.image.config.v1+json", &config);
    let layer = layout.add(
        "application/vnd.oci.image.layer.v1.tar+gzip",
        gzip(&layer, parts.compression)?,
    );
    let manifest_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": manifest_type,
        "config": config,
        "layers": [layer],
        "annotations": {
            "org.opencontainers.image.title": "toolhost",
            "org.opencontainers.image.description": SUMMARY,
            "org.opencontainers.image.version": VERSION,
            "org.opencontainers.image.licenses": LICENSE,
        },
    });
    let mut manifest = layout.add_json(manifest_type, &manifest);
    manifest["platform"] = json!({"architecture": machine, "os": "linux"});
    manifest["annotations"] =
        json!({"org.opencontainers.image.ref.name": format!("toolhost:{VERSION}")});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let mut tree = layout.0;
    tree.file("index.json", index.to_string().into_bytes());
    tree.file(
        "oci-layout",
        json!({"imageLayoutVersion": "1.0.0"})
            .to_string()
            .into_bytes(),
    );
    Ok(Package {
        name: format!("toolhost-oci-{VERSION}-linux-{machine}.tar"),
        bytes: tree.tar()?,
    })
}

/// The files of the layout: blobs by their digests.
#[derive(Default)]
struct Layout(Tree);

impl Layout {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest = hex_digest(&bytes);
        let descriptor = json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": bytes.len(),
        });
        self.0.file(format!("blobs/sha256/{digest}"), bytes);
        descriptor
    }

    fn add_json(&mut self, media_type: &str, value: &Value) -> Value {
        self.add(media_type, value.to_string().into_bytes())
    }
}

fn image_config(machine: &str, layer: &[u8]) -> Value {
    json!({
        "architecture": machine,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "Env": ["PATH=/usr/bin:/bin", format!("HOME=/{HOME}")],
            "Entrypoint": [format!("/usr/bin/{SYSTEM_COMMAND}")],
            "Cmd": ["run"],
            "WorkingDir": "/workspace",
        },
        "rootfs": {
            "type": "layers",
            "diff_ids": [format!("sha256:{}", hex_digest(layer))],
        },
    })
}

/// The root directory of the container.
fn files(parts: &Parts) -> Result<Tree> {
    let mut tree = Tree::default();
    parts.add_program(&mut tree, "usr/lib/toolhost");
    tree.link(format!("usr/bin/{SYSTEM_COMMAND}"), "../lib/toolhost/host");
    for path in libraries(parts)? {
        // A link is followed, so that the file has the name that the loader looks for.
        let content = fs::read(&path).with_context(|| format!("read {path}"))?;
        tree.program(path.trim_start_matches('/'), content);
    }
    for package in ["libc6", "libgcc-s1"] {
        let path = format!("usr/share/doc/{package}/copyright");
        if let Ok(text) = fs::read(format!("/{path}")) {
            tree.file(path, text);
        }
    }
    let account = format!("toolhost:x:{USER}:{USER}:toolhost:/{HOME}:/sbin/nologin\n");
    tree.file("etc/passwd", account.into_bytes());
    tree.file("usr/share/doc/toolhost/copyright", parts.license.clone());
    tree.directory(HOME, 0o700, USER);
    tree.directory("workspace", 0o755, USER);
    tree.directory("tmp", 0o1777, 0);
    Ok(tree)
}

/// The paths of the libraries and the loader that the program uses on this machine.
fn libraries(parts: &Parts) -> Result<Vec<String>> {
    let program = tempfile::NamedTempFile::new().context("make a temporary file")?;
    fs::write(program.path(), &parts.program.content)?;
    let output = Command::new("ldd").arg(program.path()).output();
    let output = output.context("start `ldd`, which is part of glibc")?;
    let listed = String::from_utf8_lossy(&output.stdout).into_owned();
    let paths = library_paths(&listed);
    if !output.status.success() || paths.len() < 2 {
        bail!("`ldd` cannot find the libraries of the program: {listed}");
    }
    Ok(paths)
}

/// The paths in `libc.so.6 => /lib/libc.so.6 (0x1)` and `/lib64/ld-linux-x86-64.so.2 (0x2)`; the kernel's library has none.
fn library_paths(listed: &str) -> Vec<String> {
    let path = |line: &str| {
        let mut words = line.split_whitespace();
        words.find(|word| word.starts_with('/')).map(str::to_owned)
    };
    listed.lines().filter_map(path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_libraries_are_read() {
        let listed = "\tlinux-vdso.so.1 (0x0007)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x0008)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x0009)\n";
        assert_eq!(
            library_paths(listed),
            [
                "/lib/x86_64-linux-gnu/libc.so.6",
                "/lib64/ld-linux-x86-64.so.2"
            ]
        );
    }

    #[test]
    fn descriptors_name_the_blobs() {
        let mut layout = Layout::default();
        let descriptor = layout.add("text/plain", b"x".to_vec());
        let digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(descriptor["digest"], format!("sha256:{digest}"));
        assert_eq!(descriptor["size"], 1);
        let mut files = layout.0.files();
        assert_eq!(files.next().unwrap().0, format!("blobs/sha256/{digest}"));
    }
}
