//! A complete session of an agent: one scenario in native tool names, run with the names of each profile. Compares the
//! transcript of calls, prompts and the text that the model reads, and the files in the workspace.

mod page;
mod play;
mod scenario;
mod session;
mod spelling;
mod transcript;
mod workspace;

use e2e::root;
use expect_test::expect_file;

use session::Session;
use spelling::Profile;

/// The minimum number of calls of the scenario.
const CALLS: usize = 30;

fn check(profile: &Profile) {
    let page = page::serve();
    let mut session = Session::start(profile, &page);
    let before = workspace::tree(&session.workspace());
    let calls = scenario::play(&mut session, &page);
    assert!(calls >= CALLS, "{calls} calls");
    let after = workspace::tree(&session.workspace());
    assert_eq!(
        workspace::difference(&before, &after),
        scenario::LEFT,
        "{}",
        profile.name
    );
    session.leave();

    let last = session.last_undo().to_owned();
    session.undo(&[&last]);
    assert!(
        workspace::tree(&session.workspace()).contains_key("data/old.csv"),
        "the last change is taken back alone"
    );
    let id = session.id();
    session.undo(&["--session", &id]);
    let undone = workspace::tree(&session.workspace());
    assert_eq!(
        workspace::difference(&before, &undone),
        scenario::NOT_OURS,
        "{}",
        profile.name
    );

    let file = root().join(format!(
        "tests/tests/agent_session/transcripts/{}.txt",
        profile.name
    ));
    expect_file![file].assert_eq(&session.transcript());
}

#[test]
fn a_session_with_native_names() {
    check(&spelling::NATIVE);
}

#[test]
fn a_session_as_claude_code_has_it() {
    check(&spelling::CLAUDE);
}

#[test]
fn a_session_as_sema_has_it() {
    check(&spelling::SEMA);
}

#[test]
fn a_session_as_gemini_cli_has_it() {
    check(&spelling::GEMINI);
}

#[test]
fn a_session_as_kode_has_it() {
    check(&spelling::KODE);
}

#[test]
fn a_session_as_pegasus_has_it() {
    check(&spelling::PEGASUS);
}
