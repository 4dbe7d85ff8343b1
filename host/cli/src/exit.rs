//! Exit codes, which scripts rely on. `host --help` lists them.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;

use toolhost_contract::ErrorClass;
use toolhost_packages::PackageError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Ok,
    /// The tool ran and failed, or could not run.
    ToolFailed,
    Usage,
    Config,
    NoPlugin,
    Denied,
    Limit,
    Internal,
    /// The call waits for a user to approve it later.
    Waiting,
    /// The records cannot be read or written.
    Store,
    /// A signature or a digest is missing or wrong, or the plugin was revoked.
    Signature,
    /// What is installed differs from the lock file.
    LockDiffers,
    /// A registry or a server did not deliver a package.
    Registry,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::ToolFailed => 1,
            Exit::Usage => 2,
            Exit::Config => 3,
            Exit::NoPlugin => 4,
            Exit::Denied => 5,
            Exit::Limit => 6,
            Exit::Internal => 7,
            Exit::Waiting => 8,
            Exit::Store => 9,
            Exit::Signature => 10,
            Exit::LockDiffers => 11,
            Exit::Registry => 12,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit.code())
    }
}

impl From<&PackageError> for Exit {
    fn from(error: &PackageError) -> Self {
        match error {
            PackageError::Reference(_) => Exit::Usage,
            PackageError::LockFormat { .. } => Exit::Config,
            PackageError::Plugin { .. } | PackageError::Layout { .. } => Exit::NoPlugin,
            PackageError::ToolNameTaken { .. } => Exit::Denied,
            PackageError::Io { .. }
            | PackageError::StoreFull { .. }
            | PackageError::Directory(_)
            | PackageError::StoreBusy
            | PackageError::Changed { .. } => Exit::Store,
            PackageError::DigestMismatch { .. }
            | PackageError::SizeMismatch { .. }
            | PackageError::Trust(_)
            | PackageError::Unsigned
            | PackageError::UntrustedSigner(_)
            | PackageError::UnknownSigner
            | PackageError::Revoked { .. }
            | PackageError::Revocations(_) => Exit::Signature,
            PackageError::TooLarge { .. }
            | PackageError::Registry { .. }
            | PackageError::NotARegistry { .. }
            | PackageError::NotFound { .. }
            | PackageError::Unauthorized { .. }
            | PackageError::Credentials { .. }
            | PackageError::Redirect { .. }
            | PackageError::Net(_) => Exit::Registry,
        }
    }
}

impl From<PackageError> for CliError {
    fn from(error: PackageError) -> Self {
        CliError::new(Exit::from(&error), error)
    }
}

impl From<ErrorClass> for Exit {
    fn from(class: ErrorClass) -> Self {
        match class {
            ErrorClass::NotRegistered | ErrorClass::InvalidInput => Exit::Usage,
            ErrorClass::Denied => Exit::Denied,
            ErrorClass::TimedOut
            | ErrorClass::LimitExceeded
            | ErrorClass::OutputLimit
            | ErrorClass::StackOverflow => Exit::Limit,
            ErrorClass::NotFound
            | ErrorClass::Cancelled
            | ErrorClass::Trapped
            | ErrorClass::Unavailable
            | ErrorClass::Failed => Exit::ToolFailed,
            ErrorClass::Internal => Exit::Internal,
        }
    }
}

/// An error with the exit code that it leads to.
#[derive(Debug)]
pub struct CliError {
    pub exit: Exit,
    pub error: anyhow::Error,
}

/// The message with its causes. A cause that the message before it contains already is left out.
impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = self.error.to_string();
        for cause in self.error.chain().skip(1).map(ToString::to_string) {
            if !shown.contains(&cause) {
                shown = format!("{shown}: {cause}");
            }
        }
        f.write_str(&shown)
    }
}

impl CliError {
    pub fn new(exit: Exit, message: impl std::fmt::Display) -> Self {
        Self {
            exit,
            error: anyhow::anyhow!("{message}"),
        }
    }
}

/// An error without an explicit exit code counts as internal.
impl From<anyhow::Error> for CliError {
    fn from(error: anyhow::Error) -> Self {
        Self {
            exit: Exit::Internal,
            error,
        }
    }
}

pub trait OrExit<T> {
    fn or_exit(self, exit: Exit) -> Result<T, CliError>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, CliError> {
        self.map_err(|error| CliError {
            exit,
            error: error.into(),
        })
    }
}

/// The working directory of this process.
pub fn current_directory() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|error| {
        let message =
            format!("cannot read the current directory: {error}; change to one that exists");
        CliError::new(Exit::Usage, message)
    })
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_message_does_not_repeat_its_causes() {
        let cause = || std::io::Error::other("disk full");
        for (error, shown) in [
            (Err(cause()).context("a.txt"), "a.txt: disk full"),
            (
                Err(cause()).context("a.txt: disk full").context("write"),
                "write: a.txt: disk full",
            ),
        ] {
            let error: anyhow::Result<()> = error;
            let error = error.or_exit(Exit::Internal).unwrap_err();
            assert_eq!(error.to_string(), shown);
        }
    }
}
