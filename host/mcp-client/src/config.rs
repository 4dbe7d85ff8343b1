//! The validated configuration of one server. Errors are found when it is parsed, not when the server is started.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use toolhost_contract::lifecycle::mask_text;
use toolhost_contract::{Digest, text};
use toolhost_process::loads_code;
use url::Url;

use crate::error::ServerError;
use crate::expanded::{ExpandedText, mask_secrets};
use crate::sandbox::ServerSandbox;

/// Default timeout of a call.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The operator's name for the server. The server's own name is never used.
    pub name: String,
    pub transport: TransportConfig,
    /// Names of tools as the server lists them; `*` matches any part. Empty: all.
    pub include: Vec<String>,
    pub exclude: Vec<String>,
    pub timeout: Duration,
    /// Whether the operator trusts the server's tool annotations.
    pub is_trusted: bool,
}

impl ServerConfig {
    /// Checks the operator's name for a server, which becomes part of the names of tools and files.
    pub fn check_name(name: &str) -> Result<(), String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(format!(
                "`{}` is not a valid server name; use letters, digits, `_` and `-`",
                text::escape_line(name, 80)
            ));
        }
        Ok(())
    }
}

/// The transport of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransportConfig {
    Stdio(ServerProgram),
    Http(ServerAddress),
}

/// A program that uses standard input and output as its transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerProgram {
    pub command: ExpandedText,
    pub args: Vec<ExpandedText>,
    pub env: BTreeMap<String, HiddenValue>,
    pub cwd: PathBuf,
    pub sandbox: ServerSandbox,
}

#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress {
    pub url: Url,
    /// The URL with the names of variables in place of their values.
    pub shown: String,
    secrets: Vec<String>,
    pub headers: BTreeMap<String, HiddenValue>,
    /// Whether plain http to another machine is allowed.
    pub insecure: bool,
    pub oauth: OAuth,
}

/// OAuth settings agreed with an authorization server. Without them, the client registers itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OAuth {
    pub client_id: Option<String>,
    pub client_secret: Option<HiddenValue>,
    pub scopes: Vec<String>,
    /// Hosts, other than that of the issuer, where the user may log in.
    pub hosts: Vec<String>,
    /// The URL of the client metadata document, for servers that accept it as the client ID.
    pub client_metadata_url: Option<String>,
}

/// A value that no message displays.
#[derive(Clone, PartialEq, Eq)]
pub struct HiddenValue(pub String);

impl fmt::Debug for HiddenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address")
            .field("url", &self.shown)
            .field("headers", &self.headers)
            .field("insecure", &self.insecure)
            .field("oauth", &self.oauth)
            .finish_non_exhaustive()
    }
}

