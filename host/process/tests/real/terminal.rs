//! Programs on a terminal.

use toolhost_process::{Command, ExitReason, Input, Signal};

use crate::fixture::{Host, LONG, assert_exit, owner, text};

fn on_terminal(host: &Host, script: &str, input: Input) -> Command {
    let mut command = host.sh(script);
    command.tty = true;
    command.input = input;
    command
}

#[tokio::test]
async fn a_program_sees_a_terminal() {
    let host = Host::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo $TERM && stty size && echo x > /dev/tty && tty";
    let finished = host.run(on_terminal(&host, script, Input::Open)).await;
    assert_exit(&finished, ExitReason::Code(0));
    let text = text(&finished);
    assert!(
        text.starts_with("xterm\r\n24 80\r\nx\r\n/dev/pts/"),
        "{text:?}"
    );
}

#[tokio::test]
async fn input_ends_on_a_terminal_too() {
    let host = Host::new();
    let finished = host
        .run(on_terminal(&host, "cat; echo end", Input::Closed))
        .await;
    assert!(text(&finished).ends_with("end"), "{:?}", text(&finished));
    let input = Input::Bytes(b"hello\n".to_vec());
    let finished = host
        .run(on_terminal(&host, "stty -echo; cat | tr a-z A-Z", input))
        .await;
    assert!(text(&finished).contains("HELLO"), "{:?}", text(&finished));
}

#[tokio::test]
async fn input_and_interrupts_are_delivered() {
    let host = Host::new();
    let script = "trap 'echo interrupted; exit 9' INT; echo ready; read line; echo \"<$line>\"; while :; do sleep 0.05; done";
    let job = host
        .processes
        .start(on_terminal(&host, script, Input::Open))
        .await
        .unwrap();
    let mut text = String::new();
    for (wanted, typed) in [("ready", "one\n"), ("<one>", "\u{3}"), ("interrupted", "")] {
        while !text.contains(wanted) {
            let chunk = host
                .processes
                .read(&owner("session"), job.id, None, 4096, LONG)
                .await
                .unwrap();
            assert!(!chunk.bytes.is_empty(), "{text:?}");
            text += &String::from_utf8_lossy(&chunk.bytes);
        }
        host.processes
            .write(&owner("session"), job.id, typed.as_bytes())
            .await
            .ok();
    }
    let job = host
        .processes
        .wait(&owner("session"), job.id, LONG)
        .await
        .unwrap();
    assert_eq!(job.state.exit(), Some(ExitReason::Code(9)));
}

#[tokio::test]
async fn the_terminal_of_another_job_is_not_accessible() {
    let host = Host::new();
    let job = host
        .processes
        .start(on_terminal(&host, "tty; sleep 1000", Input::Open))
        .await
        .unwrap();
    let chunk = host
        .processes
        .read(&owner("session"), job.id, None, 4096, LONG)
        .await
        .unwrap();
    let name = String::from_utf8(chunk.bytes).unwrap();
    let finished = host.run(host.sh(&format!("echo x > {name}"))).await;
    assert_ne!(finished.exit, ExitReason::Code(0));
    host.processes
        .kill(&owner("session"), job.id, Signal::Kill)
        .await
        .unwrap();
}
