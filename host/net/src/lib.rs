//! This crate exists so that a guest's request can only reach hosts that somebody allowed: it decides, looks up,
//! connects and sends, and hands back an answer whose size and time are bounded.
//!
//! Read in this order: [`HostRule`] and [`Allowed`] say what is wanted, [`Kind`] says what an address is for,
//! [`Net::send`] is the road of a request, [`NetError`] says why not.
//!
//! What holds for every request:
//! - The host that was checked is the host that is connected to. A URL is taken apart once; odd spellings of an
//!   address become that address; a name is looked up once, every address of the answer is checked, and exactly those
//!   are dialled.
//! - One connection for one request. No proxies, cookies, credentials or settings from the environment.
//! - No redirects are followed here. The guest follows them, and each hop is a new request.
//! - Secrets are put in on the way out, for their own hosts, and masked when they come back.

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
