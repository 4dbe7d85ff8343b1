//! Tests of server configurations: what is displayed, and what an approval is bound to.

use super::*;

fn stdio(command: &str, args: &[&str], env: &[&str]) -> ServerConfig {
    ServerConfig {
        name: "one".to_owned(),
        way: Way::Stdio(Program {
            command: command.into(),
            args: args.iter().map(|arg| (*arg).into()).collect(),
            env: env
                .iter()
                .map(|name| ((*name).to_owned(), Hidden("secret".to_owned())))
                .collect(),
            cwd: PathBuf::from("/home/me"),
        }),
        include: Vec::new(),
        exclude: Vec::new(),
        timeout: TIMEOUT,
        trust: false,
    }
}

#[test]
fn the_whole_command_is_shown_and_no_value_of_a_variable() {
    let config = stdio(
        "npx",
        &["-y", "a b", "it's", "\u{1b}[2J", &"x".repeat(5_000)],
        &["TOKEN"],
    );
    let shown = config.shown();
    assert!(
        shown.starts_with(r"npx -y 'a b' 'it'\''s' '\u{1b}[2J' xxx"),
        "{shown}"
    );
    assert!(shown.ends_with("\n  in /home/me\n  with $TOKEN"), "{shown}");
    assert!(shown.contains(&"x".repeat(5_000)));
    assert!(!shown.contains("secret"));
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn an_approval_is_for_this_very_command() {
    let digest = |config: ServerConfig| config.digest();
    let one = digest(stdio("npx", &["-y", "a"], &["A"]));
    assert_eq!(one, digest(stdio("npx", &["-y", "a"], &["A"])));
    for other in [
        stdio("npm", &["-y", "a"], &["A"]),
        stdio("npx", &["-ya"], &["A"]),
        stdio("npx", &["-y", "a", "A"], &[]),
        stdio("npx", &["-y", "a"], &["A", "B"]),
        stdio("npx", &["a", "-y"], &["A"]),
    ] {
        assert_ne!(one, digest(other));
    }
}

#[test]
fn a_yes_covers_the_variables_that_decide_what_runs() {
    let with = |name: &str, value: &str| {
        let mut config = stdio("srv", &[], &[]);
        if let Way::Stdio(program) = &mut config.way {
            program.env = BTreeMap::from([(name.to_owned(), Hidden(value.to_owned()))]);
        }
        config
    };
    for (name, decides) in [
        ("PATH", true),
        ("LD_PRELOAD", true),
        ("PYTHONPATH", true),
        ("NODE_OPTIONS", true),
        ("TOKEN", false),
        ("MY_PATH", false),
    ] {
        let (one, two) = (with(name, "/p1"), with(name, "/p2"));
        assert_eq!(one.digest() != two.digest(), decides, "{name}");
        assert_eq!(one.shown().contains("/p1"), decides, "{name}");
    }
}

#[test]
fn a_value_of_a_variable_is_shown_nowhere_and_is_part_of_the_yes() {
    let text = |value: &str| Expanded {
        value: format!("--key={value}"),
        shown: "--key=${KEY}".to_owned(),
        secrets: vec![value.to_owned()],
    };
    let with = |value: &str| {
        let mut config = stdio("srv", &[], &[]);
        if let Way::Stdio(program) = &mut config.way {
            program.args = vec![text(value)];
        }
        config
    };
    let (one, two) = (with("s3cret-1"), with("s3cret-2"));
    assert_eq!(one.shown(), "srv \"--key=${KEY}\"\n  in /home/me");
    assert!(!format!("{one:?}").contains("s3cret"), "{one:?}");
    assert_eq!(one.hide("bad --key=s3cret-1"), "bad --key=…");
    assert_ne!(one.digest(), two.digest());

    let url = Expanded {
        value: "https://example.org/mcp?key=s3 cret".to_owned(),
        shown: "https://example.org/mcp?key=${KEY}".to_owned(),
        secrets: vec!["s3 cret".to_owned()],
    };
    let other = Expanded {
        shown: "${URL}".to_owned(),
        secrets: vec![url.value.clone()],
        value: url.value.clone(),
    };
    let other = Address::parse("one", other, BTreeMap::new(), false).unwrap();
    assert_eq!(other.shown, "${URL} at https://example.org");
    let mut config = one;
    let address = Address::parse("one", url, BTreeMap::new(), false).unwrap();
    let debug = format!("{address:?}");
    assert!(!debug.contains("s3"), "{debug}");
    config.way = Way::Http(address);
    assert_eq!(config.shown(), "https://example.org/mcp?key=${KEY}");
    let said = "no answer from https://example.org/mcp?key=s3%20cret";
    assert_eq!(
        config.hide(said),
        "no answer from https://example.org/mcp?…"
    );
}

#[test]
fn addresses_that_can_be_spoken_to() {
    let parse = |url: &str, insecure| {
        Address::parse("one", url, BTreeMap::new(), insecure)
            .map_or_else(|error| error.to_string(), |_| "ok".to_owned())
    };
    for (url, insecure, expected) in [
        ("https://example.org/mcp", false, "ok"),
        ("http://127.0.0.1:8000/mcp", false, "ok"),
        ("http://[::1]:8000/mcp", false, "ok"),
        ("http://localhost/mcp", false, "ok"),
        ("http://example.org/mcp", true, "ok"),
        (
            "http://example.org/mcp",
            false,
            "server `one`: url `http://example.org/mcp` would be used without encryption; use https, or set `insecure = true`",
        ),
        (
            "http://localhost.example.org/",
            false,
            "server `one`: url `http://localhost.example.org/` would be used without encryption; use https, or set `insecure = true`",
        ),
        (
            "file:///etc/passwd",
            false,
            "server `one`: url `file:///etc/passwd` has no host",
        ),
        (
            "ftp://example.org",
            false,
            "server `one`: url `ftp://example.org` is neither https nor http",
        ),
        (
            "https://me:pw@example.org",
            false,
            "server `one`: url `https://me:pw@example.org` contains a password; set it in `headers` as `Authorization`",
        ),
        (
            "example",
            false,
            "server `one`: url `example` is not a URL such as https://example.org/mcp",
        ),
    ] {
        assert_eq!(parse(url, insecure), expected);
    }
}

#[test]
fn a_list_of_tools_names_them_by_the_server_s_own_names() {
    let mut config = stdio("x", &[], &[]);
    config.include = vec!["get-*".to_owned(), "echo".to_owned()];
    config.exclude = vec!["*-env".to_owned()];
    for (tool, wanted) in [
        ("get-sum", true),
        ("get-env", false),
        ("echo", true),
        ("echo2", false),
        ("forget-x", false),
    ] {
        assert_eq!(config.wants(tool), wanted, "{tool}");
    }
    assert!(fits("a*b*c", "a1b2c") && !fits("a*b*c", "a1c2b") && fits("*", ""));
}
