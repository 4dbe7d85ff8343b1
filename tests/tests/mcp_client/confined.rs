//! Confined third-party servers: each does its work, and cannot read what belongs to the system, the host or another
//! server.
//!
//! A probe is loaded into the process of the server, so that it has exactly the sandbox of the server.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::home::Home;
use crate::third_party::{call, content_text, node, python};

/// Loaded into a server. For each path in `$PROBE` it writes `read` or the name of the error.
const NODE_PROBE: &str = r#"
const fs = require('fs');
const lines = process.env.PROBE.split(':').map((path) => {
  try { fs.readFileSync(path); return 'read'; } catch (error) { return error.code; }
});
try { fs.writeFileSync(process.env.PROBE_RESULT, lines.join('\n')); } catch {}
"#;
const PYTHON_PROBE: &str = r"
import errno, os
def attempt(path):
    try:
        open(path, 'rb').close()
        return 'read'
    except OSError as error:
        return errno.errorcode[error.errno]
try:
    open(os.environ['PROBE_RESULT'], 'w').write('\n'.join(map(attempt, os.environ['PROBE'].split(':'))))
except OSError:
    pass
";

#[derive(Clone, Copy)]
enum Language {
    Node,
    Python,
}

/// A home with an approved server that contains the probe.
struct Confined {
    home: Home,
    name: &'static str,
}

impl Confined {
    /// `sandbox` is the value of the key, and `env` has further variables as TOML.
    fn new(
        name: &'static str,
        language: Language,
        command: &[String],
        (sandbox, env): (&str, &str),
    ) -> Self {
        let confined = Self {
            home: Home::new(),
            name,
        };
        let home = &confined.home;
        let data = confined.data(name);
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(confined.data("other")).unwrap();
        fs::write(confined.data("other").join("secret"), "").unwrap();
        let load = match language {
            Language::Node => {
                fs::write(data.join("probe.js"), NODE_PROBE).unwrap();
                format!(
                    "NODE_OPTIONS = '--require {}'",
                    data.join("probe.js").display()
                )
            }
            Language::Python => {
                fs::write(data.join("sitecustomize.py"), PYTHON_PROBE).unwrap();
                format!("PYTHONPATH = \"{}\"", data.display())
            }
        };
        let paths = confined
            .paths()
            .map(|path| path.to_string_lossy().into_owned());
        let result = data.join("result");
        let mut more = format!(
            "sandbox = {sandbox}\nenv = {{ {load}, PROBE_RESULT = \"{}\", ",
            result.display()
        );
        let _ = write!(more, "PROBE = {:?}{env} }}", paths.join(":"));
        home.server_with(name, command, &more);
        let approved = home.run(&["mcp", "approve", name, "--yes"]);
        assert_eq!(approved.code, Some(0), "{}", approved.stderr);
        assert_eq!(
            approved.stderr.contains("runs in a sandbox"),
            sandbox != "\"none\"",
            "{}",
            approved.stderr
        );
        confined
    }

    fn data(&self, server: &str) -> PathBuf {
        self.home.state().join("mcp/data").join(server)
    }

    /// What the probe attempts to read; the last one is allowed.
    fn paths(&self) -> [PathBuf; 5] {
        [
            PathBuf::from("/etc/shadow"),
            self.home
                .state()
                .join(format!("mcp/approved/{}.json", self.name)),
            self.data("other").join("secret"),
            self.home.config_file(),
            PathBuf::from("/etc/passwd"),
        ]
    }

