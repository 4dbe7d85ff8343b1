//! The files that a program consists of: its interpreter, and the packages that it was installed with. They are found by
//! the layout of the directories around it, without running anything.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Interpreters whose first argument that is no option is a script.
const INTERPRETERS: [&str; 8] = [
    "node", "nodejs", "python", "deno", "bun", "ruby", "perl", "sh",
];
/// Directories of an installation beside its `bin`.
const INSTALLED: [&str; 4] = ["bin", "lib", "lib64", "libexec"];
/// Files that mark the directory of a package.
const PACKAGE_FILES: [&str; 2] = ["package.json", "pyproject.toml"];
const MAX_INTERPRETERS: usize = 4;
const MAX_LINKS: usize = 16;
const MAX_LEVELS: usize = 16;
const MAX_SMALL_FILE: u64 = 64 << 10;

pub struct ProgramReads<'a> {
    search: &'a [PathBuf],
    home: Option<PathBuf>,
    /// Directories and files that the program can write, without symbolic links.
    writable: &'a [PathBuf],
    found: BTreeSet<PathBuf>,
}

impl<'a> ProgramReads<'a> {
    /// `search` are the directories in which names of programs are looked up.
    pub fn new(search: &'a [PathBuf], home: Option<&Path>, writable: &'a [PathBuf]) -> Self {
        Self {
            search,
            home: home.map(|home| home.canonicalize().unwrap_or_else(|_| home.to_owned())),
            writable,
            found: BTreeSet::new(),
        }
    }

    /// The paths, without those that another one contains.
    pub fn into_paths(self) -> BTreeSet<PathBuf> {
        let all = &self.found;
        let outer = all.iter().filter(|path| {
            let mut above = path.ancestors().skip(1);
            !above.any(|above| all.contains(above))
        });
        outer.cloned().collect()
    }

    pub fn add_program(&mut self, program: &Path, arguments: &[String], cwd: &Path) {
        self.add_executable(program, 0);
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        // `python3.12` is `python`.
        let name = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if INTERPRETERS.contains(&name)
            && let Some(script) = arguments.iter().find(|argument| !argument.starts_with('-'))
            && let Some(script) = self.resolve(&cwd.join(script))
        {
            self.add_code(&script);
        }
    }

    /// Adds absolute paths of files with certificates, by the endings of the path and of the real path.
    pub fn add_certificates(&mut self, files: &[PathBuf]) {
        const ENDINGS: [&str; 4] = ["pem", "crt", "cer", "cert"];
        let is_named = |path: &Path| {
            let ending = path.extension().unwrap_or_default();
            ENDINGS.iter().any(|known| ending == *known)
        };
        let files = files
            .iter()
            .filter(|file| file.is_absolute() && is_named(file));
        for file in files {
            let real = self.resolve(file).filter(|real| is_named(real));
            self.found.extend(real);
        }
    }

