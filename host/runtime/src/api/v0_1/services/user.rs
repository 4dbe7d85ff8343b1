//! The interface `user`.

use toolhost_contract::{UserQuestion, text};

use super::bindings::toolhost::plugin::user;
use super::convert::{failure, invalid_json};
use super::{json, types};
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["ask", "change-mode", "request-permissions"];

const MAX_REASON: usize = 16 << 10;

impl user::Host for State {
    async fn ask(&mut self, questions: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let queries = UserQuestion::parse(&questions).map_err(failure)?;
        let _stopped = self.deadline.pause();
        let replies = services.ask_user(queries).await.map_err(failure)?;
        serde_json::to_string(&replies).map_err(|error| invalid_json(&error))
    }

    async fn change_mode(&mut self, to: String, reason: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let reason = text::head(&reason, MAX_REASON).to_owned();
        let _stopped = self.deadline.pause();
        services.change_mode(to, reason).await.map_err(failure)
    }

    async fn request_permissions(&mut self, request: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.user, "user")?;
        let request = json(&request)?;
        let _stopped = self.deadline.pause();
        let given = services
            .request_permissions(request)
            .await
            .map_err(failure)?;
        Ok(given.to_string())
    }
}
