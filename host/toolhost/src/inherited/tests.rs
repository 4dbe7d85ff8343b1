use toolhost_contract::policy::{Decision, Mode, PolicySpec, RuleSpec};
use toolhost_contract::{AgentInfo, CallId, Policy, Principal, SessionKey};
use toolhost_kernel::CallContext;
use toolhost_vfs::ProtectedPath;

use super::*;
use crate::settings::{AgentSettings, Excludes, PluginSettings};

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
        // The narrower grant applies to a path that is granted twice.
        (
            vec![(&a, ro), (&a, rw)],
            vec![(&a, rw)],
            vec!["a /workspace ro"],
        ),
        (
            vec![(&a, rw), (&inner, ro)],
            vec![(&a, rw), (&inner, rw)],
            vec!["a /workspace rw", "a/b /workspace/b ro"],
        ),
    ] {
        let paths = |list: Vec<(&PathBuf, Access)>| {
            let mut paths = Vec::new();
            for (host, access) in list {
                let guest = guest_name(&paths, host);
                paths.push(AllowedPath {
                    guest,
                    ..path(host, access)
                });
            }
            paths
        };
        assert_eq!(narrowed(&root, paths(parent), paths(child)), expected);
    }
}

#[test]
fn the_lists_of_a_plugin_are_inherited_for_this_plugin_only() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    let name = PluginName::parse("files").unwrap();
    let paths = |access| Some(vec![path(&root, access)]);
    let settings = |general, own| {
        let own = PluginSettings {
            paths: own,
            env: Some(BTreeSet::from(["KEY".to_owned()])),
            ..PluginSettings::default()
        };
        Settings {
            per_plugin: BTreeMap::from([(name.clone(), own)]),
            ..with_paths(general)
        }
    };
    let (rw, ro) = (Access::ReadWrite, Access::ReadOnly);
    let general = |access| with_paths(vec![path(&root, access)]);
    let access = |settings: &Settings| {
        let own = settings.per_plugin.get(&name);
        let own = own.and_then(|own| own.paths.as_ref());
        let access = |paths: &Vec<AllowedPath>| paths.first().map(|path| path.access);
        (access(&settings.paths), own.and_then(access))
    };
    for (parent, child, expected) in [
        // Only the plugin may write.
        (settings(vec![], paths(rw)), general(rw), (None, Some(rw))),
        // The plugin may only read.
        (
            settings(vec![path(&root, rw)], paths(ro)),
            general(rw),
            (Some(rw), Some(ro)),
        ),
        (general(ro), settings(vec![], paths(rw)), (None, Some(ro))),
        (general(rw), general(rw), (Some(rw), None)),
    ] {
        let mut child = child;
        InheritedGrants::of(&parent).narrow(&mut child);
        assert_eq!(access(&child), expected);
        assert!(!child.env.contains("KEY"));
    }
    let mut child = with_paths(vec![]);
    child.env.insert("KEY".to_owned());
    let grants = InheritedGrants::of(&settings(vec![], None));
    assert_eq!(grants.narrow(&mut child), ["the variable KEY"]);
    let own = child.per_plugin[&name].env.clone();
    assert_eq!(own, Some(BTreeSet::from(["KEY".to_owned()])));
}

#[test]
fn files_that_a_parent_protects_stay_protected() {
    let agent = AgentSettings {
        info: AgentInfo {
            name: "general".to_owned(),
            description: String::new(),
        },
        command: vec!["/agents/run".to_owned()],
        timeout: None,
    };
    let parent = Settings {
        config_file: Some("/config.toml".into()),
        read_only: vec!["/rules.toml".into()],
        secrets: vec!["/key".into()],
        store: Some("/store".into()),
        plugins: vec!["/plugins".into()],
        external_access: ExternalAccessSettings {
            agents: vec![agent],
            ..ExternalAccessSettings::default()
        },
        ..Settings::default()
    };
    let mut child = Settings::default();
    InheritedGrants::of(&parent).narrow(&mut child);
    let (mut inherited, mut protected) = (protected_paths(&child), protected_paths(&parent));
    let path = |protected: &ProtectedPath| protected.path.clone();
    inherited.sort_by_key(path);
    protected.sort_by_key(path);
    assert_eq!(inherited, protected);
    assert_eq!(protected.len(), 6);
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
}

/// The paths of a host with their patterns after it was narrowed, relative to `root`, and what was removed.
fn patterns_below(
    root: &Path,
    parent: &[(&str, &[&str])],
    child: &[(&str, &[&str])],
) -> (Vec<String>, Vec<String>) {
    let paths = |list: &[(&str, &[&str])]| {
        let paths = list.iter().map(|(dir, patterns)| AllowedPath {
            exclude: Excludes {
                defaults: false,
                patterns: patterns.iter().map(ToString::to_string).collect(),
            },
            ..path(&root.join(dir), Access::ReadWrite)
        });
        with_paths(paths.collect())
    };
    let mut child = paths(child);
    let removed = InheritedGrants::of(&paths(parent)).narrow(&mut child);
    let shown = child.paths.iter().map(|path| {
        let host = path.host.strip_prefix(root).unwrap().display();
        format!("{host}: {}", path.exclude.patterns.join(" "))
    });
    let hidden = child.secrets.iter();
    let hidden =
        hidden.map(|path| format!("hidden: {}", path.strip_prefix(root).unwrap().display()));
    let removed = removed.into_iter();
    let removed = removed.map(|one| one.replace(&format!("{}/", root.display()), ""));
    (shown.chain(hidden).collect(), removed.collect())
}

