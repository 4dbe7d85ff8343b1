//! Tests of approvals.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use rmcp::model::Tool;
use serde_json::{Value, json};

use super::*;
use crate::testing;
use crate::tool_conversion::convert_tools;

const ONE: Digest = Digest([1; 32]);
const TWO: Digest = Digest([2; 32]);

/// Tools as a server `a` would list them: own names and descriptions.
fn listed(tools: &[(&str, &str)]) -> Vec<AdoptedTool> {
    let tools = tools.iter().map(|(own, description)| {
        let Value::Object(schema) = json!({"type": "object"}) else {
            unreachable!()
        };
        Tool::new(
            (*own).to_owned(),
            (*description).to_owned(),
            Arc::new(schema),
        )
    });
    convert_tools(&testing::config("a"), tools.collect(), &|_| Ok(())).0
}

/// The names that are served, and with a `!` those that are not.
fn judged(approvals: &Approvals, digest: Digest, tools: &[(&str, &str)]) -> String {
    match approvals.compare("a", digest, listed(tools)) {
        Ok(judged) => {
            let same = judged.same.iter().map(name);
            let changed = judged.changed.iter();
            let changed = changed.map(|change| format!("!{}", name(&change.now)));
            let all: Vec<_> = same.chain(changed).collect();
            all.join(" ").replace("mcp__a__", "")
        }
        Err(error) => error.to_string(),
    }
}

/// Runs the steps in memory and with files; the results must not differ.
fn check(steps: impl Fn(&Approvals)) {
    steps(&Approvals::in_memory());
    let dir = tempfile::tempdir().unwrap();
    steps(&Approvals::in_folder(dir.path().join("state/approved")));
}

/// Like `host mcp approve`: first compares, then approves.
fn approve_all(approvals: &Approvals, tools: &[(&str, &str)]) {
    let judged = approvals.compare("a", ONE, listed(tools)).unwrap();
    approvals
        .approve_tools("a", ONE, &judged.same, &judged.changed)
        .unwrap();
}

#[test]
fn an_approval_is_bound_to_the_command_and_the_definitions() {
    check(|approvals| {
        assert!(!approvals.is_approved("a", ONE).unwrap());
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert!(approvals.is_approved("a", ONE).unwrap());
        assert!(!approvals.is_approved("a", TWO).unwrap());
        assert!(!approvals.is_approved("b", ONE).unwrap());

        let (before, after) = ([("t", "good")], [("t", "bad")]);
        assert_eq!(judged(approvals, ONE, &before), "t");
        // It remains changed, however often it is listed.
        assert_eq!(judged(approvals, ONE, &after), "!t");
        assert_eq!(judged(approvals, ONE, &after), "!t");
        approve_all(approvals, &after);
        assert_eq!(judged(approvals, ONE, &after), "t");
        assert_eq!(judged(approvals, ONE, &before), "!t");

        // Another command needs a new approval, which approves no other definitions.
        approvals.approve("a", TWO, &BTreeSet::new()).unwrap();
        assert!(!approvals.is_approved("a", ONE).unwrap());
        let more = [("t", "bad"), ("new", "EVIL")];
        assert_eq!(judged(approvals, TWO, &before), "!t");
        assert_eq!(judged(approvals, TWO, &more), "t !new");
        assert!(approvals.forget("a").unwrap());
        assert!(!approvals.forget("a").unwrap());
        assert!(!approvals.is_approved("a", TWO).unwrap());
    });
}

#[test]
fn only_a_user_creates_an_approval() {
    let taken = "its approval was revoked or belongs to another command; run `host mcp approve a`";
    check(|approvals| {
        let refused = || {
            assert_eq!(judged(approvals, ONE, &[("t", "good")]), taken);
            let tools = listed(&[("t", "good")]);
            let error = approvals.approve_tools("a", ONE, &tools, &[]);
            assert_eq!(error.unwrap_err().to_string(), taken);
            assert!(!approvals.is_approved("a", ONE).unwrap());
        };
        refused();
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        judged(approvals, ONE, &[("t", "good")]);
        // The server keeps running while it is removed, or while its command is changed.
        approvals.forget("a").unwrap();
        refused();
        approvals.approve("a", TWO, &BTreeSet::new()).unwrap();
        refused();
        assert!(approvals.is_approved("a", TWO).unwrap());
    });
}

