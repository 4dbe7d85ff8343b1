//! `host sign` and `host verify`: signatures of plugin files.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use toolhost_contract::{Digest, text};
use toolhost_hostfiles::replace_file;
use toolhost_packages::{
    Identity, PublicKey, Signer, SigstoreRoot, TrustPolicy, bundle_path, sign,
};
use toolhost_runtime::file_digest;

use super::key;
use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::print;

#[derive(Debug, Args)]
pub struct SignArgs {
    /// Plugin file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    /// Private key: a name of `host key new`, or a file
    #[arg(long, value_name = "KEY")]
    pub key: String,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Plugin file
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,

    #[command(flatten)]
    pub author: AuthorArgs,

    /// File with the trusted root of another instance of Sigstore than the public one
    #[arg(long, value_name = "FILE", requires = "identity", value_hint = ValueHint::FilePath)]
    pub trusted_root: Option<PathBuf>,
}

/// Authors of signatures.
#[derive(Debug, Clone, Default, Args)]
pub struct AuthorArgs {
    /// File of the author's public key; repeatable, and one of the authors must have signed
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key: Vec<PathBuf>,

    /// Author of a keyless signature, as the certificate states it; `*` at the end stands for any rest
    #[arg(long, value_name = "IDENTITY", requires = "issuer")]
    pub identity: Option<String>,

    /// Who authenticated the author, for example `https://token.actions.githubusercontent.com`
    #[arg(long, value_name = "URL", requires = "identity")]
    pub issuer: Option<String>,
}

impl AuthorArgs {
    pub fn signers(&self) -> Result<Vec<Signer>, CliError> {
        let keys = self.key.iter().map(|path| PublicKey::read(path));
        let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>().or_exit(Exit::Usage)?;
        let mut signers: Vec<Signer> = keys.into_iter().map(Signer::Key).collect();
        if let (Some(identity), Some(issuer)) = (&self.identity, &self.issuer) {
            let identity = Identity::new(identity, issuer).map_err(anyhow::Error::msg);
            signers.push(Signer::Identity(identity.or_exit(Exit::Usage)?));
        }
        Ok(signers)
    }
}

pub fn sign_file(args: &SignArgs) -> Result<Exit, CliError> {
    let key = key::read(&args.key)?;
    let digest = digest(&args.file)?;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let path = bundle_path(&args.file);
    replace_file(&path, sign(&key, &name, digest).as_bytes())
        .with_context(|| path.display().to_string())
        .or_exit(Exit::Usage)?;
    print(&path.display().to_string()).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

pub fn verify_file(args: &VerifyArgs) -> Result<Exit, CliError> {
    let signers = args.author.signers()?;
    if signers.is_empty() {
        let message = "who must have signed it? give --key FILE, or --identity and --issuer";
        return Err(CliError::new(Exit::Usage, message));
    }
    let mut trust = TrustPolicy::default();
    if let Some(path) = &args.trusted_root {
        let root = SigstoreRoot::read(path).map_err(anyhow::Error::msg);
        trust.root = root.or_exit(Exit::Usage)?;
    }
    let signed = trust.signer(&args.file, digest(&args.file)?, &signers);
    let signer = signed.or_exit(Exit::Signature)?;
    let file = text::escape_line(&args.file.to_string_lossy(), 500);
    print(&format!("{file} is signed by {signer}")).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn digest(file: &Path) -> Result<Digest, CliError> {
    file_digest(file).or_exit(Exit::NoPlugin)
}
