//! `dist ROOT PROGRAM DOCUMENTED_BY OUTPUT best|fast`: builds the packages. `cargo xtask dist` starts it.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use toolhost_dist::{Compression, Input, build};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [root, program, documented_by, output, level] = &arguments[..] else {
        bail!("usage: dist ROOT PROGRAM DOCUMENTED_BY OUTPUT best|fast");
    };
    let compression = match level.to_str() {
        Some("best") => Compression::best(),
        Some("fast") => Compression::fast(),
        _ => bail!("the compression is `best` or `fast`"),
    };
    let input = Input {
        root: Path::new(root),
        program: Path::new(program),
        documented_by: Path::new(documented_by),
        compression,
    };
    for package in build(&input, Path::new(output))? {
        let size = package.metadata().context("a package")?.len();
        println!("{}  {} kB", package.display(), size.div_ceil(1000));
    }
    Ok(())
}
