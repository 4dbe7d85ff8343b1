//! Isolation of the users of a server: state is invisible to other users, is removed at the end of the session, and
//! does not delay other users.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use e2e::http::{Client, HttpResponse, Server};
use e2e::root;
use e2e::test_env::{TestEnv, poll_until};
use serde_json::{Value, json};

const ANN: &str = "ann-has-this-token-and-no-other";
const BOB: &str = "bob-has-this-token-and-no-other";
const SECRET: &str = "the-secret-of-ann";
/// Finds the secret and does not say it.
const WORD: &str = "the-secret-of";

/// A server with two users and all shipped tools that have state.
struct SharedServer {
    env: TestEnv,
    server: Server,
}

impl SharedServer {
    fn new() -> Self {
        Self::with(&[])
    }

    /// Grants the root of the test environment, which contains all state of the server.
    fn with(flags: &[&str]) -> Self {
        let env = TestEnv::new("");
        let tokens = env.path("tokens");
        fs::write(&tokens, format!("ann {ANN}\nbob {BOB}\n")).unwrap();
        fs::set_permissions(&tokens, fs::Permissions::from_mode(0o600)).unwrap();
        for folder in ["tmp", "memory"] {
            fs::create_dir(env.path(folder)).unwrap();
        }
        let mut command = env.command(&["run", "--http", "127.0.0.1:0", "--mode", "yolo"]);
        command.args(flags).env("TMPDIR", env.path("tmp"));
        for plugin in ["shell", "files", "search", "memory", "agent"] {
            let file = root().join(format!("plugins/{plugin}.wasm"));
            command.arg("--plugins").arg(file);
        }
        for program in ["bash", "sh"] {
            command.args(["--allow-program", program]);
        }
        command.arg("--memory").arg(env.path("memory"));
        command.arg("--http-token-file").arg(tokens);
        let workspace = format!("{}:rw", env.workspace().display());
        let all = format!("{}:ro", env.path("").display());
        command.args(["--allow-path", &workspace, "--allow-path", &all]);
        let server = Server::start(command);
        Self { env, server }
    }

    fn connect(&self, token: &str) -> Client {
        Client::connect(&self.server.address).with_token(token)
    }

    fn greeted(&self, token: &str) -> Client {
        let mut client = self.connect(token);
        client.start_session();
        client
    }

    /// The directories of the current sessions.
    fn session_directories(&self) -> Vec<PathBuf> {
        let folders = |dir: &Path| -> Vec<PathBuf> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            let dirs = entries
                .map(|entry| entry.path())
                .filter(|path| path.is_dir());
            dirs.collect()
        };
        let hosts = folders(&self.env.path("tmp")).into_iter();
        let hosts = hosts.flat_map(|scratch| folders(&scratch));
        hosts.flat_map(|host| folders(&host)).collect()
    }

    fn descriptors(&self) -> usize {
        let dir = format!("/proc/{}/fd", self.server.child.id());
        fs::read_dir(dir).unwrap().count()
    }
}

/// The number of processes whose command line contains `text`.
fn running(text: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let command_lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    command_lines.filter(|line| line.contains(text)).count()
}

fn ok(answer: &HttpResponse) -> String {
    let message = answer.json();
    assert_ne!(message["result"]["isError"], json!(true), "{message}");
    message["result"].to_string()
}

fn shell(client: &mut Client, command: &str) -> String {
    let answer = client.call(7, "shell", &json!({ "command": command }));
    ok(&answer)
}

fn start(client: &mut Client, command: &str) -> HttpResponse {
    let input = json!({"command": command, "run_in_background": true});
    client.call(8, "shell", &input)
}

