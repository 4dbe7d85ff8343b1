//! Signatures: what is accepted, and each kind of refusal.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use sigstore_types::bundle::{Bundle, SignatureContent};
use sigstore_types::dsse::{DsseEnvelope, DsseSignature, pae};
use sigstore_types::{KeyId, PayloadBytes, SignatureBytes};
use toolhost_contract::Digest;

use crate::{
    PublicKey, Reference, SignatureError, Signer, SigningKey, SigstoreRoot, TrustPolicy, TrustRule,
    bundle_path, sign, source_pattern,
};

const FILE: Digest = Digest([7; 32]);

fn verify(bundle: &str, file: Digest, keys: &[PublicKey]) -> Result<Signer, SignatureError> {
    let trusted: Vec<Signer> = keys.iter().copied().map(Signer::Key).collect();
    crate::verify(bundle, file, &trusted, &SigstoreRoot::default())
}

fn keys(dir: &Path) -> (SigningKey, SigningKey) {
    let key = |name: &str| SigningKey::create(&dir.join(name)).unwrap();
    (key("ann.key"), key("bob.key"))
}

#[test]
fn keys_are_the_same_after_they_were_written_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("ann.key");
    let key = SigningKey::create(&path).unwrap();
    assert_eq!(SigningKey::read(&path).unwrap().public(), key.public());
    let public = dir.path().join("ann.pub");
    fs::write(&public, key.public().to_pem()).unwrap();
    assert_eq!(PublicKey::read(&public).unwrap(), key.public());
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    // An existing key is never overwritten, and the kinds are not confused.
    assert!(SigningKey::create(&path).is_err());
    assert!(SigningKey::read(&public).is_err() && PublicKey::read(&path).is_err());
    for text in [
        "",
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        &"x".repeat(9_000),
    ] {
        fs::write(&public, text).unwrap();
        assert!(PublicKey::read(&public).is_err());
    }
}

#[test]
fn a_signature_is_valid_for_its_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, bob) = keys(dir.path());
    let bundle = sign(&ann, "greet.wasm", FILE);
    let trusted = [bob.public(), ann.public()];
    assert_eq!(
        verify(&bundle, FILE, &trusted).unwrap(),
        Signer::Key(ann.public())
    );
    assert!(matches!(
        verify(&bundle, Digest([8; 32]), &trusted),
        Err(SignatureError::OtherFile { .. })
    ));
    assert!(matches!(
        verify(&bundle, FILE, &[bob.public()]),
        Err(SignatureError::UnknownKey { .. })
    ));
    assert!(matches!(
        verify(&bundle, FILE, &[]),
        Err(SignatureError::UnknownKey { .. })
    ));
}

#[test]
fn a_rule_for_a_directory_does_not_cover_files_outside() {
    let rule = TrustRule {
        from: "/opt/plugins/*".to_owned(),
        signers: Vec::new(),
        required: false,
    };
    let policy = TrustPolicy {
        rules: vec![rule],
        required: true,
        ..TrustPolicy::default()
    };
    for (path, required) in [
        ("/opt/plugins/a.wasm", false),
        ("/opt/plugins/../../home/me/a.wasm", true),
        ("/home/me/a.wasm", true),
    ] {
        let (_, is_required) = policy.for_source(&Reference::File(path.into()));
        assert_eq!(is_required, required, "{path}");
    }
}

#[test]
fn rules_cover_sources_in_every_spelling() {
    let directory = tempfile::tempdir().unwrap();
    let real = directory.path().canonicalize().unwrap().join("real");
    fs::create_dir(&real).unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let file = real.join("a.wasm").to_str().unwrap().to_owned();
    fs::write(&file, "").unwrap();
    let sibling = format!("{}-2/a.wasm", real.display());
    let through_link = format!("{}/*", link.display());
    let file_link = directory.path().join("current.wasm");
    std::os::unix::fs::symlink(&file, &file_link).unwrap();
    let file_link = file_link.to_str().unwrap();
    let digest = "0".repeat(64);
    let url = format!("https://example.org/a.wasm#sha256={digest}");
    let with_dot = format!("https://EXAMPLE.org./a.wasm#sha256={digest}");
    for (from, source, is_covered) in [
        ("https://example.org/a.wasm", &url, true),
        ("https://example.org/a.wasm", &with_dot, true),
        ("https://example.org./*", &url, true),
        ("https://example.org/b.wasm", &url, false),
        (&through_link, &file, true),
        (&through_link, &sibling, false),
        (file_link, &file, true),
        ("/nowhere/*", &file, false),
    ] {
        let rule = TrustRule {
            from: source_pattern(from).unwrap(),
            signers: Vec::new(),
            required: true,
        };
        let policy = TrustPolicy {
            rules: vec![rule],
            ..TrustPolicy::default()
        };
        let (_, is_required) = policy.for_source(&source.parse().unwrap());
        assert_eq!(is_required, is_covered, "{from} {source}");
    }
    assert!(source_pattern("r.example.org/Ann/*").is_err());
    assert!(source_pattern("r.example.org/ann/notes:V1").is_ok());
}

