//! Registries that send something wrong: each case is an error of its kind, and nothing is installed.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use toolhost_contract::Digest;
use toolhost_packages::{
    FetchOptions, Fetched, PackageError, PackageStore, Reference, Registry, Revocations, Signer,
    SigningKey, TrustPolicy, sign,
};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const WASM: &[u8] = b"\0asm\x0d\0\x01\0";

/// Answers to requests by their heads, as whole HTTP messages.
type Answers = Arc<dyn Fn(&str) -> Vec<u8> + Send + Sync>;

/// A server on loopback that answers by the path.
async fn serve(answers: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    serve_heads(move |head| answers(path_of(head))).await
}

fn path_of(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

async fn serve_heads(answers: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answers: Answers = Arc::new(answers);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, Arc::clone(&answers)));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, answers: Answers) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8(head).unwrap();
    // The client may have closed the connection.
    let _ = stream.write_all(&answers(&head)).await;
}

fn message(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

fn typed(media_type: &str, body: &[u8]) -> Vec<u8> {
    message("200 OK", &format!("content-type: {media_type}\r\n"), body)
}

fn not_found() -> Vec<u8> {
    message("404 Not Found", "", b"")
}

fn digest(bytes: &[u8]) -> Digest {
    Digest(Sha256::digest(bytes).into())
}

/// A manifest with layers of these types, for the component.
fn manifest(layers: &[(&str, u64)]) -> String {
    let layers = layers.iter().map(|(media_type, size)| {
        serde_json::json!({"mediaType": media_type, "digest": digest(WASM), "size": size})
    });
    let layers: Vec<_> = layers.collect();
    let config = serde_json::json!({"mediaType": "application/vnd.wasm.config.v0+json", "digest": digest(b"{}"), "size": 2});
    serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}).to_string()
}

fn good() -> String {
    manifest(&[("application/wasm", WASM.len() as u64)])
}

fn file_digest(path: &Path) -> Result<Digest, String> {
    let bytes = fs::read(path).map_err(|error| error.to_string())?;
    Ok(digest(&bytes))
}

/// Fetches `n:1`, or the manifest with this digest.
async fn fetch(address: SocketAddr, pinned: &str) -> (Result<Fetched, PackageError>, TempDir) {
    let state = tempfile::tempdir().unwrap();
    let store = PackageStore::new(state.path(), file_digest);
    let reference: Reference = format!("{address}/n:1{pinned}").parse().unwrap();
    let fetched = Fetched::fetch(&store, &Registry::default(), &reference, None).await;
    (fetched, state)
}

/// A registry with this manifest and this answer for the component.
async fn refused(manifest: Vec<u8>, blob: Vec<u8>) -> String {
    let address = serve(move |path| {
        if path.starts_with("/v2/n/manifests/1") {
            manifest.clone()
        } else if path.starts_with("/v2/n/blobs/") {
            blob.clone()
        } else {
            not_found()
        }
    })
    .await;
    let (fetched, state) = fetch(address, "").await;
    let error = fetched.map(drop).unwrap_err();
    let incoming = state.path().join("packages/incoming");
    let left: Vec<_> = fs::read_dir(incoming).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let text = error.to_string();
    assert!(!text.contains('\u{1b}'), "{text}");
    text.replace(&address.to_string(), "REGISTRY")
}

#[tokio::test]
async fn a_component_is_fetched_with_its_digests() {
    let address = serve(|path| match path {
        "/v2/n/manifests/1" => typed(MANIFEST, good().as_bytes()),
        path if path.starts_with("/v2/n/blobs/") => message("200 OK", "", WASM),
        _ => not_found(),
    })
    .await;
    let (fetched, _state) = fetch(address, "").await;
    let fetched = fetched.unwrap();
    assert_eq!(fetched.content, digest(WASM));
    assert_eq!(fetched.resolved, Some(digest(good().as_bytes())));
}