#[test]
fn a_tool_with_another_spelling_is_not_new() {
    for (before, after, expected) in [
        (&["get-sum"][..], &["get_sum"][..], "!get_sum"),
        (&["get-sum"], &["getSum"], "!get_sum"),
        // A rule with the name `getSum` also matches `getsum`.
        (&["getSum"], &["getsum"], "!getsum"),
        (&["getSum"], &["getsum!"], "!getsum"),
        // A tool whose own name equals an assigned name takes that name; a rule for `get-sum` must not match it.
        (
            &["get-sum"],
            &["get-sum", "get_sum"],
            "!get_sum !get_sum_6f3208",
        ),
        (&["get-sum"], &["get_sums"], "!get_sums"),
    ] {
        check(|approvals| {
            approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
            let good: Vec<_> = before.iter().map(|own| (*own, "Adds.")).collect();
            let evil: Vec<_> = after.iter().map(|own| (*own, "EVIL")).collect();
            judged(approvals, ONE, &good);
            assert_eq!(judged(approvals, ONE, &evil), expected, "{before:?}");
            approve_all(approvals, &evil);
            let allowed = expected.replace('!', "");
            assert_eq!(judged(approvals, ONE, &evil), allowed, "{before:?}");
        });
    }
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert_eq!(judged(approvals, ONE, &[("get-sum", "Adds.")]), "get_sum");
        // The same tool, renamed because of another one.
        let both = [("get-sum", "Adds."), ("get_sum", "EVIL")];
        assert_eq!(judged(approvals, ONE, &both), "get_sum_6f3208 !get_sum");
    });
}

#[test]
fn a_15_a_tool_added_after_the_approval_needs_approval() {
    let (first, more) = ([("t", "good")], [("t", "good"), ("new", "EVIL")]);
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert_eq!(judged(approvals, ONE, &first), "t");
        for _ in 0..2 {
            assert_eq!(judged(approvals, ONE, &more), "t !new");
        }
        let changed = approvals.compare("a", ONE, listed(&more)).unwrap().changed;
        assert_eq!(changed[0].earlier, ApprovedDefinition::Nothing);
        let shown = changed[0].difference(Instant::now() + LOCK_TIMEOUT);
        assert!(shown.contains("+  \"description\": \"EVIL\""), "{shown}");
        approve_all(approvals, &more);
        assert_eq!(judged(approvals, ONE, &more), "new t");
    });
    // A server without tools has been listed, too.
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert_eq!(judged(approvals, ONE, &[]), "");
        assert_eq!(judged(approvals, ONE, &first), "!t");
        // Approved again without a change, it still counts as listed.
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert_eq!(judged(approvals, ONE, &first), "!t");
    });
}

#[test]
fn a_15_tools_seen_by_a_running_host_can_be_approved_by_another_program() {
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        judged(approvals, ONE, &[("t", "good")]);
        assert!(approvals.waiting("a", ONE).unwrap().is_empty());
        // The server adds tools only while a host is running it.
        let later = [("t", "other"), ("new", "EVIL")];
        assert_eq!(judged(approvals, ONE, &later), "!t !new");
        let waiting = approvals.waiting("a", ONE).unwrap();
        assert!(approvals.waiting("a", TWO).is_err());
        let shown: Vec<_> = waiting
            .iter()
            .map(|change| change.difference(Instant::now() + LOCK_TIMEOUT))
            .collect();
        assert!(
            shown[0].contains("+  \"description\": \"EVIL\""),
            "{shown:?}"
        );
        assert!(
            shown[1].contains("-  \"description\": \"good\""),
            "{shown:?}"
        );
        approvals.approve_tools("a", ONE, &[], &waiting).unwrap();
        assert_eq!(judged(approvals, ONE, &later), "new t");
        assert!(approvals.waiting("a", ONE).unwrap().is_empty());
    });
}

#[test]
fn a_15_a_file_with_tools_counts_as_listed() {
    let dir = tempfile::tempdir().unwrap();
    let approvals = Approvals::in_folder(dir.path().to_owned());
    approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
    judged(&approvals, ONE, &[("t", "good")]);
    let path = dir.path().join("a.json");
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    stored.as_object_mut().unwrap().remove("listed").unwrap();
    fs::write(&path, stored.to_string()).unwrap();
    let more = [("t", "good"), ("new", "EVIL")];
    assert_eq!(judged(&approvals, ONE, &more), "t !new");
}

#[test]
fn a_tool_hidden_during_review_cannot_change() {
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        judged(approvals, ONE, &[("pay", "good"), ("t", "good")]);
        approve_all(approvals, &[("t", "other")]);
        let now = [("pay", "EVIL"), ("t", "other")];
        assert_eq!(judged(approvals, ONE, &now), "t !pay");
    });
}

