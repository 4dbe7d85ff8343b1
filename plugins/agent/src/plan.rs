//! `enter_plan_mode` and `exit_plan_mode`: plan mode and the approval of plans.

use std::fs;
use std::path::{Component, Path, PathBuf};

use toolhost_sdk::prelude::*;
use toolhost_sdk::text::inline;

use crate::ask::is_dismissed;
use crate::roots;

const PLAN: &str = "plan";
/// Limit of a plan, in bytes: what fits into one question of the host and a user can review.
const MOST_BYTES: usize = 16_000;

/// Mode of the session.
#[data]
pub struct Mode {
    /// Current permission mode.
    mode: String,
}

/// The user's decision on a plan.
#[data]
pub struct PlanDecision {
    /// The user approved the plan.
    approved: bool,
    /// Current permission mode.
    mode: String,
    /// The user's comment.
    feedback: Option<String>,
    /// File that contains the plan.
    plan_path: Option<String>,
}

/// Enter plan mode for large or unclear work: changes are refused until the user approves a plan with `exit_plan_mode`.
#[tool(
    reads,
    interactive,
    requires = ["user"],
    category = "plan",
    kind = "switch-mode",
    icon = "map",
    concurrency = "exclusive",
    aliases = ["enterplanmode"],
    tags = ["plan", "mode"],
    output = Mode,
    example(description = "Before a large change", input = r#"{"reason": "the change touches every module"}"#),
)]
pub fn enter_plan_mode(
    cx: &Context,
    /// Why a plan is needed.
    #[arg(max_len = 1000)]
    reason: Option<String>,
) -> Result<Outcome> {
    if cx.mode() == PLAN {
        let message =
            "already in plan mode; read what you need, then call exit_plan_mode with the plan";
        return Err(Error::invalid_input(message).code("already_in_plan_mode"));
    }
    let mode = cx.change_mode(PLAN, reason.as_deref().unwrap_or_default().trim())?;
    if mode != PLAN {
        let message = format!(
            "the mode is still {}: the user declined plan mode",
            inline(&mode, 40)
        );
        return Err(Error::denied(message)
            .code("user_denied")
            .recommend("go on without a plan"));
    }
    let text = "plan mode: changes to files and commands that change something are refused now, except where a rule of \
                the operator's configuration file allows them. Read what you need, ask the user what is unclear, then \
                call exit_plan_mode with the plan.";
    Ok(Outcome::text(text)
        .summary("in plan mode")
        .structured(&Mode { mode }))
}

/// Ask the user to approve the plan, given as `plan` or `plan_path`. If denied, revise it and call again.
#[tool(
    reads,
    interactive,
    requires = ["user", "fs.read"],
    category = "plan",
    kind = "switch-mode",
    icon = "map",
    concurrency = "exclusive",
    aliases = ["exitplanmode"],
    tags = ["plan", "mode"],
    output = PlanDecision,
    example(description = "A plan as text", input = r##"{"plan": "# Split the parser\n1. Move the lexer into its own file\n2. Run the tests"}"##),
    example(description = "A plan in a file", input = r#"{"plan_path": "plan.md"}"#),
)]
pub fn exit_plan_mode(
    cx: &Context,
    /// Markdown, at most 16000 bytes.
    plan: Option<String>,
    /// `.md` file in the workspace with the plan.
    #[arg(min_len = 1, max_len = 4096, aliases = ["planFilePath", "plan_filename"])]
    plan_path: Option<String>,
) -> Result<Outcome> {
    if cx.mode() != PLAN {
        let message = format!("not in plan mode; the mode is {}", inline(cx.mode(), 40));
        return Err(Error::invalid_input(message)
            .code("not_in_plan_mode")
            .recommend("do the work, or call enter_plan_mode first"));
    }
    let plan = match (plan, &plan_path) {
        (Some(plan), None) => plan,
        (None, Some(path)) => read(cx, path)?,
        (Some(_), Some(_)) => {
            return Err(invalid(
                "`plan` and `plan_path` are mutually exclusive; omit one".to_owned(),
            ));
        }
        (None, None) => {
            return Err(invalid(
                "no plan; pass it as `plan`, or its file as `plan_path`".to_owned(),
            ));
        }
    };
    let source = plan_path
        .as_deref()
        .map_or_else(|| "`plan`".to_owned(), |path| inline(path, 200));
    if plan.trim().is_empty() {
        return Err(invalid(format!(
            "{source} is empty; describe what you are going to do"
        )));
    }
    if plan.len() > MOST_BYTES {
        return Err(invalid(format!(
            "{source} has {} bytes; at most {MOST_BYTES} can be shown",
            plan.len()
        )));
    }
    let (mode, feedback) = match cx.change_mode("default", plan.trim()) {
        Ok(mode) => (mode, None),
        Err(error) if is_dismissed(&error) => (PLAN.to_owned(), Some(error.message)),
        Err(error) => return Err(error),
    };
    let verdict = PlanDecision {
        approved: mode != PLAN,
        mode,
        feedback,
        plan_path,
    };
    Ok(verdict
        .outcome()
        .display(Display::markdown(plan))
        .structured(&verdict))
}