impl ServerAddress {
    pub fn parse(
        server: &str,
        url: impl Into<ExpandedText>,
        headers: BTreeMap<String, HiddenValue>,
        insecure: bool,
    ) -> Result<Self, ServerError> {
        let ExpandedText {
            value,
            shown,
            mut secrets,
        } = url.into();
        let has_secrets = !secrets.is_empty();
        let refuse = |reason: &str| ServerError::Config {
            server: server.to_owned(),
            reason: format!("url `{}` {reason}", text::escape_line(&shown, 200)),
        };
        let url = Url::parse(&value)
            .map_err(|_| refuse("is not a URL such as https://example.org/mcp"))?;
        if url.host().is_none() {
            return Err(refuse("has no host"));
        }
        match url.scheme() {
            "https" => {}
            "http" if is_loopback(&url) || insecure => {}
            "http" => {
                return Err(refuse(
                    "would be used without encryption; use https, or set `insecure = true`",
                ));
            }
            _ => return Err(refuse("is neither https nor http")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refuse(
                "contains a password; set it in `headers` as `Authorization`",
            ));
        }
        for (name, value) in &headers {
            let fits = http::HeaderName::from_bytes(name.as_bytes()).is_ok()
                && http::HeaderValue::from_str(&value.0).is_ok();
            if !fits {
                return Err(ServerError::Config {
                    server: server.to_owned(),
                    reason: format!(
                        "`{}` is not a valid header name",
                        text::escape_line(name, 80)
                    ),
                });
            }
        }
        // The URL can contain a value in another encoding.
        if let Some(query) = url.query().filter(|_| has_secrets) {
            secrets.push(query.to_owned());
        }
        // The host is always displayed in the form in which it is resolved.
        let origin = url.origin().ascii_serialization();
        let shown = match has_secrets {
            false => url.to_string(),
            true if shown.starts_with(&origin) => shown,
            true => format!("{shown} at {}", mask_secrets(&origin, &secrets)),
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

/// Whether the URL names this machine.
fn is_loopback(url: &Url) -> bool {
    let is_local = |ip: IpAddr| {
        let ip = ip.to_canonical();
        ip.is_loopback() || ip.is_unspecified()
    };
    match url.host() {
        Some(url::Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(url::Host::Ipv4(ip)) => is_local(ip.into()),
        Some(url::Host::Ipv6(ip)) => is_local(ip.into()),
        None => false,
    }
}

impl ServerAddress {
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.url)
    }

    /// Values of variables in the URL, header values, both whole and after a scheme such as `Bearer`, and the client
    /// secret.
    fn secrets(&self) -> Vec<String> {
        let headers = self.headers.values().map(|value| value.0.as_str());
        let values =
            headers.flat_map(|value| [Some(value), value.split_once(' ').map(|(_, rest)| rest)]);
        let client = self
            .oauth
            .client_secret
            .as_ref()
            .map(|secret| secret.0.as_str());
        let values = values.flatten().chain(client).map(str::to_owned);
        self.secrets.iter().cloned().chain(values).collect()
    }

    /// Removes secrets from text of a server.
    pub fn mask(&self, text: &str) -> String {
        mask_secrets(text, &self.secrets())
    }
}

impl ServerProgram {
    /// Values of variables in the arguments, and of the program's own variables except those that are displayed and
    /// paths.
    pub fn secrets(&self) -> Vec<String> {
        let texts = self.args.iter().chain([&self.command]);
        let secrets = texts.flat_map(|text| text.secrets.clone());
        let own = self.env.iter();
        let own = own.filter(|(name, value)| !selects_code(name) && !value.0.starts_with('/'));
        secrets
            .chain(own.map(|(_, value)| value.0.clone()))
            .collect()
    }
}

impl ServerConfig {
    /// Values that messages about the server must not contain.
    pub fn secrets(&self) -> Vec<String> {
        match &self.transport {
            TransportConfig::Stdio(program) => program.secrets(),
            TransportConfig::Http(address) => address.secrets(),
        }
    }

    pub fn mask(&self, text: &str) -> String {
        mask_secrets(text, &self.secrets())
    }

    /// The complete, escaped description of what is started or connected to, which the user approves. Variables of the
    /// host are displayed by name, because a list must not contain secrets.
    pub fn description(&self) -> String {
        match &self.transport {
            TransportConfig::Stdio(program) => {
                let mut description = shell_word(&program.command);
                for arg in &program.args {
                    description.push(' ');
                    description.push_str(&shell_word(arg));
                }
                let _ = write!(
                    description,
                    "\n  in {}",
                    escape(&program.cwd.to_string_lossy())
                );
                for (name, value) in &program.env {
                    let _ = write!(description, "\n  with ${}", escape(name));
                    if selects_code(name) {
                        let _ = write!(description, "={}", escape(&value.0));
                    } else if affects_program(name) {
                        let _ = write!(description, "={}", escape(&mask_text(&value.0)));
                    }
                }
                if let ServerSandbox::Confined(profile) = &program.sandbox {
                    for line in profile.lines() {
                        let _ = write!(description, "\n  {}", escape(&line));
                    }
                }
                description
            }
            TransportConfig::Http(address) => {
                let mut description = escape(&address.shown);
                for name in address.headers.keys() {
                    let _ = write!(description, "\n  with the header {}", escape(name));
                }
                description
            }
        }
    }

    /// Whether it is a program that runs in a sandbox.
    pub fn is_confined(&self) -> bool {
        match &self.transport {
            TransportConfig::Stdio(program) => program.sandbox != ServerSandbox::Unconfined,
            TransportConfig::Http(_) => false,
        }
    }

    pub fn transport_name(&self) -> &'static str {
        match &self.transport {
            TransportConfig::Stdio(_) => "stdio",
            TransportConfig::Http(_) => "http",
        }
    }

    /// The digest that an approval is bound to: the command, its arguments, the names of its variables, the values of
    /// those that affect what runs, its directory and its sandbox; or the URL and the names of its headers. Values of
    /// the host's variables are included, because changing one could start another program. Lengths are included, so
    /// that different configurations never have the same encoding.
    pub fn digest(&self) -> Digest {
        let mut hash = Sha256::new();
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        match &self.transport {
            TransportConfig::Stdio(program) => {
                add("stdio");
                add(&program.command.value);
                add(&program.args.len().to_string());
                program.args.iter().for_each(|arg| add(&arg.value));
                add(&program.cwd.to_string_lossy());
                for (name, value) in &program.env {
                    add(name);
                    if affects_program(name) {
                        add(&value.0);
                    }
                }
                // An unconfined server has the digest that it had before there were sandboxes.
                if let ServerSandbox::Confined(profile) = &program.sandbox {
                    add("sandbox");
                    profile.lines().iter().for_each(|line| add(line));
                }
            }
            TransportConfig::Http(address) => {
                add("http");
                add(address.url.as_str());
                address.headers.keys().for_each(|name| add(name));
            }
        }
        Digest(hash.finalize().into())
    }

    /// Whether the operator includes this tool, by the server's own name.
    pub fn includes(&self, tool: &str) -> bool {
        let named = |list: &[String]| list.iter().any(|pattern| matches_pattern(pattern, tool));
        (self.include.is_empty() || named(&self.include)) && !named(&self.exclude)
    }
}

/// Matches a pattern in which `*` stands for any part.
fn matches_pattern(pattern: &str, name: &str) -> bool {
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

/// Whether the value of this variable determines which program runs or what it loads. Such values are not secrets.
fn selects_code(variable: &str) -> bool {
    const NAMES: [&str; 13] = [
        "DOTNET_STARTUP_HOOKS",
        "HOME",
        "JAVA_TOOL_OPTIONS",
        "JDK_JAVA_OPTIONS",
        "NODE_OPTIONS",
        "NODE_PATH",
        "PATH",
        "PERL5LIB",
        "PERL5OPT",
        "RUBYLIB",
        "RUBYOPT",
        "XDG_CONFIG_HOME",
        "_JAVA_OPTIONS",
    ];
    let name = variable.to_ascii_uppercase();
    NAMES.contains(&name.as_str())
        || loads_code(&name)
        || name.starts_with("LD_")
        || name.starts_with("PYTHON")
}

/// Whether the value of this variable affects what runs, including settings of git and of programs that install what
/// they run. Those can contain passwords in URLs.
fn affects_program(variable: &str) -> bool {
    const SETTINGS: [&str; 4] = ["GIT_", "NPM_CONFIG_", "PIP_", "UV_"];
    const SECRETS: [&str; 4] = ["PASSWORD", "SECRET", "TOKEN", "_AUTH"];
    let name = variable.to_ascii_uppercase();
    let is_setting = SETTINGS.iter().any(|start| name.starts_with(start));
    let is_secret = SECRETS.iter().any(|end| name.ends_with(end));
    selects_code(variable) || is_setting && !is_secret
}

/// Quotes and escapes a word for a shell.
fn shell_word(word: &ExpandedText) -> String {
    if word.value != word.shown {
        // A shell expands variables in double quotes.
        return format!("\"{}\"", escape(&word.shown).replace('"', "\\\""));
    }
    let word = word.shown.as_str();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    let shown = escape(word);
    if !word.is_empty() && word.chars().all(plain) {
        shown
    } else {
        format!("'{}'", shown.replace('\'', r"'\''"))
    }
}

/// Not truncated, because the truncated part could be the harmful one.
fn escape(text: &str) -> String {
    text::escape_line(text, usize::MAX)
}

#[cfg(test)]
mod tests;
