//! An OCI registry on loopback: Debian's `docker-registry`, which `cargo xtask test` unpacks.

use std::fmt::Write as _;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::client_kits::kit;
use crate::test_env::poll_until;

/// A running registry, stopped on drop.
pub struct Registry {
    child: Child,
    /// Host and port.
    pub address: String,
    _dir: TempDir,
}

impl Registry {
    /// `None` if it is not installed, with a printed reason. With `login`, a user `ann` with the password `s3cret`.
    pub fn start(login: bool) -> Option<Self> {
        let program = kit("registry")?.join("usr/bin/docker-registry");
        let dir = tempfile::tempdir().expect("temporary directory");
        // It prints no port, so a free one is chosen. Another process can take it in between: try again.
        let (child, address) = poll_until(|| try_start(&program, login, dir.path()));
        Some(Self {
            child,
            address,
            _dir: dir,
        })
    }
}

fn try_start(program: &Path, login: bool, dir: &Path) -> Option<(Child, String)> {
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    let root = dir.join("data");
    let mut config = format!(
        "version: 0.1\nlog: {{level: error, accesslog: {{disabled: true}}}}\n\
             storage: {{filesystem: {{rootdirectory: {}}}, delete: {{enabled: true}}}}\n\
             http: {{addr: \"{address}\"}}\n",
        root.display()
    );
    if login {
        let users = dir.join("users");
        // bcrypt of `s3cret`.
        let hash = "$2y$05$abcdefghijklmnopqrstuuLK7U1u6pVRmL7L1BBM2aS35PSZnDXlK";
        fs::write(&users, format!("ann:{hash}\n")).expect("users");
        let users = users.display();
        let _ = writeln!(config, "auth: {{htpasswd: {{realm: test, path: {users}}}}}");
    }
    let file = dir.join("config.yml");
    fs::write(&file, config).expect("configuration");
    let mut child = Command::new(program)
        .arg("serve")
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the registry starts");
    loop {
        if TcpStream::connect(&address).is_ok() {
            return Some((child, address));
        }
        if child.try_wait().expect("a status").is_some() {
            return None;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