    /// The real path of a file. `None` if it is behind a symbolic link that the program could have created.
    fn resolve(&self, file: &Path) -> Option<PathBuf> {
        let real = file.canonicalize().ok().filter(|real| real.is_file())?;
        let mut hop = file.to_owned();
        for _ in 0..MAX_LINKS {
            let mut above = hop.ancestors().skip(1);
            let is_redirectable = above.any(|dir| {
                let dir = dir.canonicalize();
                dir.is_ok_and(|dir| self.is_writable(&dir))
            });
            if is_redirectable && !self.is_writable(&real) {
                return None;
            }
            match fs::read_link(&hop) {
                Ok(target) => hop = hop.parent()?.join(target),
                Err(_) => return Some(real),
            }
        }
        None
    }

    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|dir| path.starts_with(dir))
    }

    fn add_executable(&mut self, program: &Path, depth: usize) {
        let mut hop = program.to_owned();
        for _ in 0..MAX_LINKS {
            self.add_installation(&hop);
            match fs::read_link(&hop) {
                Ok(target) => hop = hop.parent().unwrap_or(Path::new("/")).join(target),
                Err(_) => break,
            }
        }
        let Ok(real) = program.canonicalize() else {
            return;
        };
        if let Some(interpreter) =
            interpreter(&real, self.search).filter(|_| depth < MAX_INTERPRETERS)
        {
            self.add_code(&real);
            self.add_executable(&interpreter, depth + 1);
        } else {
            self.found.insert(real);
        }
    }

    /// Adds the installation or the virtual environment whose `bin` contains this program.
    fn add_installation(&mut self, program: &Path) {
        let Some(bin) = program.parent().and_then(|bin| bin.canonicalize().ok()) else {
            return;
        };
        let Some(prefix) = bin.parent().filter(|prefix| self.is_grantable(prefix)) else {
            return;
        };
        if let Some(settings) = read_small(&prefix.join("pyvenv.cfg")) {
            self.found.insert(prefix.to_owned());
            // The installation that the environment was created with.
            let home = settings.lines().filter_map(|line| line.split_once('='));
            let mut home = home.filter(|(key, _)| key.trim() == "home");
            let base = home.next().map(|(_, bin)| PathBuf::from(bin.trim()));
            if let Some(base) = base.filter(|base| !base.starts_with(prefix)) {
                self.add_installation(&base.join("python3"));
            }
        } else if bin.ends_with("bin") {
            let parts = INSTALLED.iter().map(|part| prefix.join(part));
            let parts = parts.filter_map(|part| part.canonicalize().ok());
            self.found.extend(parts.filter(|part| part.is_dir()));
        } else if bin.ends_with("shims") {
            // A version manager, which runs the selected version of a program from its directory.
            self.found.insert(prefix.to_owned());
        }
    }

    /// Adds a script and the package that contains it.
    fn add_code(&mut self, script: &Path) {
        let modules = script
            .ancestors()
            .filter(|path| path.ends_with("node_modules"));
        let package = modules.last().or_else(|| {
            let mut above = script.ancestors().skip(1).take(MAX_LEVELS);
            above.find(|dir| PACKAGE_FILES.iter().any(|file| dir.join(file).is_file()))
        });
        let package = package.filter(|package| self.is_grantable(package));
        self.found.insert(package.unwrap_or(script).to_owned());
    }

    /// Neither the root nor a home directory nor a directory above it.
    fn is_grantable(&self, dir: &Path) -> bool {
        let is_home = |home: &PathBuf| home.starts_with(dir);
        dir.parent().is_some() && !self.home.as_ref().is_some_and(is_home)
    }
}

