//! `--http ADDRESS`: serves MCP over HTTP, with limits for each client.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueHint};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use toolhost_contract::text;
use toolhost_contract::units::{parse_duration, parse_size};
use toolhost_kernel::Kernel;
use toolhost_mcp_server::http::{
    AllowedOrigin, Exposure, HostName, HttpLimits, HttpOptions, HttpServer, ListenError, Tokens,
};
use toolhost_mcp_server::{ServeOptions, SessionEnd};

use crate::exit::{CliError, Exit, OrExit as _};
use crate::settings::CliSettings;
use crate::terminal::note;

/// Name of the token file in the state directory.
const TOKEN_FILE: &str = "http-token";

#[derive(Debug, Clone, Args)]
pub struct HttpArgs {
    /// Serve MCP over HTTP on this address, for example `127.0.0.1:8080`; port 0 selects a free port
    #[arg(help_heading = "HTTP options", long, value_name = "ADDRESS", value_parser = parse_address)]
    pub http: Option<SocketAddr>,

    /// Read tokens from this file, one `NAME TOKEN` per line, instead of using a generated token
    #[arg(help_heading = "HTTP options", long, value_name = "FILE", requires = "http", conflicts_with = "http_no_token", value_hint = ValueHint::FilePath)]
    pub http_token_file: Option<PathBuf>,

    /// Accept calls from every program on this machine without a token
    #[arg(
        help_heading = "HTTP options",
        long,
        requires = "http",
        conflicts_with = "http_public"
    )]
    pub http_no_token: bool,

    /// Allow an address that other machines can reach
    #[arg(help_heading = "HTTP options", long, requires = "http")]
    pub http_public: bool,

    /// Accept requests for this host name in addition to localhost and the address itself; repeatable
    #[arg(help_heading = "HTTP options", long, value_name = "HOST", requires = "http", value_parser = HostName::parse)]
    pub http_host: Vec<HostName>,

    /// Accept requests from web pages of this origin, for example `https://app.example.org`; repeatable
    #[arg(help_heading = "HTTP options", long, value_name = "ORIGIN", requires = "http", value_parser = AllowedOrigin::parse)]
    pub http_origin: Vec<AllowedOrigin>,

    /// Maximum requests per second for each token [default: no limit]
    #[arg(
        help_heading = "HTTP options",
        long,
        value_name = "N",
        requires = "http"
    )]
    pub http_rate: Option<NonZeroU32>,

    /// Maximum concurrent requests for each token; further requests wait up to 30 s
    #[arg(
        help_heading = "HTTP options",
        long,
        value_name = "N",
        requires = "http",
        default_value = "64"
    )]
    pub http_in_flight: NonZeroUsize,

    /// Maximum size of a request body
    #[arg(help_heading = "HTTP options", long, value_name = "SIZE", requires = "http", default_value = "2MiB", value_parser = parse_size)]
    pub http_max_body: u64,

    /// Maximum number of open sessions for each token, and also of open streams
    #[arg(
        help_heading = "HTTP options",
        long,
        value_name = "N",
        requires = "http",
        default_value = "1024"
    )]
    pub http_sessions: NonZeroUsize,

    /// End sessions that have been idle for this long
    #[arg(help_heading = "HTTP options", long, value_name = "DUR", requires = "http", default_value = "30m", value_parser = parse_duration)]
    pub http_idle: Duration,

    /// Maximum connections of all clients together
    #[arg(
        help_heading = "HTTP options",
        long,
        value_name = "N",
        requires = "http",
        default_value = "1024"
    )]
    pub http_connections: NonZeroUsize,

    /// Grace period for running calls after SIGTERM or Ctrl-C; a second signal ends them at once
    #[arg(help_heading = "HTTP options", long, value_name = "DUR", requires = "http", default_value = "5s", value_parser = parse_duration)]
    pub http_grace: Duration,
}

/// Parses an address and port. Host names other than localhost are rejected, because their address can change.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text
        .strip_prefix("localhost:")
        .or_else(|| text.strip_prefix(':'));
    let port = port.unwrap_or(text).parse::<u16>().ok();
    port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .or_else(|| text.parse().ok())
        .ok_or_else(|| {
            "expected an address and port, such as `127.0.0.1:8080` or `[::1]:8080`".to_owned()
        })
}

