//! The checks of `host doctor`.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use toolhost::{BrokenPlugin, HostPaths};
use toolhost_hostfiles::check_directory;
use toolhost_mcp_client::TransportConfig;
use toolhost_process::{
    AllowedPrograms, Command, ExitReason, Launcher, OpenPath, ProcessSettings, Processes,
};

use super::{Check, Status};
use crate::load;
use crate::settings::{CliSettings, DiscoverySettings, ServerSettings};

/// Programs that authors of plugins use, and what for.
const TOOLCHAINS: [(&str, &str); 5] = [
    ("cargo", "plugins in Rust"),
    ("python3", "plugins in Python"),
    ("node", "plugins in JavaScript, and MCP servers from npm"),
    ("npm", "plugins in JavaScript, and MCP servers from npm"),
    ("clang", "plugins in C"),
];

/// Where `sh` is.
const SYSTEM_SHELLS: [&str; 2] = ["/usr/bin/sh", "/bin/sh"];

/// The file system of tools.
pub fn kernel() -> Check {
    let system = rustix::system::uname();
    let release = system.release().to_string_lossy().into_owned();
    match toolhost_vfs::missing_kernel_support() {
        None => Check::ok("kernel", format!("Linux {release} with openat2")),
        Some(reason) => Check::problem(
            Status::Error,
            "kernel",
            format!("Linux {release}: {reason}"),
            "use Linux 5.6 or newer; in a container, allow the system call openat2",
        ),
    }
}

/// Starts a program as tools do, because the kernel version does not tell whether Landlock and seccomp are enabled.
pub async fn programs() -> Check {
    // A container image can be without any program.
    if !SYSTEM_SHELLS.iter().any(|shell| Path::new(shell).exists()) {
        return Check::info(
            "sandbox of programs",
            "not tried, because this system has no `sh`; tools cannot start programs that do not exist",
        );
    }
    match run_confined().await {
        Ok(()) => Check::ok(
            "sandbox of programs",
            "Landlock and seccomp confine programs that tools start",
        ),
        Err(reason) => Check::problem(
            Status::Warning,
            "sandbox of programs",
            format!("tools cannot start programs: {reason}"),
            "use Linux 6.2 or newer with Landlock and seccomp enabled (`landlock` in /sys/kernel/security/lsm); all other \
             tools work without them",
        ),
    }
}

async fn run_confined() -> Result<(), String> {
    if let Some(reason) = toolhost_process::missing_kernel_support() {
        return Err(reason);
    }
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let launcher = Launcher::this_program(["process-launcher".into()]);
    let mut settings = ProcessSettings::new(launcher, directory.path().join("output"));
    settings.programs = AllowedPrograms::Only(vec!["sh".to_owned()]);
    let processes = Processes::new(settings).map_err(|error| error.to_string())?;
    let open = OpenPath::directory(directory.path()).map_err(|error| error.to_string())?;
    let mut command = Command::new("sh", &["-c", ":"], open.clone());
    command.sandbox.write = vec![open];
    let mut ignored = |_, _: &[u8]| ();
    let ended = processes.run(command, &mut ignored, std::future::pending());
    match ended.await.map_err(|error| error.to_string())?.exit {
        ExitReason::Code(0) => Ok(()),
        other => Err(format!("a test program ended with {other:?}")),
    }
}

/// The host's own directories.
pub fn directories() -> Vec<Check> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    [
        (
            "state directory",
            paths.state,
            Status::Error,
            "TOOLHOST_STATE_DIR",
        ),
        (
            "cache directory",
            paths.cache,
            // Plugins are then compiled at each start.
            Status::Warning,
            "TOOLHOST_CACHE_DIR",
        ),
    ]
    .into_iter()
    .map(|(name, path, status, variable)| directory(name, path, status, variable))
    .collect()
}

fn directory(name: &str, path: Option<PathBuf>, status: Status, variable: &str) -> Check {
    let problem = |detail: String| {
        let remedy = format!(
            "make it a directory that belongs to you and that you can write to, or set {variable} to another one"
        );
        Check::problem(status, name, detail, remedy)
    };
    let Some(path) = path else {
        return problem("there is no home directory".to_owned());
    };
    if let Err(error) = check_directory(&path) {
        return problem(error.to_string());
    }
    // The host creates a missing directory with its parents.
    let existing = path.ancestors().find(|path| path.exists());
    let existing = existing.unwrap_or(Path::new("/"));
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Check::ok(name, path.display().to_string()),
        Err(error) => problem(format!("cannot write to {}: {error}", existing.display())),
    }
}

pub fn configuration(settings: &CliSettings) -> Check {
    let file = settings.core.config_file.as_ref();
    let file = file.map_or_else(
        || "no configuration file; all settings have their defaults".to_owned(),
        |file| file.display().to_string(),
    );
    let project = settings.project.as_ref();
    let project = project.map(|directory| format!(", project {}", directory.display()));
    Check::ok("configuration", file + &project.unwrap_or_default())
}

