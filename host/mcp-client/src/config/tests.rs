//! Tests of server configurations: what is displayed, and what an approval is bound to.

use super::*;

fn stdio(command: &str, args: &[&str], env: &[&str]) -> ServerConfig {
    ServerConfig {
        name: "one".to_owned(),
        transport: TransportConfig::Stdio(ServerProgram {
            command: command.into(),
            args: args.iter().map(|arg| (*arg).into()).collect(),
            env: env
                .iter()
                .map(|name| ((*name).to_owned(), HiddenValue("secret".to_owned())))
                .collect(),
            cwd: PathBuf::from("/home/me"),
            sandbox: crate::sandbox::ServerSandbox::Unconfined,
        }),
        include: Vec::new(),
        exclude: Vec::new(),
        timeout: TIMEOUT,
        is_trusted: false,
    }
}

#[test]
fn the_complete_command_is_displayed_without_values() {
    let config = stdio(
        "npx",
        &["-y", "a b", "it's", "\u{1b}[2J", &"x".repeat(5_000)],
        &["TOKEN"],
    );
    let shown = config.description();
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
fn the_digest_identifies_the_command() {
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
fn the_digest_covers_variables_that_affect_the_program() {
    let with = |name: &str, value: &str| {
        let mut config = stdio("srv", &[], &[]);
        if let TransportConfig::Stdio(program) = &mut config.transport {
            program.env = BTreeMap::from([(name.to_owned(), HiddenValue(value.to_owned()))]);
        }
        config
    };
    for (name, decides) in [
        ("PATH", true),
        ("LD_PRELOAD", true),
        ("PYTHONPATH", true),
        ("NODE_OPTIONS", true),
        ("npm_config_registry", true),
        ("NPM_CONFIG_SCRIPT_SHELL", true),
        ("UV_INDEX_URL", true),
        ("PIP_INDEX_URL", true),
        ("GIT_SSH_COMMAND", true),
        ("JDK_JAVA_OPTIONS", true),
        ("_JAVA_OPTIONS", true),
        ("JAVA_TOOL_OPTIONS", true),
        ("DOTNET_STARTUP_HOOKS", true),
        ("GCONV_PATH", true),
        ("GLIBC_TUNABLES", true),
        ("BASH_ENV", true),
        ("HOME", true),
        ("XDG_CONFIG_HOME", true),
        ("npm_config_//registry.example/:_authToken", false),
        ("UV_PUBLISH_PASSWORD", false),
        ("GITHUB_TOKEN", false),
        ("TOKEN", false),
        ("MY_PATH", false),
    ] {
        let (one, two) = (with(name, "/p1"), with(name, "/p2"));
        assert_eq!(one.digest() != two.digest(), decides, "{name}");
        assert_eq!(one.description().contains("/p1"), decides, "{name}");
    }
    let index = "https://me:pw12345@pypi.example/simple";
    let shown = with("UV_INDEX_URL", index).description();
    assert!(
        shown.ends_with("$UV_INDEX_URL=https://me:***@pypi.example/simple"),
        "{shown}"
    );
}

#[test]
fn values_are_not_displayed_but_part_of_the_digest() {
    let text = |value: &str| ExpandedText {
        value: format!("--key={value}"),
        shown: "--key=${KEY}".to_owned(),
        secrets: vec![value.to_owned()],
    };
    let with = |value: &str| {
        let mut config = stdio("srv", &[], &[]);
        if let TransportConfig::Stdio(program) = &mut config.transport {
            program.args = vec![text(value)];
        }
        config
    };
    let (one, two) = (with("s3cret-1"), with("s3cret-2"));
    assert_eq!(one.description(), "srv \"--key=${KEY}\"\n  in /home/me");
    assert!(!format!("{one:?}").contains("s3cret"), "{one:?}");
    assert_eq!(one.mask("bad --key=s3cret-1"), "bad --key=…");
    assert_ne!(one.digest(), two.digest());

    let url = ExpandedText {
        value: "https://example.org/mcp?key=s3 cret".to_owned(),
        shown: "https://example.org/mcp?key=${KEY}".to_owned(),
        secrets: vec!["s3 cret".to_owned()],
    };
    let other = ExpandedText {
        shown: "${URL}".to_owned(),
        secrets: vec![url.value.clone()],
        value: url.value.clone(),
    };
    let other = ServerAddress::parse("one", other, BTreeMap::new(), false).unwrap();
    assert_eq!(other.shown, "${URL} at https://example.org");
    let mut config = one;
    let address = ServerAddress::parse("one", url, BTreeMap::new(), false).unwrap();
    let debug = format!("{address:?}");
    assert!(!debug.contains("s3"), "{debug}");
    config.transport = TransportConfig::Http(address);
    assert_eq!(config.description(), "https://example.org/mcp?key=${KEY}");
    let message = "no answer from https://example.org/mcp?key=s3%20cret";
    assert_eq!(
        config.mask(message),
        "no answer from https://example.org/mcp?…"
    );
}

#[test]
fn accepted_and_refused_urls() {
    let parse = |url: &str, insecure| {
        ServerAddress::parse("one", url, BTreeMap::new(), insecure)
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
fn tool_lists_use_the_server_s_names() {
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
        assert_eq!(config.includes(tool), wanted, "{tool}");
    }
    assert!(
        matches_pattern("a*b*c", "a1b2c")
            && !matches_pattern("a*b*c", "a1c2b")
            && matches_pattern("*", "")
    );
}

#[test]
fn the_sandbox_is_displayed_and_part_of_the_approval() {
    use crate::sandbox::{ServerNetwork, ServerProfile};
    let with = |sandbox: ServerSandbox| {
        let mut config = stdio("x", &[], &[]);
        if let TransportConfig::Stdio(program) = &mut config.transport {
            program.sandbox = sandbox;
        }
        config
    };
    let confined = |read: &[&str], write: &[&str], network: ServerNetwork| {
        with(ServerSandbox::Confined(ServerProfile {
            read: read.iter().map(Into::into).collect(),
            write: write.iter().map(Into::into).collect(),
            network,
        }))
    };
    let hosts =
        |hosts: &[&str]| ServerNetwork::Hosts(hosts.iter().map(|&host| host.to_owned()).collect());
    let all = [
        with(ServerSandbox::Unconfined),
        with(ServerSandbox::default()),
        confined(&["/a"], &[], hosts(&[])),
        confined(&[], &["/a"], hosts(&[])),
        confined(&[], &[], hosts(&["a.example"])),
        confined(&[], &[], ServerNetwork::Unrestricted),
    ];
    let digests: std::collections::BTreeSet<String> = all
        .iter()
        .map(|config| config.digest().to_string())
        .collect();
    assert_eq!(digests.len(), all.len());
    let shown = confined(&["/a\n  may read /b"], &["/c"], hosts(&["a.example"])).description();
    assert!(
        shown.ends_with(
            "\n  may read /a\\n  may read /b\n  may read and change /c\n  may connect to a.example"
        ),
        "{shown}"
    );
}
