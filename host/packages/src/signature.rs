//! Signatures: Sigstore bundles (version 0.3) with an in-toto statement in a DSSE envelope, as `cosign` writes them. The
//! subject of the statement is the digest of the file that runs, and not that of a package or a tag.
//!
//! Formats: <https://github.com/sigstore/protobuf-specs>, <https://github.com/secure-systems-lab/dsse>,
//! <https://github.com/in-toto/attestation>.

use ring::signature::{ED25519, UnparsedPublicKey};
use sigstore_types::bundle::{
    Bundle, MediaType, PublicKeyIdentifier, SignatureContent, VerificationMaterial,
    VerificationMaterialContent,
};
use sigstore_types::dsse::{DsseEnvelope, DsseSignature, pae};
use sigstore_types::intoto::{self, Statement, Subject};
use sigstore_types::{KeyId, PayloadBytes, Sha256Hash, SignatureBytes};
use toolhost_contract::{Digest, text};

use crate::key::{PublicKey, SigningKey};
use crate::keyless::SigstoreRoot;
use crate::signer::Signer;

/// Maximum size of a bundle, in bytes.
pub const MAX_BUNDLE: u64 = 64 << 10;
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
/// What the statement is about. Statements of other kinds, such as a revocation, are no signatures.
const PREDICATE_TYPE: &str = "https://sigstore.dev/cosign/sign/v1";
/// How a file was built, as build services state it about files that they publish.
const PROVENANCE_TYPE: &str = "https://slsa.dev/provenance/v1";

#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    #[error("the signature is not a Sigstore bundle of version 0.3: {0}")]
    Malformed(String),
    #[error("the signature has {found}, which is not supported; sign it with `host sign`")]
    Unsupported { found: &'static str },
    #[error("it is signed by another key than the trusted ones (hint: {hint})")]
    UnknownKey { hint: String },
    #[error("it is signed by {identity} (issuer {issuer}), who is not trusted")]
    UnknownIdentity { identity: String, issuer: String },
    #[error("its certificate or its log entry cannot be verified: {0}")]
    Certificate(String),
    #[error("the signature is invalid")]
    Invalid,
    #[error("the signature is for another version of this file (signed: {signed})")]
    OtherFile { signed: String },
}

/// Signs a file with this name and digest. Returns the bundle as JSON.
pub fn sign(key: &SigningKey, name: &str, digest: Digest) -> String {
    let statement = Statement::new(
        vec![subject(name, digest)],
        PREDICATE_TYPE,
        serde_json::json!({}),
    );
    sign_statement(key, &statement)
}

pub fn subject(name: &str, digest: Digest) -> Subject {
    Subject::new(name, intoto::Digest::sha256(Sha256Hash::new(digest.0)))
}

/// Signs a statement. Returns the bundle as JSON.
pub fn sign_statement(key: &SigningKey, statement: &Statement) -> String {
    let payload = serde_json::to_vec(statement).expect("statements serialize to JSON");
    let signature = key.sign(&pae(PAYLOAD_TYPE, &payload));
    let signature = DsseSignature::new(SignatureBytes::new(signature), KeyId::default());
    let envelope = DsseEnvelope::new(PAYLOAD_TYPE, PayloadBytes::new(payload), signature);
    let hint = PublicKeyIdentifier::new(key.public().id().to_string());
    let material = VerificationMaterial::new(VerificationMaterialContent::PublicKey(hint));
    let bundle = Bundle::new(
        MediaType::Bundle0_3,
        material,
        SignatureContent::DsseEnvelope(envelope),
    );
    bundle.to_json().expect("bundles serialize to JSON")
}

/// Verifies that one of the signers signed a file with this digest. Returns the signer.
pub fn verify(
    bundle: &str,
    digest: Digest,
    trusted: &[Signer],
    root: &SigstoreRoot,
) -> Result<Signer, SignatureError> {
    let bundle = parse(bundle)?;
    let envelope = envelope(&bundle)?;
    let (signer, statement) = if let VerificationMaterialContent::PublicKey(hint) =
        &bundle.verification_material.content
    {
        let keys: Vec<PublicKey> = trusted.iter().filter_map(Signer::key).collect();
        let (key, statement) = by_key(envelope, &hint.hint, &keys)?;
        (Signer::Key(key), statement)
    } else {
        let signer = root.verify(&bundle, digest, trusted)?;
        (signer, statement(envelope)?)
    };
    let kinds: &[&str] = match signer {
        Signer::Key(_) => &[PREDICATE_TYPE],
        Signer::Identity(_) => &[PREDICATE_TYPE, PROVENANCE_TYPE],
    };
    if !kinds.contains(&&*statement.predicate_type) {
        return Err(OTHER_STATEMENT);
    }
    check_digest(&statement, digest)?;
    Ok(signer)
}