/// Loads the plugins without running their tools. Servers are not started.
pub async fn plugins(settings: &CliSettings) -> Vec<Check> {
    const NAME: &str = "plugins";
    if settings.core.plugins.is_empty() {
        // Servers can be all that is wanted.
        let status = if settings.has_servers() {
            Status::Info
        } else {
            Status::Error
        };
        return vec![Check::problem(
            status,
            NAME,
            "none are configured, and none were installed with this program",
            "install a package that contains them, or run `host init --plugins DIR`",
        )];
    }
    let host = match load::load_quietly(settings).await {
        Ok(host) => host,
        Err(error) => {
            return vec![Check::problem(
                Status::Error,
                NAME,
                error.to_string(),
                "correct the settings; `host plugins` shows the details",
            )];
        }
    };
    let loaded = host.loaded();
    let places = settings.core.plugins.iter();
    let places: Vec<String> = places.map(|path| path.display().to_string()).collect();
    let summary = format!("{} loaded from {}", loaded.plugins.len(), places.join(", "));
    let mut checks = Vec::new();
    if loaded.plugins.is_empty() {
        let remedy = "name directories that contain `*.wasm` files of plugins";
        checks.push(Check::problem(Status::Error, NAME, summary, remedy));
    } else {
        checks.push(Check::ok(NAME, summary));
    }
    checks.extend(loaded.broken.iter().map(|broken| broken_plugin(broken)));
    checks.extend(host.missing.iter().map(|missing| {
        let remedy = "add the plugin to `plugins`, or remove what needs it";
        Check::problem(Status::Error, NAME, missing, remedy)
    }));
    checks
}

fn broken_plugin(broken: &BrokenPlugin) -> Check {
    Check::problem(
        Status::Error,
        &format!("plugin {}", broken.path.display()),
        &broken.reason,
        "replace the file, or remove it from the directory of plugins",
    )
}

/// Whether the program of another MCP server exists. A server with an address is not contacted.
pub fn server(server: &ServerSettings) -> Option<Check> {
    if !server.enabled {
        return None;
    }
    let name = format!("MCP server {}", server.name);
    let config = match &server.config {
        Ok(config) => config,
        Err(reason) => {
            let remedy = "correct it in the configuration file";
            return Some(Check::problem(Status::Error, &name, reason, remedy));
        }
    };
    let TransportConfig::Stdio(program) = &config.transport else {
        return Some(Check::info(
            &name,
            "reached over the network, which was not tried",
        ));
    };
    Some(command(&name, &program.cwd, &program.command.value))
}

pub fn discovery(settings: &DiscoverySettings) -> Check {
    let discovery = &settings.discovery;
    let program = discovery.discover.first().map_or("", String::as_str);
    command("discovery command", &discovery.cwd, program)
}

fn command(name: &str, directory: &Path, program: &str) -> Check {
    match find_program(directory, program) {
        Some(file) => Check::ok(name, file.display().to_string()),
        None => Check::problem(
            Status::Error,
            name,
            format!("the program `{program}` was not found"),
            format!("install `{program}`, or correct the command in the configuration file"),
        ),
    }
}

/// What authors of plugins use. Nothing is started.
pub fn toolchains() -> Vec<Check> {
    let found = |(program, purpose): (&str, &str)| {
        let detail = match find_program(Path::new("/"), program) {
            Some(file) => format!("{} ({purpose})", file.display()),
            None => format!("not found; needed only for {purpose}"),
        };
        Check::info(program, detail)
    };
    TOOLCHAINS.into_iter().map(found).collect()
}

/// The executable file that a command starts.
fn find_program(directory: &Path, program: &str) -> Option<PathBuf> {
    let is_program = |file: &PathBuf| file.is_file() && access(file, Access::EXEC_OK).is_ok();
    if program.contains('/') {
        return Some(directory.join(program)).filter(is_program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|entry| directory.join(entry).join(program));
    files.find(is_program)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_program_has_to_be_executable() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("server");
        fs::write(&file, "").unwrap();
        assert_eq!(find_program(directory.path(), "./server"), None);
        fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
        assert!(find_program(directory.path(), "./server").is_some());
        assert_eq!(find_program(directory.path(), "./missing"), None);
        assert!(find_program(Path::new("/"), "sh").is_some());
    }

    #[test]
    fn the_directories_of_the_host_are_checked() {
        let root = tempfile::tempdir().unwrap();
        let check = |path: Option<PathBuf>| directory("state", path, Status::Error, "STATE").status;
        assert_eq!(check(None), Status::Error);
        // Missing directories are created at the start.
        assert_eq!(check(Some(root.path().join("a/b"))), Status::Ok);
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(check(Some(root.path().to_owned())), Status::Error);
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(check(Some(file)), Status::Error);
    }
}
