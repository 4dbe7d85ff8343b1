//! Resolves a name to addresses, once per request. Exactly these addresses are checked and dialled.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::error::NetError;
use crate::target::Target;
use crate::url_host::UrlHost;

/// Maximum number of addresses of a name. All of them are checked, so the list must be bounded.
const MAX_ADDRESSES: usize = 64;

/// Resolves names. [`SystemResolver`] is the default; tests and embedders can supply another one. A lookup is not cancelled
/// when its request ends, and counts for its user for at most two minutes.
#[async_trait]
pub trait Resolve: Send + Sync {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system, with its hosts file, name servers and order of addresses.
#[derive(Debug)]
pub struct SystemResolver {
    /// A cancelled lookup occupies a thread until the system gives up.
    threads: Arc<Semaphore>,
}

/// Threads of the [`SystemResolver`].
const THREADS: usize = 8;
/// Maximum number of lookups of one user, so that names whose servers do not answer leave threads to other users.
pub(crate) const LOOKUPS_OF_USER: usize = THREADS / 2;
/// How long a lookup waits for a thread. Its request has timed out by then.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long a lookup counts for its user.
const LONGEST_LOOKUP: Duration = Duration::from_secs(120);

impl Default for SystemResolver {
    fn default() -> Self {
        Self {
            threads: Arc::new(Semaphore::new(THREADS)),
        }
    }
}

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let permit = timeout(LONGEST_WAIT, Arc::clone(&self.threads).acquire_owned())
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
            .map_err(io::Error::other)?;
        let name = name.to_owned();
        tokio::task::spawn_blocking(move || {
            let _permit = permit;
            Ok((name.as_str(), 0)
                .to_socket_addrs()?
                .map(|address| address.ip())
                .collect())
        })
        .await
        .map_err(io::Error::other)?
    }
}

/// `lookups` are those of the user.
pub(crate) async fn resolve_target(
    resolver: &Arc<dyn Resolve>,
    lookups: &Arc<Semaphore>,
    target: &Target,
    deadline: Instant,
) -> Result<Vec<IpAddr>, NetError> {
    let name = match &target.host {
        UrlHost::Address(address) => return Ok(vec![*address]),
        UrlHost::Name(name) => name,
    };
    // RFC 6761: these names are loopback by definition. A name server could return another address.
    if name == "localhost" || name.ends_with(".localhost") {
        return Ok(vec![
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ]);
    }
    let failed = |why: &str| NetError::DnsFailed {
        host: name.clone(),
        why: why.to_owned(),
    };
    let Ok(permit) = timeout_at(deadline, Arc::clone(lookups).acquire_owned()).await else {
        return Err(failed("earlier lookups of this user have not ended"));
    };
    let (resolver, owned) = (Arc::clone(resolver), name.clone());
    // The task holds the permit until the lookup ends, even if the request has timed out.
    let lookup = tokio::spawn(async move {
        let _permit = permit;
        timeout(LONGEST_LOOKUP, resolver.resolve(&owned))
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    });
    let found = match timeout_at(deadline, lookup).await {
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
        Ok(ended) => ended.unwrap_or_else(|error| Err(io::Error::other(error))),
    };
    let addresses = found.map_err(|error| {
        failed(match error.kind() {
            io::ErrorKind::TimedOut => "the name servers did not answer in time",
            _ => "the name does not exist",
        })
    })?;
    match addresses.len() {
        0 => Err(failed("the name has no address")),
        1..=MAX_ADDRESSES => Ok(addresses),
        _ => Err(failed("the name has too many addresses")),
    }
}
