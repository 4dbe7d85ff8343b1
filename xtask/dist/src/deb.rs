//! The Debian package: everything in `/usr/lib/toolhost`, and the command `toolhost`, because `bind9-host` has
//! `/usr/bin/host`.
//!
//! Format: deb(5).

use anyhow::Result;

use crate::parts::{Parts, SYSTEM_COMMAND};
use crate::tree::{Tree, gzip};
use crate::{Package, SUMMARY, VERSION};

pub fn build(parts: &Parts) -> Result<Package> {
    let machine = parts.program.machine.debian;
    let data = data(parts)?;
    let mut control = Tree::default();
    control.file("control", control_file(parts, &data).into_bytes());
    let mut package = ar::Builder::new(Vec::new());
    for (name, content) in [
        ("debian-binary", b"2.0\n".to_vec()),
        ("control.tar.gz", control.tar_gz(parts.compression)?),
        ("data.tar.gz", data.tar_gz(parts.compression)?),
    ] {
        let mut header = ar::Header::new(name.into(), content.len() as u64);
        header.set_mode(0o100_644);
        package.append(&header, &content[..])?;
    }
    Ok(Package {
        name: format!("toolhost_{VERSION}_{machine}.deb"),
        bytes: package.into_inner()?,
    })
}

fn data(parts: &Parts) -> Result<Tree> {
    let mut tree = Tree::default();
    parts.add_program(&mut tree, "usr/lib/toolhost");
    tree.link(format!("usr/bin/{SYSTEM_COMMAND}"), "../lib/toolhost/host");
    for (page, content) in &parts.system.man_pages {
        let compressed = gzip(content, parts.compression)?;
        tree.file(format!("usr/share/man/man1/{page}.gz"), compressed);
    }
    let scripts = &parts.system.completions;
    for (file, script) in [
        ("bash-completion/completions/toolhost", &scripts.bash),
        ("fish/vendor_completions.d/toolhost.fish", &scripts.fish),
        ("zsh/vendor-completions/_toolhost", &scripts.zsh),
        ("doc/toolhost/copyright", &parts.license),
    ] {
        tree.file(format!("usr/share/{file}"), script.clone());
    }
    Ok(tree)
}

fn control_file(parts: &Parts, data: &Tree) -> String {
    let (major, minor) = parts.program.glibc;
    let bytes: usize = data.files().map(|(_, _, content)| content.len()).sum();
    format!(
        "Package: toolhost
Version: {VERSION}
Architecture: {}
Maintainer: Toolhost maintainers
Installed-Size: {}
Depends: libc6 (>= {major}.{minor}), libgcc-s1
Section: utils
Priority: optional
Description: {SUMMARY}
 The command is `toolhost`. Its plugins are in /usr/lib/toolhost/plugins.
",
        parts.program.machine.debian,
        bytes.div_ceil(1024),
    )
}
