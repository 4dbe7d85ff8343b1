//! Fuzz targets for path patterns, domain patterns and imported rules.

use std::net::IpAddr;

use serde_json::Value;
use toolhost_fuzz_input::{assembled, check_message};
use url::Url;

use super::diagnostic::RuleSource;
use super::domain_pattern::{DomainPattern, host_of};
use super::path_pattern::{Mount, PathContext, PathPattern, PathRef};
use super::{Decision, Policy, PolicySpec, Tier, import};

const PATHS: &[&str] = &[
    "/",
    "//",
    "~",
    "~/",
    "./",
    "../",
    "..",
    ".",
    "*",
    "**",
    "**/",
    "/**",
    "?",
    "[",
    "]",
    "[!a]",
    "{a,b}",
    "{",
    "}",
    "\\",
    "!",
    "src",
    "SRC",
    ".env",
    "workspace",
    "project",
    "home/me",
    "/w",
    "/srv/x",
    "é",
    "É",
    "\u{202e}",
    "\0",
    "\u{17f}rc",
];

/// Fuzzes a pattern and a path, separated by a line break.
#[test]
fn fuzz_path() {
    let path_context = PathContext {
        cwd: "/workspace".to_owned(),
        home: Some("/home/me".to_owned()),
        root: Some("/workspace/project".to_owned()),
        mounts: vec![Mount {
            guest: "/w".to_owned(),
            host: "/srv/x".to_owned(),
        }],
    };
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, PATHS);
        let (pattern, path) = text.split_once('\n').unwrap_or(("**", &text));
        let path_ref = PathRef::parse(path, &path_context);
        for reading in path_ref.interpretations() {
            let mut names = reading.strip_prefix('/').expect(reading).split('/');
            let is_plain = |name| reading == "/" || !matches!(name, "" | "." | "..");
            assert!(names.all(is_plain), "{reading}");
        }
        // Another spelling of the same path has the same result.
        for (one, other) in [("/", "//"), ("/", "/./")] {
            let written = path.replace(one, other);
            if written.len() < 4_096 && !path.starts_with('~') {
                assert_eq!(
                    PathRef::parse(&written, &path_context),
                    path_ref,
                    "{written}"
                );
            }
        }
        match PathPattern::parse(pattern, &path_context) {
            Err(error) => check_message(&error),
            // A path that an allow rule matches is also matched by a deny rule.
            Ok(pattern) if pattern.matches_all(&path_ref) => {
                assert!(pattern.may_match(&path_ref), "{text}");
            }
            Ok(_) => {}
        }
    });
}

const ADDRESSES: &[&str] = &[
    "http://",
    "https://",
    "HTTP://",
    "ftp://",
    "://",
    ":",
    "/",
    "//",
    "@",
    "?",
    "#",
    "\\",
    ".",
    "%2e",
    "%00",
    "[",
    "]",
    "::1",
    "127.0.0.1",
    "0x7f.1",
    "2130706433",
    "localhost",
    "example.com",
    "EXAMPLE.org",
    "xn--bcher-kva.de",
    "bücher.de",
    "。",
    ":80",
    ":443",
    "user:pass",
    "*.",
    "\t",
    "\n",
    "\u{ad}",
    "\u{202e}",
];

#[test]
fn fuzz_address() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, ADDRESSES);
        if let Err(error) = DomainPattern::parse(&text) {
            check_message(&error);
        }
        let Some(host) = host_of(&text) else { return };
        let own = DomainPattern::parse(&host).expect(&host);
        assert!(own.matches(&host), "{host}");
        // The policy evaluates the same host that a request connects to.
        let Ok(url) = Url::parse(&text) else { return };
        if let ("http" | "https", Some(real)) = (url.scheme(), url.host_str()) {
            let real = real.trim_matches(['[', ']']);
            let real = real.strip_suffix('.').unwrap_or(real).to_owned();
            let address: Option<IpAddr> = real.parse().ok();
            let real = address.map_or(real, |address| address.to_canonical().to_string());
            assert_eq!(real, host, "{text}");
        }
    });
}

const SETTINGS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "7",
    "\"permissions\":",
    "\"allow\":",
    "\"ask\":",
    "\"deny\":",
    "\"defaultMode\":",
    "\"plan\"",
    "\"additionalDirectories\":",
    "\"tools\":",
    "\"core\":",
    "\"exclude\":",
    "\"allowed\":",
    "\"policy\":",
    "\"rules\":",
    "\"decision\":",
    "\"mode\":",
    "\"toolPolicy\":",
    "\"Bash(git *)\"",
    "\"Read(secrets/**)\"",
    "\"mcp__server__*\"",
    "\"ShellTool(rm)\"",
    "\"\\u202e\"",
    "\"*\"",
    "[[rule]]\n",
    "toolName = ",
    "commandPrefix = ",
    "argsPattern = ",
    "decision = \"deny\"\n",
    "priority = 9\n",
    "\n",
];

#[test]
fn fuzz_import() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = assembled(bytes, SETTINGS);
        let source = RuleSource::file("settings.json");
        let mut read = vec![import::gemini_policy("policy.toml", &text, Tier::User)];
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            let claude = import::claude(&value, Tier::User, &source);
            if let Ok(imported) = &claude {
                // No rule is lost in the import, in particular no deny.
                let denied = value["permissions"]["deny"].as_array();
                let rules = imported.rules.iter();
                let denies = rules.filter(|rule| rule.decision == Decision::Deny);
                assert_eq!(denies.count(), denied.map_or(0, Vec::len), "{text}");
            }
            read.push(claude);
            read.push(import::gemini_settings(&value, Tier::User, &source));
            read.push(import::kode(&value, Tier::User, &source));
            read.push(import::sema(&value, Tier::User, &source));
        }
        for imported in read {
            let rules = match imported {
                Ok(imported) => imported.rules,
                Err(diagnostic) => {
                    check_message(&diagnostic.to_string());
                    continue;
                }
            };
            let spec = PolicySpec {
                rules,
                ..PolicySpec::default()
            };
            for diagnostic in Policy::new(spec).err().unwrap_or_default() {
                check_message(&diagnostic.to_string());
            }
        }
    });
}
