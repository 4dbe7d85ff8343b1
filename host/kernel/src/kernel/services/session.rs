//! The interface `session` for a running call.

use serde_json::Value;
use toolhost_contract::{Effect, Failure, FileObservation, SessionService, text};

use super::{CallServices, session_store};

impl SessionService for CallServices {
    fn session_get(&self, key: &str) -> Result<Option<Value>, Failure> {
        let key = self.key(key)?;
        if let Some(value) = self.notes().get(&key) {
            return Ok(value.clone());
        }
        Ok(self.session.store().get(&key))
    }

    fn session_set(&self, key: &str, value: Option<Value>) -> Result<(), Failure> {
        let entry = &self.entry;
        // A tool that delegates was evaluated as if it changed nothing.
        let writes = entry.tool.effect() >= Effect::Writes
            && !entry.backend.only_calls_tools(&entry.tool, &Value::Null);
        if key.starts_with(session_store::SHARED) && !writes {
            let message = format!(
                "`{}` is shared by all plugins, and this tool is not declared to change anything",
                text::escape_line(key, 80)
            );
            return Err(Failure::new("not_writable", message));
        }
        if let Some(value) = value.as_ref().filter(|_| key == session_store::VARIABLES) {
            self.check_variables(value)?;
        }
        let key = self.key(key)?;
        let mut notes = self.notes();
        self.session
            .store()
            .check_space(&notes, &key, value.as_ref())?;
        notes.set(key, value)
    }

    fn record_observation(&self, observation: FileObservation) -> Result<(), Failure> {
        self.notes()
            .record_observation(&self.caller.agent, observation)
    }

    fn last_observation(&self, path: &str) -> Option<FileObservation> {
        let agent = &self.caller.agent;
        self.notes()
            .last_seen(agent, path)
            .or_else(|| self.session.store().last_seen(agent, path))
    }
}
