//! TLS against a local authority: what is trusted, and the errors of what is refused.

mod common;

use std::sync::{Arc, Mutex};

use common::{ScriptedResolver, get, rules, serve};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, version};
use toolhost_net::{NetClient, NetSettings, TrustedRoots};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn certificate(name: &str) -> CertificateParams {
    CertificateParams::new(vec![name.to_owned()]).unwrap()
}

/// Starts a TLS server on loopback with this certificate; requests are recorded in `keep`.
async fn start(
    params: &CertificateParams,
    authority: &CertifiedIssuer<'static, KeyPair>,
    records: Records,
) -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, authority).unwrap();
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, records) = (acceptor.clone(), Arc::clone(&records));
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(stream).await {
                    let name = stream.get_ref().1.server_name().unwrap_or("-").to_owned();
                    records.lock().unwrap().push(format!("sni {name}"));
                    serve(stream, OK, &records).await;
                }
            });
        }
    });
    port
}

type Records = Arc<Mutex<Vec<String>>>;

fn net(roots: TrustedRoots, port: u16) -> NetClient {
    let fake = ScriptedResolver::new(&[("good.example", &["127.0.0.1"])]);
    let allowed = rules(&format!("good.example:{port} 127.0.0.1"));
    NetClient::new(NetSettings {
        allowed,
        resolver: Arc::new(fake),
        roots,
        ..NetSettings::default()
    })
}

/// Connects to `host` with a certificate of a trusted authority; `expected` is the response, or the error after `HOST:
/// `.
async fn check(params: CertificateParams, host: &str, expected: &str) {
    let authority = authority("ours");
    let records = Records::default();
    let port = start(&params, &authority, Arc::clone(&records)).await;
    let roots = TrustedRoots::none()
        .with_pem(authority.pem().as_bytes())
        .unwrap();
    let text = get(&net(roots, port), &format!("https://{host}:{port}/")).await;
    assert_eq!(
        text.replace(
            &format!("tls_failed: cannot trust `{host}:{port}`: "),
            "no: "
        ),
        expected
    );
    if expected.starts_with("no") {
        assert_eq!(
            records.lock().unwrap().len(),
            0,
            "nothing is sent to an untrusted server"
        );
    }
}

// NET-22
#[tokio::test]
async fn a_certificate_must_match_the_name_and_be_valid_now() {
    check(certificate("good.example"), "good.example", "200 ok").await;
    check(certificate("127.0.0.1"), "127.0.0.1", "200 ok").await;
    let expected = "no: its certificate is for another name; check the host in the URL";
    check(certificate("other.example"), "good.example", expected).await;
    check(certificate("good.example"), "127.0.0.1", expected).await;
    let mut expired = certificate("good.example");
    expired.not_before = date_time_ymd(2001, 1, 1);
    expired.not_after = date_time_ymd(2002, 1, 1);
    check(
        expired,
        "good.example",
        "no: its certificate has expired; its operator must renew it",
    )
    .await;
    let mut early = certificate("good.example");
    early.not_before = date_time_ymd(4000, 1, 1);
    check(
        early,
        "good.example",
        "no: its certificate is not valid yet; check this machine's clock",
    )
    .await;
}

// NET-22
#[tokio::test]
async fn an_unknown_authority_is_not_trusted() {
    let port = start(
        &certificate("good.example"),
        &authority("theirs"),
        Records::default(),
    )
    .await;
    let roots = TrustedRoots::none()
        .with_pem(authority("ours").pem().as_bytes())
        .unwrap();
    let text = get(&net(roots, port), &format!("https://good.example:{port}/")).await;
    assert!(
        text.contains("not signed by an authority that this machine trusts"),
        "{text}"
    );
    let text = get(
        &net(TrustedRoots::none(), port),
        &format!("https://good.example:{port}/"),
    )
    .await;
    assert!(text.contains("no certificate authorities"), "{text}");
}

// NET-22
#[tokio::test]
async fn a_server_without_tls_is_an_error_and_receives_no_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut first = [0; 3];
        stream.read_exact(&mut first).await.unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        first
    });
    let roots = TrustedRoots::none()
        .with_pem(authority("ours").pem().as_bytes())
        .unwrap();
    let text = get(&net(roots, port), &format!("https://127.0.0.1:{port}/")).await;
    assert!(
        text.starts_with("tls_failed") && text.contains("does not speak TLS"),
        "{text}"
    );
    assert_eq!(
        server.await.unwrap()[0],
        0x16,
        "a TLS client hello, and no request"
    );
}

#[tokio::test]
async fn sni_and_the_host_header_match_the_url() {
    let authority = authority("ours");
    let records = Records::default();
    let port = start(
        &certificate("good.example"),
        &authority,
        Arc::clone(&records),
    )
    .await;
    let roots = TrustedRoots::none()
        .with_pem(authority.pem().as_bytes())
        .unwrap();
    assert_eq!(
        get(
            &net(roots, port),
            &format!("https://GOOD.example.:{port}/x")
        )
        .await,
        "200 ok"
    );
    let head = format!("GET /x HTTP/1.1\r\nhost: good.example:{port}\r\nconnection: close\r\n\r\n");
    assert_eq!(
        *records.lock().unwrap(),
        ["sni good.example".to_owned(), head]
    );
}

#[test]
fn a_file_without_certificates_is_refused() {
    for text in [
        "",
        "hello",
        "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n",
    ] {
        let error = TrustedRoots::system()
            .with_pem(text.as_bytes())
            .unwrap_err()
            .to_string();
        assert!(error.contains("BEGIN CERTIFICATE"), "{error}");
    }
}
