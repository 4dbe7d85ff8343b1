//! Ed25519 keys in PEM: private keys as PKCS #8 (RFC 8410), public keys as SubjectPublicKeyInfo. OpenSSL reads both.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde::{Deserialize, Serialize};
use toolhost_contract::{Digest, text};

/// Maximum size of a key file, in bytes.
const MAX_KEY_FILE: u64 = 4 << 10;
/// A private key of PKCS #8 version 1, before the seed.
const PRIVATE_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// A public key, before its bytes.
const PUBLIC_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
const PRIVATE_TAG: &str = "PRIVATE KEY";
const PUBLIC_TAG: &str = "PUBLIC KEY";

#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("cannot read the key {path}: {error}")]
    Read { path: PathBuf, error: io::Error },
    #[error("cannot write the key {path}: {error}")]
    Write { path: PathBuf, error: io::Error },
    #[error("{path} is not a {wanted} in PEM; create keys with `host key new NAME`")]
    Format { path: PathBuf, wanted: &'static str },
    #[error("cannot get random numbers for a key: {0}")]
    Random(getrandom::Error),
}

/// A key that verifies signatures. As text, it is the Base64 of its DER form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let der = read_pem(path, PUBLIC_TAG, "public Ed25519 key")?;
        Self::from_der(&der).ok_or_else(|| KeyError::Format {
            path: path.to_owned(),
            wanted: "public Ed25519 key",
        })
    }

    fn from_der(der: &[u8]) -> Option<Self> {
        let key = der.strip_prefix(&PUBLIC_PREFIX)?;
        key.try_into().ok().map(Self)
    }

    pub fn to_pem(self) -> String {
        encode(PUBLIC_TAG, self.der())
    }

    /// The SHA-256 of its DER form, which identifies it.
    pub fn id(self) -> Digest {
        crate::sha256(&self.der())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    fn der(self) -> Vec<u8> {
        [PUBLIC_PREFIX.as_slice(), self.0.as_slice()].concat()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        STANDARD.encode(key.der())
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;

    fn try_from(key: String) -> Result<Self, String> {
        let der = STANDARD.decode(&key).ok();
        der.and_then(|der| Self::from_der(&der)).ok_or_else(|| {
            let key = text::escape_line(&key, 80);
            format!("`{key}` is not a public Ed25519 key in Base64")
        })
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

/// A key that creates signatures.
pub struct SigningKey {
    pair: Ed25519KeyPair,
}

impl SigningKey {
    /// Creates a key in a new file that only its owner can read. Fails if the file exists.
    pub fn create(path: &Path) -> Result<Self, KeyError> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed).map_err(KeyError::Random)?;
        let der = [PRIVATE_PREFIX.as_slice(), &seed].concat();
        let failed = |error| KeyError::Write {
            path: path.to_owned(),
            error,
        };
        let mut file = new_private_file(path).map_err(failed)?;
        let written = file.write_all(encode(PRIVATE_TAG, der.clone()).as_bytes());
        written.and_then(|()| file.sync_all()).map_err(failed)?;
        Self::of_der(path, &der)
    }

    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let der = read_pem(path, PRIVATE_TAG, "private Ed25519 key")?;
        Self::of_der(path, &der)
    }

    fn of_der(path: &Path, der: &[u8]) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der);
        let pair = pair.map_err(|_| KeyError::Format {
            path: path.to_owned(),
            wanted: "private Ed25519 key",
        })?;
        Ok(Self { pair })
    }

    pub fn public(&self) -> PublicKey {
        let bytes = self.pair.public_key().as_ref().try_into();
        PublicKey(bytes.expect("Ed25519 keys have 32 bytes"))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

fn new_private_file(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn read_pem(path: &Path, tag: &str, wanted: &'static str) -> Result<Vec<u8>, KeyError> {
    let bytes = toolhost_hostfiles::read_regular(path, MAX_KEY_FILE);
    let bytes = bytes.map_err(|error| KeyError::Read {
        path: path.to_owned(),
        error,
    })?;
    let found = pem::parse(bytes).ok().filter(|found| found.tag() == tag);
    let found = found.ok_or_else(|| KeyError::Format {
        path: path.to_owned(),
        wanted,
    })?;
    Ok(found.into_contents())
}

fn encode(tag: &str, der: Vec<u8>) -> String {
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new(tag, der), config)
}
