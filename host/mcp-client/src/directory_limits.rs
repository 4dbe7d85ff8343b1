//! Calls that are limited to some directories: by their caller, by the roots of an MCP client, or in a sub-agent.
//!
//! The host cannot limit a single call of a running server. It refuses the call if the server could use other files.

use std::path::Path;
use std::sync::Arc;

use toolhost_contract::{CallError, ErrorClass};

use crate::config::{ServerConfig, TransportConfig};
use crate::sandbox::{ServerProfile, ServerSandbox};

/// The code of the error.
pub const NOT_LIMITED: &str = "mcp_server_not_limited";

/// The files of this machine that a program or server can use.
pub(crate) enum ServerFiles<'a> {
    /// All files, for this reason.
    Any(&'static str),
    /// Its own directory, its program and its packages, and these paths.
    Profile(&'a ServerProfile),
    None,
}

impl ServerConfig {
    pub(crate) fn files(&self) -> ServerFiles<'_> {
        match &self.transport {
            TransportConfig::Stdio(program) => match &program.sandbox {
                ServerSandbox::Unconfined => ServerFiles::Any("it runs without a sandbox"),
                ServerSandbox::Confined(profile) => ServerFiles::Profile(profile),
            },
            TransportConfig::Http(address) if address.is_loopback() => {
                ServerFiles::Any("it runs on this machine, outside the sandbox")
            }
            TransportConfig::Http(_) => ServerFiles::None,
        }
    }
}

/// As [`check`], for a tool or resource of a server.
pub(crate) fn check_server(
    config: &ServerConfig,
    limits: &[Arc<[String]>],
) -> Result<(), CallError> {
    let server = format!("the server `{}`", config.name);
    check(&server, &config.files(), limits)
}

/// Refuses a call that is limited to the directories of each list if `program` could use others. `program` names it in the
/// error.
pub(crate) fn check(
    program: &str,
    access: &ServerFiles<'_>,
    limits: &[Arc<[String]>],
) -> Result<(), CallError> {
    if limits.is_empty() {
        return Ok(());
    }
    let reason = match access {
        ServerFiles::None => return Ok(()),
        ServerFiles::Any(reason) => reason,
        ServerFiles::Profile(profile) => {
            let mut paths = profile.read.iter().chain(&profile.write);
            if paths.all(|path| limits.iter().all(|list| is_in(path, list))) {
                return Ok(());
            }
            "its sandbox contains other paths"
        }
    };
    let message = format!(
        "the call is limited to some directories, and {program} can use files outside them: {reason}"
    );
    let error = CallError::new(ErrorClass::Denied, message).code(NOT_LIMITED);
    Err(error.recommend(
        "use a tool of a plugin, call without the limit, or run the server in a sandbox whose `paths` are in these \
         directories",
    ))
}

fn is_in(path: &Path, directories: &[String]) -> bool {
    let mut directories = directories.iter();
    directories.any(|directory| path.starts_with(directory))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::ServerAddress;
    use crate::testing::config;

    fn is_refused(transport: TransportConfig, limits: &[&[&str]]) -> bool {
        let config = ServerConfig {
            transport,
            ..config("one")
        };
        let lists = limits.iter().map(|list| {
            let list = list.iter().map(ToString::to_string);
            list.collect::<Arc<[String]>>()
        });
        let lists: Vec<_> = lists.collect();
        check_server(&config, &lists).is_err()
    }

    fn program(sandbox: ServerSandbox) -> TransportConfig {
        let TransportConfig::Stdio(program) = config("one").transport else {
            panic!("it is a program")
        };
        TransportConfig::Stdio(crate::config::ServerProgram { sandbox, ..program })
    }

    #[test]
    fn a_program_is_called_if_all_its_paths_are_in_the_directories_of_the_call() {
        let profile = |read: &[&str], write: &[&str]| {
            ServerSandbox::Confined(ServerProfile {
                read: read.iter().map(Into::into).collect(),
                write: write.iter().map(Into::into).collect(),
                ..ServerProfile::default()
            })
        };
        let limits: &[&[&str]] = &[&["/w/a", "/w/b"], &["/w"]];
        for (sandbox, limits, expected) in [
            (ServerSandbox::Unconfined, limits, true),
            (ServerSandbox::Unconfined, &[], false),
            (profile(&[], &[]), limits, false),
            (profile(&["/w/a/x"], &["/w/b"]), limits, false),
            (profile(&["/w/a"], &["/w"]), limits, true),
            (profile(&["/w/ab"], &[]), limits, true),
            (profile(&["/w/a"], &[]), &[&["/w"], &["/x"]], true),
            (profile(&["/w/a"], &[]), &[], false),
        ] {
            let shown = format!("{sandbox:?} {limits:?}");
            assert_eq!(is_refused(program(sandbox), limits), expected, "{shown}");
        }
    }

    #[test]
    fn only_a_remote_machine_is_called_over_http() {
        for (url, expected) in [
            ("https://example.org/mcp", false),
            ("https://10.0.0.1/mcp", false),
            ("http://localhost:1/mcp", true),
            ("https://a.localhost./mcp", true),
            ("http://127.0.0.2:1/mcp", true),
            ("http://[::1]/mcp", true),
            ("https://[::ffff:127.0.0.1]/mcp", true),
            ("https://0.0.0.0/mcp", true),
        ] {
            let address = ServerAddress::parse("one", url, BTreeMap::new(), false).unwrap();
            let transport = TransportConfig::Http(address);
            assert_eq!(is_refused(transport, &[&["/w"]]), expected, "{url}");
        }
    }
}