    /// What the probe could read in the process that was started last.
    fn probed(&self) -> Vec<String> {
        let text = fs::read_to_string(self.data(self.name).join("result"));
        text.unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn assert_confined(&self) {
        assert_eq!(
            self.probed(),
            ["EACCES", "EACCES", "EACCES", "EACCES", "read"]
        );
        let list = self.home.json(&["mcp", "list", "--json"]);
        assert_eq!(list[0]["sandboxed"], true, "{list}");
    }

    fn call(&self, tool: &str, input: Value) -> String {
        let report = call(&self.home, &format!("mcp__{}__{tool}", self.name), input);
        assert_eq!(report["ok"], true, "{report}");
        content_text(&report)
    }
}

/// The probe itself: without a sandbox it reads everything that the user can.
#[test]
fn an_unconfined_server_is_explicit_and_has_all_rights() {
    let Some(command) = node("server-memory") else {
        return;
    };
    let server = Confined::new("memory", Language::Node, &command, ("\"none\"", ""));
    let shadow = if fs::File::open("/etc/shadow").is_ok() {
        "read"
    } else {
        "EACCES"
    };
    assert_eq!(server.probed(), [shadow, "read", "read", "read", "read"]);
    let list = server.home.run(&["mcp", "list"]);
    assert!(list.stdout.contains("no         node"), "{}", list.stdout);
}

#[test]
fn server_filesystem_is_confined_to_the_granted_directory() {
    let Some(mut command) = node("server-filesystem") else {
        return;
    };
    let documents = tempfile::tempdir().unwrap();
    let documents = documents.path().canonicalize().unwrap();
    fs::write(documents.join("a.txt"), "the text").unwrap();
    command.push(documents.to_string_lossy().into_owned());
    let sandbox = format!("{{ paths = [\"{}:rw\"] }}", documents.display());
    let server = Confined::new("files", Language::Node, &command, (&sandbox, ""));
    let path = |name: &str| documents.join(name);
    let text = server.call("read_text_file", json!({"path": path("a.txt")}));
    assert!(text.contains("the text"), "{text}");
    server.call(
        "write_file",
        json!({"path": path("b.txt"), "content": "new"}),
    );
    assert_eq!(fs::read_to_string(path("b.txt")).unwrap(), "new");
    server.assert_confined();
}

#[test]
fn server_memory_keeps_its_graph_in_its_own_directory() {
    let Some(command) = node("server-memory") else {
        return;
    };
    let env = ", MEMORY_FILE_PATH = \"${TOOLHOST_DATA}/memory.jsonl\"";
    let server = Confined::new("memory", Language::Node, &command, ("{}", env));
    let entity = json!({"name": "Ann", "entityType": "person", "observations": ["likes tea"]});
    server.call("create_entities", json!({"entities": [entity]}));
    let text = server.call("read_graph", json!({}));
    assert!(text.contains("likes tea"), "{text}");
    assert!(server.data("memory").join("memory.jsonl").exists());
    server.assert_confined();
}

#[test]
fn server_everything_needs_nothing() {
    let Some(mut command) = node("server-everything") else {
        return;
    };
    command.push("stdio".to_owned());
    let server = Confined::new("every", Language::Node, &command, ("{}", ""));
    let text = server.call("echo", json!({"message": "hello"}));
    assert!(text.contains("Echo: hello"), "{text}");
    // Its environment has the directories of the sandbox.
    let text = server.call("get_env", json!({}));
    assert!(
        text.contains(&format!("{}", server.data("every").join("tmp").display())),
        "{text}"
    );
    server.assert_confined();
}

#[test]
fn mcp_server_time_needs_nothing() {
    let Some(command) = python("mcp-server-time") else {
        return;
    };
    let server = Confined::new("time", Language::Python, &command, ("{}", ""));
    let text = server.call("get_current_time", json!({"timezone": "Europe/Berlin"}));
    assert!(text.contains("Europe/Berlin"), "{text}");
    server.assert_confined();
}

#[test]
fn mcp_server_git_is_confined_to_the_repository() {
    let Some(mut command) = python("mcp-server-git") else {
        return;
    };
    let repository = tempfile::tempdir().unwrap();
    let repository = repository.path().canonicalize().unwrap();
    let mut git = std::process::Command::new("git");
    let made = git.args(["init", "--quiet"]).arg(&repository).status();
    assert!(made.unwrap().success());
    fs::write(repository.join("new.txt"), "").unwrap();
    command.extend([
        "--repository".to_owned(),
        repository.to_string_lossy().into_owned(),
    ]);
    let sandbox = format!("{{ paths = [\"{}:rw\"] }}", repository.display());
    let server = Confined::new("git", Language::Python, &command, (&sandbox, ""));
    let text = server.call("git_status", json!({"repo_path": repository}));
    assert!(text.contains("new.txt"), "{text}");
    server.call(
        "git_add",
        json!({"repo_path": repository, "files": ["new.txt"]}),
    );
    let text = server.call("git_status", json!({"repo_path": repository}));
    assert!(text.contains("Changes to be committed"), "{text}");
    server.assert_confined();
}

/// Whether this system allows the namespaces that network by host needs.
fn allows_namespaces(test: &str) -> bool {
    let allowed = [&["--net", "true"][..], &["--user", "--net", "true"]]
        .iter()
        .any(|arguments| {
            let made = std::process::Command::new("unshare")
                .args(*arguments)
                .output();
            made.is_ok_and(|made| made.status.success())
        });
    if !allowed {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: network namespaces are not allowed here"
        );
    }
    allowed
}

