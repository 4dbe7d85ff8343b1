//! `host sign` and `host verify`: signatures of plugin files.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use toolhost_contract::{Digest, text};
use toolhost_hostfiles::replace_file;
use toolhost_packages::{PublicKey, bundle_path, sign, signer};
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

    /// File of a trusted public key; repeatable
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub key: Vec<PathBuf>,
}

pub fn sign_file(args: &SignArgs) -> Result<Exit, CliError> {
    let key = key::read(&args.key)?;
    let digest = digest(&args.file)?;
    let name = args.file.file_name().unwrap_or_default().to_string_lossy();
    let path = bundle_path(&args.file);
    replace_file(&path, sign(&key, &name, digest).as_bytes()).or_exit(Exit::Usage)?;
    print(&path.display().to_string()).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

pub fn verify_file(args: &VerifyArgs) -> Result<Exit, CliError> {
    let keys = args.key.iter().map(|path| PublicKey::read(path));
    let keys: Vec<PublicKey> = keys.collect::<Result<_, _>>().or_exit(Exit::Usage)?;
    let signed = signer(&args.file, digest(&args.file)?, &keys);
    let key = signed.or_exit(Exit::Signature)?;
    let file = text::escape_line(&args.file.to_string_lossy(), 500);
    print(&format!("{file} is signed by the key {}", key.id())).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn digest(file: &Path) -> Result<Digest, CliError> {
    file_digest(file).or_exit(Exit::NoPlugin)
}
