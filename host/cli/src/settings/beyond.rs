//! What tools may use beyond files and variables, in absolute paths and values.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toolhost_contract::AgentInfo;

use super::absolute;
use crate::args::BeyondArgs;
use crate::config::Beyond;

/// The operator's half; the other half is in each plugin's manifest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BeyondSettings {
    /// Rules for addresses, as they were written.
    pub hosts: Vec<String>,
    pub denied_hosts: Vec<String>,
    pub programs: Vec<String>,
    /// Programs run without the kernel's walls around them.
    pub unconfined: bool,
    /// Programs may use the network.
    pub program_network: bool,
    /// Where what outlives a session is kept.
    pub memory: Option<PathBuf>,
    pub skills: Vec<PathBuf>,
    pub agents: Vec<AgentSettings>,
    pub secrets: Vec<SecretSettings>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct AgentSettings {
    pub info: AgentInfo,
    pub command: Vec<String>,
    pub timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SecretSettings {
    pub name: String,
    pub variable: String,
    pub hosts: Vec<String>,
}

pub fn resolve(
    args: &BeyondArgs,
    config: Beyond,
    directory: &Path,
    of_file: &dyn Fn(&str) -> Result<PathBuf, String>,
) -> Result<BeyondSettings, String> {
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
    let programs = args.allow_program.iter().chain(&config.programs);
    let agents = config
        .agents
        .into_iter()
        .map(|(name, table)| AgentSettings {
            info: AgentInfo {
                name: name.to_string(),
                description: table.description,
            },
            command: table.command.0,
            timeout: table.timeout,
        });
    let secrets = config
        .secrets
        .into_iter()
        .map(|(name, table)| SecretSettings {
            name: name.to_string(),
            variable: table.env.to_string(),
            hosts: table.hosts,
        });
    Ok(BeyondSettings {
        hosts: [&args.allow_host, &config.hosts]
            .map(Vec::as_slice)
            .concat(),
        denied_hosts: config.denied_hosts,
        programs: programs.map(|name| name.as_str().to_owned()).collect(),
        unconfined: args.unconfined || config.unconfined,
        program_network: args.allow_program_network || config.program_network,
        memory,
        skills,
        agents: agents.collect(),
        secrets: secrets.collect(),
    })
}
