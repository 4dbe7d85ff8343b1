//! Tools for agents: tasks, questions, plans, skills, sub-agents, and calls of other tools.

#![expect(
    clippy::struct_field_names,
    reason = "a field is named as it is in the JSON that a model reads and writes"
)]

/// Appends formatted text to a `String`, which cannot fail.
macro_rules! push {
    ($text:expr, $($arguments:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($text, $($arguments)*);
    }};
}

mod ask;
mod background;
mod chain;
mod find;
mod permissions;
mod plan;
mod resources;
mod roots;
mod skill;
mod task;
#[cfg(test)]
mod testing;
mod todo;

use ask::ask_user;
use background::background_run;
use chain::tool_chain;
use find::tool_search;
use permissions::request_permissions;
use plan::{enter_plan_mode, exit_plan_mode};
use resources::{list_mcp_resources, read_mcp_resource};
use todo::{todo_read, todo_write};

toolhost_sdk::export_tools![
    todo_write,
    todo_read,
    ask_user,
    enter_plan_mode,
    exit_plan_mode,
    skill::skill,
    task::task,
    request_permissions,
    tool_search,
    tool_chain,
    background_run,
    list_mcp_resources,
    read_mcp_resource,
];
