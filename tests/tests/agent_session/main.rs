//! A complete session of an agent: one scenario in native tool names, run with the names of each profile. Compares the
//! transcript of calls, prompts and the text that the model reads, and the files in the workspace.

mod page;
mod play;
mod scenario;
mod session;
mod spelling;
mod transcript;
mod workspace;

use std::collections::{BTreeSet, VecDeque};
use std::fs;

use e2e::root;
use expect_test::expect_file;
use serde_json::Value;

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

/// The names of the tools that a profile lists.
fn listed(profile: &str) -> BTreeSet<String> {
    let file = root().join(format!("tests/profiles/{profile}.json"));
    let tools: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// Walks the results that the model reads in all profiles, of the tools that it knows. Advice to the operator, which
/// quotes rules, has canonical names.
#[test]
fn results_name_only_tools_that_the_profile_lists() {
    let native = listed("native");
    for profile in ["claude", "sema", "gemini", "kode", "pegasus"] {
        let names = listed(profile);
        let is_hidden =
            |word: &str| word.contains('_') && native.contains(word) && !names.contains(word);
        let file = format!("tests/tests/agent_session/transcripts/{profile}.txt");
        let transcript = fs::read_to_string(root().join(file)).unwrap();
        let (mut calls, mut called, mut lines) = (VecDeque::new(), "", 0);
        for line in transcript.lines() {
            if line.starts_with("# ") {
                calls.clear();
            } else if line.starts_with("= ") {
                called = calls.pop_front().unwrap_or_default();
            } else if let Some(read) = line.strip_prefix("  | ") {
                if !names.contains(called) || read.contains("--allow-tool") {
                    continue;
                }
                lines += 1;
                let mut words = read.split(|c: char| !c.is_alphanumeric() && c != '_');
                let hidden = words.find(|word| is_hidden(word));
                assert_eq!(hidden, None, "{profile}: {called}: {read}");
            } else if let Some((name, _)) = line.split_once(" {") {
                calls.push_back(name);
            }
        }
        assert!(lines > 30, "{profile}: {lines} lines");
    }
}
