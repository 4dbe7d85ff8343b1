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

use crate::allowed::Allowed;
use crate::connect::{DialError, Stream, dial, first_of};
use crate::download::{Download, Terms};
use crate::error::{NetError, Phase};
use crate::exchange::exchange;
use crate::headers::{check_method, clean};
use crate::kind::plain;
use crate::limits::{Limits, Timeouts};
use crate::rate::Rate;
use crate::resolve::{Resolve, SystemResolver, resolve};
use crate::secret::{Secret, fill};
use crate::target::{Scheme, Target};
use crate::tls::{Roots, Tls, TlsFailure};
use crate::upload::{Failure, Upload};

/// The parts of a [`NetClient`]. The default allows nothing.
pub struct Settings {
    pub allowed: Allowed,
    pub secrets: Vec<Secret>,
    pub limits: Limits,
    pub resolver: Arc<dyn Resolve>,
    pub roots: Roots,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            allowed: Allowed::default(),
            secrets: Vec::new(),
            limits: Limits::default(),
            resolver: Arc::new(SystemResolver::default()),
            roots: Roots::system(),
        }
    }
}

/// The outbound HTTP client of guests. Clones share the same counts.
#[derive(Clone)]
pub struct Net {
    allowed: Arc<Allowed>,
    secrets: Arc<[Secret]>,
    /// The limits of the user who sends the requests.
    own: Arc<Share>,
    shared: Arc<Shared>,
}

struct Shared {
    limits: Limits,
    resolver: Arc<dyn Resolve>,
    tls: Tls,
    all: Share,
    users: Mutex<HashMap<Option<String>, Arc<Share>>>,
    own_listeners: RwLock<Vec<SocketAddr>>,
}

/// The limits of all users together, as a multiple of those of one user.
const USERS_AT_ONCE: usize = 8;
/// Maximum number of users. Beyond it, users without requests in the last minute are removed.
const MAX_USERS: usize = 1024;

/// The usage of one user, or of all users.
struct Share {
    rate: Rate,
    concurrent: usize,
    slots: Arc<Semaphore>,
}

impl Share {
    fn new(limits: &Limits, times: usize) -> Self {
        let concurrent = limits
            .concurrent
            .saturating_mul(times)
            .min(Semaphore::MAX_PERMITS);
        Self {
            concurrent,
            rate: Rate::new(
                limits.per_minute.saturating_mul(times),
                limits.per_host_per_minute.saturating_mul(times),
            ),
            slots: Arc::new(Semaphore::new(concurrent)),
        }
    }

    async fn place(&self, until: Instant) -> Result<OwnedSemaphorePermit, NetError> {
        match timeout_at(until, Arc::clone(&self.slots).acquire_owned()).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) | Err(_) => Err(NetError::RateLimited {
                what: format!("{} are in progress, which is the limit", self.concurrent),
            }),
        }
    }
}

impl Net {
    pub fn new(settings: Settings) -> Self {
        let Settings {
            allowed,
            secrets,
            limits,
            resolver,
            roots,
        } = settings;
        Self {
            allowed: Arc::new(allowed),
            secrets: secrets.into(),
            own: Arc::new(Share::new(&limits, 1)),
            shared: Arc::new(Shared {
                limits,
                resolver,
                tls: Tls::new(roots),
                all: Share::new(&limits, USERS_AT_ONCE),
                users: Mutex::default(),
                own_listeners: RwLock::default(),
            }),
        }
    }

    /// Returns a client with other rules and secrets, such as those of one plugin. Counts and limits are shared.
    #[must_use]
    pub fn with(&self, allowed: Allowed, secrets: Vec<Secret>) -> Self {
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
            .or_insert_with(|| Arc::new(Share::new(&self.shared.limits, 1)));
        Self {
            own: Arc::clone(own),
            ..self.clone()
        }
    }

    /// Denies guests access to an address on which this host itself listens, whatever the rules allow: a plugin that
    /// reaches the dashboard could approve its own requests.
    pub fn keep_off(&self, listener: SocketAddr) {
        let listener = SocketAddr::new(plain(listener.ip()), listener.port());
        self.shared
            .own_listeners
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(listener);
    }

