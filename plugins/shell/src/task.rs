//! Resolution of task ids to background commands and tool calls.

use toolhost_sdk::prelude::*;
use toolhost_sdk::services::process::Job;
use toolhost_sdk::text::escape;

/// Prefix of ids of tool calls, which the host assigns.
const CALL: &str = "tool-";
/// Limit of tasks listed in an error.
const NAMED: usize = 10;

/// A background task.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    Program(Job),
    /// A tool call, by id.
    Call(String),
}

pub fn is_running(job: &Job) -> bool {
    job.state == "running"
}

/// Finds a task by id or process id.
pub fn find(cx: &Context, task_id: Option<&str>, pid: Option<u32>) -> Result<Task> {
    let task_id = task_id.map(str::trim).filter(|id| !id.is_empty());
    if let Some(id) = task_id.filter(|id| id.starts_with(CALL)) {
        return Ok(Task::Call(id.to_owned()));
    }
    let jobs = cx.jobs()?;
    let wanted = match (task_id, pid) {
        (Some(id), _) => format!("`{}`", escape(id, 80)),
        (None, Some(pid)) => format!("with the pid {pid}"),
        (None, None) => {
            let message = format!("`task_id` is missing; {}", known(&jobs));
            return Err(Error::invalid_input(message).code("task_missing"));
        }
    };
    // Some models pass the pid in either parameter.
    let found = match (task_id, pid) {
        (Some(id), _) => jobs
            .iter()
            .find(|job| job.id == id)
            .or_else(|| jobs.iter().find(|job| job.pid.to_string() == id)),
        (None, pid) => jobs.iter().find(|job| Some(job.pid) == pid),
    };
    match (found, pid) {
        (Some(job), Some(pid)) if job.pid != pid => {
            let message = format!(
                "task {wanted} has the pid {}, not {pid}; pass only one of them",
                job.pid
            );
            Err(Error::invalid_input(message).code("task_ambiguous"))
        }
        (Some(job), _) => Ok(Task::Program(job.clone())),
        (None, _) => {
            let message = format!("no task {wanted} in this session; {}", known(&jobs));
            Err(Error::not_found(message)
                .code("task_not_found")
                .recommend("shell_list shows all tasks"))
        }
    }
}

fn known(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "no command was started with run_in_background".to_owned();
    }
    // The most recent tasks are most likely meant.
    let names: Vec<String> = jobs
        .iter()
        .rev()
        .take(NAMED)
        .map(|job| format!("{} ({})", escape(&job.id, 40), escape(&job.label, 40)))
        .collect();
    let more = jobs.len().saturating_sub(NAMED);
    match more {
        0 => format!("there are: {}", names.join(", ")),
        more => format!("there are: {}, and {more} more", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;
    use crate::testing::job;

    fn check(task_id: Option<&str>, pid: Option<u32>, expected: Expect) {
        let cx = Context::test().with_service("process.jobs", |_| {
            Ok(json!([
                job("1", 70, "npm run dev"),
                job("2", 71, "make\nall")
            ]))
        });
        let text = match find(&cx, task_id, pid) {
            Ok(Task::Program(job)) => format!("program {}", job.id),
            Ok(Task::Call(id)) => format!("call {id}"),
            Err(error) => format!("{}: {error}", error.code.as_deref().unwrap_or("-")),
        };
        expected.assert_eq(&text);
    }

    // C-09
    #[test]
    fn r_347_a_task_is_known_by_its_id_or_its_pid() {
        check(Some("1"), None, expect!["program 1"]);
        check(Some(" 2 "), None, expect!["program 2"]);
        check(None, Some(71), expect!["program 2"]);
        check(Some("70"), None, expect!["program 1"]);
        check(Some("1"), Some(70), expect!["program 1"]);
        check(Some("tool-ab12"), None, expect!["call tool-ab12"]);
    }

    #[test]
    fn unknown_tasks_list_known_ones() {
        check(
            Some("9\n"),
            None,
            expect![
                "task_not_found: no task `9` in this session; there are: 2 (make\\nall), 1 (npm run dev)"
            ],
        );
        check(
            None,
            Some(9),
            expect![
                "task_not_found: no task with the pid 9 in this session; there are: 2 (make\\nall), 1 (npm run dev)"
            ],
        );
        check(
            Some(""),
            None,
            expect![
                "task_missing: `task_id` is missing; there are: 2 (make\\nall), 1 (npm run dev)"
            ],
        );
        check(
            Some("1"),
            Some(71),
            expect!["task_ambiguous: task `1` has the pid 70, not 71; pass only one of them"],
        );
    }

    #[test]
    fn without_any_task_the_answer_says_why() {
        let cx = Context::test().with_service("process.jobs", |_| Ok(json!([])));
        let error = find(&cx, Some("1"), None).unwrap_err();
        expect!["no task `1` in this session; no command was started with run_in_background"]
            .assert_eq(&error.message);
    }
}
