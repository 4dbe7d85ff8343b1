//! Local servers over standard input and output. A program gets only its configured variables and never outlives the
//! host.

use std::path::PathBuf;
use std::sync::Arc;

use toolhost_contract::BoxFuture;
use toolhost_process::{Launcher, PipedCommand, PipedProcess, Pipes};

use crate::config::ServerProgram;
use crate::dial::{ClientTransport, Dial, DialedConnection};
use crate::error::ServerError;
use crate::expanded::mask_secrets;
use crate::log::ServerLogger;

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
    INHERITED_VARIABLES.contains(&name)
        || CERTIFICATE_VARIABLES.contains(&name)
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
}

impl StdioDialer {
    pub(crate) fn command(&self) -> PipedCommand {
        let of_host = self
            .host
            .iter()
            .filter(|(name, _)| is_inherited(name) && !self.program.env.contains_key(name));
        let own = self.program.env.iter();
        let variables: Vec<(String, String)> = of_host
            .cloned()
            .chain(own.map(|(name, value)| (name.clone(), value.0.clone())))
            .collect();
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
        }
    }
}

impl Dial for StdioDialer {
    fn dial(&self, log: Arc<ServerLogger>) -> BoxFuture<'_, Result<DialedConnection, ServerError>> {
        Box::pin(async move {
            let started = PipedProcess::start(&self.launcher, &self.command()).await;
            let (child, pipes) = started.map_err(|error| ServerError::Start {
                server: self.server.clone(),
                reason: mask_secrets(&error.to_string(), &self.program.secrets()),
            })?;
            let Pipes {
                stdin,
                stdout,
                stderr,
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
            },
            launcher: Launcher::this_program([]),
            host: vec![
                pair("AWS_SECRET_ACCESS_KEY", "s"),
                pair("PATH", "/a:/b"),
                pair("LANG", "en"),
                pair("LD_PRELOAD", "x"),
            ],
        };
        let command = stdio.command();
        assert_eq!(
            command.variables,
            [pair("PATH", "/a:/b"), pair("KEY", "k"), pair("LANG", "de")]
        );
        assert_eq!(command.path, [PathBuf::from("/a"), PathBuf::from("/b")]);
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
