//! Compiles components in a killable child process, because the author of a component controls compile time and
//! wasmtime does not treat slow compilation as a vulnerability.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, Signal, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{LoadError, engine, scan};

/// A component of 12 MB, JavaScript with StarlingMonkey, takes 15 s on the machine of the benchmarks. Slower machines and
/// debug builds take several times as long.
const CPU_SECONDS: u64 = 120;
/// Longer than the CPU time, for a machine that does other work too.
const WALL_TIME: Duration = Duration::from_mins(10);
/// How often a compilation is started again.
const MAX_INTERRUPTS: usize = 10;
const ADDRESS_SPACE: u64 = 4 << 30;
/// Threads of one compiler, at most one per processor. Each reserves about 180 MB of address space.
const MAX_THREADS: usize = 4;
/// Machine code is about two to three times the size of its component.
const MAX_ARTIFACT: u64 = 512 << 20;

/// Maximum size of the compiler's error output, in bytes. It can quote names from the component, up to 100 kB each.
const MAX_STDERR: u64 = 64 << 10;

/// Where compilation runs.
#[derive(Debug, Clone)]
pub enum Compiler {
    /// In a child process with memory and time limits: a program that calls [`compile_worker`] with these
    /// arguments.
    Child {
        program: PathBuf,
        args: Vec<OsString>,
    },
    /// In this process without limits, for components that the embedder trusts, and for tests.
    InProcess,
}

impl Compiler {
    pub async fn compile(&self, path: &Path, component: &[u8]) -> Result<Vec<u8>, LoadError> {
        let failed = |reason: String| LoadError::Compile {
            path: path.to_owned(),
            reason,
        };
        match self {
            Compiler::InProcess => {
                let engine = engine::compiling().map_err(|error| failed(error.to_string()))?;
                engine
                    .precompile_component(component)
                    .map_err(|error| failed(one_line(&format!("{error:#}"))))
            }
            Compiler::Child { program, args } => {
                let compiled = compile_uninterrupted(program, args, component);
                match tokio::time::timeout(WALL_TIME, compiled).await {
                    Ok(result) => result.map_err(failed),
                    Err(_) => Err(failed(format!(
                        "it took longer than {} seconds",
                        WALL_TIME.as_secs()
                    ))),
                }
            }
        }
    }
}

/// Compiles again if Ctrl-C ended the child: it cancels a call of the host's prompt, and not the host.
async fn compile_uninterrupted(
    program: &Path,
    args: &[OsString],
    component: &[u8],
) -> Result<Vec<u8>, String> {
    for _ in 0..=MAX_INTERRUPTS {
        if let Some(artifact) = compile_in_child(program, args, component).await? {
            return Ok(artifact);
        }
    }
    Err("the compiler was interrupted too often".to_owned())
}

/// Returns `None` if SIGINT ended the child.
async fn compile_in_child(
    program: &Path,
    args: &[OsString],
    component: &[u8],
) -> Result<Option<Vec<u8>>, String> {
    let mut child = tokio::process::Command::new(program)
        .args(args)
        .env_clear()
        .env("RAYON_NUM_THREADS", threads().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // The timeout drops this future, which kills the child.
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("cannot start the compiler {}: {error}", program.display()))?;
    let (Some(mut stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err("the compiler has no pipes".to_owned());
    };
    let (mut artifact, mut complaint) = (Vec::new(), Vec::new());
    let feed = async {
        // A child that fails closes the pipe; its exit status is more informative than this error.
        let _ = stdin.write_all(component).await;
        drop(stdin);
        Ok(())
    };
    let mut stdout = stdout.take(MAX_ARTIFACT + 1);
    let mut stderr = stderr.take(MAX_STDERR);
    // Error output beyond the limit is still drained: a child with a full pipe would block until the timeout.
    let complain = async {
        let _ = stderr.read_to_end(&mut complaint).await;
        let _ = tokio::io::copy(stderr.get_mut(), &mut tokio::io::sink()).await;
        Ok(())
    };
    let take = async {
        let read = stdout.read_to_end(&mut artifact).await;
        match read.map_err(|error| format!("cannot read from the compiler: {error}"))? as u64 {
            0..=MAX_ARTIFACT => Ok(()),
            _ => Err(format!(
                "the compiled code is larger than {MAX_ARTIFACT} bytes"
            )),
        }
    };
    tokio::try_join!(feed, take, complain)?;
    let status = child
        .wait()
        .await
        .map_err(|error| format!("cannot wait for the compiler: {error}"))?;
    match status.signal() {
        _ if status.success() => Ok(Some(artifact)),
        Some(signal) if signal == Signal::INT.as_raw() => Ok(None),
        Some(signal) if signal == Signal::XCPU.as_raw() => Err(format!(
            "it took more than {CPU_SECONDS} seconds of CPU time"
        )),
        Some(signal) => Err(format!(
            "the compiler was killed by signal {signal}; it may have needed more than {ADDRESS_SPACE} bytes of memory"
        )),
        None => Err(one_line(&String::from_utf8_lossy(&complaint))),
    }
}

/// For the thread pool of wasmtime.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |processors| processors.get().min(MAX_THREADS))
}

