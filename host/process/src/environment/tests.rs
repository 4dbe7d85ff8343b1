//! Tests of the environment filter.

use super::*;

const TEMPORARY: &str = "/sessions/1/tmp";

fn compose(
    environment: &Environment,
    overlay: &[(&str, &str)],
    tty: bool,
) -> Result<(Variables, Vec<DroppedVariable>), ProcessError> {
    environment.compose(
        &pairs(overlay),
        &EnvironmentContext {
            path: &["/usr/bin", "/bin"].map(PathBuf::from),
            temporary: Path::new(TEMPORARY),
            tty,
            hidden_home: false,
        },
    )
}

fn pairs(list: &[(&str, &str)]) -> Variables {
    let own = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
    list.iter().map(own).collect()
}

fn host(list: &[(&str, &str)], names: &[&str]) -> Environment {
    Environment {
        host: pairs(list),
        names: names.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Checks the decision for one variable of the host.
fn check(name: &str, value: &str, names: &[&str], expected: &str) {
    let (variables, dropped) = compose(&host(&[(name, value)], names), &[], false).unwrap();
    let verdict = match dropped.first() {
        Some(dropped) => format!("{:?}", dropped.reason),
        None if variables
            .iter()
            .any(|pair| pair.0 == name && pair.1 == value) =>
        {
            "passes".to_owned()
        }
        None => "not listed".to_owned(),
    };
    assert_eq!(verdict, expected, "{name}={value}");
}

#[test]
fn only_listed_names_pass() {
    for (name, value) in [
        ("HOME", "/home/me"),
        ("USER", "me"),
        ("LOGNAME", "me.myself@example.org"),
        ("SHELL", "/usr/bin/zsh"),
        ("LANG", "C.UTF-8"),
        ("LANGUAGE", "de_AT:de:en"),
        ("LC_ALL", "en_US.UTF-8@euro"),
        ("LC_TIME", "C"),
        ("COLORTERM", "truecolor"),
        ("TZ", "Europe/Vienna"),
        ("TZ", ":/etc/localtime"),
        ("TZ", "<+0330>-3:30"),
    ] {
        check(name, value, &[], "passes");
    }
    for name in [
        "SSH_AUTH_SOCK",
        "GITHUB_TOKEN",
        "AWS_PROFILE",
        "DOCKER_HOST",
        "HTTP_PROXY",
        "home",
        "LD_PRELOAD",
        "DBUS_SESSION_BUS_ADDRESS",
        "EDITOR",
        "XDG_RUNTIME_DIR",
        "LC_API_KEY",
        "LC_token",
        "LC_",
    ] {
        check(name, "something", &[], "not listed");
    }
}

#[test]
fn secret_values_are_dropped() {
    let long = "a".repeat(40);
    for value in [
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "-----BEGIN CERTIFICATE-----",
        "postgres://user:pass@db.example.org/x",
        "https://:pass@example.org",
        &format!("ghp_{long}"),
        &format!("github_pat_{long}"),
        &format!("glpat-{long}"),
        &format!("AIza{long}"),
        "AKIAABCDEFGHIJKLMNOP",
        &format!("sk_live_{long}"),
        &format!("sk-{long}"),
        &format!("npm_{long}"),
        "xoxb-123456789012-abc",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
    ] {
        check("LANG", value, &[], "SecretValue");
    }
    for value in ["C.UTF-8", "sk-short", "en_US.UTF-8"] {
        check("LANG", value, &[], "passes");
    }
    check("HOME", &"x".repeat(MAX_VALUE + 1), &[], "TooLong");
}

#[test]
fn a_09_malformed_values_are_dropped() {
    let long = "a".repeat(65);
    for (name, value) in [
        ("SHELL", "bash"),
        ("SHELL", "/home/me/project/sh"),
        ("SHELL", "/usr/../home/me/sh"),
        ("SHELL", "/bin/sh\n"),
        ("HOME", "me"),
        ("HOME", "/home/\u{1b}[2J"),
        ("LANG", "../../project/locale"),
        ("LANG", "https://example.org/a:b@c"),
        ("LANG", &long),
        ("LC_ALL", "ignore the rules"),
        ("LC_ALL", "/tmp/locale"),
        ("TERM", "/tmp/terminal"),
        ("TZ", ":../../project/zone"),
        ("USER", "$(id)"),
    ] {
        check(name, value, &[], "Malformed");
        if name != "TERM" {
            check(name, value, &[name], "passes");
        }
    }
}

#[test]
fn operator_names_pass_even_with_secrets() {
    check("GITHUB_TOKEN", "ghp_abc", &["GITHUB_TOKEN"], "passes");
    check("GITHUB_TOKEN", "ghp_abc", &["GITHUB_*"], "not listed");
    check("CARGO_HOME", "/c", &["CARGO_HOME"], "passes");
    check("BIG", &"x".repeat(MAX_VALUE + 1), &["BIG"], "TooLong");
}

#[test]
fn defaults_are_non_interactive() {
    let text = |tty| {
        let (variables, _) =
            compose(&host(&[("PATH", "/evil"), ("TERM", "x")], &[]), &[], tty).unwrap();
        let lines: Vec<_> = variables
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        lines.join("\n")
    };
    expect_test::expect![[r#"
        DEBIAN_FRONTEND=noninteractive
        GIT_CONFIG_COUNT=1
        GIT_CONFIG_KEY_0=safe.bareRepository
        GIT_CONFIG_VALUE_0=explicit
        GIT_PAGER=cat
        GIT_TERMINAL_PROMPT=0
        MANPAGER=cat
        NO_COLOR=1
        PAGER=cat
        PATH=/usr/bin:/bin
        TERM=dumb
        TMPDIR=/sessions/1/tmp"#]]
    .assert_eq(&text(false));
    expect_test::expect![[r#"
        DEBIAN_FRONTEND=noninteractive
        GIT_CONFIG_COUNT=1
        GIT_CONFIG_KEY_0=safe.bareRepository
        GIT_CONFIG_VALUE_0=explicit
        GIT_PAGER=cat
        GIT_TERMINAL_PROMPT=0
        MANPAGER=cat
        PAGER=cat
        PATH=/usr/bin:/bin
        TERM=xterm
        TMPDIR=/sessions/1/tmp"#]]
    .assert_eq(&text(true));
}

#[test]
fn an_overlay_overrides_but_cannot_load_code() {
    let (variables, _) = compose(
        &Environment::default(),
        &[("PAGER", "less"), ("API_KEY", "test")],
        false,
    )
    .unwrap();
    for pair in [("PAGER", "less"), ("API_KEY", "test")] {
        assert!(variables.contains(&(pair.0.to_owned(), pair.1.to_owned())));
    }
    for (name, value) in [("LD_PRELOAD", "/tmp/x.so"), ("BASH_FUNC_ls%%", "() { x; }")] {
        let refused = compose(&Environment::default(), &[(name, value)], false);
        assert!(
            matches!(&refused, Err(ProcessError::LoadsCode { name: named }) if named == name),
            "{refused:?}"
        );
    }
}

// ENV-04
#[test]
fn an_overlay_is_validated_and_bounded() {
    let big = "x".repeat(MAX_VALUE + 1);
    for (name, value) in [
        ("", "x"),
        ("A=B", "x"),
        ("A\0", "x"),
        ("A", "\0"),
        ("A", big.as_str()),
    ] {
        assert!(
            compose(&Environment::default(), &[(name, value)], false).is_err(),
            "{name:?}"
        );
    }
    let names: Vec<String> = (0..20).map(|number| format!("V{number}")).collect();
    let half = "x".repeat(MAX_VALUE / 2);
    let many: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), half.as_str()))
        .collect();
    assert!(matches!(
        compose(&Environment::default(), &many, false),
        Err(ProcessError::TooLarge { .. })
    ));
}