/// A registry with the API for referrers: what refers to the component is found without the tag that stands for it in
/// others.
#[tokio::test]
async fn signatures_are_found_by_the_api_for_referrers() {
    const INDEX: &str = "application/vnd.oci.image.index.v1+json";
    const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
    let directory = tempfile::tempdir().unwrap();
    let key = SigningKey::create(&directory.path().join("key")).unwrap();
    let bundle = sign(&key, "n", digest(WASM));
    let describe = |media_type: &str, text: &str, artifact_type: &str| {
        serde_json::json!({
            "mediaType": media_type, "digest": digest(text.as_bytes()), "size": text.len(), "artifactType": artifact_type,
        })
    };
    let signature = serde_json::json!({
        "schemaVersion": 2, "mediaType": MANIFEST, "artifactType": BUNDLE,
        "config": describe("application/vnd.oci.empty.v1+json", "{}", ""),
        "layers": [describe(BUNDLE, &bundle, "")],
    });
    let signature = signature.to_string();
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        describe(MANIFEST, "a list of parts", "application/spdx+json"), describe(MANIFEST, &signature, BUNDLE),
    ]});
    let path = |kind: &str, of: &str| format!("/v2/n/{kind}/{}", digest(of.as_bytes()));
    let referrers = format!("{}?artifactType={BUNDLE}", path("referrers", &good()));
    let (artifact, blob) = (path("manifests", &signature), path("blobs", &bundle));
    let address = serve(move |path| match path {
        "/v2/n/manifests/1" => typed(MANIFEST, good().as_bytes()),
        path if path == referrers => typed(INDEX, index.to_string().as_bytes()),
        path if path == artifact => typed(MANIFEST, signature.as_bytes()),
        path if path == blob => message("200 OK", "", bundle.as_bytes()),
        path if path.ends_with(&digest(WASM).to_string()) => message("200 OK", "", WASM),
        _ => not_found(),
    })
    .await;
    let other = SigningKey::create(&directory.path().join("other")).unwrap();
    for (author, is_accepted) in [(&key, true), (&other, false)] {
        let options = FetchOptions {
            signers: vec![Signer::Key(author.public())],
            ..FetchOptions::default()
        };
        let (fetched, _state) = fetch(address, "").await;
        let (policy, revocations) = (TrustPolicy::default(), Revocations::default());
        let verified = fetched.unwrap().verify(&policy, &revocations, &options);
        assert_eq!(verified.is_ok(), is_accepted);
    }
}

/// A registry that requires a token, also of anonymous users, as most public ones do. `realm` is its server for tokens, if it is another one.
async fn with_tokens(realm: Option<&'static str>, token: &'static str) -> SocketAddr {
    serve_heads(move |head| {
        let host = head.lines().find_map(|line| line.strip_prefix("host: "));
        let authorized = head.contains("\r\nauthorization: Bearer secret\r\n");
        match path_of(head) {
            "/token?service=a+registry&scope=repository%3An%3Apull" => {
                typed("application/json", token.as_bytes())
            }
            _ if !authorized => {
                let here = format!("http://{}/token", host.unwrap_or_default());
                let realm = realm.unwrap_or(&here);
                let challenge = format!(
                    "www-authenticate: Bearer realm=\"{realm}\",service=\"a registry\",scope=\"other\"\r\n"
                );
                message("401 Unauthorized", &challenge, b"")
            }
            "/v2/n/manifests/1" => typed(MANIFEST, good().as_bytes()),
            path if path.contains("/blobs/") => message("200 OK", "", WASM),
            _ => not_found(),
        }
    })
    .await
}

