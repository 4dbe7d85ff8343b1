//! Authorized commands: arguments, working directory, variables and standard input.

use serde_json::{Value, json};

use super::PolicyRequest;
use crate::lifecycle::{mask_text, mask_value};
use crate::text;
use crate::variables::{Variables, is_inert};

/// Maximum bytes of an argument in the record.
const MAX_RECORDED: usize = 4_000;
/// Maximum number of variables named in a reason.
const MAX_NAMED_VARIABLES: usize = 8;

/// An authorized command. It is passed by value to the process that runs it; nothing in it is resolved again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedCommand {
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// As written by the caller; `None`: the first granted directory.
    pub cwd: Option<String>,
    /// Variables of the session at authorization, overridden by those of the call.
    pub variables: Variables,
    /// Runs with a terminal. Only then does its standard input stay open in the background.
    pub tty: bool,
}

impl AuthorizedCommand {
    pub(super) fn of(request: &PolicyRequest<'_>) -> Option<Self> {
        let command = request.subject.command.as_ref()?;
        let input = request.input;
        let flag = if is_true(input, "login") { "-lc" } else { "-c" };
        let mut variables = request.variables.clone();
        let set = call_variables(input).filter_map(|(name, value)| Some((name, value.as_str()?)));
        variables.extend(set.map(|(name, value)| (name.clone(), value.to_owned())));
        Some(Self {
            argv: [request.shell.unwrap_or("sh"), flag, command]
                .map(str::to_owned)
                .to_vec(),
            cwd: input.get("cwd").and_then(Value::as_str).map(str::to_owned),
            variables,
            tty: is_true(input, "tty"),
        })
    }

    /// JSON for the record, with secrets masked and long texts truncated.
    pub fn to_record(&self) -> Value {
        let redact = |argument: &String| {
            // Mask first: a truncated secret may not be recognized.
            let masked = mask_text(text::head(argument, 2 * MAX_RECORDED));
            let shown = text::head(&masked, MAX_RECORDED);
            let is_cut = shown.len() < masked.len() || argument.len() > 2 * MAX_RECORDED;
            format!("{shown}{}", if is_cut { "…" } else { "" })
        };
        let mut recorded = json!({
            "argv": self.argv.iter().map(redact).collect::<Vec<_>>(),
            "cwd": self.cwd.as_ref().map(redact),
            "stdin": if self.tty { "terminal" } else { "closed" },
        });
        // One by one, because `masked` drops members beyond its own limit.
        let variables = self.variables.iter().map(|(name, value)| {
            let one = mask_value(&json!({ name: value }));
            let value = one.get(name).cloned().unwrap_or(Value::Null);
            (text::head(name, 200).to_owned(), value)
        });
        recorded["variables"] = variables.collect();
        recorded
    }
}

/// A background program that a call may end or type text into. The call may not start a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthorizedTask {
    /// The job that existed at authorization; `None`: there was none.
    pub job: Option<String>,
    pub text: String,
}

impl AuthorizedTask {
    pub(super) fn of(request: &PolicyRequest<'_>) -> Option<Self> {
        let task = request.subject.task.as_ref()?;
        Some(Self {
            job: request.background_job.map(|job| job.id.clone()),
            text: task.text.clone(),
        })
    }
}

/// A background program that a call names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningJob {
    pub id: String,
    /// The command it runs, for display.
    pub command: String,
}

/// Variables and options that can change what a command does, so that rules for its words do not cover it.
#[derive(Debug, Default)]
pub(super) struct CommandModifiers {
    /// Variables of the session that are not inert.
    session: Variables,
    /// Names of such variables in the input.
    call: Vec<String>,
    login: bool,
}

impl CommandModifiers {
    pub(super) fn of(request: &PolicyRequest<'_>) -> Self {
        if request.subject.command.is_none() {
            return Self::default();
        }
        let input = request.input;
        let inert =
            |name: &str, value: &Value| value.as_str().is_some_and(|value| is_inert(name, value));
        let set = call_variables(input).filter(|(name, value)| !inert(name, value));
        let session = request.variables.iter().filter(|(name, value)| {
            let replaced = call_variables(input).any(|(own, _)| own == *name);
            !replaced && !is_inert(name, value)
        });
        Self {
            session: session
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            call: set.map(|(name, _)| name.clone()).collect(),
            login: is_true(input, "login"),
        }
    }

    pub(super) fn has_any(&self) -> bool {
        self.login || !self.session.is_empty() || !self.call.is_empty()
    }

    /// Variables of the session, which the input does not show.
    pub(super) fn session(&self) -> &Variables {
        &self.session
    }

    /// Why rules and approvals for commands do not cover it; `None` if they do.
    pub(super) fn reason(&self) -> Option<String> {
        let mut causes = Vec::new();
        let session: Vec<&String> = self.session.keys().collect();
        let own: Vec<&String> = self.call.iter().collect();
        for (names, origin) in [(session, "set for the session"), (own, "in its input")] {
            if !names.is_empty() {
                causes.push(format!("{} ({origin})", list_variables(&names)));
            }
        }
        let variables = causes.join(" and ");
        let login = "a login shell runs profile files first";
        let why = match (variables.is_empty(), self.login) {
            (true, false) => return None,
            (true, true) => login.to_owned(),
            (false, false) => format!("{variables} can change what it runs"),
            (false, true) => format!("{variables} can change what it runs, and {login}"),
        };
        Some(format!(
            "{why}, so rules and approvals for commands do not cover it"
        ))
    }

    /// How to make rules for commands cover it.
    pub(super) fn remedy(&self) -> String {
        let mut ways = Vec::new();
        if !self.session.is_empty() {
            let names: Vec<&String> = self.session.keys().collect();
            ways.push(format!(
                "remove {} with `set_env` without a value",
                list_variables(&names)
            ));
        }
        if !self.call.is_empty() {
            ways.push("remove the variables from its input".to_owned());
        }
        if self.login {
            ways.push("remove `login` from its input".to_owned());
        }
        ways.join(" and ")
    }
}

/// `the variable MAKEFILES`, `the variables A, B and 3 more`
fn list_variables(names: &[&String]) -> String {
    let shown: Vec<String> = names
        .iter()
        .take(MAX_NAMED_VARIABLES)
        .map(|name| format!("`{}`", text::escape_line(name, 80)))
        .collect();
    let noun = if names.len() == 1 {
        "variable"
    } else {
        "variables"
    };
    let more = match names.len().saturating_sub(MAX_NAMED_VARIABLES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("the {noun} {}{more}", shown.join(", "))
}

/// The variables that the input of a call sets for its command.
fn call_variables(input: &Value) -> impl Iterator<Item = (&String, &Value)> {
    input
        .get("env")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
}

fn is_true(input: &Value, member: &str) -> bool {
    input.get(member) == Some(&Value::Bool(true))
}