/// Changes the bundle before it is verified with the key that signed it.
fn refused(change: impl FnOnce(&mut Value)) -> String {
    let dir = tempfile::tempdir().unwrap();
    let (ann, _) = keys(dir.path());
    let mut bundle: Value = serde_json::from_str(&sign(&ann, "greet.wasm", FILE)).unwrap();
    change(&mut bundle);
    let error = verify(&bundle.to_string(), FILE, &[ann.public()]).unwrap_err();
    let text = error.to_string();
    text.split(':').next().unwrap().to_owned()
}

#[test]
fn changed_and_foreign_bundles_are_refused() {
    let invalid = "the signature is invalid";
    let malformed = "the signature is not a Sigstore bundle of version 0.3";
    assert_eq!(
        refused(|bundle| bundle["dsseEnvelope"]["payload"] = json!("e30=")),
        invalid
    );
    let zeros = "A".repeat(86) + "==";
    assert_eq!(
        refused(|bundle| bundle["dsseEnvelope"]["signatures"][0]["sig"] = json!(zeros)),
        invalid
    );
    assert_eq!(
        refused(|bundle| bundle["dsseEnvelope"]["signatures"] = json!([])),
        malformed
    );
    assert_eq!(refused(|bundle| *bundle = json!({})), malformed);
    assert_eq!(
        refused(|bundle| *bundle = json!("x".repeat(1_000))),
        malformed
    );
    let other = "the signature has another payload than an in-toto statement, which is not supported; sign it with `host sign`";
    assert_eq!(
        refused(|bundle| bundle["dsseEnvelope"]["payloadType"] = json!("text/plain")),
        other
    );
    let old = "application/vnd.dev.sigstore.bundle+json;version=0.1";
    let version = refused(|bundle| bundle["mediaType"] = json!(old));
    assert!(version.contains("another version"), "{version}");
}

#[test]
fn a_signed_statement_of_another_kind_is_no_signature() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, _) = keys(dir.path());
    let mut bundle = Bundle::from_json(&sign(&ann, "greet.wasm", FILE)).unwrap();
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        panic!("no envelope")
    };
    let mut statement: Value = serde_json::from_slice(envelope.payload.as_bytes()).unwrap();
    statement["predicateType"] = json!("urn:example:revocation");
    let payload = statement.to_string().into_bytes();
    let kind = envelope.payload_type.clone();
    let signature = SignatureBytes::new(ann.sign(&pae(&kind, &payload)));
    let signature = DsseSignature::new(signature, KeyId::default());
    let envelope = DsseEnvelope::new(kind, PayloadBytes::new(payload), signature);
    bundle.content = SignatureContent::DsseEnvelope(envelope);
    let refused = verify(&bundle.to_json().unwrap(), FILE, &[ann.public()]);
    assert!(
        matches!(refused, Err(SignatureError::Unsupported { .. })),
        "{refused:?}"
    );
}

#[test]
fn a_policy_decides_about_files_without_a_signature() {
    let dir = tempfile::tempdir().unwrap();
    let (ann, _) = keys(dir.path());
    let plugin = dir.path().join("greet.wasm");
    let policy = |keys: &[PublicKey], required| TrustPolicy {
        signers: keys.iter().copied().map(Signer::Key).collect(),
        required,
        ..TrustPolicy::default()
    };
    let trusted = [ann.public()];
    let check = |policy: TrustPolicy| {
        policy
            .check(&plugin, FILE)
            .map_err(|error| error.to_string())
    };
    assert_eq!(check(policy(&trusted, false)), Ok(None));
    let missing = check(policy(&trusted, true)).unwrap_err();
    assert!(missing.starts_with("it is not signed"), "{missing}");
    fs::write(bundle_path(&plugin), "{").unwrap();
    assert_eq!(check(TrustPolicy::default()), Ok(None));
    assert!(
        check(policy(&trusted, false)).is_err(),
        "an unreadable signature is not ignored"
    );
    fs::write(bundle_path(&plugin), "x".repeat(100_000)).unwrap();
    assert!(check(policy(&trusted, false)).is_err());
    fs::write(bundle_path(&plugin), sign(&ann, "greet.wasm", FILE)).unwrap();
    assert_eq!(check(policy(&trusted, true)), Ok(Some(ann.public().into())));
}