#[test]
fn stored_definitions_are_bounded_and_never_evicted() {
    let names: Vec<String> = (0..=MAX_TOOLS).map(|at| format!("t{at:04}")).collect();
    let tools: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), "Does it."))
        .collect();
    let (first, last) = (&tools[..MAX_TOOLS], &tools[MAX_TOOLS..]);
    check(|approvals| {
        approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
        assert!(!judged(approvals, ONE, first).contains('!'));
        assert_eq!(judged(approvals, ONE, last), "!t2000");
        assert_eq!(judged(approvals, ONE, &[("t0000", "EVIL")]), "!t0000");
        // The user can make room.
        approve_all(approvals, last);
        assert_eq!(judged(approvals, ONE, last), "t2000");
    });
    let large = |at: u8| {
        let mut tool = listed(&[(&format!("t{at}"), "")]).remove(0);
        tool.definition.json = Value::String("x".repeat(8 << 20));
        tool.definition.digest = Digest([at; 32]);
        tool
    };
    let approvals = Approvals::in_memory();
    approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
    let compared = approvals
        .compare("a", ONE, (0..4).map(large).collect())
        .unwrap();
    assert_eq!((compared.same.len(), compared.changed.len()), (3, 1));
    // The user has not seen that the others would be removed.
    let mut larger = large(0);
    larger.definition.json = Value::String("x".repeat(20 << 20));
    let change = ToolChange {
        now: larger,
        earlier: ApprovedDefinition::Other("{}".to_owned()),
    };
    let error = approvals
        .approve_tools("a", ONE, &[], &[change])
        .unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
}

#[test]
fn a_broken_file_affects_only_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let approvals = Approvals::in_folder(dir.path().to_owned());
    approvals.approve("b", ONE, &BTreeSet::new()).unwrap();
    fs::write(dir.path().join("a.json"), "{").unwrap();
    let error = approvals.is_approved("a", ONE).unwrap_err();
    assert!(error.to_string().contains("approve `a` again"), "{error}");
    assert!(judged(&approvals, ONE, &[]).contains("cannot be read"));
    assert!(approvals.is_approved("b", ONE).unwrap());
    assert!(approvals.forget("a").unwrap());
    assert!(!approvals.is_approved("a", ONE).unwrap());
}

#[test]
fn approvals_are_readable_only_by_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("approved");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    Approvals::in_folder(folder.clone())
        .approve("a", ONE, &BTreeSet::new())
        .unwrap();
    for (path, mode) in [("", 0o700), ("a.json", 0o600), ("a.lock", 0o600)] {
        let found = folder.join(path).metadata().unwrap().permissions().mode();
        assert_eq!(found & 0o777, mode, "{path}");
    }
}

#[test]
fn a_held_lock_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let approvals = Approvals::in_folder(dir.path().to_owned());
    approvals.approve("a", ONE, &BTreeSet::new()).unwrap();
    let held = File::open(dir.path().join("a.lock")).unwrap();
    held.lock().unwrap();
    let error = file::lock(dir.path(), "a", Duration::ZERO).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has been locked by another program"),
        "{error}"
    );
    // Reading needs no lock, and other servers have separate locks.
    assert!(approvals.is_approved("a", ONE).unwrap());
    approvals.approve("b", ONE, &BTreeSet::new()).unwrap();
    drop(held);
    assert!(approvals.forget("a").unwrap());
}

#[test]
fn names_with_path_components_are_refused() {
    let approvals = Approvals::in_folder(tempfile::tempdir().unwrap().path().to_owned());
    for name in ["", "../a", "a/b", "."] {
        assert!(
            approvals.approve(name, ONE, &BTreeSet::new()).is_err(),
            "{name}"
        );
    }
}

#[test]
fn an_approval_covers_only_the_paths_that_were_shown() {
    let paths = |paths: &[&str]| -> BTreeSet<PathBuf> { paths.iter().map(PathBuf::from).collect() };
    let root = tempfile::tempdir().unwrap();
    for approvals in [
        Approvals::in_memory(),
        Approvals::in_folder(root.path().join("approved")),
    ] {
        let script = paths(&["/p/tools/s.py", "/usr/lib"]);
        assert!(approvals.check_reads("a", &script).is_err());
        approvals.approve("a", ONE, &script).unwrap();
        for (reads, new) in [
            (&["/p/tools/s.py", "/usr/bin", "/opt/x"][..], None),
            (&["/p/tools/s.py/below"], None),
            (&[], None),
            (&["/p"], Some("/p")),
            (&["/p/tools/s.py", "/q"], Some("/q")),
        ] {
            let checked = approvals.check_reads("a", &paths(reads));
            let error = checked.err().map(|error| error.to_string());
            let expected = new.map(|new| {
                format!("its sandbox would let it read {new}, which is not approved; run `host mcp approve a`")
            });
            assert_eq!(error, expected, "{reads:?}");
        }
    }
    // An approval from before the paths were stored covers none.
    let file = root.path().join("approved/a.json");
    let mut stored: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    stored.as_object_mut().unwrap().remove("reads");
    fs::write(&file, stored.to_string()).unwrap();
    let approvals = Approvals::in_folder(root.path().join("approved"));
    assert!(approvals.is_approved("a", ONE).unwrap());
    assert!(approvals.check_reads("a", &paths(&["/usr/lib"])).is_ok());
    assert!(
        approvals
            .check_reads("a", &paths(&["/p/tools/s.py"]))
            .is_err()
    );
}
