//! Keyless signatures: certificates that Sigstore issued to an identity for a few minutes, and the entry in a transparency
//! log that shows when they were used. Verification is offline, with the certificates and keys of a trusted root.

use std::path::Path;
use std::sync::{Arc, Once, OnceLock};

use ring::digest::{self, Context};
use ring::signature::{self, UnparsedPublicKey, VerificationAlgorithm};
use sigstore_types::{Bundle, HashAlgorithm, Sha256Hash};
use sigstore_verify::crypto::{
    CryptoProvider, Error as CryptoError, HashContext, SigningScheme, install_default_provider,
};
use sigstore_verify::trust_root::{SIGSTORE_PRODUCTION_TRUSTED_ROOT, TrustedRoot};
use sigstore_verify::{VerificationPolicy, Verifier};
use toolhost_contract::{Digest, text};

use crate::signature::SignatureError;
use crate::signer::Signer;

/// Maximum size of a file with a trusted root, in bytes. That of the public instance of Sigstore has about 7 KiB.
const MAX_ROOT: u64 = 1 << 20;

/// The certificate authorities and logs that an operator trusts: by default those of the public instance of Sigstore, as
/// they were when the host was built. Clones share what was parsed.
#[derive(Clone, Default)]
pub struct SigstoreRoot(Arc<Root>);

#[derive(Default)]
struct Root {
    /// `None`: the public instance.
    json: Option<String>,
    verifier: OnceLock<Result<Verifier, String>>,
}

impl SigstoreRoot {
    /// Reads a file in the format `trustedroot+json` and checks it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = || text::escape_line(&path.to_string_lossy(), 500);
        let bytes = toolhost_hostfiles::read_regular(path, MAX_ROOT)
            .map_err(|error| format!("cannot read the trusted root {}: {error}", shown()))?;
        let root = Self(Arc::new(Root {
            json: Some(String::from_utf8_lossy(&bytes).into_owned()),
            verifier: OnceLock::new(),
        }));
        match root.verifier() {
            Ok(_) => Ok(root),
            Err(error) => Err(format!("{}: {error}", shown())),
        }
    }

    fn verifier(&self) -> Result<&Verifier, String> {
        let made = self.0.verifier.get_or_init(|| {
            install_provider();
            let json = self.0.json.as_deref();
            let invalid = |error: &dyn std::fmt::Display| {
                let error = text::escape_line(&error.to_string(), 200);
                format!("it is not a trusted root of Sigstore: {error}")
            };
            let root = TrustedRoot::from_json(json.unwrap_or(SIGSTORE_PRODUCTION_TRUSTED_ROOT))
                .map_err(|error| invalid(&error))?;
            if root.certificate_authorities.is_empty() || root.tlogs.is_empty() {
                return Err(invalid(&"it has no certificate authority or no log"));
            }
            Verifier::new(&root).map_err(|error| invalid(&error))
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Verifies the certificate, the log entry and the signature of a bundle over this digest. Returns which of the
    /// trusted identities signed.
    pub(crate) fn verify(
        &self,
        bundle: &Bundle,
        digest: Digest,
        trusted: &[Signer],
    ) -> Result<Signer, SignatureError> {
        let certificate =
            |error: String| SignatureError::Certificate(text::escape_line(&error, 300));
        // The identity is compared below, so that the error can name it.
        let policy = VerificationPolicy::any_identity();
        let verifier = self.verifier().map_err(certificate)?;
        let verified = verifier
            .verify(Sha256Hash::new(digest.0), bundle, &policy)
            .map_err(|error| certificate(error.to_string()))?;
        let (Some(identity), Some(issuer)) = (verified.identity(), verified.issuer()) else {
            return Err(certificate("it has no identity or no issuer".to_owned()));
        };
        let matches = |signer: &&Signer| match signer {
            Signer::Identity(one) => one.matches(identity.as_str(), issuer),
            Signer::Key(_) => false,
        };
        match trusted.iter().find(matches) {
            Some(signer) => Ok(signer.clone()),
            None => Err(SignatureError::UnknownIdentity {
                identity: text::escape_line(identity.as_str(), 300),
                issuer: text::escape_line(issuer, 300),
            }),
        }
    }
}

impl std::fmt::Debug for SigstoreRoot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.json.as_ref().map(String::len);
        f.debug_tuple("SigstoreRoot").field(&size).finish()
    }
}

impl PartialEq for SigstoreRoot {
    fn eq(&self, other: &Self) -> bool {
        self.0.json == other.0.json
    }
}

impl Eq for SigstoreRoot {}

/// The library has one provider of cryptography for the process.
fn install_provider() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // An embedding program may have installed one before.
        let _ = install_default_provider(&Ring);
    });
}

/// The implementation that TLS brings. It has no ML-DSA and verifies no digests that were computed elsewhere; signatures
/// of statements need neither.
#[derive(Debug)]
struct Ring;

struct RingHash(Context);

impl HashContext for RingHash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn finalize(self: Box<Self>) -> Vec<u8> {
        self.0.finish().as_ref().to_vec()
    }
}

impl CryptoProvider for Ring {
    fn hash(&self, algorithm: HashAlgorithm) -> Result<Box<dyn HashContext>, CryptoError> {
        let algorithm = match algorithm {
            HashAlgorithm::Sha2256 => &digest::SHA256,
            HashAlgorithm::Sha2384 => &digest::SHA384,
            HashAlgorithm::Sha2512 => &digest::SHA512,
            other => return Err(CryptoError::UnsupportedAlgorithm(other.to_string())),
        };
        Ok(Box::new(RingHash(Context::new(algorithm))))
    }

    fn verify_raw(
        &self,
        scheme: SigningScheme,
        key: &[u8],
        data: &[u8],
        signature: &[u8],
    ) -> Result<(), CryptoError> {
        let algorithm: &dyn VerificationAlgorithm = match scheme {
            SigningScheme::EcdsaP256Sha256 => &signature::ECDSA_P256_SHA256_ASN1,
            SigningScheme::EcdsaP256Sha384 => &signature::ECDSA_P256_SHA384_ASN1,
            SigningScheme::EcdsaP384Sha256 => &signature::ECDSA_P384_SHA256_ASN1,
            SigningScheme::EcdsaP384Sha384 => &signature::ECDSA_P384_SHA384_ASN1,
            SigningScheme::Ed25519 => &signature::ED25519,
            SigningScheme::RsaPssSha256 => &signature::RSA_PSS_2048_8192_SHA256,
            SigningScheme::RsaPssSha384 => &signature::RSA_PSS_2048_8192_SHA384,
            SigningScheme::RsaPssSha512 => &signature::RSA_PSS_2048_8192_SHA512,
            SigningScheme::RsaPkcs1Sha256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            SigningScheme::RsaPkcs1Sha384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            SigningScheme::RsaPkcs1Sha512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            other => return Err(CryptoError::UnsupportedAlgorithm(other.name().to_owned())),
        };
        UnparsedPublicKey::new(algorithm, key)
            .verify(data, signature)
            .map_err(|_| CryptoError::Verification(format!("invalid {}", scheme.name())))
    }

    fn verify_prehashed(
        &self,
        scheme: SigningScheme,
        _key: &[u8],
        _digest: &[u8],
        _signature: &[u8],
    ) -> Result<(), CryptoError> {
        let message = format!("a signature of a digest with {}", scheme.name());
        Err(CryptoError::UnsupportedAlgorithm(message))
    }
}
