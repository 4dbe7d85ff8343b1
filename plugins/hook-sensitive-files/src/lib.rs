//! Hook that denies access to files that contain secrets, and requires approval of access to system files.
//!
//! It checks arguments that name files, at any depth: `path`, `paths`, `from`, `to` and equivalents of other tools, globs
//! of files to include, and the headers of patches. Paths are checked lexically and links are not followed; the sandbox
//! limits what a call can reach.

mod patch;
mod path_kind;

use std::borrow::Cow;

use path_kind::{PathKind, kind};
use toolhost_sdk::prelude::*;

/// Depth limit for arguments in an input.
const DEPTH: usize = 16;
/// Limit of characters of a path in a message.
const SHOWN: usize = 200;

fn before_call(_: &Context, call: &HookCall) -> Before {
    let mut paths = Vec::new();
    collect_paths(&call.input, Argument::Other, DEPTH, &mut paths);
    let mut response = Before::proceed();
    for path in paths {
        match kind(&path) {
            PathKind::Secret => return refuse(&path),
            PathKind::System => response = ask(&path),
            PathKind::Ordinary => {}
        }
    }
    response
}

fn refuse(path: &str) -> Before {
    let path = shown(path);
    let error = Error::denied(format!(
        "`{path}` may contain secrets; access by tools is denied"
    ))
    .code("sensitive_file")
    .recommend("continue without it, or ask the user for the part that you need");
    let outcome = Outcome::text(format!(
        "Access to {path} is denied: it may contain secrets."
    ));
    Before::deny(format!("{path} may contain secrets")).outcome(outcome.logical_error(error))
}

fn ask(path: &str) -> Before {
    let reason = format!("{} is part of the system configuration", shown(path));
    let meta = json!({"risk": "medium", "reason": reason});
    Before::ask(reason).meta(meta)
}

fn shown(path: &str) -> String {
    path.escape_debug().take(SHOWN).collect()
}

/// What the strings of an argument contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Argument {
    Path,
    /// A glob of files to include; with `!` at its start, of files to exclude.
    Glob,
    /// Possibly a patch.
    Patch,
    Other,
}

impl Argument {
    fn named(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "glob" | "globs" | "include" | "include_pattern" => Self::Glob,
            "patch" | "diff" | "input" => Self::Patch,
            name if names_files(name) => Self::Path,
            _ => Self::Other,
        }
    }
}

/// The paths in the members that name files.
fn collect_paths<'a>(
    value: &'a Value,
    argument: Argument,
    depth: usize,
    paths: &mut Vec<Cow<'a, str>>,
) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    match value {
        Value::String(text) => match argument {
            Argument::Glob if text.starts_with('!') => {}
            Argument::Path | Argument::Glob => paths.push(text.into()),
            Argument::Patch => paths.extend(patch::paths(text)),
            Argument::Other => {}
        },
        Value::Array(items) => {
            for item in items {
                collect_paths(item, argument, depth, paths);
            }
        }
        Value::Object(members) => {
            for (name, value) in members {
                collect_paths(value, Argument::named(name), depth, paths);
            }
        }
        _ => {}
    }
}

/// `path`, `file_path`, `notebookpath`, `files`, `from` …; `argument` is in lower case.
fn names_files(argument: &str) -> bool {
    const WHOLE: [&str; 12] = [
        "from",
        "to",
        "source",
        "destination",
        "src",
        "dst",
        "dest",
        "target",
        "cwd",
        "uri",
        "url",
        "location",
    ];
    const ENDS: [&str; 8] = [
        "path",
        "file",
        "filename",
        "dir",
        "directory",
        "folder",
        "root",
        "workdir",
    ];
    let one = argument.strip_suffix('s').unwrap_or(argument);
    WHOLE.contains(&argument) || ENDS.iter().any(|end| one.ends_with(end))
}

export_hooks! { before: before_call }

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::needless_pass_by_value, reason = "tests hand over temporaries")]
    fn check(input: Value, expected: Decision) {
        let response = before_call(&Context::test(), &HookCall::new("read_file", input.clone()));
        assert_eq!(response.decision, expected, "{input}");
    }

    #[test]
    fn r_214_a_sensitive_file_is_denied_with_its_own_outcome() {
        let call = HookCall::new("read_file", json!({"path": "/etc/passwd"}));
        let response = before_call(&Context::test(), &call);
        assert_eq!(response.decision, Decision::Deny);
        assert_eq!(
            response.reason.as_deref(),
            Some("/etc/passwd may contain secrets")
        );
        let outcome = response.outcome.unwrap();
        assert_eq!(
            outcome.llm[0].text.as_deref(),
            Some("Access to /etc/passwd is denied: it may contain secrets.")
        );
        let error = outcome.error.unwrap();
        assert_eq!(error.code.as_deref(), Some("sensitive_file"));
    }

    #[test]
    fn r_214_a_system_file_needs_approval() {
        let response = before_call(
            &Context::test(),
            &HookCall::new("x", json!({"path": "/etc/hosts"})),
        );
        let reason = "/etc/hosts is part of the system configuration";
        assert_eq!(
            response,
            Before::ask(reason).meta(json!({"risk": "medium", "reason": reason}))
        );
    }

    #[test]
    fn r_214_every_argument_that_names_files_is_seen() {
        for input in [
            json!({"paths": ["a", "/x/.ssh/id"]}),
            json!({"from": "a", "to": "b/.env"}),
            json!({"file_path": ".env"}),
            json!({"notebookPath": ".env"}),
            json!({"edits": [{"text": "x", "path": ".env"}]}),
            json!({"files": [{"path": ".env"}]}),
            json!({"source": {"filename": ".env"}}),
            json!({"path": "/etc/hosts", "paths": [".env"]}),
            json!({"path": "\"server.pem\""}),
            json!({"path": "'id_rsa'"}),
            json!({"path": "id_rsa\n"}),
            json!({"path": "@id_rsa"}),
            json!({"path": " `@.ssh/config` "}),
            json!({"include": ["src", "tls/server.key"]}),
            json!({"pattern": "KEY", "glob": "**/.env"}),
            json!({"pattern": "KEY", "include": "*.pem"}),
            json!({"patch": "*** Begin Patch\n*** Update File: .env\n-a\n+b\n*** End Patch"}),
            json!({"input": "--- a/.env\n+++ b/.env\n@@ -1 +1 @@\n-a\n+b\n"}),
        ] {
            check(input, Decision::Deny);
        }
        for input in [
            json!({"content": "/etc/passwd"}),
            json!({"command": "cat .env"}),
            json!({"path": "src/main.rs"}),
            json!({"path": 7}),
            json!({"glob": "!*.pem", "exclude": [".env"]}),
            json!({"patch": "*** Begin Patch\n*** Add File: a.md\n+the file .env\n*** End Patch"}),
            json!({"input": "cat .env\n"}),
            json!(null),
        ] {
            check(input, Decision::Proceed);
        }
    }

    #[test]
    fn a_path_in_a_message_is_short_and_does_nothing_to_a_terminal() {
        let path = format!("{}\u{1b}[2J/.env", "ä".repeat(500));
        let reason = refuse(&path).reason.unwrap();
        assert!(reason.len() < 500 && !reason.contains('\u{1b}'), "{reason}");
    }
}
