//! `todo_write` and `todo_read`: the task list of an agent.

mod validation;

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::{count, inline};

/// The host keeps separate state for each agent of a session, so the key does not name the agent.
const KEY: &str = "todos";

/// Status of a task.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Pending,
    /// At most one task.
    InProgress,
    Completed,
    Cancelled,
    /// Waiting.
    Blocked,
}

/// Priority of a task.
#[data]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    High,
    Medium,
    Low,
}

/// One task.
#[data]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Todo {
    /// Generated if absent.
    #[arg(max_len = 64)]
    pub id: Option<String>,
    /// Imperative: "Run the tests". Optional for a known task in a merge.
    #[arg(max_len = 1000, aliases = ["title", "description", "step"])]
    pub content: Option<String>,
    /// Status.
    pub status: Status,
    /// Progressive form: "Running the tests".
    #[arg(max_len = 1000, aliases = ["activeForm"])]
    pub active_form: Option<String>,
    /// Priority.
    pub priority: Option<Priority>,
    /// Assignee.
    #[arg(max_len = 100)]
    pub assignee: Option<String>,
    /// Notes.
    #[arg(max_len = 2000)]
    pub notes: Option<String>,
    /// Ids of tasks to complete first.
    #[arg(max_len = 50, aliases = ["dependsOn", "dependencies"])]
    pub depends_on: Option<Vec<String>>,
}

/// Number of tasks by status.
#[data]
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All tasks.
    pub total: usize,
    /// Pending tasks.
    pub pending: usize,
    /// Tasks in progress.
    pub in_progress: usize,
    /// Completed tasks.
    pub completed: usize,
    /// Cancelled tasks.
    pub cancelled: usize,
    /// Blocked tasks.
    pub blocked: usize,
}

/// Current task list.
#[data]
pub struct Todos {
    /// Tasks in order.
    pub todos: Vec<Todo>,
    /// Incremented by each change; 0 before the first.
    pub version: u64,
    /// Number of tasks by status.
    pub counts: Counts,
}

/// State stored in the session.
#[data]
#[derive(Default)]
struct StoredTodos {
    /// Version of the list.
    version: u64,
    /// The list.
    todos: Vec<Todo>,
}

/// Replace the session's task list, or update it with `merge`; for work of three or more steps. At most one task is
/// `in_progress`.
// `reads`: only the session's own state changes, which needs no approval.
#[tool(
    reads,
    plain_text,
    requires = ["session"],
    category = "agent",
    kind = "think",
    icon = "list-todo",
    concurrency = "serial",
    aliases = ["write_todos", "update_plan", "todowrite"],
    tags = ["todo", "task", "plan", "progress"],
    output = Todos,
    example(
        description = "Two tasks, the first begun",
        input = r#"{"todos": [{"content": "Find the bug", "status": "in_progress"}, {"content": "Fix it", "status": "pending"}]}"#
    ),
)]
pub fn todo_write(
    cx: &Context,
    /// Tasks in order.
    #[arg(max_len = 200, aliases = ["plan"])]
    todos: Vec<Todo>,
    /// Update tasks with the same id or content, append new ones, keep the rest.
    #[arg(default = false)]
    merge: bool,
) -> Result<Outcome> {
    let stored: StoredTodos = cx.recall(KEY)?.unwrap_or_default();
    let known = if merge { stored.todos } else { Vec::new() };
    let list = StoredTodos {
        version: stored.version + 1,
        todos: validation::merge(known, todos)?,
    };
    cx.remember(KEY, &list)?;
    let todos = Todos::of(list);
    cx.emit(
        "todos.updated",
        &json!({"agent": cx.agent_id(), "version": todos.version, "todos": todos.todos}),
    );
    Ok(todos.outcome())
}

/// Show the task list of `todo_write`.
#[tool(
    reads,
    idempotent,
    plain_text,
    requires = ["session"],
    category = "agent",
    kind = "read",
    icon = "list-todo",
    aliases = ["todoread"],
    tags = ["todo", "task", "plan", "progress"],
    output = Todos,
    example(description = "All of them", input = "{}"),
)]
pub fn todo_read(cx: &Context) -> Result<Outcome> {
    Ok(Todos::of(cx.recall(KEY)?.unwrap_or_default()).outcome())
}

impl Todos {
    fn of(StoredTodos { version, todos }: StoredTodos) -> Self {
        let mut counts = Counts {
            total: todos.len(),
            ..Counts::default()
        };
        for todo in &todos {
            *match todo.status {
                Status::Pending => &mut counts.pending,
                Status::InProgress => &mut counts.in_progress,
                Status::Completed => &mut counts.completed,
                Status::Cancelled => &mut counts.cancelled,
                Status::Blocked => &mut counts.blocked,
            } += 1;
        }
        Self {
            todos,
            version,
            counts,
        }
    }

    fn outcome(&self) -> Outcome {
        let line = self.line();
        let lines: Vec<String> = std::iter::once(line.clone())
            .chain(self.todos.iter().map(Todo::line))
            .collect();
        Outcome::text(lines.join("\n"))
            .summary(line)
            .display(Display::data("todo-list", json!({"todos": self.todos})))
            .structured(self)
    }

    /// `3 tasks: 1 completed, 2 pending`
    fn line(&self) -> String {
        let Counts {
            total,
            pending,
            in_progress,
            completed,
            cancelled,
            blocked,
        } = self.counts;
        if total == 0 {
            return "the task list is empty".to_owned();
        }
        let parts: Vec<String> = [
            (completed, "completed"),
            (in_progress, "in progress"),
            (pending, "pending"),
            (blocked, "blocked"),
            (cancelled, "cancelled"),
        ]
        .iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, state)| format!("{number} {state}"))
        .collect();
        format!("{}: {}", count(total, "task"), parts.join(", "))
    }
}

impl Todo {
    fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    fn line(&self) -> String {
        let mark = match self.status {
            Status::Pending => "[ ]",
            Status::InProgress => "[>]",
            Status::Completed => "[x]",
            Status::Cancelled => "[-]",
            Status::Blocked => "[!]",
        };
        let content = self.content.as_deref().unwrap_or_default();
        let mut line = format!("{mark} {}: {}", self.id(), inline(content, 1000));
        if let Some(before) = self.depends_on.as_ref().filter(|before| !before.is_empty()) {
            line.push_str(" (after ");
            line.push_str(&before.join(", "));
            line.push(')');
        }
        line
    }
}

#[cfg(test)]
mod tests;
