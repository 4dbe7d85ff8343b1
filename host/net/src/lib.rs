//! Outbound HTTP for guests, restricted to allowed hosts. This crate checks a request, resolves the host, connects and
//! sends, and returns a response of bounded size and duration.
//!
//! Read in this order: [`HostRule`] and [`AllowedHosts`] define which hosts are allowed, [`AddressKind`] classifies
//! addresses, [`NetClient::send`] sends a request, and [`NetError`] lists the errors.
//!
//! Guarantees for every request:
//! - The host that was checked is the host that is connected to. A URL is parsed once; unusual notations of an address
//!   become that address; a name is resolved once, every returned address is checked, and only these are dialled.
//! - One connection per request. No proxies, cookies, credentials or settings from the environment.
//! - Redirects are not followed. The guest follows them, and each redirect is a new request.
//! - Secrets are inserted when a request is sent, only for their own hosts, and masked in responses.

mod allowed;
mod connect;
mod download;
mod error;
mod exchange;
mod headers;
mod host;
mod kind;
mod limits;
mod mask;
mod net;
mod ports;
mod rate;
mod resolve;
mod rule;
mod secret;
mod target;
mod text;
mod tls;
mod upload;

pub use allowed::Allowed;
pub use download::Download;
pub use error::{NetError, Phase};
pub use host::Host;
pub use kind::Kind;
pub use limits::{Limits, Timeouts};
pub use net::{Net, Settings};
pub use resolve::{Resolve, SystemResolver};
pub use rule::{HostRule, RuleError};
pub use secret::{Secret, SecretError};
pub use target::{Scheme, Target};
pub use tls::{Roots, RootsError};
