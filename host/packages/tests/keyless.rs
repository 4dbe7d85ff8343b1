//! Keyless signatures, with a bundle that `tests/clients/sigstore.cjs` created for the file `a plugin` and a new line.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolhost_contract::Digest;
use toolhost_packages::{Identity, LockFile, SignatureError, Signer, SigstoreRoot, verify};

const ISSUER: &str = "https://token.example.org";
const WORKFLOW: &str = "https://example.org/ann/notes/.github/workflows/release.yml@refs/tags/v1";

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/keyless")
        .join(name)
}

fn bundle() -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture("bundle.json")).unwrap()).unwrap()
}

fn digest() -> Digest {
    use sha2::Digest as _;
    Digest(sha2::Sha256::digest("a plugin\n").into())
}

fn author(identity: &str, issuer: &str) -> Signer {
    Signer::Identity(Identity::new(identity, issuer).unwrap())
}

fn check(bundle: &Value, digest: Digest, trusted: &[Signer]) -> Result<Signer, SignatureError> {
    let root = SigstoreRoot::read(&fixture("trusted_root.json")).unwrap();
    verify(&bundle.to_string(), digest, trusted, &root)
}

#[test]
fn an_identity_and_its_issuer_are_compared() {
    let any_release = WORKFLOW.replace("v1", "*");
    for identity in [WORKFLOW, &any_release] {
        let trusted = [author("ann@example.org", ISSUER), author(identity, ISSUER)];
        let signer = check(&bundle(), digest(), &trusted).unwrap();
        assert_eq!(signer, trusted[1]);
    }
    let unknown = [
        author(WORKFLOW, "https://other.example.org"),
        author(&WORKFLOW.replace("v1", "v2"), ISSUER),
        author(&WORKFLOW.replace("ann", "bob").replace("v1", "*"), ISSUER),
        author(&WORKFLOW[..WORKFLOW.len() - 1], ISSUER),
    ];
    let refused = check(&bundle(), digest(), &unknown).unwrap_err();
    let message = format!("it is signed by {WORKFLOW} (issuer {ISSUER}), who is not trusted");
    assert_eq!(refused.to_string(), message);
}

#[test]
fn the_file_and_the_trusted_root_are_checked() {
    let trusted = [author(WORKFLOW, ISSUER)];
    let other_file = check(&bundle(), Digest([7; 32]), &trusted).unwrap_err();
    assert!(
        matches!(other_file, SignatureError::Certificate(_)),
        "{other_file}"
    );
    for root in [
        SigstoreRoot::default(),
        SigstoreRoot::read(&fixture("other_root.json")).unwrap(),
    ] {
        let refused = verify(&bundle().to_string(), digest(), &trusted, &root).unwrap_err();
        assert!(
            matches!(refused, SignatureError::Certificate(_)),
            "{refused}"
        );
    }
    let no_root = SigstoreRoot::read(&fixture("bundle.json")).unwrap_err();
    assert!(no_root.contains("not a trusted root"), "{no_root}");
}

#[test]
fn changed_bundles_are_refused() {
    let trusted = [author(WORKFLOW, ISSUER)];
    let entry = "/verificationMaterial/tlogEntries/0";
    for (pointer, value) in [
        ("/dsseEnvelope/payload", json!("e30=")),
        ("/dsseEnvelope/signatures/0/sig", json!("AAAA")),
        ("/dsseEnvelope/signatures", json!([])),
        ("/verificationMaterial/tlogEntries", json!([])),
        (&format!("{entry}/integratedTime"), json!("1")),
        (&format!("{entry}/canonicalizedBody"), json!("e30=")),
        (&format!("{entry}/logId/keyId"), json!("AAAA")),
        (
            &format!("{entry}/inclusionPromise/signedEntryTimestamp"),
            json!("AAAA"),
        ),
        (
            &format!("{entry}/inclusionProof/rootHash"),
            json!("A".repeat(43) + "="),
        ),
        ("/verificationMaterial/certificate/rawBytes", json!("AAAA")),
        ("/verificationMaterial", json!({"publicKey": {"hint": "x"}})),
    ] {
        let mut changed = bundle();
        *changed.pointer_mut(pointer).expect(pointer) = value;
        let refused = check(&changed, digest(), &trusted);
        assert!(refused.is_err(), "{pointer}: {refused:?}");
    }
    // Without the log entry there is no proof of when the certificate was used.
    let mut changed = bundle();
    let entry = changed.pointer_mut(entry).unwrap().as_object_mut().unwrap();
    entry.remove("inclusionPromise");
    assert!(check(&changed, digest(), &trusted).is_err());
}

#[test]
fn identities_are_bounded_and_end_with_at_most_one_wildcard() {
    let long = "x".repeat(501);
    for (identity, issuer) in [
        ("", ISSUER),
        ("ann", ""),
        ("*", ISSUER),
        ("a*b", ISSUER),
        ("a**", ISSUER),
        ("ann", "https://*"),
        ("ann\u{202e}", ISSUER),
        (&long, ISSUER),
    ] {
        assert!(
            Identity::new(identity, issuer).is_err(),
            "{identity} {issuer}"
        );
    }
}

#[test]
fn a_lock_file_states_identities() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("toolhost.lock");
    let zeros = Digest([0; 32]);
    let text = format!(
        "version = 1\n\n[[plugin]]\nname = \"notes\"\nversion = \"1.0.0\"\nsource = \"./notes.wasm\"\n\
         content = \"{zeros}\"\nsize = 1\nneeds = [\"fs.read\"]\n\n[plugin.signer]\nidentity = \"ann@example.org\"\n\
         issuer = \"{ISSUER}\"\n"
    );
    std::fs::write(&path, text).unwrap();
    let lock = LockFile::read(&path).unwrap().unwrap();
    let signer = author("ann@example.org", ISSUER);
    assert_eq!(lock.plugins()[0].signer.as_ref(), Some(&signer));
    lock.write(&path).unwrap();
    assert_eq!(LockFile::read(&path).unwrap(), Some(lock));
}