    /// Checks a URL against the rules without resolving names. Addresses of names are checked in [`NetClient::send`].
    pub fn admits(&self, uri: &Uri) -> Result<Target, NetError> {
        let target = Target::of(uri, self.shared.limits.url_bytes)?;
        self.allowed.admit(&target)?;
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
    ) -> Result<Response<Download>, NetError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Shared {
            limits,
            resolver,
            all,
            ..
        } = &*self.shared;
        let times = timeouts.at_most(limits.longest);
        let started = Instant::now();
        let deadline = started + times.total;
        let (mut parts, body) = request.into_parts();

        check_method(&parts.method)?;
        let mut target = self.admits(&parts.uri)?;
        let host = target.to_string();
        let declared = clean(&mut parts.headers, &target, limits)?;
        let mask = fill(&self.secrets, &mut target, &mut parts.headers)?;
        let upload = Failure::default();
        let body = Upload::new(
            body,
            host.clone(),
            declared,
            limits.upload_bytes,
            Arc::clone(&upload),
        )?;
        let named = target.host.to_string();
        self.own.rate.take(&named)?;
        all.rate.take(&named)?;

        // Waiting for a slot counts towards the total timeout, but not towards that of connecting.
        let until = deadline.min(started + times.connect);
        let permits = [self.own.place(until).await?, all.place(until).await?];
        let connect_by = deadline.min(Instant::now() + times.connect);
        let addresses = resolve(&**resolver, &target, connect_by).await?;
        let addresses = self.allowed.check(&target, &addresses)?;
        let stream = self.connect(&target, &addresses, connect_by, times).await?;

        parts.uri = Uri::from(target.path);
        parts.version = Version::HTTP_11;
        let terms = Terms {
            host,
            limit: limits.response_bytes,
            between: times.between_bytes,
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

    async fn connect(
        &self,
        target: &Target,
        addresses: &[SocketAddr],
        deadline: Instant,
        times: Timeouts,
    ) -> Result<Box<dyn Stream>, NetError> {
        let host = || target.to_string();
        let timeout = || NetError::Timeout {
            host: host(),
            phase: Phase::Connect,
            after: times.connect.min(times.total),
        };
        if addresses
            .iter()
            .any(|address| self.is_own_listener(*address))
        {
            return Err(NetError::OwnListener { host: host() });
        }
        let stream = first_of(addresses, deadline, dial)
            .await
            .map_err(|error| match error {
                DialError::Timeout => timeout(),
                DialError::Failed(why) => NetError::ConnectFailed { host: host(), why },
            })?;
        if self.ends_at_own_listener(&stream) {
            return Err(NetError::OwnListener { host: host() });
        }
        match target.scheme {
            Scheme::Http => Ok(Box::new(stream)),
            Scheme::Https => match self.shared.tls.wrap(stream, &target.host, deadline).await {
                Ok(stream) => Ok(Box::new(stream)),
                Err(TlsFailure::Timeout) => Err(timeout()),
                Err(TlsFailure::Failed(why)) => Err(NetError::TlsFailed { host: host(), why }),
            },
        }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_places_are_few_and_the_wait_for_one_ends() {
        let limits = Limits {
            concurrent: 2,
            ..Limits::default()
        };
        let net = Net::new(Settings {
            limits,
            ..Settings::default()
        });
        let until = Instant::now() + Duration::from_secs(10);
        let (ann, bob) = (net.for_user(Some("ann")), net.for_user(None));
        let first = ann.own.place(until).await.unwrap();
        let _second = ann.own.place(until).await.unwrap();
        let error = ann.own.place(until).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "too many requests: 2 are in progress, which is the limit; wait and try again"
        );
        assert!(Instant::now() >= until);
        let _others = bob.own.place(until).await.unwrap();
        drop(first);
        let _third = net.for_user(Some("ann")).own.place(until).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_user_sends_does_not_count_for_another() {
        let limits = Limits {
            per_minute: 2,
            ..Limits::default()
        };
        let net = Net::new(Settings {
            limits,
            ..Settings::default()
        });
        let sends = |user: &str| net.for_user(Some(user)).own.rate.take("a").is_ok();
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
