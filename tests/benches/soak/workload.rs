//! Workload of the soak test.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::http::{Client, Server, call};
use e2e::test_env::TestEnv;
use serde_json::{Value, json};

pub const TOKENS: [(&str, &str); 2] = [
    ("ann", "ann-ann-ann-ann-ann-ann"),
    ("bob", "bob-bob-bob-bob-bob-bob"),
];

/// Results by kind, and the first few unexpected ones.
#[derive(Default)]
pub struct Counts {
    done: Mutex<BTreeMap<&'static str, u64>>,
    unexpected: Mutex<Vec<String>>,
}

impl Counts {
    fn expect(&self, kind: &'static str, holds: bool, found: impl FnOnce() -> String) {
        *self.done.lock().expect("counts").entry(kind).or_default() += 1;
        let mut unexpected = self.unexpected.lock().expect("counts");
        if !holds && unexpected.len() < 20 {
            unexpected.push(format!("{kind}: {}", found()));
        }
    }

    pub fn unexpected(&self) -> Vec<String> {
        self.unexpected.lock().expect("counts").clone()
    }

    pub fn line(&self) -> String {
        let done = self.done.lock().expect("counts");
        let all: u64 = done.values().sum();
        format!("{all} results, {} unexpected", self.unexpected().len())
    }

    pub fn table(&self) -> String {
        let mut table = String::from("| results | count |\n|---|---|\n");
        for (kind, count) in self.done.lock().expect("counts").iter() {
            let _ = writeln!(table, "| {kind} | {count} |");
        }
        table
    }
}

/// One worker of a user, which opens, uses and ends or abandons sessions.
pub fn user(
    worker: usize,
    name: &str,
    token: &str,
    server: &Server,
    env: &TestEnv,
    counts: &Counts,
    stop: &AtomicBool,
) {
    let mut dropped = Instant::now();
    for round in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let mut client = Client::connect(&server.address).with_token(token);
        client.start_session();
        let mark = format!("{name}-{worker}-{round}");
        match worker {
            0 => files(&mut client, &mark, counts),
            1 => programs(&mut client, &mark, counts),
            _ => cancels(server, token, &mut client, &mark, counts),
        }
        // Two sessions per second are abandoned and end when they were idle for 5 s: fewer sessions and background programs
        // than the server allows a user.
        if dropped.elapsed() > Duration::from_millis(500) {
            dropped = Instant::now();
        } else {
            client.send("DELETE", "", "");
            let status = client.receive().status;
            counts.expect("sessions ended", status == 204 || status == 200, || {
                status.to_string()
            });
        }
        let _ = std::fs::remove_file(env.workspace().join(format!("{mark}.txt")));
    }
}

fn files(client: &mut Client, mark: &str, counts: &Counts) {
    let file = format!("{mark}.txt");
    let write = json!({"path": file, "content": format!("{mark}\n")});
    let written = client.call(1, "write_file", &write).json();
    counts.expect(
        "staged writes",
        written["result"]["isError"] != true,
        || written.to_string(),
    );
    for id in 2..30 {
        let read = client.call(id, "read_file", &json!({"path": file})).json();
        counts.expect("reads", read.to_string().contains(mark), || {
            read.to_string()
        });
    }
    let encode = client
        .call(30, "mcp__inner__base64_encode", &json!({"text": mark}))
        .json();
    counts.expect(
        "calls of another MCP server",
        encode["result"]["isError"] != true,
        || encode.to_string(),
    );
}

fn programs(client: &mut Client, mark: &str, counts: &Counts) {
    let echo = client
        .call(1, "shell", &json!({"command": format!("echo {mark}")}))
        .json();
    counts.expect("programs", echo.to_string().contains(mark), || {
        echo.to_string()
    });
    let sleep = json!({"command": "sleep 600", "run_in_background": true});
    let job = client.call(2, "shell", &sleep).json();
    counts.expect(
        "programs in the background",
        job["result"]["isError"] != true,
        || job.to_string(),
    );
}

/// Calls whose client disconnects.
fn cancels(server: &Server, token: &str, client: &mut Client, mark: &str, counts: &Counts) {
    for id in 1..4 {
        let mut gone = Client::connect(&server.address).with_token(token);
        gone.send_modern(id, "sleep", &json!({"duration": 20}));
        drop(gone);
        counts.expect("cancelled calls", true, String::new);
    }
    let missing = client
        .call(9, "read_file", &json!({"path": format!("missing-{mark}")}))
        .json();
    counts.expect("errors", missing["result"]["isError"] == true, || {
        missing.to_string()
    });
}

/// A stdio client that restarts its server after some calls.
pub fn stdio(env: &TestEnv, counts: &Counts, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let mut child = env
            .command_with_plugins(&["run"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("host starts");
        let mut input = child.stdin.take().expect("piped");
        let mut output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut ask = |message: &Value| -> Value {
            writeln!(input, "{message}").expect("the server reads");
            let line = output.next().and_then(Result::ok).unwrap_or_default();
            serde_json::from_str(&line).unwrap_or_default()
        };
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "0"},
        }});
        ask(&hello);
        for id in 1..200 {
            let read = ask(&call(id, "read_file", &json!({"path": "old.txt"})));
            counts.expect("reads over stdio", read.to_string().contains("old"), || {
                read.to_string()
            });
        }
        drop(input);
        let ended = child.wait().expect("host ends");
        counts.expect("stdio servers ended", ended.success(), || ended.to_string());
    }
}