impl HttpArgs {
    fn limits(&self) -> HttpLimits {
        HttpLimits {
            body: usize::try_from(self.http_max_body)
                .unwrap_or(usize::MAX)
                .clamp(1, 1 << 30),
            in_flight: self.http_in_flight.get(),
            rate: self.http_rate,
            sessions: self.http_sessions.get(),
            idle: self.http_idle,
            connections: self.http_connections.get(),
            grace: self.http_grace,
        }
    }

    fn token_file(&self, settings: &CliSettings) -> Option<PathBuf> {
        let own = || Some(settings.core.host_paths.state.as_ref()?.join(TOKEN_FILE));
        let given = self.http_token_file.as_ref();
        given
            .map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()))
            .or_else(own)
    }

    /// Applies what must be known before the kernel is created: the number of users and the files to hide from tools.
    pub fn prepare(&self, settings: &mut CliSettings) {
        let file = self.token_file(settings).filter(|_| !self.http_no_token);
        // A file that cannot be read is reported when it is needed.
        let tokens = file.as_deref().and_then(|file| Tokens::read(file).ok());
        settings.core.users = tokens.map_or(1, |tokens| tokens.users().count());
        settings.core.secrets.extend(file);
    }

    /// The accepted tokens; `None` if no token is required.
    fn tokens(&self, settings: &CliSettings) -> Result<Option<Tokens>, CliError> {
        if self.http_no_token {
            note(
                "warning: no token is required, so every program on this machine can call these tools",
            );
            return Ok(None);
        }
        if let Some(file) = &self.http_token_file {
            return Tokens::read(file).or_exit(Exit::Config).map(Some);
        }
        let file = self.token_file(settings).ok_or_else(|| {
            CliError::new(
                Exit::Config,
                "no directory for the token; set HOME or TOOLHOST_STATE_DIR, or pass --http-token-file",
            )
        })?;
        let (tokens, new) = Tokens::read_or_create(&file).or_exit(Exit::Config)?;
        let shown = text::escape_line(&file.to_string_lossy(), 400);
        note(&match new {
            Some(token) => format!(
                "token: {} (newly generated and saved in {shown}; not shown again)",
                token.0
            ),
            None => format!("token: saved in {shown}"),
        });
        Ok(Some(tokens))
    }

    /// Serves until a signal arrives.
    pub async fn serve(
        &self,
        address: SocketAddr,
        kernel: Arc<Kernel>,
        info: ServeOptions,
        settings: &CliSettings,
        keep_off: impl Fn(SocketAddr),
    ) -> Result<SessionEnd, CliError> {
        let reach = if self.http_public {
            Exposure::Network
        } else {
            Exposure::Loopback
        };
        let options = HttpOptions {
            tokens: None,
            exposure: reach,
            hosts: self.http_host.clone(),
            origins: self.http_origin.clone(),
            limits: self.limits(),
        };
        // Checked first, because no token must be generated for a server that does not start.
        ListenError::check(address, reach).or_exit(Exit::Usage)?;
        let options = HttpOptions {
            tokens: self.tokens(settings)?,
            ..options
        };
        let server = HttpServer::bind(address, options)
            .await
            .or_exit(Exit::Usage)?;
        keep_off(server.address());
        if !address.ip().is_loopback() {
            note(
                "warning: other machines can reach this server without encryption; put a TLS proxy in front of it and pass its host name with --http-host",
            );
        }
        let signals = count_signals().or_exit(Exit::Internal)?;
        note(&format!("listening on {}", server.url()));
        let stop = Box::pin(wait_for_signals(1, signals.clone()));
        let hurry = Box::pin(wait_for_signals(2, signals));
        let serving = server.serve(kernel, info, stop, hurry);
        serving.await.or_exit(Exit::Internal)?;
        Ok(SessionEnd::Ended)
    }
}

/// Waits until `count` stop signals have arrived.
pub async fn wait_for_signals(count: u32, mut signals: watch::Receiver<u32>) {
    if signals
        .wait_for(|received| *received >= count)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Counts stop signals (SIGTERM and SIGINT).
pub fn count_signals() -> std::io::Result<watch::Receiver<u32>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (count, receiver) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            count.send_modify(|count| *count += 1);
        }
    });
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_without_name_resolution() {
        for (text, address) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("[::1]:0", "[::1]:0"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("localhost:8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("8080", "127.0.0.1:8080"),
        ] {
            assert_eq!(parse_address(text), Ok(address.parse().unwrap()), "{text}");
        }
        for text in [
            "",
            "localhost",
            "example.org:80",
            "127.0.0.1",
            "99999",
            "::1:80",
        ] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
