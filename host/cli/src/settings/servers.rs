//! Other MCP servers and the discovery command, in values that can be started; what is wrong with one is kept with it,
//! so that the others are served.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use toolhost::{SecretSettings, SecretValue};
use toolhost_contract::{Digest, text};
use toolhost_mcp_client::{
    Address, Discovery, Expanded, Hidden, OAuth, Program, ServerConfig, TIMEOUT, VARIABLES, Way,
    plugin_name, tool_name,
};
use toolhost_net::{Allowed, HostRule, Target};

use super::{World, absolute};
use crate::config::{McpServer, Secret, expand};
use crate::words;

const MAX_URL: usize = 8 << 10;

#[derive(Debug, Clone)]
pub struct ServerSettings {
    pub name: String,
    pub enabled: bool,
    /// The reason when it is not one that could be started.
    pub config: Result<ServerConfig, String>,
}

/// Commands that tell of tools and run them.
#[derive(Debug, Clone)]
pub struct DiscoverySettings {
    pub discovery: Discovery,
}

impl DiscoverySettings {
    /// Under which its approval is kept and given; no server is called like it.
    pub const NAME: &'static str = "discovery-command";
    /// What its tools are registered by; no server is called like this, either.
    pub const PLUGIN: &'static str = "discovered";

    pub fn digest(&self) -> Digest {
        self.discovery.digest()
    }
}

pub fn servers(
    servers: BTreeMap<String, McpServer>,
    base: &Path,
    secrets: &[SecretSettings],
    world: &World<'_>,
) -> Vec<ServerSettings> {
    let servers = servers.into_iter();
    let mut servers: Vec<_> = servers
        .map(|(name, server)| ServerSettings {
            enabled: server.enabled.unwrap_or(true),
            config: server_config(&name, server, base, secrets, world),
            name,
        })
        .collect();
    part(&mut servers);
    servers
}

/// Two servers whose tools would be called the same would take them, and the rules for them, from each other. Neither
/// is started: which of the two a rule was written for only the operator knows.
fn part(servers: &mut [ServerSettings]) {
    // What is made of a name; files and rules know no capitals.
    let made = |name: &str| {
        [
            plugin_name(name).to_string(),
            tool_name(name, "x").to_string(),
            name.to_ascii_lowercase(),
        ]
    };
    let all: Vec<_> = servers
        .iter()
        .map(|server| (server.name.clone(), server.enabled, made(&server.name)))
        .collect();
    for (at, server) in servers.iter_mut().enumerate() {
        let alike = all.iter().enumerate().find(|(other, (_, enabled, words))| {
            let own = &all[at].2;
            *other != at && *enabled && own.iter().zip(words).any(|(own, other)| own == other)
        });
        if let Some((_, (other, _, _))) = alike.filter(|_| server.enabled && server.config.is_ok())
        {
            server.config = Err(format!(
                "its tools would be called like those of server `{other}`; rename one of them"
            ));
        }
    }
}

fn server_config(
    name: &str,
    server: McpServer,
    base: &Path,
    secrets: &[SecretSettings],
    world: &World<'_>,
) -> Result<ServerConfig, String> {
    let kept = [DiscoverySettings::NAME, DiscoverySettings::PLUGIN];
    if kept
        .iter()
        .any(|kept| plugin_name(kept) == plugin_name(name))
    {
        return Err("this name is kept for the discovery command; choose another".to_owned());
    }
    let of_file = |text: &str| expand(text, world.variable);
    let hidden = |secret: &Secret| of_file(secret.reveal()).map(Hidden);
    let transport = server.transport.as_deref();
    let way = match (
        &server.command,
        server.url.as_ref().or(server.http_url.as_ref()),
    ) {
        (Some(command), _) => {
            if !matches!(transport, None | Some("stdio" | "local")) {
                return Err(other_transport(transport, "a `command`"));
            }
            let mut env = BTreeMap::new();
            for (name, value) in &server.env {
                env.insert(name.to_string(), hidden(value)?);
            }
            let args = server.args.iter().map(|arg| expanded(arg, world));
            let cwd = server.cwd.as_deref().map(of_file).transpose()?;
            Way::Stdio(Program {
                command: expanded(command, world)?,
                args: args.collect::<Result<_, _>>()?,
                env,
                // Not where the host was started: that may be a folder of a stranger, whose files some commands obey.
                cwd: cwd.map_or_else(|| base.to_owned(), |cwd| absolute(base, Path::new(&cwd))),
            })
        }
        (None, Some(url)) => {
            let http = [
                "http",
                "https",
                "streamable-http",
                "streamable_http",
                "remote",
            ];
            if transport.is_some_and(|transport| !http.contains(&transport)) {
                return Err(other_transport(transport, "a `url`"));
            }
            let url = expanded(url, world)?;
            let mut headers = BTreeMap::new();
            for (name, value) in &server.headers {
                let value = match secret_name(value.reveal()) {
                    Some((before, secret)) => {
                        let secret = secret_value(secret, &url, secrets, world)?;
                        Hidden(format!("{before}{secret}"))
                    }
                    None => hidden(value)?,
                };
                headers.insert(name.clone(), value);
            }
            let mut address = Address::parse(name, url, headers, server.insecure)
                .map_err(|error| error.reason())?;
            let oauth = server.oauth;
            address.oauth = OAuth {
                client_id: oauth.client_id.as_deref().map(of_file).transpose()?,
                client_secret: oauth.client_secret.as_ref().map(hidden).transpose()?,
                scopes: oauth.scopes,
                hosts: oauth.hosts,
                client_metadata_url: oauth.client_metadata_url,
            };
            Way::Http(address)
        }
        (None, None) => return Err("it has neither `command` nor `url`".to_owned()),
    };
    Ok(ServerConfig {
        name: name.to_owned(),
        way,
        include: server.include_tools,
        exclude: server.exclude_tools,
        timeout: server.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        trust: server.trust,
    })
}

