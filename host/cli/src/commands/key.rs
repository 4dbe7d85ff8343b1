//! `host key`: keys that sign plugins.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use toolhost::HostPaths;
use toolhost_hostfiles::create_private_dir_all;
use toolhost_packages::{PublicKey, SigningKey};

use crate::exit::{CliError, Exit, OrExit};
use crate::terminal::{note, print};

/// Subdirectory of the state directory, which is hidden from all tools.
const KEYS: &str = "keys";

#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create a key that signs plugins, and print the public key
    New(KeyArgs),
    /// Print the public key
    Show(KeyArgs),
}

#[derive(Debug, Args)]
pub struct KeyArgs {
    /// Name of the key: letters, digits, `-` and `_`
    #[arg(value_parser = parse_name)]
    pub name: String,
}

pub fn key(command: &KeyCommand) -> Result<Exit, CliError> {
    let public = match command {
        KeyCommand::New(args) => create(&args.name)?,
        KeyCommand::Show(args) => read(&args.name)?.public(),
    };
    print(public.to_pem().trim_end()).or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

fn create(name: &str) -> Result<PublicKey, CliError> {
    let state = state_dir()?;
    create_private_dir_all(&state, &state.join(KEYS)).or_exit(Exit::Store)?;
    let path = path_of(&state, name);
    if path.exists() {
        let message = format!(
            "the key `{name}` exists: {}; `host key show {name}` prints its public key",
            path.display()
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    let key = SigningKey::create(&path).or_exit(Exit::Store)?;
    note(&format!("private key: {}", path.display()));
    Ok(key.public())
}

/// Reads the private key with this name, or in this file.
pub fn read(name: &str) -> Result<SigningKey, CliError> {
    let path = if parse_name(name).is_ok() {
        path_of(&state_dir()?, name)
    } else {
        PathBuf::from(name)
    };
    SigningKey::read(&path).or_exit(Exit::Usage)
}

fn state_dir() -> Result<PathBuf, CliError> {
    let paths = HostPaths::from_env(|name| std::env::var(name).ok());
    paths.state.ok_or_else(|| {
        let message = "there is no state directory for keys; set HOME or TOOLHOST_STATE_DIR";
        CliError::new(Exit::Usage, message.to_owned())
    })
}

fn path_of(state: &Path, name: &str) -> PathBuf {
    state.join(KEYS).join(format!("{name}.key"))
}

fn parse_name(name: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_allowed) {
        return Err("a name has up to 64 letters, digits, `-` and `_`".to_owned());
    }
    Ok(name.to_owned())
}
