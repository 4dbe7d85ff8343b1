//! `host doctor`: checks what the host needs on this machine. Each problem has a remedy.

mod checks;

use clap::Args;
use serde_json::{Value, json};
use toolhost_contract::text;

use crate::exit::{CliError, Exit, OrExit};
use crate::host_args::HostArgs;
use crate::json;
use crate::settings::CliSettings;
use crate::terminal::print;

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Ok,
    /// For information only.
    Info,
    /// Something that the host works without is missing.
    Warning,
    /// Something required is missing.
    Error,
}

#[derive(Debug, PartialEq, Eq)]
struct Check {
    name: String,
    status: Status,
    detail: String,
    /// How to correct it.
    remedy: Option<String>,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Info => "info",
            Status::Warning => "warning",
            Status::Error => "error",
        }
    }
}

impl Check {
    fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            status: Status::Ok,
            detail: detail.into(),
            remedy: None,
        }
    }

    fn info(name: &str, detail: impl Into<String>) -> Self {
        Self {
            status: Status::Info,
            ..Self::ok(name, detail)
        }
    }

    fn problem(
        status: Status,
        name: &str,
        detail: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status,
            remedy: Some(remedy.into()),
            ..Self::ok(name, detail)
        }
    }

    fn line(&self) -> String {
        let escaped = |text: &str| text::escape_lines(text, 2_000).replace('\n', "\n    ");
        let remedy = self.remedy.as_deref();
        let remedy = remedy.map(|remedy| format!("\n    remedy: {}", escaped(remedy)));
        format!(
            "{:<8} {}: {}{}",
            self.status.as_str(),
            text::escape_line(&self.name, 200),
            escaped(&self.detail),
            remedy.unwrap_or_default()
        )
    }

    fn to_json(&self) -> Value {
        json!({
            "check": self.name,
            "status": self.status.as_str(),
            "detail": self.detail,
            "remedy": self.remedy,
        })
    }
}

pub async fn doctor(args: &DoctorArgs) -> Result<Exit, CliError> {
    let mut checks = vec![checks::kernel(), checks::programs().await];
    checks.extend(checks::directories());
    match CliSettings::load(&args.host) {
        Err(error) => checks.push(Check::problem(
            Status::Error,
            "configuration",
            error.to_string(),
            "correct the file; `host config check` checks it again",
        )),
        Ok(settings) => {
            checks.push(checks::configuration(&settings));
            checks.extend(checks::plugins(&settings).await);
            checks.extend(settings.servers.iter().filter_map(checks::server));
            checks.extend(settings.discovery.as_ref().map(checks::discovery));
        }
    }
    checks.extend(checks::toolchains());
    let shown = if args.json {
        let listed: Vec<Value> = checks.iter().map(Check::to_json).collect();
        json::pretty(&Value::from(listed)).or_exit(Exit::Internal)?
    } else {
        let lines: Vec<String> = checks.iter().map(Check::line).collect();
        lines.join("\n")
    };
    print(&shown).or_exit(Exit::Internal)?;
    let is_broken = checks.iter().any(|check| check.status == Status::Error);
    Ok(if is_broken {
        Exit::ToolFailed
    } else {
        Exit::Ok
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_shown_with_its_remedy_and_without_control_characters() {
        let check = Check::problem(Status::Error, "plugin \u{1b}x", "a\nb", "do c");
        assert_eq!(
            check.line(),
            "error    plugin \\u{1b}x: a\n    b\n    remedy: do c"
        );
        assert_eq!(Check::ok("kernel", "new").line(), "ok       kernel: new");
    }
}
