//! Why a host could not be made.

use std::fmt::Display;

/// The message says what was wrong, where, and what would fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// What was asked for cannot be: a folder that is not there, a rule that makes no sense, a hook that is missing.
    #[error("{0}")]
    Settings(String),
    #[error("no plugin folder given; name one with `plugins`")]
    NoPlugins,
    /// The records cannot be read or written.
    #[error("{0}")]
    Store(String),
    /// It is our fault, or the system's.
    #[error("{0}")]
    Internal(String),
}

/// Gives an error its place in [`Error`].
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

/// With its causes.
fn whole(error: impl Into<anyhow::Error>) -> String {
    shown(&error.into())
}

fn shown(error: &impl Display) -> String {
    format!("{error:#}")
}
