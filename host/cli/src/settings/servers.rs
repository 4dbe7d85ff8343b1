//! Effective settings of MCP servers and the discovery command.
//!
//! An invalid server keeps its error, so that the others can be served.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use toolhost::{SecretSettings, SecretValue};
use toolhost_contract::{Digest, text};
use toolhost_mcp_client::{
    Discovery, ExpandedText, HiddenValue, INHERITED_VARIABLES, OAuth, ServerAddress, ServerConfig,
    ServerProgram, ServerSandbox, TIMEOUT, TransportConfig, plugin_name, tool_name,
};
use toolhost_net::{AllowedHosts, HostRule, Target};

use super::server_sandbox::{self, DATA_VARIABLE};
use super::{SettingsEnv, absolute};
use crate::config::{McpServer, Secret, expand_variables};
use crate::shell_words;

const MAX_URL: usize = 8 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerSettings {
    pub name: String,
    pub enabled: bool,
    /// The configuration, or the reason why the server cannot be started.
    pub config: Result<ServerConfig, String>,
}

/// The commands that list tools and run them.
#[derive(Debug, Clone)]
pub struct DiscoverySettings {
    pub discovery: Discovery,
}

impl DiscoverySettings {
    /// Name for approvals; reserved, so no server can have it.
    pub const NAME: &'static str = "discovery-command";
    /// Plugin name of its tools; reserved as well.
    pub const PLUGIN: &'static str = "discovered";

    pub fn digest(&self) -> Digest {
        self.discovery.digest()
    }
}

pub fn servers(
    servers: BTreeMap<String, McpServer>,
    base: &Path,
    core: &toolhost::Settings,
    world: &SettingsEnv<'_>,
) -> Vec<ServerSettings> {
    let data = core.host_paths.server_data_dir();
    let secrets = &core.external_access.secrets;
    let servers = servers.into_iter();
    let mut servers: Vec<_> = servers
        .map(|(name, server)| ServerSettings {
            enabled: server.enabled.unwrap_or(true),
            config: server_config(&name, server, (base, data.as_deref()), secrets, world),
            name,
        })
        .collect();
    reject_name_collisions(&mut servers);
    servers
}

/// Rejects servers whose tool names would collide. Neither is started, because only the operator knows which of them a
/// rule was written for.
fn reject_name_collisions(servers: &mut [ServerSettings]) {
    // Names derived from a server name; files and rules are not case-sensitive.
    let derived_names = |name: &str| {
        [
            plugin_name(name).to_string(),
            tool_name(name, "x").to_string(),
            name.to_ascii_lowercase(),
        ]
    };
    let all: Vec<_> = servers
        .iter()
        .map(|server| {
            (
                server.name.clone(),
                server.enabled,
                derived_names(&server.name),
            )
        })
        .collect();
    for (at, server) in servers.iter_mut().enumerate() {
        let alike = all.iter().enumerate().find(|(other, (_, enabled, names))| {
            let own = &all[at].2;
            *other != at && *enabled && own.iter().zip(names).any(|(own, other)| own == other)
        });
        if let Some((_, (other, _, _))) = alike.filter(|_| server.enabled && server.config.is_ok())
        {
            server.config = Err(format!(
                "its tool names would collide with those of server `{other}`; rename one of them"
            ));
        }
    }
}

fn server_config(
    name: &str,
    server: McpServer,
    (base, data): (&Path, Option<&Path>),
    secrets: &[SecretSettings],
    world: &SettingsEnv<'_>,
) -> Result<ServerConfig, String> {
    let reserved = [DiscoverySettings::NAME, DiscoverySettings::PLUGIN];
    if reserved
        .iter()
        .any(|reserved| plugin_name(reserved) == plugin_name(name))
    {
        return Err("this name is reserved for the discovery command; choose another".to_owned());
    }
    let sandbox = server_sandbox::resolve(server.sandbox.as_ref(), base, world)?;
    let own = data
        .filter(|_| sandbox != ServerSandbox::Unconfined)
        .map(|data| data.join(name));
    let own = own.map(|own| own.to_string_lossy().into_owned());
    let variable = |wanted: &str| match (wanted, &own) {
        (DATA_VARIABLE, Some(own)) => Some(own.clone()),
        _ => (world.variable)(wanted),
    };
    let of_file = |text: &str| expand_variables(text, variable);
    let hidden = |secret: &Secret| of_file(secret.reveal()).map(HiddenValue);
    let transport = server.transport.as_deref();
    let way = match (
        &server.command,
        server.url.as_ref().or(server.http_url.as_ref()),
    ) {
        (Some(command), _) => {
            if !matches!(transport, None | Some("stdio" | "local")) {
                return Err(transport_mismatch(transport, "a `command`"));
            }
            let mut env = BTreeMap::new();
            for (name, value) in &server.env {
                env.insert(name.to_string(), hidden(value)?);
            }
            let args = server.args.iter().map(|arg| expand_value(arg, &variable));
            let cwd = server.cwd.as_deref().map(of_file).transpose()?;
            TransportConfig::Stdio(ServerProgram {
                command: expand_value(command, &variable)?,
                args: args.collect::<Result<_, _>>()?,
                env,
                // Not the working directory, which can be untrusted, because some commands read files there.
                cwd: cwd.map_or_else(|| base.to_owned(), |cwd| absolute(base, Path::new(&cwd))),
                sandbox,
            })
        }
        (None, Some(_)) if server.sandbox.is_some() => {
            return Err("`sandbox` is for servers with a `command`; remove it".to_owned());
        }
        (None, Some(url)) => {
            TransportConfig::Http(server_address(name, &server, url, secrets, world)?)
        }
        (None, None) => return Err("has neither `command` nor `url`".to_owned()),
    };
    Ok(ServerConfig {
        name: name.to_owned(),
        transport: way,
        include: server.include_tools,
        exclude: server.exclude_tools,
        timeout: server.timeout.map_or(TIMEOUT, |timeout| timeout.0),
        is_trusted: server.trust,
    })
}

