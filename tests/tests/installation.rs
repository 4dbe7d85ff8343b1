//! The packages of `cargo xtask dist`, installed into clean environments. Each installed program makes a call with the
//! plugins that were installed with it. A format whose installer is missing on this machine is skipped, and says so.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use e2e::{CommandResult, host, root, target};
use serde_json::Value;
use tempfile::TempDir;
use toolhost_dist::{Compression, Input};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of the packages, which all tests share.
static PACKAGES: LazyLock<PathBuf> = LazyLock::new(|| {
    let command = host(&[]);
    let program = Path::new(command.get_program());
    let output = target().join("dist-tests");
    let input = Input {
        root: &root(),
        program,
        documented_by: program,
        compression: Compression::fast(),
    };
    toolhost_dist::build(&input, &output).unwrap();
    output
});

/// The package whose name starts and ends like this.
fn package(start: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(&*PACKAGES).unwrap();
    let mut paths = entries.map(|entry| entry.unwrap().path());
    let is_wanted = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{start}{VERSION}")) && name.ends_with(end)
    };
    paths.find(is_wanted).unwrap()
}

fn run(command: &mut Command) -> CommandResult {
    let ended = CommandResult::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{command:?}: {ended:?}");
    ended
}

/// Whether the program starts. Otherwise the test prints that it is skipped.
fn available(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments).output();
    let reason = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    // Bypasses the output capture of the test harness, so that skipped tests are visible.
    let _ = writeln!(
        std::io::stderr(),
        "skipped: `{program}` does not work on this machine: {}",
        reason.trim()
    );
    false
}

/// A command without the variables of this process, whose home directory is empty.
fn clean(program: &Path, home: &TempDir) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home.path())
        .env("TOOLHOST_CACHE_DIR", target().join("test-cache"))
        .current_dir(home.path());
    command
}

/// Checks the version, and a call with the installed plugins.
fn check_installed(program: &Path) {
    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| run(clean(program, &home).args(arguments)).stdout;
    assert_eq!(run(&["--version"]), format!("host {VERSION}\n"));
    let encoded = run(&["call", "base64_encode", "text=hello"]);
    assert_eq!(encoded, "aGVsbG8=\n", "{}", program.display());
}

fn unpack(archive: &Path, directory: &Path) {
    let mut tar = Command::new("tar");
    run(tar.arg("xf").arg(archive).arg("-C").arg(directory));
}

#[test]
fn the_checksums_are_those_of_the_packages() {
    let checked = run(Command::new("sha256sum")
        .args(["--check", "--strict", "SHA256SUMS"])
        .current_dir(&*PACKAGES));
    assert_eq!(checked.stdout.lines().count(), 5, "{}", checked.stdout);
}