/// Checks that a bundle is about a file with this digest. Does not verify who signed it.
pub fn check_subject(bundle: &str, digest: Digest) -> Result<(), SignatureError> {
    let bundle = parse(bundle)?;
    check_digest(&statement(envelope(&bundle)?)?, digest)
}

fn check_digest(statement: &Statement, digest: Digest) -> Result<(), SignatureError> {
    if !statement.matches_sha256(&Sha256Hash::new(digest.0)) {
        let names = statement.subject.iter().map(|subject| &subject.name);
        let names: Vec<String> = names
            .map(|name| text::escape_line(name, 80))
            .take(3)
            .collect();
        return Err(SignatureError::OtherFile {
            signed: names.join(", "),
        });
    }
    Ok(())
}

/// Returns a statement of this kind, and which of the keys signed it.
pub fn open_statement(
    bundle: &str,
    predicate_type: &str,
    keys: &[PublicKey],
) -> Result<(PublicKey, Statement), SignatureError> {
    let bundle = parse(bundle)?;
    let VerificationMaterialContent::PublicKey(hint) = &bundle.verification_material.content else {
        return Err(SignatureError::Unsupported {
            found: "a certificate",
        });
    };
    let (key, statement) = by_key(envelope(&bundle)?, &hint.hint, keys)?;
    if statement.predicate_type != predicate_type {
        return Err(OTHER_STATEMENT);
    }
    Ok((key, statement))
}

const OTHER_STATEMENT: SignatureError = SignatureError::Unsupported {
    found: "another kind of statement",
};

fn malformed(error: &dyn std::fmt::Display) -> SignatureError {
    SignatureError::Malformed(text::escape_line(&error.to_string(), 200))
}

fn parse(bundle: &str) -> Result<Bundle, SignatureError> {
    let bundle = Bundle::from_json(bundle).map_err(|error| malformed(&error))?;
    if bundle.media_type() != MediaType::Bundle0_3 {
        return Err(SignatureError::Unsupported {
            found: "another version",
        });
    }
    Ok(bundle)
}

fn envelope(bundle: &Bundle) -> Result<&DsseEnvelope, SignatureError> {
    let unsupported = |found| Err(SignatureError::Unsupported { found });
    let SignatureContent::DsseEnvelope(envelope) = &bundle.content else {
        return unsupported("a message signature");
    };
    if envelope.payload_type != PAYLOAD_TYPE {
        return unsupported("another payload than an in-toto statement");
    }
    Ok(envelope)
}

/// Verifies the signature of an envelope. Returns which of the keys signed it, and the statement.
fn by_key(
    envelope: &DsseEnvelope,
    hint: &str,
    keys: &[PublicKey],
) -> Result<(PublicKey, Statement), SignatureError> {
    let message = envelope.pae();
    let signature = envelope.signature.sig.as_bytes();
    let signed_by = |key: &&PublicKey| {
        UnparsedPublicKey::new(&ED25519, key.bytes())
            .verify(&message, signature)
            .is_ok()
    };
    let Some(key) = keys.iter().find(signed_by) else {
        // The hint is not signed, so it only decides which error is shown.
        let claims = |key: &PublicKey| key.id().to_string() == hint;
        return Err(if keys.iter().any(claims) {
            SignatureError::Invalid
        } else {
            let hint = text::escape_line(hint, 80);
            SignatureError::UnknownKey { hint }
        });
    };
    Ok((*key, statement(envelope)?))
}

/// The statement in an envelope. Its signature is not verified here.
fn statement(envelope: &DsseEnvelope) -> Result<Statement, SignatureError> {
    let statement: Statement =
        serde_json::from_slice(envelope.payload.as_bytes()).map_err(|error| malformed(&error))?;
    if statement.type_ != Statement::TYPE_V1 {
        return Err(OTHER_STATEMENT);
    }
    Ok(statement)
}
