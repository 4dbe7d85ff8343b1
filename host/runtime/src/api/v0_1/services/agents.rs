//! The interface `agents`.

use toolhost_contract::AgentInfo;

use super::bindings::toolhost::plugin::agents;
use super::convert::failure;
use super::{json, types};
use crate::state::State;

/// Its functions, to detect components built against a later version.
pub(super) const FUNCTIONS: &[&str] = &["agents", "run"];

impl agents::Host for State {
    fn agents(&mut self) -> Result<Vec<agents::Agent>, types::Failure> {
        let services = self.untracked_services(self.allowed.agents, "agents")?;
        let agent = |agent: AgentInfo| agents::Agent {
            name: agent.name,
            description: agent.description,
        };
        Ok(services.agents().into_iter().map(agent).collect())
    }

    async fn run(&mut self, task: String) -> Result<String, types::Failure> {
        let services = self.untracked_services(self.allowed.agents, "agents")?;
        let task = json(&task)?;
        let _stopped = self.deadline.pause();
        let result = services.run_agent(task).await.map_err(failure)?;
        Ok(result.to_string())
    }
}
