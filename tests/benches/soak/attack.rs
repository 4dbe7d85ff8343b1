//! How much slower the calls of one user become while another user does as much as the limits allow.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use e2e::desk::Desk;
use e2e::http::{Client, Server};
use serde_json::{Value, json};

use crate::load::TOKENS;

/// Quiet and attacked windows take turns, so that what else the machine does falls on both.
const ROUNDS: usize = 8;
const WINDOW: Duration = Duration::from_secs(2);
/// What is running when a window ends runs out before the next one begins.
const SETTLING: Duration = Duration::from_millis(500);
const CONNECTIONS: usize = 8;

struct Attack {
    name: &'static str,
    step: fn(&mut Client),
}

const ATTACKS: [Attack; 6] = [
    Attack {
        name: "small calls",
        step: |client| call(client, "read_file", &json!({"path": "old.txt"})),
    },
    Attack {
        name: "searches of 2 000 files",
        step: |client| {
            call(
                client,
                "grep",
                &json!({"pattern": "(a|b|ab)*c[0-9]+$", "path": "many"}),
            );
        },
    },
    Attack {
        name: "writes of 1 MiB",
        step: |client| {
            let input = json!({"path": "large.txt", "content": "x".repeat(900 << 10)});
            call(client, "write_file", &input);
        },
    },
    Attack {
        name: "programs",
        step: |client| {
            call(
                client,
                "shell",
                &json!({"command": "head -c 50000000 /dev/zero | sha256sum"}),
            );
        },
    },
    Attack {
        name: "new sessions",
        step: |client| {
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"},
            }});
            client.post("", &hello);
        },
    },
    Attack {
        name: "messages of 100 000 values",
        step: |client| {
            let input = json!({"path": "old.txt", "values": vec![0; 99_000]});
            call(client, "read_file", &input);
        },
    },
];

fn call(client: &mut Client, tool: &str, input: &Value) {
    client.call_modern(1, tool, input);
}

pub fn prepare(desk: &Desk) {
    let many = desk.workspace().join("many");
    std::fs::create_dir(&many).expect("a folder");
    for number in 0..2_000 {
        let text = format!("abababab {number}\n").repeat(200);
        std::fs::write(many.join(format!("{number}.txt")), text).expect("a file");
    }
}

/// A table of medians in microseconds.
pub fn table(server: &Server) -> String {
    let [(_, attacker), (_, other)] = TOKENS;
    let mut table = String::from(
        "| another user sends | p50 without, µs | p50 with, µs | ratio |\n|---|---|---|---|\n",
    );
    let mut client = Client::connect(&server.address).with_token(other);
    for attack in &ATTACKS {
        let (active, done) = (AtomicBool::new(false), AtomicBool::new(false));
        let (mut quiet, mut attacked) = (Vec::new(), Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                let mut client = Client::connect(&server.address).with_token(attacker);
                let (active, done) = (&active, &done);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        if active.load(Ordering::Relaxed) {
                            (attack.step)(&mut client);
                        } else {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    }
                });
            }
            for _ in 0..ROUNDS {
                window(&mut client, &mut quiet);
                active.store(true, Ordering::Relaxed);
                std::thread::sleep(SETTLING);
                window(&mut client, &mut attacked);
                active.store(false, Ordering::Relaxed);
                std::thread::sleep(SETTLING);
            }
            done.store(true, Ordering::Relaxed);
        });
        let (without, with) = (median(&mut quiet), median(&mut attacked));
        let ratio = with.as_secs_f64() / without.as_secs_f64();
        let (without, with) = (without.as_micros(), with.as_micros());
        let _ = writeln!(
            table,
            "| {} | {without} | {with} | {ratio:.2} |",
            attack.name
        );
    }
    table
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
