//! The interface `session`.

use toolhost_contract::FileObservation;

use super::bindings::toolhost::plugin::session;
use super::convert::failure;
use super::{json, types};
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["get", "set", "record-observation", "last-observation"];

impl session::Host for State {
    fn get(&mut self, key: String) -> Result<Option<String>, types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        let value = services.session_get(&key).map_err(failure)?;
        Ok(value.map(|value| value.to_string()))
    }

    fn set(&mut self, key: String, value: Option<String>) -> Result<(), types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        let value = value.as_deref().map(json).transpose()?;
        services.session_set(&key, value).map_err(failure)
    }

    fn record_observation(
        &mut self,
        observation: session::FileObservation,
    ) -> Result<(), types::Failure> {
        let services = self.services(self.allowed.session, "session")?;
        let observation = FileObservation {
            path: observation.path,
            sha256: observation.sha256,
            lines: observation.lines,
        };
        services.record_observation(observation).map_err(failure)
    }

    fn last_observation(
        &mut self,
        path: String,
    ) -> Result<Option<session::FileObservation>, types::Failure> {
        let services = self.untracked_services(self.allowed.session, "session")?;
        Ok(services
            .last_observation(&path)
            .map(|observation| session::FileObservation {
                path: observation.path,
                sha256: observation.sha256,
                lines: observation.lines,
            }))
    }
}