/// The interpreter in the first line of a script.
fn interpreter(script: &Path, search: &[PathBuf]) -> Option<PathBuf> {
    const MAX_LINE: u64 = 256;
    let mut start = Vec::new();
    let file = open_regular(script)?;
    file.take(MAX_LINE).read_to_end(&mut start).ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
    let program = Path::new(words.next()?);
    if program.file_name()? != "env" {
        return Some(program.to_owned());
    }
    let name = words.find(|word| !word.starts_with('-') && !word.contains('='))?;
    let dirs = search.iter().filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn read_small(path: &Path) -> Option<String> {
    let mut text = String::new();
    let file = open_regular(path)?.take(MAX_SMALL_FILE);
    { file }.read_to_string(&mut text).ok()?;
    Some(text)
}

/// A named pipe in place of the file would block.
fn open_regular(path: &Path) -> Option<fs::File> {
    path.metadata().ok().filter(fs::Metadata::is_file)?;
    fs::File::open(path).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn check(files: &[(&str, &str)], links: &[(&str, &str)], command: &[&str], expected: &[&str]) {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        for (path, text) in files {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), text.replace("ROOT", root.to_str().unwrap())).unwrap();
        }
        for (path, target) in links {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            symlink(target, at(path)).unwrap();
        }
        let search = [at("home/opt/node/bin")];
        let mut reads = ProgramReads::new(&search, Some(&at("home")), &[]);
        let arguments: Vec<String> = command[1..].iter().map(|&text| text.to_owned()).collect();
        reads.add_program(&at(command[0]), &arguments, &at("home"));
        let found = reads.into_paths();
        let found: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(&root).unwrap())
            .collect();
        let expected: Vec<_> = expected.iter().map(Path::new).collect();
        assert_eq!(found, expected, "{command:?}");
    }

    #[test]
    fn an_interpreter_brings_its_installation_and_the_package_of_the_script() {
        let node = ("home/opt/node/bin/node", "ELF");
        let library = ("home/opt/node/lib/node_modules/npm/index.js", "");
        let script = ("home/servers/node_modules/@a/one/dist/index.js", "");
        let own = ("home/project/src/server.js", "");
        let package = ("home/project/package.json", "{}");
        let lone = ("home/server.js", "");
        let files = [node, library, script, own, package, lone];
        let (bin, lib) = ("home/opt/node/bin", "home/opt/node/lib");
        for (argument, read) in [
            (
                "servers/node_modules/@a/one/dist/index.js",
                "home/servers/node_modules",
            ),
            ("project/src/server.js", "home/project"),
            ("server.js", "home/server.js"),
        ] {
            check(
                &files,
                &[],
                &[node.0, "--no-warnings", argument],
                &[bin, lib, read],
            );
        }
        // Data that a server is started with is not granted.
        check(&files, &[], &[node.0, "project", "server.js"], &[bin, lib]);
    }

    #[test]
    fn a_script_brings_its_environment_and_the_interpreter_of_that() {
        let files = [
            (
                "home/venv/pyvenv.cfg",
                "home = ROOT/home/python/bin\nversion = 3\n",
            ),
            (
                "home/venv/bin/mcp-server",
                "#!ROOT/home/venv/bin/python3\nimport x\n",
            ),
            ("home/python/bin/python3.11", "ELF"),
            ("home/python/lib/python3.11/os.py", ""),
        ];
        let links = [
            ("home/python/bin/python3", "python3.11"),
            ("home/venv/bin/python3", "../../python/bin/python3"),
            ("home/.local/bin/mcp-server", "../../venv/bin/mcp-server"),
        ];
        check(
            &files,
            &links,
            &["home/.local/bin/mcp-server"],
            &[
                "home/.local/bin",
                "home/python/bin",
                "home/python/lib",
                "home/venv",
            ],
        );
    }

    #[test]
    fn links_that_the_program_can_create_are_not_followed() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let at = |path: &str| root.join(path);
        for file in [
            "own/a.pem",
            "own/s.js",
            "etc/ca.pem",
            "etc/key",
            "etc/k.pem",
        ] {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "").unwrap();
        }
        for (link, target) in [
            ("etc/cert.pem", "ca.pem"),
            ("etc/key.pem", "key"),
            ("etc/own.pem", "../own/k.pem"),
            ("own/k.pem", "../etc/k.pem"),
            ("own/dir", "../etc"),
            ("own/evil.js", "../etc/key"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let writable = [at("own")];
        let found = |add: &dyn Fn(&mut ProgramReads<'_>)| {
            let mut reads = ProgramReads::new(&[], None, &writable);
            add(&mut reads);
            reads.into_paths().into_iter().collect::<Vec<_>>()
        };
        for (name, expected) in [
            ("etc/ca.pem", Some("etc/ca.pem")),
            ("etc/cert.pem", Some("etc/ca.pem")),
            ("etc/key.pem", None),
            ("etc/key", None),
            ("etc/own.pem", None),
            ("own/a.pem", Some("own/a.pem")),
            ("own/k.pem", None),
            ("own/dir/k.pem", None),
        ] {
            let certificates = found(&|reads| reads.add_certificates(&[at(name)]));
            let expected: Vec<_> = expected.into_iter().map(at).collect();
            assert_eq!(certificates, expected, "{name}");
        }
        for (script, expected) in [("own/s.js", Some("own/s.js")), ("own/evil.js", None)] {
            let program = Path::new("/missing/node");
            let found = found(&|reads| reads.add_program(program, &[script.to_owned()], &at("")));
            let expected: Vec<_> = expected.into_iter().map(at).collect();
            assert_eq!(found, expected, "{script}");
        }
    }

    #[test]
    fn a_home_directory_is_never_granted() {
        let files = [
            ("home/bin/tool", "#!/usr/bin/env node\n"),
            ("home/package.json", "{}"),
            ("home/opt/node/bin/node", "ELF"),
        ];
        check(
            &files,
            &[],
            &["home/bin/tool"],
            &["home/bin/tool", "home/opt/node/bin"],
        );
        check(
            &[("home/.manager/shims/python3", "ELF")],
            &[],
            &["home/.manager/shims/python3"],
            &["home/.manager"],
        );
    }
}
