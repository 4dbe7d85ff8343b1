//! What an operator says about one server, checked: nothing in here can be wrong in a way that is found only when the
//! server is started.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use toolhost_contract::{Digest, text};
use url::Url;

use crate::error::ServerError;
use crate::expanded::{Expanded, hide};

/// How long a call of a server may take when nobody said otherwise.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// What the operator calls it; the server's own word for itself is never used.
    pub name: String,
    pub way: Way,
    /// Names of tools as the server says them, `*` for any part. Empty: all.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub timeout: Duration,
    /// The operator believes what the server says its tools do.
    pub trust: bool,
}

/// How a server is reached.
#[derive(Debug, Clone)]
pub enum Way {
    Stdio(Program),
    Http(Address),
}

/// A program that speaks on its standard input and output.
#[derive(Debug, Clone)]
pub struct Program {
    pub command: Expanded,
    pub args: Vec<Expanded>,
    pub env: BTreeMap<String, Hidden>,
    pub cwd: PathBuf,
}

#[derive(Clone)]
pub struct Address {
    pub url: Url,
    /// The address, and where a value of a variable stands in it as it is written.
    pub shown: String,
    secrets: Vec<String>,
    pub headers: BTreeMap<String, Hidden>,
    /// Without TLS to another machine.
    pub insecure: bool,
    pub oauth: OAuth,
}

/// What an operator arranged with an authorization server; where nothing is said, we register ourselves.
#[derive(Debug, Clone, Default)]
pub struct OAuth {
    pub client_id: Option<String>,
    pub client_secret: Option<Hidden>,
    pub scopes: Vec<String>,
    /// Where a document about this client is, for servers that take its address as its id.
    pub client_metadata_url: Option<String>,
}

/// A value that no message shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("url", &self.shown)
            .field("headers", &self.headers)
            .field("insecure", &self.insecure)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

impl Address {
    pub fn parse(
        server: &str,
        url: impl Into<Expanded>,
        headers: BTreeMap<String, Hidden>,
        insecure: bool,
    ) -> Result<Self, ServerError> {
        let Expanded {
            value,
            shown,
            mut secrets,
        } = url.into();
        let has_secrets = !secrets.is_empty();
        let refuse = |reason: &str| ServerError::Config {
            server: server.to_owned(),
            reason: format!("url `{}` {reason}", text::inline(&shown, 200)),
        };
        let url = Url::parse(&value)
            .map_err(|_| refuse("is not an address such as https://example.org/mcp"))?;
        let is_loopback = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => return Err(refuse("names no host")),
        };
        match url.scheme() {
            "https" => {}
            "http" if is_loopback || insecure => {}
            "http" => {
                return Err(refuse(
                    "would be spoken to without encryption; write https, or `insecure = true`",
                ));
            }
            _ => return Err(refuse("is neither https nor http")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse(
                "holds a password; put it into `headers` as `Authorization`",
            ));
        }
        for (name, value) in &headers {
            let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(&value.0).is_ok();
            if !fits {
                return Err(ServerError::Config {
                    server: server.to_owned(),
                    reason: format!("`{}` is not a header", text::inline(name, 80)),
                });
            }
        }
        // A value may be spelled in another way in an address.
        if let Some(query) = url.query().filter(|_| has_secrets) {
            secrets.push(query.to_owned());
        }
        // Its host is always shown as it will be looked up, whatever letters it is written in.
        let origin = url.origin().ascii_serialization();
        let shown = match has_secrets {
            false => url.to_string(),
            true if shown.starts_with(&origin) => shown,
            true => format!("{shown} at {}", hide(&origin, &secrets)),
        };
        Ok(Self {
            url,
            shown,
            secrets,
            headers,
            insecure,
            oauth: OAuth::default(),
        })
    }
}

impl Address {
    /// What others say of it, without what is secret in it.
    pub fn hide(&self, said: &str) -> String {
        hide(said, &self.secrets)
    }
}

impl Program {
    pub fn secrets(&self) -> Vec<String> {
        let texts = self.args.iter().chain([&self.command]);
        texts.flat_map(|text| text.secrets.clone()).collect()
    }
}