/// Serves every path of `http://127.0.0.1:PORT`, and returns the port.
fn web_server() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut head = vec![0; 4096];
            let _ = stream.read(&mut head);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 13\r\n\
                          connection: close\r\n\r\nUser-agent: *";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn mcp_server_fetch_reaches_the_allowed_host_only() {
    if !allows_namespaces("mcp-server-fetch") {
        return;
    }
    let Some(mut command) = python("mcp-server-fetch") else {
        return;
    };
    command.push("--allow-private-ips".to_owned());
    let (allowed, other) = (web_server(), web_server());
    let sandbox = format!("{{ hosts = [\"127.0.0.1:{allowed}\"] }}");
    let server = Confined::new("fetch", Language::Python, &command, (&sandbox, ""));
    let input = |port: u16| json!({"url": format!("http://127.0.0.1:{port}/page"), "raw": true});
    let text = server.call("fetch", input(allowed));
    assert!(text.contains("User-agent: *"), "{text}");
    let refused = call(&server.home, "mcp__fetch__fetch", input(other));
    assert_ne!(refused["ok"], true, "{refused}");
    let log = fs::read_to_string(server.home.state().join("mcp/logs/fetch.log")).unwrap();
    assert!(
        log.contains(&format!("host `127.0.0.1:{other}` is not allowed")),
        "{log}"
    );
    server.assert_confined();
}

#[test]
fn a_changed_sandbox_needs_a_new_approval() {
    let home = Home::new();
    let set = |sandbox: &str| {
        home.clear();
        home.write(&format!(
            "[mcp_servers.one]\ncommand = \"true\"\n{sandbox}\n"
        ));
        let list = home.json(&["mcp", "list", "--json"]);
        list[0]["state"].as_str().unwrap().to_owned()
    };
    let waits = |sandbox: &str| {
        let state = set(sandbox);
        home.run(&["mcp", "approve", "one", "--yes"]);
        assert_eq!(state, "not approved", "{sandbox}");
        assert_ne!(set(sandbox), "not approved", "{sandbox}");
    };
    waits("");
    assert_ne!(set("sandbox = {}"), "not approved", "the same sandbox");
    waits("sandbox = { paths = [\"/opt\"] }");
    waits("sandbox = { paths = [\"/opt:rw\"] }");
    waits("sandbox = { hosts = [\"example.org\"] }");
    waits("sandbox = { network = true }");
    waits("sandbox = \"none\"");
}

