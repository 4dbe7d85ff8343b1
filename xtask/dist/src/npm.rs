//! The npm package: npm links the commands to the program, which has its plugins beside it.

use anyhow::Result;
use serde_json::json;

use crate::parts::Parts;
use crate::tree::Tree;
use crate::{LICENSE, Package, SUMMARY, VERSION};

pub fn build(parts: &Parts) -> Result<Package> {
    let machine = parts.program.machine.node;
    let manifest = json!({
        "name": "toolhost",
        "version": VERSION,
        "description": SUMMARY,
        "license": LICENSE,
        "os": ["linux"],
        "cpu": [machine],
        "libc": ["glibc"],
        // `npx toolhost` starts the command with the name of the package.
        "bin": {"host": "host", "toolhost": "host"},
        "files": ["host", "plugins"],
    });
    let mut tree = Tree::default();
    parts.add_program(&mut tree, "package");
    let manifest = format!("{manifest:#}\n").into_bytes();
    tree.file("package/package.json", manifest);
    tree.file("package/README.md", parts.readme.clone());
    tree.file("package/LICENSE", parts.license.clone());
    Ok(Package {
        name: format!("toolhost-npm-{VERSION}-linux-{machine}.tgz"),
        bytes: tree.tar_gz(parts.compression)?,
    })
}
