//! Settings for access beyond files and environment variables.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolhost_contract::AgentInfo;

/// Access that the operator allows. A plugin's manifest must also request it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExternalAccessSettings {
    /// Host rules, as written.
    pub hosts: Vec<String>,
    pub denied_hosts: Vec<String>,
    pub programs: Vec<String>,
    /// Programs run without kernel confinement.
    pub unconfined: bool,
    /// Programs may use the network.
    pub program_network: bool,
    /// Directory for data that tools keep across sessions.
    pub memory: Option<PathBuf>,
    pub skills: Vec<PathBuf>,
    pub agents: Vec<AgentSettings>,
    /// Whether there are other sub-agents: of the embedding program or of a client.
    pub other_agents: bool,
    pub secrets: Vec<SecretSettings>,
    /// Environment variables that plugins see instead of the host's.
    pub variables: BTreeMap<String, String>,
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
    pub value: SecretValue,
    pub hosts: Vec<String>,
}

/// Where the value of a secret comes from.
#[derive(Clone, PartialEq)]
pub enum SecretValue {
    Variable(String),
    Text(String),
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretValue::Variable(name) => write!(f, "${name}"),
            SecretValue::Text(_) => f.write_str("…"),
        }
    }
}
