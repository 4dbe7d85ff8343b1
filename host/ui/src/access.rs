//! Who may send requests: the link with its token, sessions in cookies, and the checks of host and origin.
//!
//! The page can approve calls, so a program that a tool starts, another user of this machine and any web page must not
//! be able to use it, even though they can reach the address.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::FromRequestParts;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::{COOKIE, HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use http::{Method, StatusCode};

use crate::error_page::ErrorPage;
use crate::state::AppState;

/// Maximum number of links that were not opened yet, and of open sessions. The oldest ends when there are more.
const MAX_LINKS: usize = 16;
const MAX_SESSIONS: usize = 32;
/// A link can be in a log, which others may read later.
const LINK_LIFETIME: Duration = Duration::from_mins(10);

const COOKIE_NAME: &str = "toolhost_session";

/// Signs what forms contain. New with each start.
pub struct Secret([u8; 32]);

/// An authenticated browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session([u8; 32]);

/// The names of the server, its links and its sessions. Only digests of tokens are kept.
pub struct Access {
    pub secret: Secret,
    address: SocketAddr,
    /// A name that is different with each start. Browsers send cookies to every port of a host name, so a cookie for
    /// `127.0.0.1` would also be sent to a web server that a tool has started.
    name: String,
    tokens: Mutex<Tokens>,
}

#[derive(Default)]
struct Tokens {
    /// With the time of their creation.
    links: VecDeque<([u8; 32], Instant)>,
    sessions: VecDeque<[u8; 32]>,
}

/// Why a request is rejected before it is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessError {
    Host,
    Origin,
}

impl Secret {
    fn generate() -> Result<Self, getrandom::Error> {
        random_bytes().map(Self)
    }

    /// Returns a signature that is valid for one session and one text.
    pub fn sign(&self, session: &Session, text: &str) -> String {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(&session.0);
        hasher.update(text.as_bytes());
        URL_SAFE_NO_PAD.encode(hasher.finalize().as_bytes())
    }

    /// Returns the token that every form of the session contains.
    pub fn csrf_token(&self, session: &Session) -> String {
        self.sign(session, "form")
    }
}

impl Access {
    pub fn new(address: SocketAddr) -> Result<Self, getrandom::Error> {
        let bytes = random_bytes()?;
        let number = u64::from_le_bytes(*bytes.first_chunk().expect("there are 32 bytes"));
        Ok(Self {
            secret: Secret::generate()?,
            address,
            name: format!("toolhost-{number:016x}.localhost"),
            tokens: Mutex::default(),
        })
    }

    /// Returns a new link, which can be opened once within ten minutes.
    pub fn new_link(&self) -> Result<String, getrandom::Error> {
        let token = URL_SAFE_NO_PAD.encode(random_bytes()?);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let link = (hash(&token), Instant::now());
        push_bounded(&mut tokens.links, link, MAX_LINKS);
        Ok(format!(
            "http://{}:{}/open?token={token}",
            self.name,
            self.address.port()
        ))
    }

    /// Exchanges the token of a link for the cookie of a new session. `None`: the token is unknown, too old or was used.
    pub fn exchange(&self, token: &str) -> Result<Option<String>, getrandom::Error> {
        let cookie = URL_SAFE_NO_PAD.encode(random_bytes()?);
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let token = hash(token);
        tokens
            .links
            .retain(|(_, created)| created.elapsed() < LINK_LIFETIME);
        let Some(at) = tokens.links.iter().position(|(link, _)| *link == token) else {
            return Ok(None);
        };
        tokens.links.remove(at);
        push_bounded(&mut tokens.sessions, hash(&cookie), MAX_SESSIONS);
        // Without `Secure`, because browsers do not accept it for every loopback name.
        Ok(Some(format!(
            "{COOKIE_NAME}={cookie}; Path=/; HttpOnly; SameSite=Strict"
        )))
    }

    /// Checks host and origin. A request that changes something must come from a page of this server.
    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), AccessError> {
        let host = single(headers, HOST).ok().flatten();
        let host = host
            .filter(|host| self.is_own(host))
            .ok_or(AccessError::Host)?;
        let own = format!("http://{host}");
        match single(headers, ORIGIN) {
            Ok(Some(origin)) if origin.eq_ignore_ascii_case(&own) => {}
            Ok(None) if *method == Method::GET || *method == Method::HEAD => {}
            _ => return Err(AccessError::Origin),
        }
        // Other ports of the same name count as the same site for cookies, but not for this header.
        match single(headers, "sec-fetch-site") {
            Ok(Some("cross-site" | "same-site")) if !is_navigation(headers) => {
                Err(AccessError::Origin)
            }
            Err(_) => Err(AccessError::Origin),
            Ok(_) => Ok(()),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let Some((name, port)) = host.rsplit_once(':') else {
            return false;
        };
        let own_name = name.eq_ignore_ascii_case(&self.name)
            || name.eq_ignore_ascii_case("localhost")
            || name == self.address.ip().to_string()
            || name == format!("[{}]", self.address.ip());
        own_name && port.parse() == Ok(self.address.port())
    }

    /// Returns the session of a request.
    pub fn session(&self, headers: &HeaderMap) -> Option<Session> {
        let cookies = headers.get_all(COOKIE).into_iter();
        let cookies = cookies.filter_map(|value| value.to_str().ok());
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        cookies
            .flat_map(|cookies| cookies.split(';'))
            .filter_map(|cookie| cookie.trim().strip_prefix(COOKIE_NAME)?.strip_prefix('='))
            // A browser sends at most a few cookies of this name.
            .take(8)
            .map(hash)
            .find(|hash| tokens.sessions.contains(hash))
            .map(Session)
    }
}

fn is_navigation(headers: &HeaderMap) -> bool {
    single(headers, "sec-fetch-mode") == Ok(Some("navigate"))
}

/// A header that occurs more than once or is no text.
#[derive(Debug, PartialEq, Eq)]
struct Ambiguous;

/// Returns the value of a header, if it is there.
fn single(
    headers: &HeaderMap,
    name: impl http::header::AsHeaderName,
) -> Result<Option<&str>, Ambiguous> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| Ambiguous),
        (Some(_), Some(_)) => Err(Ambiguous),
    }
}

fn push_bounded<T>(list: &mut VecDeque<T>, item: T, max: usize) {
    list.push_back(item);
    while list.len() > max {
        list.pop_front();
    }
}

fn hash(token: &str) -> [u8; 32] {
    *blake3::hash(token.as_bytes()).as_bytes()
}

fn random_bytes() -> Result<[u8; 32], getrandom::Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)?;
    Ok(bytes)
}

impl FromRequestParts<Arc<AppState>> for Session {
    type Rejection = ErrorPage;

    async fn from_request_parts(
        parts: &mut Parts,
        state: &Arc<AppState>,
    ) -> Result<Self, ErrorPage> {
        state.access.session(&parts.headers).ok_or_else(|| {
            ErrorPage::new(StatusCode::UNAUTHORIZED, "This browser is not connected to the host").because(
                "Open the link that the host printed when it started. Each link can be opened once; `host ui` prints a \
                 new one.",
            )
        })
    }
}