/// Directories and their exclude patterns.
type Grants<'a> = &'a [(&'a str, &'a [&'a str])];

#[test]
fn patterns_with_a_directory_apply_to_grants_below_it() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join("p/sub/deep")).unwrap();
    let p = "p";
    let cases: [(Grants, Grants, &[&str], &[&str]); 8] = [
        // The host below grants a directory of the host above.
        (
            &[(p, &["sub/keys", "x/y", ".env"])],
            &[("p/sub", &["own/z"])],
            &["p/sub: own/z /keys .env"],
            &[],
        ),
        (
            &[(p, &["sub/"])],
            &[("p/sub", &[])],
            &[],
            &["the path p/sub (it is hidden there)"],
        ),
        (
            &[(p, &["/*", "!/sub/"])],
            &[("p/sub", &[])],
            &["p/sub: "],
            &[],
        ),
        (
            &[(p, &["{x/a,b}"])],
            &[(p, &[]), ("p/sub", &[])],
            &["p: {x/a,b}", "hidden: p/sub"],
            &[
                "the path p/sub (the pattern `{x/a,b}` cannot be applied to a directory below its own)",
            ],
        ),
        // The host above grants a directory of the host below, whose patterns stay in effect.
        (
            &[(p, &[]), ("p/sub", &["a"])],
            &[(p, &["sub/secret", "!sub/deep/secret", "*.log"])],
            &[
                "p: sub/secret !sub/deep/secret *.log",
                "p/sub: /secret !/deep/secret *.log a",
            ],
            &[],
        ),
        (
            &[(p, &[]), ("p/sub", &[])],
            &[(p, &["sub"])],
            &["p: sub"],
            &[],
        ),
        (
            &[(p, &["sub/"]), ("p/sub", &["a"])],
            &[(p, &[])],
            &["p: sub/", "p/sub: a"],
            &[],
        ),
        (
            &[(p, &[]), ("p/sub", &[])],
            &[(p, &["{x/a,b}"])],
            &["p: {x/a,b}", "hidden: p/sub"],
            &[
                "the path p/sub (the pattern `{x/a,b}` cannot be applied to a directory below its own)",
            ],
        ),
    ];
    for (parent, child, expected, expected_removed) in cases {
        let (shown, removed) = patterns_below(&root, parent, child);
        assert_eq!(shown, expected, "{parent:?} {child:?}");
        assert_eq!(removed, expected_removed, "{parent:?} {child:?}");
    }
}

#[test]
fn default_patterns_apply_to_directories_below_and_in_addition() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    std::fs::create_dir_all(root.join(".config/gh")).unwrap();
    let grant = |path: &Path| {
        with_paths(vec![AllowedPath {
            exclude: Excludes::default(),
            ..self::path(path, Access::ReadWrite)
        }])
    };
    let outer = InheritedGrants::of(&grant(&root));
    let mut child = grant(&root.join(".config"));
    assert!(outer.narrow(&mut child).is_empty());
    let patterns = &child.paths[0].exclude.patterns;
    for pattern in ["/gcloud/", "/gh/", "**/.docker/config.json", ".env"] {
        assert!(patterns.iter().any(|one| one == pattern), "{patterns:?}");
    }
    let mut child = grant(&root.join(".config/gh"));
    assert_eq!(outer.narrow(&mut child).len(), 1);
    assert!(child.paths.is_empty());
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
    // `*` covers public addresses only.
    let mut child = settings(
        &[
            "a.example",
            "*.b.example",
            "127.0.0.1",
            "localhost:80",
            "10.0.0.0/8",
        ],
        &[],
        &[],
        false,
    );
    let parent = settings(&["*", "10.0.0.0/8"], &[], &[], false);
    let removed = InheritedGrants::of(&parent).narrow(&mut child);
    assert_eq!(removed, ["the host 127.0.0.1", "the host localhost:80"]);
    let hosts = child.external_access.hosts;
    assert_eq!(hosts, ["a.example", "*.b.example", "10.0.0.0/8"]);
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
    let mut task = task(vec![RuleSpec::new(Decision::Deny, "Bash(git *)")]);
    let directories = Restriction::to_directories(&["/w".to_owned()], &task.policy).unwrap();
    task.context.restriction = Some(Arc::new(directories));
    let text = grants.to_variable(&task).unwrap();
    let read: Inherited = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    let memory = ExternalAccessSettings {
        memory: Some("/m".into()),
        ..ExternalAccessSettings::default()
    };
    let child = Settings {
        external_access: memory,
        ..Settings::default()
    };
    let lists = read.limits(&child).unwrap().directories();
    assert_eq!(lists.len(), 1);
    assert!(
        ["/w", "/m"]
            .iter()
            .all(|path| lists[0].iter().any(|one| one == path))
    );
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
