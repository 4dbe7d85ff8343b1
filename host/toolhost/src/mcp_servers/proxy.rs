//! The proxy through which a confined MCP server reaches the hosts of its profile.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use toolhost_contract::{BoxFuture, text};
use toolhost_mcp_client::{AccessLog, RefusedAccess, WriteLine};
use toolhost_net::{
    AllowedHosts, HostRule, NetClient, NetError, NetSettings, proxy_limits, serve_proxy,
};

/// A server can ask for any number of hosts. Further ones are refused without a line in its log.
const MAX_REPORTED: usize = 200;

pub fn serve(
    listener: TcpListener,
    hosts: &[String],
    log: Arc<WriteLine>,
    record: Option<AccessLog>,
) -> BoxFuture<'static, ()> {
    let rules: Result<Vec<HostRule>, _> = hosts.iter().map(|host| HostRule::parse(host)).collect();
    let client = rules.map(|rules| {
        NetClient::new(NetSettings {
            allowed: AllowedHosts {
                rules,
                denied: Vec::new(),
            },
            limits: proxy_limits(),
            ..NetSettings::default()
        })
    });
    let reported: Mutex<BTreeSet<String>> = Mutex::default();
    let for_errors = Arc::clone(&log);
    let on_request = move |host: &str, error: Option<&NetError>| {
        let Some(error) = error.filter(|error| error.is_refusal()) else {
            return;
        };
        let mut reported = reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() >= MAX_REPORTED || !reported.insert(host.to_owned()) {
            return;
        }
        drop(reported);
        log(&text::escape_line(&format!("sandbox: {error}"), 1_000));
        if let Some(record) = &record {
            record.add(RefusedAccess::Host(rule_for(host, error)));
        }
    };
    Box::pin(async move {
        let served = match client {
            Ok(client) => serve_proxy(listener, client, Arc::new(on_request))
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(reason) = served {
            for_errors(&format!("sandbox: the proxy ended: {reason}"));
        }
    })
}

/// The rule that would allow the host. Without a default port, because a name without one covers both schemes.
fn rule_for(host: &str, error: &NetError) -> String {
    let plain = host
        .strip_suffix(":443")
        .or_else(|| host.strip_suffix(":80"));
    match error {
        NetError::PrivateAddress { allow, .. } => allow.clone(),
        NetError::PortNotAllowed { .. } => host.to_owned(),
        _ => plain.unwrap_or(host).to_owned(),
    }
}
