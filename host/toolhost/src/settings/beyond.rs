//! What tools may use beyond files and variables.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use toolhost_contract::AgentInfo;

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
    /// There are sub-agents besides: of whoever embeds the host, or of a client.
    pub other_agents: bool,
    pub secrets: Vec<SecretSettings>,
    /// Variables that plugins see instead of the host's own.
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