#[tokio::test]
async fn registries_with_tokens_get_the_token_of_their_server() {
    for token in [r#"{"token": "secret"}"#, r#"{"access_token": "secret"}"#] {
        let (fetched, _state) = fetch(with_tokens(None, token).await, "").await;
        assert_eq!(fetched.unwrap().content, digest(WASM));
    }
    let error = |fetched: Result<Fetched, PackageError>| fetched.err().unwrap().to_string();
    for (token, expected) in [
        ("{}", "no token in the answer"),
        ("no JSON", "no token in the answer"),
        (r#"{"token": "wrong"}"#, "denied access"),
        (
            "{\"token\": \"a\\nb\"}",
            "characters that a header cannot contain",
        ),
    ] {
        let (fetched, _state) = fetch(with_tokens(None, token).await, "").await;
        let error = error(fetched);
        assert!(error.contains(expected), "{token}: {error}");
    }
    // A server elsewhere gets no request without TLS, and none at a private address.
    for (realm, expected) in [
        ("http://192.0.2.1/token", "does not use https"),
        ("https://10.0.0.1/token", "private"),
        ("no URL", "not a URL"),
    ] {
        let (fetched, _state) = fetch(with_tokens(Some(realm), "").await, "").await;
        let error = error(fetched);
        assert!(error.contains(expected), "{realm}: {error}");
    }
}

#[tokio::test]
async fn wrong_manifests_are_refused() {
    let component = || message("200 OK", "", WASM);
    let bomb = format!("{{\"x\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let layers: Vec<_> = (0..17).map(|_| ("application/wasm", 8)).collect();
    let cases = [
        (
            typed("text/html; charset=utf-8", b"<html>"),
            "REGISTRY did not answer the manifest as a registry: its type is `text/html`",
        ),
        (
            typed("application/vnd.oci.image.index.v1+json", b"{}"),
            "it is an index of several packages",
        ),
        (
            typed(MANIFEST, b"{"),
            "did not answer the manifest as a registry",
        ),
        (
            typed(MANIFEST, bomb.as_bytes()),
            "did not answer the manifest as a registry",
        ),
        (
            typed(MANIFEST, &vec![b' '; 300 << 10]),
            "the manifest is larger than 262144 bytes",
        ),
        (
            typed(MANIFEST, manifest(&layers).as_bytes()),
            "more than 16 layers",
        ),
        (
            typed(MANIFEST, manifest(&[]).as_bytes()),
            "no WebAssembly component (found: nothing)",
        ),
        (
            typed(MANIFEST, manifest(&[("text/\u{1b}[31myaml", 8)]).as_bytes()),
            "no WebAssembly component",
        ),
        (
            typed(MANIFEST, manifest(&[("application/wasm", 8); 2]).as_bytes()),
            "several components",
        ),
        (
            typed(
                MANIFEST,
                manifest(&[("application/wasm", 100 << 20)]).as_bytes(),
            ),
            "the component is larger than 33554432 bytes",
        ),
        (
            message(
                "500 Oh",
                "",
                b"{\"errors\": [{\"code\": \"X\", \"message\": \"a\\u001b[31mb\"}]}",
            ),
            "REGISTRY answered the manifest: 500 Internal Server Error: X a",
        ),
        (not_found(), "REGISTRY/n:1 does not exist"),
        (
            message("401 No", "", b""),
            "log in with `docker login REGISTRY`",
        ),
        (
            message("302 Found", "location: http://10.0.0.1/x\r\n", b""),
            "it does not use https",
        ),
        (
            message("302 Found", "location: https://169.254.169.254/x\r\n", b""),
            "is not allowed",
        ),
        (
            message("302 Found", "location: /v2/n/manifests/1\r\n", b""),
            "more than 3 redirects",
        ),
        (message("302 Found", "", b""), "it names no URL"),
    ];
    for (manifest, expected) in cases {
        let error = refused(manifest, component()).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn wrong_components_are_refused() {
    let manifest = || typed(MANIFEST, good().as_bytes());
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()
        + &format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(5);
    let cases = [
        (
            message("200 OK", "", b"\0asm\x0d\0\x01\x01"),
            "the component has the digest",
        ),
        (
            message("200 OK", "", b"\0asm"),
            "the component has 4 bytes, not 8",
        ),
        (
            message("200 OK", "", &[0; 9]),
            "the component has more than 8 bytes, not 8",
        ),
        (
            endless.into_bytes(),
            "the component has more than 8 bytes, not 8",
        ),
        (not_found(), "answered the component: 404"),
    ];
    for (blob, expected) in cases {
        let error = refused(manifest(), blob).await;
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

/// Fetches `/n.wasm?token=1` of a server.
async fn fetch_url(scheme: &str, address: SocketAddr) -> (Result<Fetched, PackageError>, TempDir) {
    let state = tempfile::tempdir().unwrap();
    let store = PackageStore::new(state.path(), file_digest);
    let hex = digest(WASM).hex();
    let url = format!("{scheme}://{address}/n.wasm?token=1#sha256={hex}");
    let source: Reference = url.parse().unwrap();
    let fetched = Fetched::fetch(&store, &Registry::default(), &source, None).await;
    (fetched, state)
}

#[tokio::test]
async fn the_signature_of_a_url_is_beside_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let key = SigningKey::create(&directory.path().join("key")).unwrap();
    let bundle = sign(&key, "n", digest(WASM));
    let signed = serve(move |path| match path {
        "/n.wasm?token=1" => message("200 OK", "", WASM),
        "/n.wasm.sigstore.json?token=1" => message("200 OK", "", bundle.as_bytes()),
        _ => not_found(),
    })
    .await;
    // Some servers answer so for files that do not exist.
    let forbidden = serve(|path| match path {
        "/n.wasm?token=1" => message("200 OK", "", WASM),
        _ => message("403 Forbidden", "", b""),
    })
    .await;
    let required = FetchOptions {
        signers: vec![Signer::Key(key.public())],
        ..FetchOptions::default()
    };
    let (policy, revocations) = (TrustPolicy::default(), Revocations::default());
    let (fetched, _state) = fetch_url("http", signed).await;
    let verified = fetched.unwrap().verify(&policy, &revocations, &required);
    assert!(verified.is_ok());
    let (fetched, _state) = fetch_url("http", forbidden).await;
    let refused = fetched.unwrap().verify(&policy, &revocations, &required);
    let refused = refused.map(drop).unwrap_err().to_string();
    assert!(refused.contains("answered the signature: 403"), "{refused}");
    let (fetched, _state) = fetch_url("http", forbidden).await;
    let options = FetchOptions::default();
    let unsigned = fetched.unwrap().verify(&policy, &revocations, &options);
    let notes = unsigned.unwrap().notes().join("\n");
    assert!(notes.contains("counts as not signed"), "{notes}");
}

#[tokio::test]
async fn a_url_keeps_its_scheme() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The connection ends before TLS begins.
    tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let (fetched, _state) = fetch_url("https", address).await;
    let error = fetched.map(drop).unwrap_err();
    assert!(matches!(error, PackageError::Net(_)), "{error}");
}

#[tokio::test]
async fn a_pinned_manifest_has_its_digest() {
    let address = serve(|path| {
        if path.starts_with("/v2/n/manifests/") {
            typed(MANIFEST, good().as_bytes())
        } else {
            message("200 OK", "", WASM)
        }
    })
    .await;
    let other = digest(b"another");
    let (fetched, _state) = fetch(address, &format!("@{other}")).await;
    let error = fetched.map(drop).unwrap_err();
    assert!(
        matches!(error, PackageError::DigestMismatch { .. }),
        "{error}"
    );
}

/// The registry gets neither the file nor a login at another host.
#[tokio::test]
async fn uploads_stay_at_the_registry() {
    let elsewhere = serve(|_| panic!("contacted")).await;
    let address = serve(move |path| {
        if path.ends_with("/blobs/uploads/") {
            let location = format!("location: http://{elsewhere}/up\r\n");
            message("202 Accepted", &location, b"")
        } else {
            not_found()
        }
    })
    .await;
    let Reference::Registry(reference) = format!("{address}/n:1").parse().unwrap() else {
        panic!("not a registry");
    };
    let package = toolhost_packages::Publication {
        wasm: WASM.to_vec(),
        name: "n",
        version: "1.0.0",
        description: "",
        license: None,
        imports: &[],
        exports: &[],
        bundle: None,
    };
    let error = Registry::default()
        .publish(&reference, &package)
        .await
        .unwrap_err();
    assert!(matches!(error, PackageError::Redirect { .. }), "{error}");
}
