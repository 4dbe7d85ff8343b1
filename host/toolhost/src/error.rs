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
pub(crate) trait As<T> {
    fn of_settings(self) -> Result<T, Error>;
    fn of_store(self) -> Result<T, Error>;
    fn internal(self) -> Result<T, Error>;
}

impl<T, E: Into<anyhow::Error>> As<T> for Result<T, E> {
    fn of_settings(self) -> Result<T, Error> {
        self.map_err(|error| Error::Settings(whole(error)))
    }

    fn of_store(self) -> Result<T, Error> {
        self.map_err(|error| Error::Store(whole(error)))
    }

    fn internal(self) -> Result<T, Error> {
        self.map_err(|error| Error::Internal(whole(error)))
    }
}

/// The message with its causes.
fn whole(error: impl Into<anyhow::Error>) -> String {
    shown(&error.into())
}

fn shown(error: &impl Display) -> String {
    format!("{error:#}")
}
