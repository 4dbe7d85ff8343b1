//! The archive: a directory that can be unpacked anywhere.

use anyhow::Result;

use crate::parts::Parts;
use crate::tree::Tree;
use crate::{Package, VERSION};

pub fn build(parts: &Parts) -> Result<Package> {
    let name = format!(
        "toolhost-{VERSION}-{}-unknown-linux-gnu",
        parts.program.machine.rust
    );
    let mut tree = Tree::default();
    parts.add_program(&mut tree, &name);
    tree.file(format!("{name}/README.md"), parts.readme.clone());
    tree.file(format!("{name}/LICENSE"), parts.license.clone());
    for (page, content) in &parts.own.man_pages {
        tree.file(format!("{name}/man/man1/{page}"), content.clone());
    }
    let scripts = &parts.own.completions;
    for (file, script) in [
        ("host.bash", &scripts.bash),
        ("host.fish", &scripts.fish),
        ("_host", &scripts.zsh),
    ] {
        tree.file(format!("{name}/completions/{file}"), script.clone());
    }
    Ok(Package {
        name: format!("{name}.tar.gz"),
        bytes: tree.tar_gz(parts.compression)?,
    })
}