fn one_line(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        "no reason given".to_owned()
    } else {
        toolhost_contract::text::escape_line(text, 600)
    }
}

/// Entry point of the child: reads a component from standard input, writes machine code to standard output.
///
/// It limits itself before reading any input, so no `unsafe` code is needed between fork and exec.
pub fn compile_worker() -> ExitCode {
    match compile_stdin() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}

fn compile_stdin() -> Result<(), String> {
    let limits = |resource, current: u64, maximum: u64| {
        setrlimit(
            resource,
            Rlimit {
                current: Some(current),
                maximum: Some(maximum),
            },
        )
        .map_err(|error| format!("cannot limit the compiler: {error}"))
    };
    let limit = |resource, value| limits(resource, value, value);
    // The soft limit sends SIGXCPU, which identifies the cause; the hard limit sends SIGKILL.
    limits(Resource::Cpu, CPU_SECONDS, CPU_SECONDS + 1)?;
    limit(Resource::As, ADDRESS_SPACE)?;
    limit(Resource::Core, 0)?;
    limit(Resource::Fsize, 0)?;
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| format!("cannot limit the compiler: {error}"))?;

    let mut component = Vec::new();
    std::io::stdin()
        .lock()
        .take(scan::MAX_SIZE + 1)
        .read_to_end(&mut component)
        .map_err(|error| format!("cannot read the component: {error}"))?;
    if component.len() as u64 > scan::MAX_SIZE {
        return Err(format!(
            "the component is larger than {} bytes",
            scan::MAX_SIZE
        ));
    }
    let engine = engine::compiling().map_err(|error| error.to_string())?;
    let artifact = engine
        .precompile_component(&component)
        .map_err(|error| format!("{error:#}"))?;
    std::io::stdout()
        .lock()
        .write_all(&artifact)
        .map_err(|error| format!("cannot write the result: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn complaint(script: &str) -> String {
        let compiler = Compiler::Child {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
        };
        let error = compiler
            .compile(Path::new("x.wasm"), b"")
            .await
            .unwrap_err();
        error.to_string()
    }

    #[tokio::test]
    async fn a_compiler_inherits_no_variable() {
        assert!(std::env::var_os("PATH").is_some());
        let message = complaint("/usr/bin/env >&2; exit 1").await;
        assert!(
            message.contains("PWD=") && !message.contains("PATH="),
            "{message}"
        );
    }

    #[tokio::test]
    async fn ctrl_c_does_not_make_a_plugin_unusable() {
        let directory = tempfile::tempdir().unwrap();
        let marker = directory.path().join("interrupted").display().to_string();
        // The signal may be ignored where the tests run.
        let interrupt = "exec env --default-signal=INT sh -c 'kill -INT $$'";
        let script = format!("[ -e {marker} ] && exec /bin/cat; : > {marker}; {interrupt}");
        let compiler = Compiler::Child {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
        };
        let compiled = compiler.compile(Path::new("x.wasm"), b"code").await;
        assert_eq!(compiled.unwrap(), b"code");
        let message = complaint(interrupt).await;
        assert!(message.contains("interrupted too often"), "{message}");
    }

    // The paused clock advances when the runtime is idle.
    #[tokio::test(start_paused = true)]
    async fn a_compiler_that_takes_too_long_is_ended() {
        let message = complaint("exec sleep 100000").await;
        assert!(message.contains("longer than 600 seconds"), "{message}");
    }

    #[tokio::test]
    async fn x_02_a_compiler_that_complains_at_length_ends_at_once() {
        let script = "cat > /dev/null; head -c 300000 /dev/zero | tr '\\0' a >&2; exit 1";
        let message = complaint(script).await;
        assert!(
            message.starts_with("cannot compile x.wasm: aaa"),
            "{message}"
        );
        assert!(message.len() < 1_000, "{message}");
    }
}
