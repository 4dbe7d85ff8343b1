//! The real program, killed at each step of a call's life: what was acknowledged is there, what was unfinished gets
//! its one end at the next start, and nothing happens twice.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use e2e::{CommandResult, host, root};
use expect_test::{Expect, expect};
use tempfile::TempDir;
use toolhost_store::{AnswerRow, CallFilter, Store, TransitionFilter, Verification};

const SIGKILL: i32 = 9;
/// So long a step may take to come on a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

struct Scene {
    dir: TempDir,
}

impl Scene {
    fn new(config: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("workspace")).unwrap();
        let config = format!("[store]\ndurability = \"every_step\"\n{config}");
        fs::write(dir.path().join("toolhost.toml"), config).unwrap();
        Self { dir }
    }

    fn host(&self, arguments: &[&str]) -> Command {
        let mut command = host(arguments);
        command
            .arg("--plugins")
            .arg(root().join("plugins"))
            .arg("--config")
            .arg(self.dir.path().join("toolhost.toml"))
            .arg("--allow-path")
            .arg(format!(
                "{}:rw",
                self.dir.path().join("workspace").display()
            ))
            .env("TOOLHOST_STATE_DIR", self.dir.path().join("state"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn write(&self, step: &str, more: &[&str]) -> Child {
        let mut arguments = vec!["call", "write_file", "path=out.txt", "content=x"];
        arguments.extend(more);
        self.host(&arguments)
            .env("TOOLHOST_CRASH_AT", step)
            .spawn()
            .unwrap()
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("workspace/out.txt")
    }

    fn store(&self) -> Store {
        Store::open(&self.dir.path().join("state/store")).unwrap()
    }

    /// Answers the first pending prompt.
    fn answer(&self, decision: &str) {
        let tokio = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let start = Instant::now();
        let waiting = CallFilter {
            state: Some("awaiting_approval".to_owned()),
            ..CallFilter::default()
        };
        loop {
            assert!(start.elapsed() < PATIENCE, "no call waits for approval");
            // The program creates the store.
            let exists = self.dir.path().join("state/store").exists();
            if let Some(call) = exists
                .then(|| self.store().calls(&waiting).unwrap())
                .and_then(|mut calls| calls.pop())
            {
                let row = AnswerRow {
                    asked_ms: None,
                    call: call.id,
                    decision: decision.to_owned(),
                    note: None,
                    payload: Some(serde_json::json!({"path": "other.txt", "content": "y"})),
                    by: "test".to_owned(),
                    at_ms: 0,
                };
                tokio.block_on(self.store().answer(row)).unwrap();
                return;
            }
            std::thread::yield_now();
        }
    }

    /// Starts the host again, and summarizes the records of the killed call.
    fn after(&self) -> String {
        let next = self.host(&["call", "current_time"]).output().unwrap();
        let next = CommandResult::of(&next);
        assert_eq!(next.code, Some(0), "{next:?}");
        let again = CommandResult::of(&self.host(&["call", "current_time"]).output().unwrap());
        assert!(
            !again.stderr.contains("did not finish"),
            "sealed twice: {again:?}"
        );
        let store = self.store();
        let killed = store
            .calls(&CallFilter::default())
            .unwrap()
            .into_iter()
            .find(|call| call.tool.as_deref() != Some("current_time"));
        let mut summary = String::new();
        if let Some(call) = killed {
            assert!(call.finished, "{call:?}");
            let filter = TransitionFilter {
                call: Some(call.id.clone()),
                ..TransitionFilter::default()
            };
            let rows = store.transitions(&filter).unwrap();
            let kinds: Vec<_> = rows.iter().map(|row| row.row.kind.as_str()).collect();
            summary += &kinds.join(" ");
            if let Some(note) = rows.last().and_then(|row| row.row.note.clone()) {
                summary.extend(["; ", &note]);
            }
        } else {
            summary += "no record";
        }
        summary += if self.file().exists() {
            "; written"
        } else {
            "; not written"
        };
        let verified = store.verify().unwrap();
        assert!(
            matches!(verified, Verification::Verified { .. }),
            "{verified:?}"
        );
        summary
    }
}

fn is_killed(mut child: Child) -> bool {
    child.wait().unwrap().signal() == Some(SIGKILL)
}

fn check(steps: &[&str], config: &str, more: &[&str], answer: Option<&str>, expected: Expect) {
    let mut summaries = String::new();
    for step in steps {
        let scene = Scene::new(config);
        let child = scene.write(step, more);
        if let Some(decision) = answer {
            scene.answer(decision);
        }
        assert!(is_killed(child), "no kill at {step}");
        summaries.extend([step, ": ", &scene.after(), "\n"]);
    }
    expected.assert_eq(&summaries);
}

#[test]
fn killed_on_the_way_of_an_allowed_call() {
    check(
        &[
            "requested",
            "validation_started",
            "tool_resolved",
            "scheduled",
            "started",
            "commit_authorized",
            "commit_begun",
            "commit-1",
            "commit-3",
            "commit_made",
            "commit_ended",
            "completed",
        ],
        "",
        &["--allow-tool", "write_file"],
        None,
        expect![[r#"
            requested: requested sealed; sealed: it had not started; it is safe to call again; not written
            validation_started: requested validation_started sealed; sealed: it had not started; it is safe to call again; not written
            tool_resolved: requested validation_started tool_resolved sealed; sealed: it had not started; it is safe to call again; not written
            scheduled: requested validation_started tool_resolved scheduled sealed; sealed: it had not started; it is safe to call again; not written
            started: requested validation_started tool_resolved scheduled started sealed; sealed: it was interrupted before its changes were made; it is safe to call again; not written
            commit_authorized: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: it was interrupted while it ran; verify its side effects before calling again; not written
            commit_begun: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: it was interrupted and its changes were reverted; check its files before calling again; not written
            commit-1: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: it was interrupted and its changes were reverted; check its files before calling again; not written
            commit-3: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: its changes to files were made before its host stopped; check them before calling again; written
            commit_made: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: its changes to files were made before its host stopped; check them before calling again; written
            commit_ended: requested validation_started tool_resolved scheduled started commit_authorized sealed; sealed: its changes to files were made before its host stopped; check them before calling again; written
            completed: requested validation_started tool_resolved scheduled started commit_authorized completed; written
        "#]],
    );
}

#[test]
fn killed_where_a_call_is_refused() {
    let deny = ["--deny-tool", "write_file"];
    check(
        &["denied"],
        "",
        &deny,
        None,
        expect![[r#"
            denied: requested validation_started tool_resolved denied; policy_violation: Permission denied: rule user:1 deny `write_file` forbids `write_file`; not written
        "#]],
    );
    check(
        &["failed"],
        "",
        &["extra=1"],
        None,
        expect![[r#"
            failed: requested validation_started tool_resolved failed; invalid_tool_params: Parameter validation failed: extra: unknown parameter; expected one of path, content, mode, encoding, create_dirs, expected_sha256, allow_empty; not written
        "#]],
    );
}

#[test]
fn killed_while_a_person_is_asked() {
    const WAIT: &str = "[policy]\non_headless_ask = \"callback\"\n";
    let scene = Scene::new(WAIT);
    assert!(is_killed(scene.write("approval_requested", &[])));
    expect!["requested validation_started tool_resolved scheduled started approval_requested sealed; sealed: it was waiting for approval and did not run; call again to ask again; not written"].assert_eq(&scene.after());
    check(
        &["approved"],
        WAIT,
        &[],
        Some("allow_once"),
        expect![[r#"
            approved: requested validation_started tool_resolved scheduled started approval_requested approved sealed; sealed: it was approved and had not started; it is safe to call again; not written
        "#]],
    );
    check(
        &["modified"],
        WAIT,
        &[],
        Some("modify"),
        expect![[r#"
            modified: requested validation_started tool_resolved scheduled started approval_requested modified sealed; sealed: it was waiting for approval and did not run; call again to ask again; not written
        "#]],
    );
    check(
        &["cancelled"],
        WAIT,
        &[],
        Some("cancel"),
        expect![[r#"
            cancelled: requested validation_started tool_resolved scheduled started approval_requested cancelled; cancelled: Permission denied: the user cancelled the prompt for `write_file`; not written
        "#]],
    );
}

#[test]
fn killed_while_hooks_have_their_say() {
    const KEEP: &str = r#"
[policy]
allow = ["write_file"]
[[hook]]
name = "h"
matcher = "write_file"
on = ["after"]
command = ["sh", "-c", "cat > /dev/null; echo {}"]
"#;
    const CHANGE: &str = r#"
[policy]
allow = ["write_file"]
[[hook]]
name = "h"
matcher = "write_file"
on = ["before"]
command = ["sh", "-c", """cat > /dev/null; echo '{"updated_input": {"path": "other.txt", "content": "y"}}'"""]
"#;
    check(
        &["post_processing"],
        KEEP,
        &[],
        None,
        expect![[r#"
            post_processing: requested validation_started tool_resolved scheduled started commit_authorized post_processing sealed; sealed: its changes to files were made before its host stopped; check them before calling again; written
        "#]],
    );
    check(
        &["input_changed"],
        CHANGE,
        &[],
        None,
        expect![[r#"
            input_changed: requested validation_started tool_resolved input_changed sealed; sealed: it had not started; it is safe to call again; not written
        "#]],
    );
}

#[test]
fn killed_while_it_seals_it_does_not_seal_twice() {
    let scene = Scene::new("");
    assert!(is_killed(
        scene.write("started", &["--allow-tool", "write_file"])
    ));
    let sealing = scene
        .host(&["call", "current_time"])
        .env("TOOLHOST_CRASH_AT", "sealed")
        .spawn()
        .unwrap();
    assert!(is_killed(sealing));
    expect!["requested validation_started tool_resolved scheduled started sealed; sealed: it was interrupted before its changes were made; it is safe to call again; not written"].assert_eq(&scene.after());
}

#[test]
fn what_a_caller_was_told_is_on_disk() {
    let scene = Scene::new("");
    // Without the wait for every step, which is how the program usually runs.
    fs::write(scene.dir.path().join("toolhost.toml"), "").unwrap();
    let arguments = ["--allow-tool", "write_file", "--json"];
    for _ in 0..5 {
        let _ = fs::remove_file(scene.file());
        let mut child = scene.write("never", &arguments);
        // The answer is the last thing that the program writes; it is killed as soon as there is a byte of it.
        let mut first = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let calls = scene.store().calls(&CallFilter::default()).unwrap();
    let states: Vec<_> = calls.iter().map(|call| call.state.as_str()).collect();
    assert_eq!(states, ["completed"; 5]);
}