#[test]
fn a_02_every_shared_place_is_empty_for_another_user_and_another_session() {
    let shared = SharedServer::new();
    let mut ann = shared.greeted(ANN);
    let first_output = shell(
        &mut ann,
        &format!("echo {SECRET}; echo {SECRET} > $TMPDIR/t; echo at $TMPDIR"),
    );
    let temporary = first_output.split("at /").nth(1).unwrap();
    let temporary = format!("/{}", temporary.split(['\\', '"', ' ']).next().unwrap());
    assert!(temporary.contains("/tmp"), "{first_output}");
    ok(&start(&mut ann, &format!("echo {SECRET}; sleep 1000")));
    let note = json!({"action": "write", "scope": "user", "content": SECRET});
    ok(&ann.call(2, "memory", &note));
    let note = json!({"action": "write", "scope": "session", "content": SECRET});
    ok(&ann.call(3, "memory", &note));
    let found = ann.call(4, "grep", &json!({"pattern": WORD, "path": "/output"}));
    assert!(ok(&found).contains("/output/1.log"), "{found:?}");
    let own = ok(&ann.call(5, "glob", &json!({"pattern": "**", "path": "/output"})));
    assert!(own.contains("/output/1.log"), "{own}");

    let env = shared.env.path("");
    let search = format!(
        "cat {temporary}/t; grep -rs {WORD} {} $TMPDIR/..",
        env.display()
    );
    let looks = |client: &mut Client, who: &str| {
        for (tool, input) in [
            ("grep", json!({"pattern": WORD, "path": "/output"})),
            ("grep", json!({"pattern": WORD, "path": "/workspace"})),
            ("grep", json!({"pattern": WORD, "path": "/extra/1"})),
            ("glob", json!({"pattern": "**/*.log", "path": "/output"})),
            ("glob", json!({"pattern": "**/*.log", "path": "/extra/1"})),
            ("list_directory", json!({"path": "/output"})),
            ("list_directory", json!({"path": "/extra/1/tmp"})),
            ("list_directory", json!({"path": "/extra/1/memory"})),
            ("shell_list", json!({})),
            ("shell_output", json!({"task_id": "job-2"})),
            ("memory", json!({"action": "list"})),
            ("memory", json!({"action": "search", "query": WORD})),
        ] {
            let answer = client.call(9, tool, &input).json().to_string();
            for secret in [
                SECRET,
                "1.log",
                "sleep 1000",
                "toolhost-output",
                "tmp-0",
                "users",
                "MEMORY.md",
            ] {
                assert!(
                    !answer.contains(secret),
                    "{who}: {tool} {input} shows {secret}: {answer}"
                );
            }
        }
        for (tool, input) in [
            ("read_file", json!({"path": "/output/1.log"})),
            ("read_file", json!({"path": format!("{temporary}/t")})),
            ("shell", json!({ "command": search })),
        ] {
            let answer = client.call(9, tool, &input).json().to_string();
            assert!(!answer.contains(SECRET), "{who}: {tool} {input}: {answer}");
        }
    };
    looks(&mut shared.greeted(BOB), "another user");
    // Another session of the same user shares the memory and nothing else.
    let mut second = shared.greeted(ANN);
    let memory = ok(&second.call(2, "memory", &json!({"action": "read", "scope": "user"})));
    assert!(memory.contains(SECRET), "{memory}");
    let output = ok(&second.call(3, "glob", &json!({"pattern": "**", "path": "/output"})));
    assert!(!output.contains(".log"), "{output}");
    let jobs = second
        .call(4, "shell_output", &json!({"task_id": "job-2"}))
        .json();
    assert_eq!(jobs["result"]["isError"], json!(true), "{jobs}");
    // Not after the end of the session either.
    ann.send("DELETE", "", "");
    assert_eq!(ann.receive().status, 204);
    looks(&mut shared.greeted(BOB), "another user, later");
}

#[test]
fn a_03_the_end_of_a_session_leaves_no_process_no_folder_and_no_descriptor() {
    const ROUNDS: usize = 12;
    let shared = SharedServer::new();
    let command = format!("sleep 10{}", std::process::id());
    let round = || {
        let mut ann = shared.greeted(ANN);
        for _ in 0..4 {
            ok(&start(&mut ann, &command));
        }
        poll_until(|| (running(&command) >= 4).then_some(()));
        ann.send("DELETE", "", "");
        assert_eq!(ann.receive().status, 204);
    };
    let quiet = || {
        poll_until(|| (running(&command) == 0).then_some(()));
        poll_until(|| shared.session_directories().is_empty().then_some(()));
    };
    round();
    quiet();
    let before = shared.descriptors();
    (0..ROUNDS).for_each(|_| round());
    quiet();
    // Connections may still be closing.
    poll_until(|| (shared.descriptors() <= before + 4).then_some(()));
}