#[test]
fn the_archive_runs_where_it_is_unpacked() {
    let place = tempfile::tempdir().unwrap();
    unpack(&package("toolhost-", ".tar.gz"), place.path());
    let mut entries = fs::read_dir(place.path()).unwrap();
    let directory = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    check_installed(&directory.join("host"));
    for file in [
        "LICENSE",
        "README.md",
        "completions/_host",
        "completions/host.bash",
        "completions/host.fish",
        "man/man1/host-run.1",
        "plugins/files.wasm",
    ] {
        assert!(directory.join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(directory.join("man/man1/host.1")).unwrap();
    assert!(page.contains("host\\-call(1)"), "{page}");
    assert!(!page.contains("package\\-files"), "{page}");
}

#[test]
fn a_link_to_the_program_finds_the_plugins() {
    let place = tempfile::tempdir().unwrap();
    unpack(&package("toolhost-", ".tar.gz"), place.path());
    let directory = fs::read_dir(place.path()).unwrap().next().unwrap();
    let link = place.path().join("th");
    std::os::unix::fs::symlink(directory.unwrap().path().join("host"), &link).unwrap();
    check_installed(&link);
}

#[test]
fn the_wheel_is_installed_by_pip() {
    if !available("python3", &["-c", "import ensurepip, venv"]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let environment = place.path().join("venv");
    run(Command::new("python3")
        .args(["-m", "venv"])
        .arg(&environment));
    let bin = environment.join("bin");
    let pip = |arguments: &[&str]| {
        let mut pip = Command::new(bin.join("python"));
        pip.args(["-m", "pip", "--disable-pip-version-check"]);
        pip.args(arguments).env_remove("PIP_FIND_LINKS");
        pip
    };
    run(pip(&["install", "--quiet", "--no-index"]).arg(package("toolhost-", ".whl")));
    for command in ["host", "toolhost"] {
        check_installed(&bin.join(command));
    }
    let shown = run(&mut pip(&["show", "--files", "toolhost"])).stdout;
    assert!(shown.contains(&format!("Version: {VERSION}")), "{shown}");
    run(&mut pip(&["uninstall", "--quiet", "--yes", "toolhost"]));
    for left in ["bin/host", "lib/toolhost/plugins/files.wasm"] {
        assert!(!environment.join(left).exists(), "{left}");
    }
}

#[test]
fn the_npm_package_is_installed_by_npm() {
    if !available("npm", &["--version"]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let package = package("toolhost-npm-", ".tgz");
    run(Command::new("npm")
        .args([
            "install",
            "--offline",
            "--no-audit",
            "--no-fund",
            "--global",
        ])
        .arg("--prefix")
        .arg(place.path())
        .arg("--cache")
        .arg(place.path().join("cache"))
        .arg(package));
    for command in ["host", "toolhost"] {
        check_installed(&place.path().join("bin").join(command));
    }
}

#[test]
fn the_debian_package_has_no_program_of_another_package() {
    if !available("dpkg", &["--version"]) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let package = package("toolhost_", ".deb");
    // A system without any package, so that the libraries are missing in its database.
    let database = place.path().join("var/lib/dpkg");
    for directory in ["info", "updates"] {
        fs::create_dir_all(database.join(directory)).unwrap();
    }
    fs::write(database.join("status"), "").unwrap();
    let dpkg = || {
        let mut dpkg = Command::new("dpkg");
        dpkg.args(["--force-not-root", "--force-depends", "--force-bad-path"]);
        dpkg.arg(format!("--root={}", place.path().display()));
        dpkg.arg(format!("--log={}", place.path().join("log").display()));
        dpkg
    };
    run(dpkg().arg("--install").arg(&package));
    check_installed(&place.path().join("usr/bin/toolhost"));
    // `bind9-host` has both.
    for other in ["usr/bin/host", "usr/share/man/man1/host.1.gz"] {
        assert!(!place.path().join(other).exists(), "{other}");
    }
    assert!(
        place
            .path()
            .join("usr/share/man/man1/toolhost-run.1.gz")
            .exists()
    );
    let field = |name: &str| {
        let mut command = Command::new("dpkg-deb");
        run(command.arg("--field").arg(&package).arg(name)).stdout
    };
    assert_eq!(field("Version"), format!("{VERSION}\n"));
    assert!(field("Depends").starts_with("libc6 (>= 2."));
    run(dpkg().args(["--remove", "toolhost"]));
    assert!(!place.path().join("usr/lib/toolhost").exists());
}

/// The root directory of the container, and the configuration of the image. The digests of all blobs are checked.
fn unpack_image(place: &Path) -> (PathBuf, Value) {
    let layout = place.join("layout");
    let container = place.join("root");
    for directory in [&layout, &container] {
        fs::create_dir(directory).unwrap();
    }
    unpack(&package("toolhost-oci-", ".tar"), &layout);
    let blob = |descriptor: &Value| {
        let digest = descriptor["digest"].as_str().unwrap();
        let digest = digest.strip_prefix("sha256:").unwrap();
        let path = layout.join("blobs/sha256").join(digest);
        assert_eq!(descriptor["size"], path.metadata().unwrap().len());
        let sum = run(Command::new("sha256sum").arg(&path)).stdout;
        assert!(sum.starts_with(digest), "{sum}");
        path
    };
    let json =
        |path: PathBuf| -> Value { serde_json::from_slice(&fs::read(path).unwrap()).unwrap() };
    let index = json(layout.join("index.json"));
    let manifest = json(blob(&index["manifests"][0]));
    let layers = manifest["layers"].as_array().unwrap();
    assert_eq!(layers.len(), 1);
    unpack(&blob(&layers[0]), &container);
    (container, json(blob(&manifest["config"])))
}

#[test]
fn the_image_contains_what_the_program_needs() {
    let place = tempfile::tempdir().unwrap();
    let (container, config) = unpack_image(place.path());
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/toolhost");
    check_installed(&container.join("usr/bin/toolhost"));
    // Alone with its files, as in a container.
    let mut isolated = vec!["--map-root-user", "--mount", "--pid", "--fork", "sh", "-c"];
    if !available(
        "unshare",
        &[&isolated[..], &["mount -t proc proc /proc"]].concat(),
    ) {
        return;
    }
    for directory in ["proc", "dev"] {
        fs::create_dir(container.join(directory)).unwrap();
    }
    isolated.push(
        "cd \"$1\" && mount -t proc proc proc && mount --rbind /dev dev \
         && exec env -i HOME=/tmp PATH=/usr/sbin:/usr/bin chroot . /usr/bin/toolhost call base64_encode text=hello",
    );
    let encoded = run(Command::new("unshare")
        .args(isolated)
        .arg("sh")
        .arg(&container));
    assert_eq!(encoded.stdout, "aGVsbG8=\n", "{encoded:?}");
}

#[test]
fn an_installed_program_needs_no_flags_after_init() {
    let place = tempfile::tempdir().unwrap();
    unpack(&package("toolhost-", ".tar.gz"), place.path());
    let directory = fs::read_dir(place.path()).unwrap().next().unwrap();
    let program = directory.unwrap().path().join("host");
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("a.txt"), "content\n").unwrap();
    let project = home.path().join("project");
    fs::create_dir_all(project.join("below")).unwrap();
    fs::write(project.join("b.txt"), "of the project\n").unwrap();
    let started = |arguments: &[&str], from: &Path| {
        let mut command = clean(&program, &home);
        CommandResult::of(&command.args(arguments).current_dir(from).output().unwrap())
    };
    let read = ["call", "read_file", "path=b.txt"];
    assert_ne!(started(&read, &project).code, Some(0));
    let written = started(&["init", "--allow-path", "."], &project);
    assert_eq!(written.code, Some(0), "{written:?}");
    for from in [&project, &project.join("below")] {
        let content = started(&read, from);
        assert!(content.stdout.contains("of the project"), "{content:?}");
    }
    // Other directories are not affected.
    assert_ne!(
        started(&["call", "read_file", "path=a.txt"], home.path()).code,
        Some(0)
    );
}
