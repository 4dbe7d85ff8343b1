//! Measures how much calls of one user slow down while another user exhausts the limits.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use e2e::http::{Client, Server, call, modern, modern_headers};
use e2e::test_env::TestEnv;
use serde_json::json;

use crate::workload::TOKENS;

/// Windows with and without an attack alternate, so that other load affects both.
const WINDOWS: usize = 8;
const WINDOW: Duration = Duration::from_secs(2);
/// Pause between windows, in which running requests end.
const PAUSE: Duration = Duration::from_millis(500);
const CONNECTIONS: usize = 8;

/// A request, serialized once so that the attacker's work is not measured.
struct Attack {
    name: &'static str,
    headers: String,
    body: String,
}

fn attacks() -> Vec<Attack> {
    let large = "x".repeat(900 << 10);
    let calls = [
        ("small calls", "read_file", json!({"path": "old.txt"})),
        (
            "searches of 2 000 files",
            "grep",
            json!({"pattern": "(a|b|ab)*c[0-9]+$", "path": "many"}),
        ),
        (
            "writes of 1 MiB",
            "write_file",
            json!({"path": "large.txt", "content": large}),
        ),
        (
            "programs",
            "shell",
            json!({"command": "head -c 50000000 /dev/zero | sha256sum"}),
        ),
        (
            "messages of 100 000 values",
            "read_file",
            json!({"path": "old.txt", "values": vec![0; 99_000]}),
        ),
    ];
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"},
    }});
    let sessions = Attack {
        name: "new sessions",
        headers: String::new(),
        body: hello.to_string(),
    };
    let calls = calls.map(|(name, tool, input)| Attack {
        name,
        headers: modern_headers("tools/call", tool),
        body: modern(call(1, tool, &input)).to_string(),
    });
    calls.into_iter().chain([sessions]).collect()
}

pub fn prepare(env: &TestEnv) {
    let many = env.workspace().join("many");
    std::fs::create_dir(&many).expect("a folder");
    for number in 0..2_000 {
        let text = format!("abababab {number}\n").repeat(200);
        std::fs::write(many.join(format!("{number}.txt")), text).expect("a file");
    }
}

/// Returns a table of medians, in microseconds.
pub fn table(server: &Server) -> String {
    let [(_, attacker), (_, other)] = TOKENS;
    let mut table = String::from(
        "| another user sends | requests | p50 without, µs | p50 with, µs | ratio |\n|---|---|---|---|---|\n",
    );
    let mut client = Client::connect(&server.address).with_token(other);
    // The first call waits until the plugins are compiled. An attacker that connected before it would be disconnected.
    client.call_modern(1, "read_file", &json!({"path": "old.txt"}));
    for attack in &attacks() {
        let (active, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let sent = AtomicU64::new(0);
        let (mut quiet, mut attacked) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                let mut client = Client::connect(&server.address).with_token(attacker);
                let (active, done, sent) = (&active, &done, &sent);
                scope.spawn(move || {
                    yield_to_the_host();
                    while !done.load(Ordering::Relaxed) {
                        if active.load(Ordering::Relaxed) {
                            client.send("POST", &attack.headers, &attack.body);
                            client.receive();
                            sent.fetch_add(1, Ordering::Relaxed);
                        } else {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                });
            }
            for _ in 0..WINDOWS {
                window(&mut client, &mut quiet);
                active.store(true, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
                window(&mut client, &mut attacked);
                active.store(false, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
            done.store(true, Ordering::Relaxed);
        });
        let (without, with) = (median(&mut quiet), median(&mut attacked));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        let (without, with) = (without.as_micros(), with.as_micros());
        let _ = writeln!(
            table,
            "| {} | {} | {without} | {with} | {ratio:.2} |",
            attack.name,
            sent.into_inner()
        );
    }
    table
}

/// Lowers the priority of an attacker thread, because a real attacker runs on another machine.
fn yield_to_the_host() {
    let lowest = 19;
    rustix::process::setpriority_process(None, lowest).expect("a lower priority is always allowed");
}

fn window(client: &mut Client, times: &mut Vec<Duration>) {
    let end = Instant::now() + WINDOW;
    while Instant::now() < end {
        let start = Instant::now();
        let answer = client.call_modern(1, "read_file", &json!({"path": "old.txt"}));
        times.push(start.elapsed());
        assert!(answer.text().contains("old"), "{answer:?}");
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