fn server_address(
    name: &str,
    server: &McpServer,
    url: &str,
    secrets: &[SecretSettings],
    world: &SettingsEnv<'_>,
) -> Result<ServerAddress, String> {
    let of_file = |text: &str| expand_variables(text, world.variable);
    let hidden = |secret: &Secret| of_file(secret.reveal()).map(HiddenValue);
    let transport = server.transport.as_deref();
    let http = [
        "http",
        "https",
        "streamable-http",
        "streamable_http",
        "remote",
    ];
    if transport.is_some_and(|transport| !http.contains(&transport)) {
        return Err(transport_mismatch(transport, "a `url`"));
    }
    let url = expand_value(url, world.variable)?;
    let mut headers = BTreeMap::new();
    for (name, value) in &server.headers {
        let value = match parse_secret_reference(value.reveal()) {
            Some((before, secret)) => {
                let secret = resolve_secret(secret, &url, secrets, world)?;
                HiddenValue(format!("{before}{secret}"))
            }
            None => hidden(value)?,
        };
        headers.insert(name.clone(), value);
    }
    let mut address = ServerAddress::parse(name, url, headers, server.insecure)
        .map_err(|error| error.reason())?;
    let oauth = &server.oauth;
    address.oauth = OAuth {
        client_id: oauth.client_id.as_deref().map(of_file).transpose()?,
        client_secret: oauth.client_secret.as_ref().map(hidden).transpose()?,
        scopes: oauth.scopes.clone(),
        hosts: oauth.hosts.clone(),
        client_metadata_url: oauth.client_metadata_url.clone(),
    };
    Ok(address)
}

