//! Output of programs: order, limits, and live delivery.

use toolhost_process::{ExitReason, Input, ProcessSettings, Stream};

use crate::fixture::{Host, LONG, assert_exit, owner, text};

//
#[tokio::test]
async fn streams_are_captured_separately_and_combined() {
    let host = Host::new();
    // Each line waits until the previous one was received, because two lines written at once can arrive in any order.
    let script = "heard() { until [ -e $1 ]; do sleep 0.02; done; }; echo a; heard 1; echo b >&2; heard 2; echo c";
    let (ws, mut received) = (host.ws(), 0);
    let mut on_output = |_, _: &[u8]| {
        received += 1;
        std::fs::write(ws.join(received.to_string()), "").unwrap();
    };
    let run = host
        .processes
        .run(host.sh(script), &mut on_output, std::future::pending());
    let finished = run.await.unwrap();
    assert_eq!(finished.stdout.whole().unwrap(), b"a\nc\n");
    assert_eq!(finished.stderr.whole().unwrap(), b"b\n");
    assert_eq!(text(&finished), "a\nb\nc");
    let file = finished.output_file.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a\nb\nc\n");
    let silent = host.run(host.sh("true")).await;
    assert_eq!(silent.output_file, None);
    host.processes.end_session(&owner("session").session).await;
    assert!(!file.exists());
}

//
#[tokio::test]
async fn output_is_delivered_live() {
    let host = Host::new();
    let mut chunks = Vec::new();
    // The second line waits for the file that the listener writes when it receives the first.
    let go = host.ws().join("go");
    let command = host.sh("echo one; while [ ! -e go ]; do sleep 0.05; done; echo two >&2");
    let mut on_output = |stream, bytes: &[u8]| {
        chunks.push((stream, String::from_utf8_lossy(bytes).into_owned()));
        std::fs::write(&go, "").unwrap();
    };
    host.processes
        .run(command, &mut on_output, std::future::pending())
        .await
        .unwrap();
    assert_eq!(
        chunks,
        [
            (Stream::Stdout, "one\n".to_owned()),
            (Stream::Stderr, "two\n".to_owned())
        ]
    );
}

// The three pieces are written in this order, each after the previous one was received.
#[tokio::test]
async fn c_14_combined_output_keeps_lines_whole() {
    let host = Host::with(|settings| settings.line_wait = LONG);
    let script = "heard() { until [ -e $1 ]; do sleep 0.02; done; }; printf 'cat: ' >&2; heard 1; echo ended; heard 2; \
                  echo 'x: denied' >&2";
    let (ws, mut received) = (host.ws(), 0);
    let mut on_output = |_, _: &[u8]| {
        received += 1;
        std::fs::write(ws.join(received.to_string()), "").unwrap();
    };
    let run = host
        .processes
        .run(host.sh(script), &mut on_output, std::future::pending());
    let finished = run.await.unwrap();
    assert_eq!(text(&finished), "cat: x: denied\nended");
    let file = finished.output_file.unwrap();
    assert_eq!(
        std::fs::read_to_string(file).unwrap(),
        "cat: x: denied\nended\n"
    );
}

// While a program waits for input after a prompt, the output of its other stream is shown nevertheless.
#[tokio::test]
async fn c_14_the_wait_for_a_line_end_is_bounded() {
    let host = Host::new();
    let mut command = host.sh("printf 'name: '; echo warning >&2; read name; echo $name");
    command.input = Input::Open;
    let job = host.processes.start(command).await.unwrap();
    let mut text = String::new();
    while !text.contains("warning\n") {
        let session = owner("session");
        let chunk = host.processes.read(&session, job.id, None, 4096, LONG);
        let chunk = chunk.await.unwrap();
        assert!(!chunk.bytes.is_empty(), "{text:?}");
        text += &String::from_utf8_lossy(&chunk.bytes);
    }
    assert!(text.contains("name: "), "{text:?}");
    host.processes
        .write(&owner("session"), job.id, b"me\n")
        .await
        .unwrap();
    let job = host
        .processes
        .wait(&owner("session"), job.id, LONG)
        .await
        .unwrap();
    assert_eq!(job.state.exit(), Some(ExitReason::Code(0)));
}

fn small(settings: &mut ProcessSettings) {
    settings.keep_text = 1000;
    settings.keep_output = 5000;
}

#[tokio::test]
async fn memory_use_does_not_grow_with_output() {
    let host = Host::with(small);
    let before = peak();
    let finished = host
        .run(host.sh("echo first; head -c 100000000 /dev/zero; echo; echo last"))
        .await;
    assert_exit(&finished, ExitReason::Code(0));
    assert_eq!(finished.combined.total, 100_000_012);
    assert_eq!(finished.combined.omitted(), 100_000_012 - 2000);
    assert!(finished.combined.head.starts_with(b"first\n"));
    assert!(finished.combined.tail.ends_with(b"\nlast\n"));
    assert_eq!(
        finished.output_file.unwrap().metadata().unwrap().len(),
        5000
    );
    let grown = peak() - before;
    assert!(grown < 64 << 10, "{grown} KiB");
}

/// The peak memory of this process, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

// EXE-09
#[tokio::test]
async fn too_much_output_ends_a_program() {
    let host = Host::with(|settings| {
        small(settings);
        settings.max_output = 1_000_000;
    });
    let finished = host.run(host.sh("yes")).await;
    assert_exit(&finished, ExitReason::TooMuchOutput);
    assert!(finished.combined.total >= 1_000_000);
}

#[tokio::test]
async fn output_bytes_are_unchanged() {
    let host = Host::new();
    let finished = host.run(host.sh("printf '\\377\\000\\033[31m'")).await;
    assert_eq!(finished.stdout.whole().unwrap(), b"\xff\0\x1b[31m");
}
