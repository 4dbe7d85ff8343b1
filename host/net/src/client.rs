//! Sends outgoing requests: every request of every guest takes these steps, top to bottom.

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use http::{Request, Response, Uri, Version};
use http_body::Body;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::address_kind::unmap_ipv4;
use crate::allowed_hosts::AllowedHosts;
use crate::connect::{ConnectionStream, DialError, dial, dial_first};
use crate::error::{NetError, TimeoutPhase};
use crate::exchange::exchange;
use crate::headers::{check_method, sanitize};
use crate::limits::{NetLimits, Timeouts};
use crate::proxy::tunnel_url;
use crate::rate_limiter::RateLimiter;
use crate::request_body::{BodyFailure, RequestBody};
use crate::resolve::{LOOKUPS_OF_USER, Resolve, SystemResolver, resolve_target};
use crate::response_body::{BodyContext, ResponseBody};
use crate::secret::{Secret, insert_secrets};
use crate::target::{Scheme, Target};
use crate::tls::{Tls, TlsFailure, TrustedRoots};

/// The parts of a [`NetClient`]. The default allows nothing.
pub struct NetSettings {
    pub allowed: AllowedHosts,
    pub secrets: Vec<Secret>,
    pub limits: NetLimits,
    pub resolver: Arc<dyn Resolve>,
    pub roots: TrustedRoots,
}

impl Default for NetSettings {
    fn default() -> Self {
        Self {
            allowed: AllowedHosts::default(),
            secrets: Vec::new(),
            limits: NetLimits::default(),
            resolver: Arc::new(SystemResolver::default()),
            roots: TrustedRoots::system(),
        }
    }
}

/// The outbound HTTP client of guests. Clones share the same counts.
#[derive(Clone)]
pub struct NetClient {
    allowed: Arc<AllowedHosts>,
    secrets: Arc<[Secret]>,
    /// The limits of the user who sends the requests.
    own: Arc<RequestQuota>,
    shared: Arc<ClientShared>,
}

struct ClientShared {
    limits: NetLimits,
    resolver: Arc<dyn Resolve>,
    tls: Tls,
    all: RequestQuota,
    users: Mutex<HashMap<Option<String>, Arc<RequestQuota>>>,
    own_listeners: RwLock<Vec<SocketAddr>>,
}

/// The limits of all users together, as a multiple of those of one user.
const ALL_USERS_FACTOR: usize = 8;
/// Maximum number of users. Beyond it, users without requests in the last minute are removed.
const MAX_USERS: usize = 1024;

/// The usage of one user, or of all users.
struct RequestQuota {
    rate: RateLimiter,
    concurrent: usize,
    slots: Arc<Semaphore>,
    lookups: Arc<Semaphore>,
}

impl RequestQuota {
    fn new(limits: &NetLimits, times: usize) -> Self {
        let concurrent = limits
            .concurrent
            .saturating_mul(times)
            .min(Semaphore::MAX_PERMITS);
        Self {
            concurrent,
            rate: RateLimiter::new(
                limits.per_minute.saturating_mul(times),
                limits.per_host_per_minute.saturating_mul(times),
            ),
            slots: Arc::new(Semaphore::new(concurrent)),
            lookups: Arc::new(Semaphore::new(LOOKUPS_OF_USER)),
        }
    }

    async fn acquire_slot(&self, until: Instant) -> Result<OwnedSemaphorePermit, NetError> {
        match timeout_at(until, Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(NetError::RateLimited {
                reason: format!("{} are in progress, which is the limit", self.concurrent),
            }),
        }
    }
}

impl NetClient {
    pub fn new(settings: NetSettings) -> Self {
        let NetSettings {
            allowed,
            secrets,
            limits,
            resolver,
            roots,
        } = settings;
        Self {
            allowed: Arc::new(allowed),
            secrets: secrets.into(),
            own: Arc::new(RequestQuota::new(&limits, 1)),
            shared: Arc::new(ClientShared {
                limits,
                resolver,
                tls: Tls::new(roots),
                all: RequestQuota::new(&limits, ALL_USERS_FACTOR),
                users: Mutex::default(),
                own_listeners: RwLock::default(),
            }),
        }
    }

