//! A scripted host with processes for tests.

use std::cell::RefCell;
use std::rc::Rc;

use toolhost_sdk::prelude::*;
use toolhost_sdk::serde_json;
use toolhost_sdk::services::process::{ExitStatus, Job};
use toolhost_sdk::testing::error_line;

pub fn job_of(id: &str, pid: u32, label: &str) -> Job {
    Job {
        id: id.to_owned(),
        pid,
        label: label.to_owned(),
        state: "running".to_owned(),
        started_ms: 1_000.0,
        ..Job::default()
    }
}

pub fn job(id: &str, pid: u32, label: &str) -> Value {
    serde_json::to_value(job_of(id, pid, label)).unwrap()
}

pub fn exited(code: i32) -> ExitStatus {
    ExitStatus {
        kind: "exited".to_owned(),
        code: Some(code),
        signal: None,
        duration_ms: 1234.0,
    }
}

/// The text of the first part, the error code and the structured output.
pub fn shown(result: Result<Outcome>) -> String {
    match result {
        Ok(outcome) => {
            let text = outcome.llm[0].text.clone().unwrap_or_default();
            let error = outcome.error.as_ref();
            let error = error.map_or(String::new(), |error| format!("\n{}", error_line(error)));
            let data = outcome.structured.unwrap_or_default();
            format!("{}{error}\n{data}", text.trim_end())
        }
        Err(error) => {
            let mut lines = vec![String::new()];
            lines.extend(error.recommendations.iter().cloned());
            let advice = lines.join("\n  ");
            format!("{}{advice}", error_line(&error))
        }
    }
}

/// A background program: its output so far, and what it writes on each wait.
#[derive(Clone)]
pub struct ScriptedProgram {
    written: Vec<u8>,
    later: Vec<String>,
    end: Option<ExitStatus>,
    pub job: Job,
    /// The input and signals it received.
    pub received: Rc<RefCell<Vec<String>>>,
}

impl ScriptedProgram {
    pub fn running(text: &str) -> Self {
        Self {
            written: text.as_bytes().to_owned(),
            later: Vec::new(),
            end: None,
            job: Job {
                output_file: Some("/out/1".to_owned()),
                ..job_of("1", 70, "npm run dev")
            },
            received: Rc::default(),
        }
    }

    pub fn then(mut self, text: &str) -> Self {
        self.later.push(text.to_owned());
        self
    }

    /// Ends after writing everything.
    pub fn ended(mut self, code: i32) -> Self {
        self.end = Some(exited(code));
        self
    }

    fn now(&self) -> Job {
        let mut job = self.job.clone();
        job.output_bytes = self.written.len() as u64;
        if let Some(end) = self.end.clone().filter(|_| self.later.is_empty()) {
            job.state = "ended".to_owned();
            job.exit_status = Some(end);
        }
        job
    }

    fn read(&mut self, input: &Value) -> Value {
        let after = usize::try_from(input["after"].as_u64().unwrap()).unwrap();
        let max = usize::try_from(input["max"].as_u64().unwrap()).unwrap();
        if after >= self.written.len() && input["wait_ms"] != 0 && !self.later.is_empty() {
            let text = self.later.remove(0);
            self.written.extend_from_slice(text.as_bytes());
        }
        let after = after.min(self.written.len());
        let end = (after + max).min(self.written.len());
        json!({"bytes": self.written[after..end], "next": end, "dropped": 0, "job": self.now()})
    }

    /// Serves `process.jobs`, `read`, `write` and `kill`.
    pub fn context(self, cx: Context) -> Context {
        let answer = Rc::clone(&self.received);
        let script = Rc::new(RefCell::new(self));
        let (jobs, reads, kills) = (Rc::clone(&script), Rc::clone(&script), script);
        let wrote = Rc::clone(&answer);
        cx.with_service("process.jobs", move |_| Ok(json!([jobs.borrow().now()])))
            .with_service("process.read", move |input| {
                Ok(reads.borrow_mut().read(&input))
            })
            .with_service("process.write", move |input| {
                let bytes: Vec<u8> = serde_json::from_value(input["bytes"].clone())?;
                wrote
                    .borrow_mut()
                    .push(String::from_utf8_lossy(&bytes).into_owned());
                Ok(Value::Null)
            })
            .with_service("process.kill", move |input| {
                answer.borrow_mut().push(input["signal"].to_string());
                let mut script = kills.borrow_mut();
                if input["signal"] != "USR1" {
                    script.later.clear();
                    script.end = Some(ExitStatus {
                        kind: "signalled".to_owned(),
                        signal: input["signal"].as_str().map(str::to_owned),
                        ..ExitStatus::default()
                    });
                }
                Ok(json!(script.now()))
            })
    }
}
