//! Network and program access, shared by all plugins.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use toolhost_contract::{Capability, Manifest, Quotas, SessionKey, UserQuota};
use toolhost_kernel::OnSessionEnd;
use toolhost_net::{Allowed, HostRule, Net, Secret};
use toolhost_process::{
    Confinement, Environment, JobQuota, Launcher, Processes, Programs, Settings as ProcessSettings,
};
use toolhost_runtime::{NetGrant, ProgramGrant, session_owner};
use toolhost_vfs::Shield;

use crate::grants;
use crate::load::Say;
use crate::scratch::Scratch;
use crate::settings::{BeyondSettings, SecretValue, Settings};

/// Guest path of the output of programs.
pub const OUTPUT: &str = "/output";

#[derive(Default)]
pub struct Outlets {
    net: Option<Net>,
    programs: Option<Running>,
}

struct Running {
    processes: Processes,
    allowed: Vec<String>,
    network: bool,
    /// Deleted when the host exits.
    output: Scratch,
}

impl Outlets {
    /// `launcher` is the program that confines and executes every started program.
    pub fn open(
        settings: &Settings,
        launcher: Option<&Launcher>,
        say: &Say,
    ) -> anyhow::Result<Self> {
        let beyond = &settings.beyond;
        Ok(Self {
            net: (!beyond.hosts.is_empty())
                .then(|| net(beyond, say))
                .transpose()?,
            ..Self::of_programs(settings, launcher)?
        })
    }

    /// Returns a function that blocks plugins from connecting to an address on which this host listens.
    pub fn keep_off(&self) -> impl Fn(SocketAddr) + use<> {
        let net = self.net.clone();
        move |listener| {
            if let Some(net) = &net {
                net.keep_off(listener);
            }
        }
    }

    /// Programs only, without the network and without secrets.
    pub fn of_programs(settings: &Settings, launcher: Option<&Launcher>) -> anyhow::Result<Self> {
        let programs = (!settings.beyond.programs.is_empty())
            .then(|| programs(settings, launcher))
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
        let asked = if names.contains(&"*") {
            None
        } else {
            let rules = names
                .iter()
                .map(|name| HostRule::parse(name))
                .collect::<Result<_, _>>()
                .context("hosts in the manifest")?;
            let allowed = Allowed {
                rules,
                denied: Vec::new(),
            };
            Some(net.with(allowed, Vec::new()))
        };
        Ok(Some(NetGrant {
            net: net.clone(),
            asked,
        }))
    }

    pub fn programs_for(&self, manifest: &Manifest) -> Option<ProgramGrant> {
        let running = self.programs.as_ref()?;
        let asked: Vec<&str> = manifest.names(Capability::Process).collect();
        let both = running
            .allowed
            .iter()
            .filter(|name| asked.contains(&name.as_str()));
        let programs: Arc<[String]> = both.cloned().collect();
        (!programs.is_empty()).then(|| ProgramGrant {
            processes: running.processes.clone(),
            programs,
            network: running.network,
            output: OUTPUT.to_owned(),
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
    pub fn output(&self) -> Option<&Path> {
        self.programs.as_ref().map(|running| running.output.path())
    }

    /// Stops all started programs.
    pub async fn close(&self) {
        if let Some(running) = &self.programs {
            running.processes.shutdown().await;
        }
    }
}

fn rules(texts: &[String]) -> anyhow::Result<Vec<HostRule>> {
    texts
        .iter()
        .map(|text| HostRule::parse(text).with_context(|| format!("host `{text}`")))
        .collect()
}

fn net(beyond: &BeyondSettings, say: &Say) -> anyhow::Result<Net> {
    let mut secrets = Vec::new();
    for secret in &beyond.secrets {
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
        let hosts = rules(&secret.hosts).with_context(|| format!("secret `{}`", secret.name))?;
        secrets.push(Secret::new(&secret.name, &value, hosts)?);
    }
    Ok(Net::new(toolhost_net::Settings {
        allowed: Allowed {
            rules: rules(&beyond.hosts)?,
            denied: rules(&beyond.denied_hosts)?,
        },
        secrets,
        ..toolhost_net::Settings::default()
    }))
}

fn programs(settings: &Settings, launcher: Option<&Launcher>) -> anyhow::Result<Running> {
    let launcher = launcher
        .cloned()
        .context("programs are allowed but there is no launcher; set one with `launcher`")?;
    let (beyond, quotas) = (&settings.beyond, Quotas::default());
    let output = Scratch::new("output").context("create a directory for the output of programs")?;
    let protected = grants::protected(settings);
    let shielded = |shield: Shield| {
        let paths = protected
            .iter()
            .filter(|protected| protected.shield == shield);
        paths.map(|protected| protected.path.clone()).collect()
    };
    let process = ProcessSettings {
        programs: Programs::Only(beyond.programs.clone()),
        environment: Environment::of_this_process(settings.env.iter().cloned().collect()),
        confinement: if beyond.unconfined {
            Confinement::Off
        } else {
            Confinement::Required
        },
        hidden: shielded(Shield::Hidden),
        read_only: shielded(Shield::ReadOnly),
        max_jobs: quotas.session_programs,
        programs_at_once: job_quota(quotas.programs),
        kept_output: job_quota(quotas.kept_output),
        ..ProcessSettings::new(launcher, output.path().to_owned())
    };
    Ok(Running {
        processes: Processes::new(process)?,
        allowed: beyond.programs.clone(),
        // An unconfined program has network access anyway.
        network: beyond.program_network || beyond.unconfined,
        output,
    })
}

fn job_quota(quota: UserQuota) -> JobQuota {
    let UserQuota { user, all } = quota;
    JobQuota { user, all }
}
