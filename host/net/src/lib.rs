//! Outbound HTTP for guests, restricted to allowed hosts. This crate checks a request, resolves the host, connects and
//! sends, and returns a response of bounded size and duration.
//!
//! Read in this order: [`HostRule`] and [`AllowedHosts`] define which hosts are allowed, [`AddressKind`] classifies
//! addresses, [`NetClient::send`] sends a request, and [`NetError`] lists the errors.
//!
//! Guarantees for every request:
//! - The host that was checked is the host that is connected to. A URL is parsed once; unusual notations of an address
//!   become that address; a name is resolved once, every returned address is checked, and only these are dialled.
//! - One connection per request of a guest. No proxies, cookies, credentials or settings from the environment.
//! - Redirects are not followed. The guest follows them, and each redirect is a new request.
//! - Secrets are inserted when a request is sent, only for their own hosts, and masked in responses.

mod address_kind;
mod allowed_hosts;
mod client;
mod connect;
mod error;
mod escape;
mod exchange;
mod headers;
mod host_rule;
mod limits;
mod mask;
mod ports;
mod proxy;
mod rate_limiter;
mod request_body;
mod resolve;
mod response_body;
mod secret;
mod target;
mod tls;
mod url_host;

pub use address_kind::AddressKind;
pub use allowed_hosts::AllowedHosts;
pub use client::{NetClient, NetSettings};
pub use error::{NetError, TimeoutPhase};
pub use host_rule::{HostRule, RuleError};
pub use limits::{NetLimits, Timeouts};
pub use proxy::{OnProxyRequest, proxy_limits, serve_proxy};
pub use resolve::{Resolve, SystemResolver};
pub use response_body::ResponseBody;
pub use secret::{Secret, SecretError, refers_to_secret};
pub use target::{Scheme, Target};
pub use tls::{RootsError, TrustedRoots};
pub use url_host::UrlHost;