    /// Returns a client with other rules and secrets, such as those of one plugin. Counts and limits are shared.
    #[must_use]
    pub fn with_rules(&self, allowed: AllowedHosts, secrets: Vec<Secret>) -> Self {
        Self {
            allowed: Arc::new(allowed),
            secrets: secrets.into(),
            own: Arc::clone(&self.own),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Returns a client with the limits of this user; `None` is the local user. Requests of other users do not count.
    #[must_use]
    pub fn for_user(&self, user: Option<&str>) -> Self {
        let mut users = self
            .shared
            .users
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if users.len() >= MAX_USERS {
            users.retain(|_, share| Arc::strong_count(share) > 1 || !share.rate.is_idle());
        }
        let own = users
            .entry(user.map(ToOwned::to_owned))
            .or_insert_with(|| Arc::new(RequestQuota::new(&self.shared.limits, 1)));
        Self {
            own: Arc::clone(own),
            ..self.clone()
        }
    }

    /// Denies guests access to an address on which this host itself listens, whatever the rules allow: a plugin that
    /// reaches the dashboard could approve its own requests.
    pub fn deny_listener(&self, listener: SocketAddr) {
        let listener = SocketAddr::new(unmap_ipv4(listener.ip()), listener.port());
        self.shared
            .own_listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// Checks a URL against the rules without resolving names. Addresses of names are checked in [`NetClient::send`].
    pub fn check_url(&self, uri: &Uri) -> Result<Target, NetError> {
        let target = Target::parse(uri, self.shared.limits.url_bytes)?;
        self.allowed.check_host(&target)?;
        Ok(target)
    }

    /// Sends one request over a new connection. Redirects are not followed: a caller that follows one calls again, and
    /// the new request is checked again.
    ///
    /// Requires a tokio runtime. Dropping the future, or the body of the response, closes the connection.
    pub async fn send<B>(
        &self,
        request: Request<B>,
        timeouts: Timeouts,
    ) -> Result<Response<ResponseBody>, NetError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let ClientShared {
            limits,
            resolver,
            all,
            ..
        } = &*self.shared;
        let times = timeouts.clamp(limits.longest);
        let started = Instant::now();
        let deadline = started + times.total;
        let (mut parts, body) = request.into_parts();

        check_method(&parts.method)?;
        let mut target = self.check_url(&parts.uri)?;
        let host = target.to_string();
        let declared = sanitize(&mut parts.headers, &target, limits)?;
        let mask = insert_secrets(&self.secrets, &mut target, &mut parts.headers)?;
        let upload = BodyFailure::default();
        let body = RequestBody::new(
            body,
            host.clone(),
            declared,
            limits.upload_bytes,
            Arc::clone(&upload),
        )?;
        let named = target.host.to_string();
        self.own.rate.acquire(&named)?;
        all.rate.acquire(&named)?;

        // Waiting for a slot counts towards the total timeout, but not towards that of connecting.
        let until = deadline.min(started + times.connect);
        let permits = [
            self.own.acquire_slot(until).await?,
            all.acquire_slot(until).await?,
        ];
        let connect_by = deadline.min(Instant::now() + times.connect);
        let addresses = resolve_target(resolver, &self.own.lookups, &target, connect_by).await?;
        let addresses = self.allowed.check_addresses(&target, &addresses)?;
        let stream = self.connect(&target, &addresses, connect_by, times).await?;

        parts.uri = Uri::from(target.path);
        parts.version = Version::HTTP_11;
        let terms = BodyContext {
            host,
            limit: limits.response_bytes,
            idle_timeout: times.between_bytes,
            total: times.total,
            deadline,
            mask,
            upload,
            permits: Some(permits),
        };
        exchange(
            stream,
            Request::from_parts(parts, body),
            terms,
            times.first_byte,
            limits,
        )
        .await
    }

    /// Connects to the host of a `CONNECT` request, if the rules allow it. Nothing is sent.
    pub(crate) async fn open_tunnel(&self, uri: &Uri) -> Result<TcpStream, NetError> {
        let ClientShared {
            limits,
            resolver,
            all,
            ..
        } = &*self.shared;
        let target = self.check_url(&tunnel_url(uri)?)?;
        let named = target.host.to_string();
        self.own.rate.acquire(&named)?;
        all.rate.acquire(&named)?;
        let times = limits.longest;
        let deadline = Instant::now() + times.connect;
        let addresses = resolve_target(resolver, &self.own.lookups, &target, deadline).await?;
        let addresses = self.allowed.check_addresses(&target, &addresses)?;
        self.connect_tcp(&target, &addresses, deadline, times).await
    }

    async fn connect(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
        deadline: Instant,
        times: Timeouts,
    ) -> Result<Box<dyn ConnectionStream>, NetError> {
        let stream = self.connect_tcp(target, addresses, deadline, times).await?;
        let host = target.to_string();
        match target.scheme {
            Scheme::Http => Ok(Box::new(stream)),
            Scheme::Https => match self
                .shared
                .tls
                .connect(stream, &target.host, deadline)
                .await
            {
                Ok(stream) => Ok(Box::new(stream)),
                Err(TlsFailure::Timeout) => Err(connect_timeout(target, times)),
                Err(TlsFailure::Failed(why)) => Err(NetError::TlsFailed { host, why }),
            },
        }
    }

    async fn connect_tcp(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
        deadline: Instant,
        times: Timeouts,
    ) -> Result<TcpStream, NetError> {
        let host = || target.to_string();
        if addresses
            .iter()
            .any(|address| self.is_own_listener(*address))
        {
            return Err(NetError::OwnListener { host: host() });
        }
        let stream = dial_first(addresses, deadline, dial)
            .await
            .map_err(|error| match error {
                DialError::Timeout => connect_timeout(target, times),
                DialError::Failed(why) => NetError::ConnectFailed { host: host(), why },
            })?;
        if self.ends_at_own_listener(&stream) {
            return Err(NetError::OwnListener { host: host() });
        }
        Ok(stream)
    }

    fn is_own_listener(&self, address: SocketAddr) -> bool {
        let listeners = self
            .shared
            .own_listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        listeners.iter().any(|own| {
            own.port() == address.port()
                && (own.ip() == address.ip()
                    || address.ip().is_unspecified()
                    || (own.ip().is_unspecified() && address.ip().is_loopback()))
        })
    }

    /// Checks the connection for a listener on all addresses of the machine, which cannot be listed: a connection to
    /// one of them has the same address at both ends. Nothing has been sent yet.
    fn ends_at_own_listener(&self, stream: &TcpStream) -> bool {
        let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else {
            return true;
        };
        let listeners = self
            .shared
            .own_listeners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        local.ip() == peer.ip()
            && listeners
                .iter()
                .any(|own| own.port() == peer.port() && own.ip().is_unspecified())
    }
}

fn connect_timeout(target: &Target, times: Timeouts) -> NetError {
    NetError::Timeout {
        host: target.to_string(),
        phase: TimeoutPhase::Connect,
        after: times.connect.min(times.total),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_are_limited_and_waits_time_out() {
        let limits = NetLimits {
            concurrent: 2,
            ..NetLimits::default()
        };
        let net = NetClient::new(NetSettings {
            limits,
            ..NetSettings::default()
        });
        let until = Instant::now() + Duration::from_secs(10);
        let (ann, bob) = (net.for_user(Some("ann")), net.for_user(None));
        let first = ann.own.acquire_slot(until).await.unwrap();
        let _second = ann.own.acquire_slot(until).await.unwrap();
        let error = ann.own.acquire_slot(until).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "too many requests: 2 are in progress, which is the limit; wait and try again"
        );
        assert!(Instant::now() >= until);
        let _others = bob.own.acquire_slot(until).await.unwrap();
        drop(first);
        let _third = net
            .for_user(Some("ann"))
            .own
            .acquire_slot(until)
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn users_have_separate_quotas() {
        let limits = NetLimits {
            per_minute: 2,
            ..NetLimits::default()
        };
        let net = NetClient::new(NetSettings {
            limits,
            ..NetSettings::default()
        });
        let sends = |user: &str| net.for_user(Some(user)).own.rate.acquire("a").is_ok();
        assert_eq!(
            ["ann", "ann", "ann", "bob"].map(sends),
            [true, true, false, true]
        );
        // Users without requests in the last minute are removed.
        tokio::time::advance(Duration::from_mins(1)).await;
        for number in 0..2 * MAX_USERS {
            let _ = net.for_user(Some(&number.to_string()));
        }
        assert!(net.shared.users.lock().unwrap().len() <= MAX_USERS);
    }
}
