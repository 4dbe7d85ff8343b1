//! Local servers over standard input and output. A program gets only its configured variables, runs in its sandbox, and
//! never outlives the host.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use toolhost_contract::BoxFuture;
use toolhost_process::{
    AllowedPrograms, Launcher, PipedCommand, PipedNetwork, PipedProcess, PipedSandbox, Pipes,
    certificate_reads, program_reads, proxy_variables,
};

use crate::config::ServerProgram;
use crate::dial::{ClientTransport, Dial, DialedConnection};
use crate::error::ServerError;
use crate::expanded::mask_secrets;
use crate::log::ServerLogger;
use crate::sandbox::{SandboxContext, ServerProfile, ServerSandbox, own_directories};

/// Variables that every program inherits. Keys and tokens of the host are not among them.
pub const INHERITED_VARIABLES: [&str; 6] = ["PATH", "HOME", "LANG", "TERM", "TMPDIR", "USER"];

/// Variables that locate the certificates of private authorities: paths, not secrets.
const CERTIFICATE_VARIABLES: [&str; 18] = [
    "AWS_CA_BUNDLE",
    "BUNDLE_SSL_CA_CERT",
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "DENO_CERT",
    "DENO_TLS_CA_STORE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_SYSTEM_CA",
    "PIP_CERT",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
];
/// Read by npm and Yarn in any case.
const NPM_CERTIFICATE_VARIABLES: [&str; 2] = ["npm_config_cafile", "yarn_https_ca_file_path"];

fn is_inherited(name: &str) -> bool {
    INHERITED_VARIABLES.contains(&name) || locates_certificates(name)
}

fn locates_certificates(name: &str) -> bool {
    CERTIFICATE_VARIABLES.contains(&name)
        || NPM_CERTIFICATE_VARIABLES
            .iter()
            .any(|npm| npm.eq_ignore_ascii_case(name))
}

pub struct StdioDialer {
    pub server: String,
    pub program: ServerProgram,
    /// Starts the warden that ends the program together with the host.
    pub launcher: Launcher,
    /// The host's own environment variables.
    pub host: Vec<(String, String)>,
    /// Required by confined servers.
    pub sandbox: Option<SandboxContext>,
}

impl StdioDialer {
    /// The command with the variables of the host, those of the sandbox, and its own, of which the last one applies.
    pub(crate) fn command(&self, sandbox: Option<PipedSandbox>) -> PipedCommand {
        let of_host = self
            .host
            .iter()
            .filter(|(name, _)| is_inherited(name))
            .cloned();
        let own = self.program.env.iter();
        let own = own.map(|(name, value)| (name.clone(), value.0.clone()));
        let mut variables: Vec<(String, String)> = Vec::new();
        for (name, value) in of_host
            .chain(sandbox_variables(sandbox.as_ref()))
            .chain(own)
        {
            variables.retain(|(known, _)| *known != name);
            variables.push((name, value));
        }
        let path = variables.iter().find(|(name, _)| name == "PATH");
        let path = path.map(|(_, path)| std::env::split_paths(path).collect());
        PipedCommand {
            program: self.program.command.value.clone(),
            arguments: self
                .program
                .args
                .iter()
                .map(|arg| arg.value.clone())
                .collect(),
            cwd: self.program.cwd.clone(),
            variables,
            path: path.unwrap_or_else(|| vec![PathBuf::from("/usr/bin"), PathBuf::from("/bin")]),
            sandbox,
        }
    }

    /// The files and directories of the program that its sandbox grants without a setting. None if it has no sandbox.
    pub fn program_reads(&self) -> BTreeSet<PathBuf> {
        if self.program.sandbox == ServerSandbox::Unconfined {
            return BTreeSet::new();
        }
        let command = self.command(None);
        let found = AllowedPrograms::Any.find(&command.program, &command.path);
        let reads = found.map(|program| program_reads(&command, &program, &self.writable()));
        reads.unwrap_or_default()
    }

    /// The files with certificates that its sandbox grants, because variables of the host name them.
    pub fn certificate_reads(&self) -> BTreeSet<PathBuf> {
        match self.program.sandbox {
            ServerSandbox::Confined(_) => certificate_reads(&self.certificates(), &self.writable()),
            ServerSandbox::Unconfined => BTreeSet::new(),
        }
    }

