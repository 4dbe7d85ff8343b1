use toolhost_contract::policy::{Decision, Mode, PolicySpec, RuleSpec};
use toolhost_contract::{CallId, Policy, Principal, SessionKey};
use toolhost_kernel::CallContext;

use super::*;
use crate::settings::Excludes;

fn path(host: &Path, access: Access) -> AllowedPath {
    AllowedPath {
        host: host.to_owned(),
        guest: "/workspace".to_owned(),
        access,
        dangerous: false,
        exclude: Excludes {
            defaults: false,
            patterns: Vec::new(),
        },
    }
}

fn with_paths(paths: Vec<AllowedPath>) -> Settings {
    Settings {
        paths,
        ..Settings::default()
    }
}

/// The paths of a host after it was narrowed, relative to `root`.
fn narrowed(root: &Path, parent: Vec<AllowedPath>, child: Vec<AllowedPath>) -> Vec<String> {
    let mut child = with_paths(child);
    InheritedGrants::of(&with_paths(parent)).narrow(&mut child);
    let shown = |path: &AllowedPath| {
        let host = path.host.strip_prefix(root).unwrap().display();
        format!("{host} {} {}", path.guest, path.access.as_str())
    };
    child.paths.iter().map(shown).collect()
}

#[test]
fn a_sub_agent_gets_no_directory_that_its_parent_does_not_have() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let (inner, other) = (root.join("a/b"), root.join("other"));
    std::fs::create_dir_all(&inner).unwrap();
    std::fs::create_dir_all(&other).unwrap();
    let (a, rw, ro) = (root.join("a"), Access::ReadWrite, Access::ReadOnly);
    for (parent, child, expected) in [
        (vec![(&a, rw)], vec![(&a, rw)], vec!["a /workspace rw"]),
        (vec![(&a, ro)], vec![(&a, rw)], vec!["a /workspace ro"]),
        (
            vec![(&a, rw)],
            vec![(&inner, ro)],
            vec!["a/b /workspace ro"],
        ),
        (vec![(&inner, rw)], vec![(&a, rw)], vec![]),
        (vec![(&a, rw)], vec![(&other, ro)], vec![]),
        (vec![], vec![(&a, ro)], vec![]),
        (
            vec![(&a, rw), (&inner, ro)],
            vec![(&a, rw)],
            vec!["a /workspace rw", "a/b /workspace/b ro"],
        ),
        (
            vec![(&a, ro), (&inner, rw)],
            vec![(&inner, rw)],
            vec!["a/b /workspace rw"],
        ),
    ] {
        let paths = |list: Vec<(&PathBuf, Access)>| {
            list.into_iter()
                .map(|(host, access)| path(host, access))
                .collect()
        };
        assert_eq!(narrowed(&root, paths(parent), paths(child)), expected);
    }
}

#[test]
fn files_that_a_parent_does_not_see_stay_hidden() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let inner = root.join("b");
    std::fs::create_dir(&inner).unwrap();
    let hiding = |patterns: &[&str]| AllowedPath {
        exclude: Excludes {
            defaults: false,
            patterns: patterns.iter().map(ToString::to_string).collect(),
        },
        ..path(&root, Access::ReadOnly)
    };
    let mut child = with_paths(vec![hiding(&["*.log", "!.env"])]);
    InheritedGrants::of(&with_paths(vec![hiding(&[".env", "!x.log"])])).narrow(&mut child);
    assert_eq!(child.paths[0].exclude.patterns, ["*.log", "!.env", ".env"]);
    // A pattern with a directory is relative to the directory of the parent's grant.
    let mut below = with_paths(vec![path(&inner, Access::ReadOnly)]);
    let grants = InheritedGrants::of(&with_paths(vec![hiding(&["b/keys"])]));
    let removed = grants.narrow(&mut below);
    assert_eq!(removed, [format!("the path {}", inner.display())]);
    assert!(below.paths.is_empty());
}

#[test]
fn other_grants_are_narrowed_too() {
    let settings = |hosts: &[&str], programs: &[&str], env: &[&str], free: bool| Settings {
        env: env.iter().map(ToString::to_string).collect(),
        external_access: ExternalAccessSettings {
            hosts: hosts.iter().map(ToString::to_string).collect(),
            denied_hosts: vec![format!("denied.{free}")],
            programs: programs.iter().map(ToString::to_string).collect(),
            unconfined: free,
            program_network: free,
            ..ExternalAccessSettings::default()
        },
        ..Settings::default()
    };
    let parent = settings(&["a.example"], &["bash"], &["LANG"], false);
    let mut child = settings(
        &["a.example", "*"],
        &["bash", "python3"],
        &["LANG", "KEY"],
        true,
    );
    let removed = InheritedGrants::of(&parent).narrow(&mut child);
    assert_eq!(
        removed,
        ["the variable KEY", "the host *", "the program python3"]
    );
    let own = child.external_access;
    assert_eq!(
        (own.hosts, own.programs),
        (vec!["a.example".to_owned()], vec!["bash".to_owned()])
    );
    assert_eq!(own.denied_hosts, ["denied.true", "denied.false"]);
    assert!(!own.unconfined && !own.program_network);
    assert_eq!(child.env.into_iter().collect::<Vec<_>>(), ["LANG"]);
}

fn task(rules: Vec<RuleSpec>) -> AgentTask {
    let spec = PolicySpec {
        rules,
        ..PolicySpec::default()
    };
    AgentTask {
        agent: "general".to_owned(),
        task: serde_json::json!({}),
        policy: Arc::new(Policy::new(spec).unwrap()),
        call: CallId("c".to_owned()),
        caller: Principal::in_session(&SessionKey::local("s")),
        context: CallContext {
            mode: Some(Mode::ReadOnly),
            ..CallContext::default()
        },
    }
}

#[test]
fn the_limits_are_read_as_they_were_written() {
    let grants = InheritedGrants::of(&with_paths(vec![path(Path::new("/"), Access::ReadWrite)]));
    let text = grants
        .to_variable(&task(vec![RuleSpec::new(Decision::Deny, "Bash(git *)")]))
        .unwrap();
    let read: Inherited = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    assert!(read.limits(&Settings::default()).is_ok());
    let unknown = text.replacen('{', "{\"extra\":1,", 1);
    assert!(serde_json::from_str::<Inherited>(&unknown).is_err());
}

#[test]
fn rules_that_do_not_fit_into_a_variable_are_an_error() {
    let long = format!("Bash({}*)", "x".repeat(1_000));
    let rules = vec![RuleSpec::new(Decision::Deny, long); 100];
    let error = InheritedGrants::default()
        .to_variable(&task(rules))
        .unwrap_err();
    assert!(error.contains("the limit is 98304"), "{error}");
}
