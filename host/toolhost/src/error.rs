//! Errors of building a host.

use std::fmt::Display;

/// An error of building a host. The message states the problem, its position and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Invalid settings: a missing directory, an invalid rule, a missing hook.
    #[error("{0}")]
    Settings(String),
    #[error("no plugin directory given; add one with `plugins`")]
    NoPlugins,
    /// The records cannot be read or written.
    #[error("{0}")]
    Store(String),
    /// An internal error or a failure of the operating system.
    #[error("{0}")]
    Internal(String),
}

/// Converts an error to a variant of [`Error`].
pub(crate) trait ErrorKindExt<T> {
    fn settings_error(self) -> Result<T, Error>;
    fn store_error(self) -> Result<T, Error>;
    fn internal_error(self) -> Result<T, Error>;
}

impl<T, E: Into<anyhow::Error>> ErrorKindExt<T> for Result<T, E> {
    fn settings_error(self) -> Result<T, Error> {
        self.map_err(|error| Error::Settings(with_causes(error)))
    }

    fn store_error(self) -> Result<T, Error> {
        self.map_err(|error| Error::Store(with_causes(error)))
    }

    fn internal_error(self) -> Result<T, Error> {
        self.map_err(|error| Error::Internal(with_causes(error)))
    }
}

/// The message with its causes.
fn with_causes(error: impl Into<anyhow::Error>) -> String {
    format_chain(&error.into())
}

fn format_chain(error: &impl Display) -> String {
    format!("{error:#}")
}