/// With the values of variables, and as it may be shown: of those that every program gets, by their values, and of all
/// others by their names.
fn expanded(text: &str, world: &World<'_>) -> Result<Expanded, String> {
    let secrets = RefCell::new(Vec::new());
    let shown = expand(text, |name| {
        let value = (world.variable)(name)?;
        if VARIABLES.contains(&name) || value.is_empty() {
            return Some(value);
        }
        secrets.borrow_mut().push(value);
        Some(format!("${{{name}}}"))
    })?;
    Ok(Expanded {
        value: expand(text, world.variable)?,
        shown,
        secrets: secrets.into_inner(),
    })
}

/// `secret:NAME`, or one word such as `Bearer` before it.
fn secret_name(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = match text.split_once(' ') {
        Some((word, rest)) => (&text[..=word.len()], rest),
        None => ("", text),
    };
    rest.strip_prefix("secret:").map(|name| (before, name))
}

/// Of `[secrets.NAME]`, which says for which hosts it is.
fn secret_value(
    name: &str,
    url: &Expanded,
    secrets: &[SecretSettings],
    world: &World<'_>,
) -> Result<String, String> {
    let shown = text::inline(name, 80);
    let found = secrets.iter().find(|secret| secret.name == name);
    let secret =
        found.ok_or_else(|| format!("there is no secret `{shown}`; add `[secrets.NAME]`"))?;
    let rules = secret.hosts.iter().map(|host| HostRule::parse(host));
    let allowed = Allowed {
        rules: rules
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?,
        denied: Vec::new(),
    };
    let target = url
        .value
        .parse()
        .map_err(|_| "its url is no address".to_owned())?;
    Target::of(&target, MAX_URL)
        .and_then(|target| allowed.admit(&target))
        .map_err(|_| {
            format!(
                "secret `{shown}` is not for the host of `{}`",
                text::inline(&url.shown, 200)
            )
        })?;
    match &secret.value {
        SecretValue::Text(value) => Ok(value.clone()),
        SecretValue::Variable(variable) => (world.variable)(variable)
            .ok_or_else(|| format!("secret `{shown}`: the variable {variable} is not set")),
    }
}

fn other_transport(transport: Option<&str>, with: &str) -> String {
    let transport = text::inline(transport.unwrap_or_default(), 40);
    format!("transport `{transport}` does not go with {with}; there are `stdio` and `http`")
}

