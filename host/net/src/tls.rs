//! TLS to a checked address, verified against the host of the URL. Verification cannot be disabled.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::OnceCell;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};

use crate::url_host::UrlHost;

/// The certificate authorities that are trusted.
#[derive(Debug, Clone)]
pub struct TrustedRoots {
    system: bool,
    extra: Vec<CertificateDer<'static>>,
}

/// Why certificates cannot be read from a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read certificates: {why}; specify a PEM file with `BEGIN CERTIFICATE` blocks")]
pub struct RootsError {
    why: String,
}

impl TrustedRoots {
    /// The authorities that the operating system trusts.
    pub fn system() -> Self {
        Self {
            system: true,
            extra: Vec::new(),
        }
    }

    /// No authority; to be extended with [`TrustedRoots::with_pem`].
    pub fn none() -> Self {
        Self {
            system: false,
            extra: Vec::new(),
        }
    }

    /// Also trusts the certificates in a PEM file, such as those of a company's own authority.
    pub fn with_pem(mut self, pem: &[u8]) -> Result<Self, RootsError> {
        let before = self.extra.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            self.extra.push(certificate.map_err(|error| RootsError {
                why: error.to_string(),
            })?);
        }
        if self.extra.len() == before {
            return Err(RootsError {
                why: "the file contains none".to_owned(),
            });
        }
        Ok(self)
    }
}

/// The TLS configuration, loaded at the first https request, because reading the system's authorities takes
/// milliseconds that a host without network access does not need.
#[derive(Debug)]
pub(crate) struct Tls {
    roots: TrustedRoots,
    config: OnceCell<Arc<ClientConfig>>,
}

pub(crate) enum TlsFailure {
    Timeout,
    Failed(String),
}

impl Tls {
    pub(crate) fn new(roots: TrustedRoots) -> Self {
        Self {
            roots,
            config: OnceCell::new(),
        }
    }

    pub(crate) async fn connect<S>(
        &self,
        stream: S,
        host: &UrlHost,
        deadline: Instant,
    ) -> Result<TlsStream<S>, TlsFailure>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let config = self
            .config
            .get_or_try_init(|| load(self.roots.clone()))
            .await
            .map_err(TlsFailure::Failed)?;
        let name = match host {
            UrlHost::Name(name) => ServerName::try_from(name.clone()).map_err(|_| {
                TlsFailure::Failed("its name is not valid in a certificate".to_owned())
            })?,
            UrlHost::Address(address) => ServerName::from(*address),
        };
        match timeout_at(
            deadline,
            TlsConnector::from(Arc::clone(config)).connect(name, stream),
        )
        .await
        {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(error)) => Err(TlsFailure::Failed(explain(&error))),
            Err(_) => Err(TlsFailure::Timeout),
        }
    }
}

async fn load(roots: TrustedRoots) -> Result<Arc<ClientConfig>, String> {
    tokio::task::spawn_blocking(move || configure(roots))
        .await
        .map_err(|error| error.to_string())?
}

fn configure(roots: TrustedRoots) -> Result<Arc<ClientConfig>, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots.extra);
    if roots.system {
        // An unreadable certificate is skipped; requests that need it fail with an error.
        store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    if store.is_empty() {
        return Err(
            "this machine has no certificate authorities; install its `ca-certificates` package"
                .to_owned(),
        );
    }
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(store)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session ticket would let a server recognize that requests of different plugins come from the same host.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(Error::InvalidCertificate(why)) => match why {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; its operator must renew it".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; check this machine's clock".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another name; check the host in the URL".to_owned()
            }
            CertificateError::UnknownIssuer => {
                "its certificate is not signed by an authority that this machine trusts; the operator can add that authority"
                    .to_owned()
            }
            CertificateError::Revoked => "its certificate was revoked".to_owned(),
            _ => "its certificate is not valid".to_owned(),
        },
        Some(Error::InvalidMessage(_)) => "it does not speak TLS on this port; check the port, or use http".to_owned(),
        _ => "it does not support TLS 1.2 or 1.3; check the port, or use http".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_handshake_times_out() {
        let key = rcgen::generate_simple_self_signed(vec!["a.example".to_owned()]).unwrap();
        let tls = Tls::new(
            TrustedRoots::none()
                .with_pem(key.cert.pem().as_bytes())
                .unwrap(),
        );
        let (ours, _theirs) = tokio::io::duplex(4096);
        let host = UrlHost::Name("a.example".to_owned());
        let deadline = Instant::now() + Duration::from_secs(10);
        let answer = tls.connect(ours, &host, deadline).await;
        assert!(matches!(answer, Err(TlsFailure::Timeout)));
        assert!(Instant::now() >= deadline);
    }
}