impl PlanDecision {
    fn outcome(&self) -> Outcome {
        if self.approved {
            let mode = inline(&self.mode, 40);
            let text = format!("the user approved the plan; the mode is now {mode}. Carry it out.");
            return Outcome::text(text).summary(format!("plan approved, mode {mode}"));
        }
        let reason = match &self.feedback {
            Some(feedback) => format!("the plan was not approved: {}", feedback.trim()),
            None => "the plan was not approved".to_owned(),
        };
        let text =
            format!("{reason}\nStill in plan mode: revise the plan and call exit_plan_mode again.");
        Outcome::text(text).summary("plan not approved")
    }
}

fn read(cx: &Context, given: &str) -> Result<String> {
    let shown = inline(given, 200);
    let path = locate(cx, given)?;
    let size = fs::metadata(&path)
        .map_err(|error| missing(&error, &shown))?
        .len();
    if size > MOST_BYTES as u64 {
        return Err(invalid(format!(
            "{shown} has {size} bytes; at most {MOST_BYTES} can be shown"
        )));
    }
    let bytes = fs::read(&path).map_err(|error| missing(&error, &shown))?;
    String::from_utf8(bytes).map_err(|_| invalid(format!("{shown} is not text in UTF-8")))
}

/// Finds the file in the workspace. The sandbox enforces access; this check only improves the error message.
fn locate(cx: &Context, given: &str) -> Result<PathBuf> {
    let shown = inline(given, 200);
    let path = Path::new(given.trim());
    if !path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
    {
        return Err(invalid(format!("{shown} is not a path of a `.md` file")));
    }
    let roots = roots::workspace(cx);
    let outside = || {
        Error::denied(format!("Access denied: {shown} is outside the workspace"))
            .code("path_not_in_workspace")
            .recommend("write the plan to a `.md` file in the workspace, or pass it as `plan`")
    };
    let first = roots.first().ok_or_else(outside)?;
    let mut full = PathBuf::new();
    for component in Path::new(&first.path).join(path).components() {
        match component {
            Component::ParentDir => _ = full.pop(),
            Component::CurDir => {}
            other => full.push(other),
        }
    }
    if roots.iter().any(|root| full.starts_with(&root.path)) {
        Ok(full)
    } else {
        Err(outside())
    }
}

fn missing(error: &std::io::Error, shown: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found(format!("File not found: {shown}"))
            .code("file_not_found")
            .recommend("write the plan to it first, or pass it as `plan`"),
        _ => Error::failed(format!("cannot read {shown}: {error}")).code("read_content_failure"),
    }
}

fn invalid(message: String) -> Error {
    Error::invalid_input(message).code("invalid_plan")
}

#[cfg(test)]
mod tests;
