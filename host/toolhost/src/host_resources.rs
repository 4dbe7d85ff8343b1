//! Network and program access, shared by all plugins.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use toolhost_contract::{Capability, Manifest, Quotas, SessionKey, UserQuota};
use toolhost_kernel::OnSessionEnd;
use toolhost_net::{AllowedHosts, HostRule, NetClient, Secret};
use toolhost_process::{
    AllowedPrograms, Confinement, Environment, JobQuota, Launcher, ProcessSettings, Processes,
};
use toolhost_runtime::{NetGrant, ProgramGrant, session_owner};
use toolhost_vfs::Protection;

use crate::grants;
use crate::load::MessageSink;
use crate::scratch_dir::ScratchDir;
use crate::settings::{ExternalAccessSettings, SecretValue, Settings};

/// Guest path of the output of programs.
pub const OUTPUT_PATH: &str = "/output";

#[derive(Default)]
pub struct HostResources {
    net: Option<NetClient>,
    programs: Option<ProgramAccess>,
}

struct ProgramAccess {
    processes: Processes,
    allowed: Vec<String>,
    network: bool,
    /// Deleted when the host exits.
    output: ScratchDir,
}

impl HostResources {
    /// `launcher` is the program that confines and executes every started program.
    pub fn open(
        settings: &Settings,
        launcher: Option<&Launcher>,
        say: &MessageSink,
    ) -> anyhow::Result<Self> {
        let external_access = &settings.external_access;
        Ok(Self {
            net: (!external_access.hosts.is_empty())
                .then(|| open_net(external_access, say))
                .transpose()?,
            ..Self::programs_only(settings, launcher)?
        })
    }

    /// Returns a function that blocks plugins from connecting to an address on which this host listens.
    pub fn block_address(&self) -> impl Fn(SocketAddr) + use<> {
        let net = self.net.clone();
        move |listener| {
            if let Some(net) = &net {
                net.deny_listener(listener);
            }
        }
    }

    /// Programs only, without the network and without secrets.
    pub fn programs_only(settings: &Settings, launcher: Option<&Launcher>) -> anyhow::Result<Self> {
        let programs = (!settings.external_access.programs.is_empty())
            .then(|| open_programs(settings, launcher))
            .transpose()?;
        Ok(Self {
            net: None,
            programs,
        })
    }

    /// The network grant of a plugin.
    pub fn net_for(&self, manifest: &Manifest) -> anyhow::Result<Option<NetGrant>> {
        let Some(net) = self
            .net
            .as_ref()
            .filter(|_| manifest.needs(Capability::Net))
        else {
            return Ok(None);
        };
        let names: Vec<&str> = manifest.names(Capability::Net).collect();
        let requested = if names.contains(&"*") {
            None
        } else {
            let rules = names
                .iter()
                .map(|name| HostRule::parse(name))
                .collect::<Result<_, _>>()
                .context("hosts in the manifest")?;
            let allowed = AllowedHosts {
                rules,
                denied: Vec::new(),
            };
            Some(net.with_rules(allowed, Vec::new()))
        };
        Ok(Some(NetGrant {
            net: net.clone(),
            requested,
        }))
    }

    pub fn programs_for(&self, manifest: &Manifest) -> Option<ProgramGrant> {
        let running = self.programs.as_ref()?;
        let requested: Vec<&str> = manifest.names(Capability::Process).collect();
        let both = running
            .allowed
            .iter()
            .filter(|name| requested.contains(&name.as_str()));
        let programs: Arc<[String]> = both.cloned().collect();
        (!programs.is_empty()).then(|| ProgramGrant {
            processes: running.processes.clone(),
            programs,
            network: running.network,
            output: OUTPUT_PATH.to_owned(),
        })
    }

    /// The processes whose output plugins can read.
    pub fn processes(&self) -> Option<&Processes> {
        self.programs.as_ref().map(|running| &running.processes)
    }

    /// Ends the programs of a session when it ends.
    pub fn on_session_end(&self) -> Option<OnSessionEnd> {
        let processes = self.processes()?.clone();
        Some(Arc::new(move |key: &SessionKey| {
            let ended = processes.end_session(&session_owner(key));
            // Outside of a runtime the host itself is exiting, which ends its programs.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(ended);
            }
        }))
    }

    /// The directory with the outputs of all sessions.
    pub fn output_directory(&self) -> Option<&Path> {
        self.programs.as_ref().map(|running| running.output.path())
    }

    /// Stops all started programs.
    pub async fn shut_down(&self) {
        if let Some(running) = &self.programs {
            running.processes.shutdown().await;
        }
    }
}

fn parse_host_rules(texts: &[String]) -> anyhow::Result<Vec<HostRule>> {
    texts
        .iter()
        .map(|text| HostRule::parse(text).with_context(|| format!("host `{text}`")))
        .collect()
}

fn open_net(
    external_access: &ExternalAccessSettings,
    say: &MessageSink,
) -> anyhow::Result<NetClient> {
    let mut secrets = Vec::new();
    for secret in &external_access.secrets {
        let value = match &secret.value {
            SecretValue::Text(value) => value.clone(),
            SecretValue::Variable(name) => {
                let Ok(value) = std::env::var(name) else {
                    let secret = &secret.name;
                    say(&format!(
                        "warning: secret `{secret}`: the variable {name} is not set"
                    ));
                    continue;
                };
                value
            }
        };
        let hosts =
            parse_host_rules(&secret.hosts).with_context(|| format!("secret `{}`", secret.name))?;
        secrets.push(Secret::new(&secret.name, &value, hosts)?);
    }
    Ok(NetClient::new(toolhost_net::NetSettings {
        allowed: AllowedHosts {
            rules: parse_host_rules(&external_access.hosts)?,
            denied: parse_host_rules(&external_access.denied_hosts)?,
        },
        secrets,
        ..toolhost_net::NetSettings::default()
    }))
}

fn open_programs(
    settings: &Settings,
    launcher: Option<&Launcher>,
) -> anyhow::Result<ProgramAccess> {
    let launcher = launcher
        .cloned()
        .context("programs are allowed but there is no launcher; set one with `launcher`")?;
    let (external_access, quotas) = (&settings.external_access, Quotas::default());
    let output =
        ScratchDir::new("output").context("create a directory for the output of programs")?;
    let protected = grants::protected_paths(settings);
    let shielded = |shield: Protection| {
        let paths = protected
            .iter()
            .filter(|protected| protected.protection == shield);
        paths.map(|protected| protected.path.clone()).collect()
    };
    let process = ProcessSettings {
        programs: AllowedPrograms::Only(external_access.programs.clone()),
        environment: Environment::from_process(settings.env.iter().cloned().collect()),
        confinement: if external_access.unconfined {
            Confinement::Off
        } else {
            Confinement::Required
        },
        hidden: shielded(Protection::Hidden),
        read_only: shielded(Protection::ReadOnly),
        max_jobs: quotas.session_programs,
        programs_at_once: job_quota(quotas.programs),
        kept_output: job_quota(quotas.saved_output_bytes),
        ..ProcessSettings::new(launcher, output.path().to_owned())
    };
    Ok(ProgramAccess {
        processes: Processes::new(process)?,
        allowed: external_access.programs.clone(),
        // An unconfined program has network access anyway.
        network: external_access.program_network || external_access.unconfined,
        output,
    })
}

fn job_quota(quota: UserQuota) -> JobQuota {
    let UserQuota { user, all } = quota;
    JobQuota { user, all }
}
