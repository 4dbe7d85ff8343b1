//! Host services for running calls, one trait for each interface of `wit/v0.1/services.wit`: session state, questions to
//! the user, sub-agents, other tools and resources.
//!
//! Each method is authorized with the permissions of the call, and fails with a code. The runtime provides programs and
//! the network itself.

mod agents;
mod resources;
mod session;
mod tools;
mod user;

use crate::policy::Mode;

pub use agents::{AgentInfo, AgentService};
pub use resources::ResourceService;
pub use session::{FileObservation, SessionService};
pub use tools::{BackgroundCall, ToolService, VisibleTool};
pub use user::{
    AnswerOption, QuestionForm, UserAnswer, UserQuestion, UserQuestionKind, UserService,
};

/// All services of one call.
pub trait Services:
    SessionService + UserService + AgentService + ToolService + ResourceService
{
    /// Returns the permission mode of the call.
    fn mode(&self) -> Mode;

    /// Returns the reason if a rule denies this URL. The URL may differ from those in the input, because of redirects.
    fn denied_url_reason(&self, url: &str) -> Option<String>;
}