#[test]
fn a_path_that_becomes_a_link_needs_a_new_approval() {
    let home = Home::new();
    fs::create_dir(home.at("docs")).unwrap();
    fs::create_dir(home.at("keys")).unwrap();
    let docs = home.at("docs").canonicalize().unwrap();
    home.write(&format!(
        "[mcp_servers.one]\ncommand = \"true\"\nsandbox = {{ paths = [\"{}:rw\"] }}\n",
        docs.display()
    ));
    let state = || home.json(&["mcp", "list", "--json"])[0]["state"].clone();
    home.run(&["mcp", "approve", "one", "--yes"]);
    assert_ne!(state(), "not approved");
    fs::rename(&docs, home.at("moved")).unwrap();
    std::os::unix::fs::symlink(home.at("keys"), &docs).unwrap();
    assert_eq!(state(), "not approved");
    let shown = home.run(&["mcp", "approve", "one", "--yes"]).stderr;
    let keys = home.at("keys").canonicalize().unwrap();
    assert!(
        shown.contains(&format!("may read and change {}", keys.display())),
        "{shown}"
    );
}

/// A client's session with `host mcp learn`, in which it calls one tool.
fn learn(home: &Home, name: &str, tool: &str, input: &Value) -> (String, String) {
    let allowed = format!("mcp__{name}");
    let mut host = home.host(&["mcp", "learn", name, "--yes", "--allow-tool", &allowed]);
    let host = host
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut host = host.spawn().unwrap();
    let mut stdin = host.stdin.take().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let client = json!({"name": "test", "version": "0"});
    let start = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
    let call = json!({"name": format!("mcp__{name}__{tool}"), "arguments": input});
    let mut ask = |id: u32, method: &str, params: &Value| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(stdin, "{request}").unwrap();
        loop {
            let line = lines.next().expect("an answer").unwrap();
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == json!(id) {
                return answer.to_string();
            }
        }
    };
    ask(1, "initialize", &start);
    ask(2, "tools/list", &json!({}));
    let answer = ask(3, "tools/call", &call);
    drop(stdin);
    let output = host.wait_with_output().unwrap();
    (answer, String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn refused_paths_and_hosts_are_learned() {
    if !allows_namespaces("host mcp learn") {
        return;
    }
    let Some(mut command) = node("server-filesystem") else {
        return;
    };
    let home = Home::new();
    fs::create_dir(home.at("documents")).unwrap();
    let documents = home.at("documents").canonicalize().unwrap();
    let file = documents.join("a.txt");
    fs::write(&file, "the text").unwrap();
    command.push(documents.to_string_lossy().into_owned());
    home.server_with("files", &command, "sandbox = {}");
    let input = json!({"path": file});
    let (answer, shown) = learn(&home, "files", "read_text_file", &input);
    assert!(answer.contains("EACCES"), "{answer}");
    assert!(
        shown.contains(&format!("read {}", documents.display())),
        "{shown}"
    );
    assert_learned(&home, &documents);
    let (answer, _) = learn(&home, "files", "read_text_file", &input);
    assert!(answer.contains("the text"), "{answer}");

    let Some(mut command) = python("mcp-server-fetch") else {
        return;
    };
    command.push("--allow-private-ips".to_owned());
    let port = web_server();
    home.server_with("fetch", &command, "sandbox = {}");
    let input = json!({"url": format!("http://127.0.0.1:{port}/page"), "raw": true});
    let (_, shown) = learn(&home, "fetch", "fetch", &input);
    assert!(
        shown.contains(&format!("connect to 127.0.0.1:{port}")),
        "{shown}"
    );
    let (answer, shown) = learn(&home, "fetch", "fetch", &input);
    assert!(answer.contains("User-agent"), "{answer} {shown}");
}

fn assert_learned(home: &Home, path: &Path) {
    let config = fs::read_to_string(home.config_file()).unwrap();
    assert!(
        config.contains(&format!("paths = [\"{}\"]", path.display())),
        "{config}"
    );
    let list = home.json(&["mcp", "list", "--json"]);
    assert_eq!(list[0]["state"], "connected", "{list}");
}