impl ServerConfig {
    /// Values of variables that stand in its command or its address.
    pub fn secrets(&self) -> Vec<String> {
        match &self.way {
            Way::Stdio(program) => program.secrets(),
            Way::Http(address) => address.secrets.clone(),
        }
    }

    pub fn hide(&self, said: &str) -> String {
        hide(said, &self.secrets())
    }

    /// What exactly is started or spoken to, unabridged and escaped: what a person says yes to. Variables of the host are
    /// shown by their names, for a list is no place for a secret.
    pub fn shown(&self) -> String {
        match &self.way {
            Way::Stdio(program) => {
                let mut words = shell_word(&program.command);
                for arg in &program.args {
                    words.push(' ');
                    words.push_str(&shell_word(arg));
                }
                let _ = write!(words, "\n  in {}", line(&program.cwd.to_string_lossy()));
                for (name, value) in &program.env {
                    let _ = write!(words, "\n  with ${}", line(name));
                    if decides(name) {
                        let _ = write!(words, "={}", line(&value.0));
                    }
                }
                words
            }
            Way::Http(address) => {
                let mut words = line(&address.shown);
                for name in address.headers.keys() {
                    let _ = write!(words, "\n  with the header {}", line(name));
                }
                words
            }
        }
    }

    pub fn transport(&self) -> &'static str {
        match &self.way {
            Way::Stdio(_) => "stdio",
            Way::Http(_) => "http",
        }
    }

    /// What an approval is bound to: the command, its words, the names of its variables, the values of those that decide
    /// what runs, and its folder; or the address and the names of its headers. Values of the host's variables are part of
    /// it: who sets one of them could have another program started. Lengths are part of it, so that no two ways to write it are the same.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        match &self.way {
            Way::Stdio(program) => {
                add("stdio");
                add(&program.command.value);
                add(&program.args.len().to_string());
                program.args.iter().for_each(|arg| add(&arg.value));
                add(&program.cwd.to_string_lossy());
                for (name, value) in &program.env {
                    add(name);
                    if decides(name) {
                        add(&value.0);
                    }
                }
            }
            Way::Http(address) => {
                add("http");
                add(address.url.as_str());
                address.headers.keys().for_each(|name| add(name));
            }
        }
        Digest(hash.finalize().into())
    }

    /// Does the operator want this tool? By the name that the server gives it.
    pub fn wants(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|pattern| fits(pattern, tool));
        (self.include.is_empty() || named(&self.include)) && !named(&self.exclude)
    }
}

/// `*` stands for any part.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((front, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(front) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// Does the value of this variable decide which program runs, or what it loads? Such values are no secrets.
fn decides(variable: &str) -> bool {
    const NAMES: [&str; 10] = [
        "BASH_ENV",
        "ENV",
        "JAVA_TOOL_OPTIONS",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
    ];
    NAMES.contains(&variable) || variable.starts_with("LD_") || variable.starts_with("PYTHON")
}

/// A word as a shell would want it, and with nothing hostile in it.
fn shell_word(word: &Expanded) -> String {
    if word.value != word.shown {
        // A shell looks for variables in these quotes.
        return format!("\"{}\"", line(&word.shown).replace('"', "\\\""));
    }
    let word = word.shown.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let shown = line(word);
    if !word.is_empty() && word.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', r"'\''"))
    }
}

/// Whole, however long it is: what was cut could hide something.
fn line(text: &str) -> String {
    text::inline(text, usize::MAX)
}

#[cfg(test)]
mod tests {
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
                "server `one`: url `http://example.org/mcp` would be spoken to without encryption; write https, or `insecure = true`",
            ),
            (
                "http://localhost.example.org/",
                false,
                "server `one`: url `http://localhost.example.org/` would be spoken to without encryption; write https, or `insecure = true`",
            ),
            (
                "file:///etc/passwd",
                false,
                "server `one`: url `file:///etc/passwd` names no host",
            ),
            (
                "ftp://example.org",
                false,
                "server `one`: url `ftp://example.org` is neither https nor http",
            ),
            (
                "https://me:pw@example.org",
                false,
                "server `one`: url `https://me:pw@example.org` holds a password; put it into `headers` as `Authorization`",
            ),
            (
                "example",
                false,
                "server `one`: url `example` is not an address such as https://example.org/mcp",
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
}