#[test]
fn a_03_the_end_of_an_idle_session_ends_its_programs() {
    let shared = SharedServer::with(&["--http-idle", "5s"]);
    let command = format!("sleep 20{}", std::process::id());
    let mut ann = shared.greeted(ANN);
    ok(&start(&mut ann, &command));
    poll_until(|| shared.session_directories().is_empty().then_some(()));
    poll_until(|| (running(&command) == 0).then_some(()));
    assert_eq!(ann.call(9, "shell_list", &json!({})).status, 404);
}

#[test]
fn a_03_a_new_session_brings_no_room_for_more_programs() {
    let shared = SharedServer::new();
    let mut bob = shared.greeted(BOB);
    let mut sessions = Vec::new();
    let mut started = 0;
    let refused = 'all: loop {
        let mut ann = shared.greeted(ANN);
        for _ in 0..12 {
            let answer = start(&mut ann, "sleep 1000").json();
            if answer["result"]["isError"] == json!(true) {
                break 'all answer["result"].to_string();
            }
            started += 1;
        }
        assert!(started <= 100, "no limit");
        sessions.push(ann);
    };
    assert_eq!(started, 32, "{refused}");
    assert!(refused.contains("this user"), "{refused}");
    assert!(
        shell(&mut bob, "echo hi").contains("hi"),
        "another user has room"
    );
}

#[test]
fn c_02_a_long_call_of_one_session_does_not_hold_up_another() {
    let shared = SharedServer::new();
    let wait = json!({"command": "until [ -e go ]; do sleep 0.05; done; echo went on"});
    let mut ann = shared.greeted(ANN);
    let waiting = std::thread::spawn(move || ann.call(1, "shell", &wait));
    poll_until(|| (running("until [ -e go ]") > 0).then_some(()));
    for token in [BOB, ANN] {
        assert!(shell(&mut shared.greeted(token), "echo hi").contains("hi"));
    }
    let answer = shared
        .connect(BOB)
        .call_modern(1, "shell", &json!({"command": "echo hi"}));
    assert!(ok(&answer).contains("hi"));
    assert!(!waiting.is_finished(), "it waits for the file");
    fs::write(shared.env.workspace().join("go"), "").unwrap();
    let answer: Value = waiting.join().unwrap().json();
    assert!(answer.to_string().contains("went on"), "{answer}");
}

#[test]
fn a_02_a_mode_holds_only_for_the_user_who_set_it() {
    let shared = SharedServer::new();
    let write = |name: &str| json!({"path": name, "content": "x"});
    let says = |answer: &HttpResponse| answer.json()["result"].to_string();
    let (mut ann, mut bob) = (shared.greeted(ANN), shared.greeted(BOB));
    ok(&ann.call(1, "enter_plan_mode", &json!({})));
    let refused = says(&ann.call(2, "write_file", &write("ann")));
    assert!(refused.contains("in mode plan"), "{refused}");
    ok(&bob.call(1, "write_file", &write("bob")));
    // Requests without a session share one mode of their user.
    let (mut ann, mut bob) = (shared.connect(ANN), shared.connect(BOB));
    ok(&ann.call_modern(1, "write_file", &write("ann-2")));
    ok(&ann.call_modern(2, "enter_plan_mode", &json!({})));
    let refused = says(
        &shared
            .connect(ANN)
            .call_modern(3, "write_file", &write("ann-3")),
    );
    assert!(refused.contains("in mode plan"), "{refused}");
    ok(&bob.call_modern(1, "write_file", &write("bob-2")));
    ok(&shared.greeted(BOB).call(1, "write_file", &write("bob-3")));
    let written = |name: &str| shared.env.workspace().join(name).exists();
    for (name, exists) in [
        ("ann", false),
        ("bob", true),
        ("ann-2", true),
        ("ann-3", false),
        ("bob-2", true),
        ("bob-3", true),
    ] {
        assert_eq!(written(name), exists, "{name}");
    }
}