    /// What the program can write in its sandbox.
    fn writable(&self) -> Vec<PathBuf> {
        let data = self.sandbox.as_ref().and_then(|context| {
            let data = context.data.as_ref()?.join(&self.server);
            data.canonicalize().ok()
        });
        let granted = match &self.program.sandbox {
            ServerSandbox::Confined(profile) => &profile.write[..],
            ServerSandbox::Unconfined => &[],
        };
        granted.iter().cloned().chain(data).collect()
    }

    /// Returns the sandbox if the approval of the server covers the paths of its program: a file that was
    /// created after the approval can make another directory its package.
    fn prepare_sandbox(&self) -> Result<Option<PipedSandbox>, ServerError> {
        let Some((context, profile)) = self.confinement()? else {
            return Ok(None);
        };
        let mut sandbox = context
            .prepare(&self.server, profile)
            .map_err(|error| self.failed(&error.to_string()))?;
        sandbox.program = self.program_reads();
        let checked = context
            .approvals
            .check_reads(&self.server, &sandbox.program);
        checked.map_err(|error| ServerError::Config {
            server: self.server.clone(),
            reason: error.to_string(),
        })?;
        sandbox.program.extend(self.certificate_reads());
        Ok(Some(sandbox))
    }

    /// Files that the certificate variables of the host name. Those of the server's `env` grant nothing.
    fn certificates(&self) -> Vec<PathBuf> {
        let named = self
            .host
            .iter()
            .filter(|(name, _)| locates_certificates(name) && !self.program.env.contains_key(name));
        named.map(|(_, value)| PathBuf::from(value)).collect()
    }

    fn failed(&self, reason: &str) -> ServerError {
        ServerError::Start {
            server: self.server.clone(),
            reason: mask_secrets(reason, &self.program.secrets()),
        }
    }

    /// The host's part of the sandbox, and the server's. `None`: it is unconfined.
    fn confinement(&self) -> Result<Option<(&SandboxContext, &ServerProfile)>, ServerError> {
        match (&self.program.sandbox, &self.sandbox) {
            (ServerSandbox::Unconfined, _) => Ok(None),
            (ServerSandbox::Confined(profile), Some(context)) => Ok(Some((context, profile))),
            (ServerSandbox::Confined(_), None) => Err(self.failed("this host has no sandboxes")),
        }
    }

    async fn start(&self) -> Result<(PipedProcess, Pipes), ServerError> {
        let command = self.command(self.prepare_sandbox()?);
        let confinement = self.confinement()?;
        let started = PipedProcess::start(&self.launcher, &command).await;
        let (mut child, mut pipes) = started.map_err(|error| self.failed(&error.to_string()))?;
        if let (Some(listener), Some((context, profile))) = (pipes.proxy.take(), confinement) {
            child.keep(context.start_proxy(listener, profile));
        }
        let record = confinement.and_then(|(context, _)| context.record.clone());
        if let (Some(refused), Some(record)) = (pipes.refused.take(), record) {
            tokio::spawn(record.follow(refused));
        }
        Ok((child, pipes))
    }
}

fn sandbox_variables(sandbox: Option<&PipedSandbox>) -> Vec<(String, String)> {
    let Some(sandbox) = sandbox else {
        return Vec::new();
    };
    let own = own_directories(&sandbox.data).into_iter();
    let own = own.map(|(name, path)| (name.to_owned(), path.to_string_lossy().into_owned()));
    let proxy = match sandbox.network {
        PipedNetwork::Proxy => proxy_variables(),
        PipedNetwork::None | PipedNetwork::Direct => Vec::new(),
    };
    // Python would write its compiled modules beside the program, which is read-only.
    let python = ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
    own.chain(proxy).chain([python]).collect()
}