/// Expands variables. In the shown form, variables that every program gets have their values, and others their names.
fn expand_value(
    text: &str,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<ExpandedText, String> {
    let secrets = RefCell::new(Vec::new());
    let shown = expand_variables(text, |name| {
        let value = variable(name)?;
        if INHERITED_VARIABLES.contains(&name) || name == DATA_VARIABLE || value.is_empty() {
            return Some(value);
        }
        secrets.borrow_mut().push(value);
        Some(format!("${{{name}}}"))
    })?;
    Ok(ExpandedText {
        value: expand_variables(text, variable)?,
        shown,
        secrets: secrets.into_inner(),
    })
}

/// Parses `secret:NAME`, optionally after one word such as `Bearer`.
fn parse_secret_reference(text: &str) -> Option<(&str, &str)> {
    let (before, rest) = match text.split_once(' ') {
        Some((word, rest)) => (&text[..=word.len()], rest),
        None => ("", text),
    };
    rest.strip_prefix("secret:").map(|name| (before, name))
}

/// The value of `[secrets.NAME]` if its hosts include that of the URL.
fn resolve_secret(
    name: &str,
    url: &ExpandedText,
    secrets: &[SecretSettings],
    world: &SettingsEnv<'_>,
) -> Result<String, String> {
    let shown = text::escape_line(name, 80);
    let found = secrets.iter().find(|secret| secret.name == name);
    let secret = found.ok_or_else(|| format!("no secret `{shown}`; add `[secrets.NAME]`"))?;
    let rules = secret.hosts.iter().map(|host| HostRule::parse(host));
    let allowed = AllowedHosts {
        rules: rules
            .collect::<Result<_, _>>()
            .map_err(|error| error.to_string())?,
        denied: Vec::new(),
    };
    let target = url
        .value
        .parse()
        .map_err(|_| "the url is invalid".to_owned())?;
    Target::parse(&target, MAX_URL)
        .and_then(|target| allowed.check_host(&target))
        .map_err(|_| {
            format!(
                "secret `{shown}` is not allowed for the host of `{}`",
                text::escape_line(&url.shown, 200)
            )
        })?;
    match &secret.value {
        SecretValue::Text(value) => Ok(value.clone()),
        SecretValue::Variable(variable) => (world.variable)(variable)
            .ok_or_else(|| format!("secret `{shown}`: the variable {variable} is not set")),
    }
}

fn transport_mismatch(transport: Option<&str>, with: &str) -> String {
    let transport = text::escape_line(transport.unwrap_or_default(), 40);
    format!("transport `{transport}` cannot be used with {with}; use `stdio` or `http`")
}

pub fn discovery(
    discover: Option<&str>,
    call: Option<&str>,
    base: &Path,
) -> Result<Option<DiscoverySettings>, String> {
    let split = |key: &str, command: &str| {
        shell_words::split_command(command)
            .map_err(|reason| format!("{key}: `{}`: {reason}", text::escape_line(command, 200)))
    };
    let Some(discover) = discover else {
        return match call {
            Some(_) => Err("tools.call_command needs tools.discovery_command".to_owned()),
            None => Ok(None),
        };
    };
    let discover = split("tools.discovery_command", discover)?;
    let call = call
        .map(|call| split("tools.call_command", call))
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
    use crate::config::{FileFormat, parse};

    fn check(text: &str, expected: Expect) {
        let config = parse(Path::new("toolhost.toml"), FileFormat::Toml, text).unwrap();
        let variable = |name: &str| (name == "TOKEN").then(|| "t0ken".to_owned());
        let world = SettingsEnv {
            directory: Path::new("/where/it/was/typed"),
            variable: &variable,
            read: &|_| Err("there is no file".to_owned()),
            interactive: false,
            shipped_plugins: None,
        };
        let mut core = toolhost::Settings::default();
        core.host_paths.state = Some("/state".into());
        core.external_access.secrets = vec![SecretSettings {
            name: "tracker".to_owned(),
            value: SecretValue::Variable("TOKEN".to_owned()),
            hosts: vec!["https://example.org".to_owned()],
        }];
        let servers = config.mcp_servers.unwrap().0;
        let servers = super::servers(servers, Path::new("/etc/me"), &core, &world);
        let shown = servers.iter().map(|server| match &server.config {
            Err(reason) => format!("{}: {reason}\n", server.name),
            Ok(config) => {
                let values: Vec<&str> = match &config.transport {
                    TransportConfig::Stdio(program) => {
                        program.env.values().map(|one| one.0.as_str()).collect()
                    }
                    TransportConfig::Http(address) => {
                        address.headers.values().map(|one| one.0.as_str()).collect()
                    }
                };
                format!(
                    "{}: {} {values:?}\n",
                    server.name,
                    config.description().replace('\n', " ")
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
            args = ["${TOOLHOST_DATA}/x"]
            cwd = "sub"
            sandbox = { paths = ["data:rw"] }
            [mcp_servers.d]
            url = "https://example.org/mcp?key=${TOKEN}&${UNSET:-a}=b"
            "#,
            expect![[r#"
                a: npx -y "${TOKEN}"   in /etc/me   with $KEY   has no network ["t0ken"]
                b: https://example.org/mcp   with the header Authorization   with the header X-Key ["Bearer t0ken", "t0ken"]
                c: x /state/mcp/data/c/x   in /etc/me/sub   may read and change /etc/me/data   has no network []
                d: https://example.org/mcp?key=${TOKEN}&a=b []
            "#]],
        );
    }

    #[test]
    fn an_invalid_server_keeps_its_error() {
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
            [mcp_servers.f]
            url = "https://example.org/mcp"
            sandbox = "none"
            [mcp_servers.g]
            command = "x"
            args = ["${TOOLHOST_DATA}"]
            sandbox = "none"
            [mcp_servers.discovery-command]
            command = "x"
            [mcp_servers.Discovered]
            command = "x"
            "#,
            expect![[r#"
                Discovered: this name is reserved for the discovery command; choose another
                a: transport `http` cannot be used with a `command`; use `stdio` or `http`
                b: url `http://example.org/mcp` would be used without encryption; use https, or set `insecure = true`
                c: secret `tracker` is not allowed for the host of `https://evil.example.net/mcp`
                d: no secret `other`; add `[secrets.NAME]`
                discovery-command: this name is reserved for the discovery command; choose another
                e: `${UNSET}` needs $UNSET, which is not set; set it or write `${UNSET:-default}`
                f: `sandbox` is for servers with a `command`; remove it
                g: `${TOOLHOST_DATA}` needs $TOOLHOST_DATA, which is not set; set it or write `${TOOLHOST_DATA:-default}`
            "#]],
        );
    }

    #[test]
    fn servers_with_colliding_tool_names_are_rejected() {
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
                a-b: its tool names would collide with those of server `a_b`; rename one of them
                a_b: its tool names would collide with those of server `a-b`; rename one of them
                getSum: its tool names would collide with those of server `getsum`; rename one of them
                getsum: its tool names would collide with those of server `getSum`; rename one of them
                off-x: x   in /etc/me   has no network []
                off_x: x   in /etc/me   has no network []
                other: x   in /etc/me   has no network []
            "#]],
        );
    }
}
