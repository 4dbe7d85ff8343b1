//! Effective settings for access beyond files and environment variables.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toolhost::{AgentSettings, ExternalAccessSettings, SecretSettings, SecretValue};
use toolhost_contract::{AgentInfo, text};
use toolhost_net::HostRule;

use super::absolute;
use crate::config::{Config, WebSearch, expand_variables};
use crate::host_args::ExternalAccessArgs;

/// Applies `webSearch`: the plugin gets the provider in environment variables, and the key becomes a secret.
pub fn apply_web_search(
    settings: &mut ExternalAccessSettings,
    search: &WebSearch,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<(), String> {
    let key = search.api_key.as_ref();
    let key = key
        .map(|key| expand_variables(key.reveal(), variable))
        .transpose()?;
    let (name, usual) = search.provider.name_and_url();
    let url = search.url.as_deref().or(usual).ok_or_else(|| {
        format!("webSearch: provider `{name}` requires `url`, the address of the service")
    })?;
    let wrong = || {
        let shown = text::escape_line(url, 200);
        format!("webSearch: `{shown}` is not a URL such as https://example.org")
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = format!("{scheme}://{authority}");
    HostRule::parse(&host).map_err(|_| wrong())?;
    settings.hosts.push(host.clone());
    if let Some(key) = key {
        settings.secrets.push(SecretSettings {
            name: "web_search".to_owned(),
            value: SecretValue::Text(key),
            hosts: vec![host],
        });
    }
    let number = search.max_results.map(|number| number.to_string());
    let variables = [
        ("PROVIDER", Some(name.to_owned())),
        ("MAX_RESULTS", number),
        ("URL", search.url.clone()),
        ("ENGINE", search.engine.clone()),
    ];
    let named = |(name, value): (&str, Option<String>)| {
        Some((format!("TOOLHOST_WEB_SEARCH_{name}"), value?))
    };
    settings
        .variables
        .extend(variables.into_iter().filter_map(named));
    Ok(())
}

pub fn resolve(
    args: &ExternalAccessArgs,
    config: &mut Config,
    directory: &Path,
    of_file: &dyn Fn(&str) -> Result<PathBuf, String>,
) -> Result<ExternalAccessSettings, String> {
    let typed = |path: &PathBuf| absolute(directory, path);
    let mut skills: Vec<PathBuf> = args.skills.iter().map(typed).collect();
    for path in &config.skills {
        skills.push(of_file(path)?);
    }
    let memory = match (&args.memory, &config.memory) {
        (Some(dir), _) => Some(typed(dir)),
        (None, Some(dir)) => Some(of_file(dir)?),
        (None, None) => None,
    };
    let programs = args.allow_program.iter().chain(&config.allowed_programs);
    let agents = std::mem::take(&mut config.agents)
        .into_iter()
        .map(|(name, table)| AgentSettings {
            info: AgentInfo {
                name: name.to_string(),
                description: table.description,
            },
            command: [vec![table.command.program], table.command.args].concat(),
            timeout: table.timeout,
        });
    let hosts = [&args.allow_host, &config.allowed_hosts]
        .map(Vec::as_slice)
        .concat();
    let of_secrets = config.secrets.values().flat_map(|table| &table.hosts);
    for host in hosts.iter().chain(&config.denied_hosts).chain(of_secrets) {
        HostRule::parse(host)
            .map_err(|error| format!("host `{}`: {error}", text::escape_line(host, 200)))?;
    }
    let secrets = std::mem::take(&mut config.secrets)
        .into_iter()
        .map(|(name, table)| SecretSettings {
            name: name.to_string(),
            value: SecretValue::Variable(table.env.to_string()),
            hosts: table.hosts,
        });
    Ok(ExternalAccessSettings {
        hosts,
        denied_hosts: std::mem::take(&mut config.denied_hosts),
        programs: programs.map(|name| name.as_str().to_owned()).collect(),
        unconfined: args.unconfined || config.unconfined,
        program_network: args.allow_program_network || config.program_network,
        memory,
        skills,
        agents: agents.collect(),
        other_agents: false,
        secrets: secrets.collect(),
        variables: BTreeMap::new(),
    })
}