impl Dial for StdioDialer {
    fn dial(&self, log: Arc<ServerLogger>) -> BoxFuture<'_, Result<DialedConnection, ServerError>> {
        Box::pin(async move {
            log.clear();
            let (child, pipes) = self.start().await?;
            let Pipes {
                stdin,
                stdout,
                stderr,
                proxy: _,
                refused: _,
            } = pipes;
            let stderr = tokio::spawn(async move { log.follow(stderr).await });
            Ok(DialedConnection {
                wire: ClientTransport::Pipes {
                    read: Box::new(stdout),
                    write: Box::new(stdin),
                },
                child: Some(child),
                stderr: Some(stderr),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::approvals::Approvals;
    use crate::config::HiddenValue;

    #[test]
    fn a_program_inherits_no_secrets() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let stdio = StdioDialer {
            server: "one".to_owned(),
            program: ServerProgram {
                command: "x".into(),
                args: Vec::new(),
                env: BTreeMap::from([
                    ("KEY".to_owned(), HiddenValue("k".to_owned())),
                    ("LANG".to_owned(), HiddenValue("de".to_owned())),
                ]),
                cwd: PathBuf::from("/"),
                sandbox: ServerSandbox::Unconfined,
            },
            launcher: Launcher::this_program([]),
            host: vec![
                pair("AWS_SECRET_ACCESS_KEY", "s"),
                pair("PATH", "/a:/b"),
                pair("LANG", "en"),
                pair("LD_PRELOAD", "x"),
            ],
            sandbox: None,
        };
        let command = stdio.command(None);
        assert_eq!(
            command.variables,
            [pair("PATH", "/a:/b"), pair("KEY", "k"), pair("LANG", "de")]
        );
        assert_eq!(command.path, [PathBuf::from("/a"), PathBuf::from("/b")]);
    }

    #[test]
    fn a_file_that_is_created_after_the_approval_does_not_extend_the_sandbox() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let project = root.join("project");
        std::fs::create_dir_all(project.join("tools")).unwrap();
        let script = project.join("tools/s.sh");
        std::fs::write(&script, "").unwrap();
        let approvals = Arc::new(Approvals::in_memory());
        let mut stdio = StdioDialer {
            server: "one".to_owned(),
            program: ServerProgram {
                command: "sh".into(),
                args: vec![script.to_str().unwrap().into()],
                env: BTreeMap::new(),
                cwd: root.clone(),
                sandbox: ServerSandbox::default(),
            },
            launcher: Launcher::this_program([]),
            host: Vec::new(),
            sandbox: Some(SandboxContext {
                data: Some(root.join("data")),
                hidden: Vec::new(),
                read_only: Vec::new(),
                serve_proxy: Arc::new(|_, _| Box::pin(async {})),
                approvals: Arc::clone(&approvals),
                record: None,
            }),
        };
        let reads = stdio.program_reads();
        assert!(reads.contains(&script), "{reads:?}");
        let digest = toolhost_contract::Digest([1; 32]);
        approvals.approve("one", digest, &reads).unwrap();
        let sandbox = stdio.prepare_sandbox().unwrap().unwrap();
        assert_eq!(sandbox.program, reads);
        let python = ("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned());
        let command = stdio.command(Some(sandbox));
        assert!(command.variables.contains(&python));
        std::fs::write(project.join("package.json"), "").unwrap();
        let refused = stdio.prepare_sandbox().unwrap_err();
        assert!(matches!(refused, ServerError::Config { .. }));
        let expected = format!(
            "would let it read {}, which is not approved",
            project.display()
        );
        assert!(refused.to_string().contains(&expected), "{refused}");
        stdio.program.sandbox = ServerSandbox::Unconfined;
        assert!(stdio.prepare_sandbox().unwrap().is_none());
    }

    #[test]
    fn c_07_certificate_variables_are_inherited() {
        let names = [
            "NODE_EXTRA_CA_CERTS",
            "SSL_CERT_FILE",
            "SSL_CERT_DIR",
            "REQUESTS_CA_BUNDLE",
            "CURL_CA_BUNDLE",
            "GIT_SSL_CAINFO",
            "PIP_CERT",
            "AWS_CA_BUNDLE",
            "npm_config_cafile",
            "NPM_CONFIG_CAFILE",
            "CARGO_HTTP_CAINFO",
        ];
        for name in names {
            assert!(is_inherited(name), "{name}");
        }
        for name in [
            "NPM_TOKEN",
            "npm_config__auth",
            "SSL_KEY_FILE",
            "NODE_OPTIONS",
            "HTTPS_PROXY",
        ] {
            assert!(!is_inherited(name), "{name}");
        }
    }
}
