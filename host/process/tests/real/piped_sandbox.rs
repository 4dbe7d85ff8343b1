//! Sandboxed programs with pipes: own directories, granted paths, and a network that ends at the host's proxy.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tokio::io::AsyncReadExt as _;
use toolhost_process::{
    Launcher, PipedCommand, PipedNetwork, PipedProcess, PipedSandbox, Pipes, ProcessError,
    certificate_reads, proxy_variables,
};

use crate::fixture::LONG;

/// The directories of two servers in the host's hidden state.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        for dir in ["state/one/tmp", "state/two", "shared", "open"] {
            fs::create_dir_all(place.at(dir)).unwrap();
            fs::write(place.at(dir).join("file"), format!("text of {dir}")).unwrap();
        }
        place
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(path)
    }

    pub fn sandbox(&self, network: PipedNetwork) -> PipedSandbox {
        PipedSandbox {
            data: self.at("state/one"),
            read: vec![self.at("open")],
            write: vec![self.at("shared")],
            program: BTreeSet::new(),
            network,
            hidden: vec![self.at("state")],
            read_only: Vec::new(),
            record: false,
        }
    }
}

pub async fn start(sandbox: PipedSandbox, script: &str) -> (PipedProcess, Pipes) {
    try_start(sandbox, script).await.unwrap()
}

async fn try_start(
    sandbox: PipedSandbox,
    script: &str,
) -> Result<(PipedProcess, Pipes), ProcessError> {
    let launcher = Launcher {
        program: PathBuf::from(env!("CARGO_BIN_EXE_toolhost-launcher")),
        args: Vec::new(),
    };
    let command = PipedCommand {
        program: "bash".to_owned(),
        arguments: vec!["-c".to_owned(), script.to_owned()],
        cwd: PathBuf::from("/"),
        variables: proxy_variables(),
        path: vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")],
        sandbox: Some(sandbox),
    };
    PipedProcess::start(&launcher, &command).await
}

/// Whether this system allows the namespaces that [`PipedNetwork::Proxy`] needs. Otherwise prints that it is skipped.
pub fn allows_namespaces() -> bool {
    let allowed = [&["--net", "true"][..], &["--user", "--net", "true"]]
        .iter()
        .any(|arguments| {
            let made = std::process::Command::new("unshare")
                .args(*arguments)
                .output();
            made.is_ok_and(|made| made.status.success())
        });
    if !allowed {
        // Not captured by the test harness.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: network namespaces are not allowed here"
        );
    }
    allowed
}

/// The words that the script prints: one for each access.
async fn words(sandbox: PipedSandbox, script: &str) -> String {
    let (child, mut pipes) = start(sandbox, script).await;
    drop(pipes.stdin);
    let mut output = String::new();
    pipes.stdout.read_to_string(&mut output).await.unwrap();
    child.end(LONG).await;
    output.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_program_reaches_its_own_and_the_granted_directories_only() {
    let place = Place::new();
    let read = |path: &Path| {
        format!(
            "cat {0} >/dev/null 2>&1 && echo read || echo -\n",
            path.display()
        )
    };
    let write = |path: &str| {
        let path = place.at(path);
        format!(
            "(echo x > {0}) 2>/dev/null && echo wrote || echo -\n",
            path.display()
        )
    };
    let script = [
        read(&place.at("state/one/tmp/file")),
        write("state/one/new"),
        write("state/one/tmp/new"),
        read(&place.at("open/file")),
        write("open/new"),
        read(&place.at("shared/file")),
        write("shared/new"),
        "echo /\n".to_owned(),
        read(&place.at("state/two/file")),
        write("state/two/new"),
        read(Path::new("/etc/shadow")),
        read(Path::new("/etc/passwd")),
    ];
    for network in [
        PipedNetwork::None,
        PipedNetwork::Proxy,
        PipedNetwork::Direct,
    ] {
        if network == PipedNetwork::Proxy && !allows_namespaces() {
            continue;
        }
        assert_eq!(
            words(place.sandbox(network), &script.concat()).await,
            "read wrote wrote read - read wrote / - - - read",
            "{network:?}"
        );
    }
}

#[tokio::test]
async fn a_granted_path_that_becomes_a_link_is_refused() {
    let place = Place::new();
    fs::rename(place.at("shared"), place.at("moved")).unwrap();
    symlink(place.at("state/two"), place.at("shared")).unwrap();
    let started = try_start(place.sandbox(PipedNetwork::None), "true").await;
    let error = started.err().unwrap().to_string();
    assert!(error.contains("which was not approved"), "{error}");
    assert!(error.contains("/state/two"), "{error}");
}

#[tokio::test]
async fn a_link_to_a_certificate_in_a_writable_directory_is_not_followed() {
    let place = Place::new();
    fs::write(place.at("ca.pem"), "").unwrap();
    fs::write(place.at("key.pem"), "").unwrap();
    symlink(place.at("key.pem"), place.at("state/one/cert.pem")).unwrap();
    let mut sandbox = place.sandbox(PipedNetwork::None);
    let certificates = [place.at("ca.pem"), place.at("state/one/cert.pem")];
    let writable = [place.at("shared"), place.at("state/one")];
    sandbox.program = certificate_reads(&certificates, &writable);
    let read = |name: &str| {
        let path = place.at(name);
        format!(
            "cat {} >/dev/null 2>&1 && echo read || echo -\n",
            path.display()
        )
    };
    let script = [read("ca.pem"), read("state/one/cert.pem")].concat();
    assert_eq!(words(sandbox, &script).await, "read -");
}

#[tokio::test]
async fn only_the_proxy_is_reached() {
    if !allows_namespaces() {
        return;
    }
    let place = Place::new();
    // A service of this machine on the port of the proxy and on another one.
    let service = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = service.local_addr().unwrap().port();
    let script = format!(
        "(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo service || echo -\n\
         (exec 3<>/dev/tcp/192.0.2.1/3128) 2>/dev/null && echo elsewhere || echo -\n\
         exec 3<>/dev/tcp/127.0.0.1/${{HTTPS_PROXY##*:}} && read -r answer <&3 && echo $answer"
    );
    let (child, mut pipes) = start(place.sandbox(PipedNetwork::Proxy), &script).await;
    let proxy = pipes.proxy.take().unwrap();
    proxy.set_nonblocking(false).unwrap();
    let answer = std::thread::spawn(move || {
        let (mut client, _) = proxy.accept().unwrap();
        client.write_all(b"proxy\n").unwrap();
        let _ = client.read(&mut [0; 1]);
    });
    let mut output = String::new();
    pipes.stdout.read_to_string(&mut output).await.unwrap();
    child.end(LONG).await;
    answer.join().unwrap();
    assert_eq!(output, "-\n-\nproxy\n");

    let nothing = words(
        place.sandbox(PipedNetwork::None),
        "(exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null && echo reached || echo -",
    );
    assert_eq!(nothing.await, "-");
}