pub fn discovery(
    discover: Option<&str>,
    call: Option<&str>,
    base: &Path,
) -> Result<Option<DiscoverySettings>, String> {
    let words = |key: &str, command: &str| {
        words::command(command)
            .map_err(|reason| format!("{key}: `{}`: {reason}", text::inline(command, 200)))
    };
    let Some(discover) = discover else {
        return match call {
            Some(_) => Err("tools.call_command needs tools.discovery_command".to_owned()),
            None => Ok(None),
        };
    };
    let discover = words("tools.discovery_command", discover)?;
    let call = call
        .map(|call| words("tools.call_command", call))
        .transpose()?;
    Ok(Some(DiscoverySettings {
        discovery: Discovery {
            discover,
            call,
            cwd: base.to_owned(),
        },
    }))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::config::{Format, parse};

    fn check(text: &str, expected: Expect) {
        let config = parse(Path::new("toolhost.toml"), Format::Toml, text).unwrap();
        let variable = |name: &str| (name == "TOKEN").then(|| "t0ken".to_owned());
        let world = World {
            directory: Path::new("/where/it/was/typed"),
            variable: &variable,
            read: &|_| Err("there is no file".to_owned()),
            interactive: false,
        };
        let secrets = [SecretSettings {
            name: "tracker".to_owned(),
            value: SecretValue::Variable("TOKEN".to_owned()),
            hosts: vec!["https://example.org".to_owned()],
        }];
        let servers = servers(config.mcp_servers, Path::new("/etc/me"), &secrets, &world);
        let shown = servers.iter().map(|server| match &server.config {
            Err(reason) => format!("{}: {reason}\n", server.name),
            Ok(config) => {
                let values: Vec<&str> = match &config.way {
                    Way::Stdio(program) => program.env.values().map(|one| one.0.as_str()).collect(),
                    Way::Http(address) => {
                        address.headers.values().map(|one| one.0.as_str()).collect()
                    }
                };
                format!(
                    "{}: {} {values:?}\n",
                    server.name,
                    config.shown().replace('\n', " ")
                )
            }
        });
        expected.assert_eq(&shown.collect::<String>());
    }

    // R-421, R-427
    #[test]
    fn r_427_servers_of_a_file() {
        check(
            r#"
            [mcp_servers.a]
            command = "npx"
            args = ["-y", "${TOKEN}"]
            env = { KEY = "${TOKEN}" }
            [mcp_servers.b]
            url = "https://example.org/mcp"
            headers = { Authorization = "Bearer secret:tracker", X-Key = "${TOKEN}" }
            [mcp_servers.c]
            type = "stdio"
            command = "x"
            cwd = "sub"
            [mcp_servers.d]
            url = "https://example.org/mcp?key=${TOKEN}&${UNSET:-a}=b"
            "#,
            expect![[r#"
                a: npx -y "${TOKEN}"   in /etc/me   with $KEY ["t0ken"]
                b: https://example.org/mcp   with the header Authorization   with the header X-Key ["Bearer t0ken", "t0ken"]
                c: x   in /etc/me/sub []
                d: https://example.org/mcp?key=${TOKEN}&a=b []
            "#]],
        );
    }

    #[test]
    fn what_is_wrong_with_a_server_is_kept_with_it() {
        check(
            r#"
            [mcp_servers.a]
            command = "x"
            transport = "http"
            [mcp_servers.b]
            url = "http://example.org/mcp"
            [mcp_servers.c]
            url = "https://evil.example.net/mcp"
            headers = { Authorization = "Bearer secret:tracker" }
            [mcp_servers.d]
            url = "https://example.org/mcp"
            headers = { X = "secret:other" }
            [mcp_servers.e]
            command = "x"
            env = { A = "${UNSET}" }
            [mcp_servers.discovery-command]
            command = "x"
            [mcp_servers.Discovered]
            command = "x"
            "#,
            expect![[r#"
                Discovered: this name is kept for the discovery command; choose another
                a: transport `http` does not go with a `command`; there are `stdio` and `http`
                b: url `http://example.org/mcp` would be used without encryption; use https, or set `insecure = true`
                c: secret `tracker` is not for the host of `https://evil.example.net/mcp`
                d: there is no secret `other`; add `[secrets.NAME]`
                discovery-command: this name is kept for the discovery command; choose another
                e: `${UNSET}` needs $UNSET, which is not set; set it or write `${UNSET:-default}`
            "#]],
        );
    }

    #[test]
    fn servers_whose_tools_would_be_called_the_same_are_not_started() {
        check(
            r#"
            [mcp_servers.a-b]
            command = "x"
            [mcp_servers.a_b]
            command = "x"
            [mcp_servers.getSum]
            command = "x"
            [mcp_servers.getsum]
            command = "x"
            [mcp_servers.off-x]
            command = "x"
            enabled = false
            [mcp_servers.off_x]
            command = "x"
            [mcp_servers.other]
            command = "x"
            "#,
            expect![[r#"
                a-b: its tools would be called like those of server `a_b`; rename one of them
                a_b: its tools would be called like those of server `a-b`; rename one of them
                getSum: its tools would be called like those of server `getsum`; rename one of them
                getsum: its tools would be called like those of server `getSum`; rename one of them
                off-x: x   in /etc/me []
                off_x: x   in /etc/me []
                other: x   in /etc/me []
            "#]],
        );
    }
}
