//! Test helpers: a temporary workspace, and outcomes as reproducible text.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

pub struct Workspace {
    dir: tempfile::TempDir,
}

impl Workspace {
    pub fn new(files: &[(&str, &str)]) -> Self {
        let workspace = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for (path, content) in files {
            workspace.write(path, content.as_bytes());
        }
        workspace
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    pub fn write(&self, path: &str, bytes: &[u8]) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    /// Sets the modification time of `path`, in seconds since 1970.
    pub fn touch(&self, path: &str, seconds: u64) {
        let file = fs::File::options()
            .write(true)
            .open(self.path(path))
            .unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(seconds))
            .unwrap();
    }

    pub fn cx(&self) -> Context {
        Context::test().with_root(self.dir.path().to_str().unwrap(), "rw")
    }

    /// Replaces the name of the temporary directory.
    pub fn normalize(&self, text: &str) -> String {
        text.replace(self.dir.path().to_str().unwrap(), "<root>")
    }

    /// Calls a tool and returns the text, summary and structured output, or the error.
    pub fn call<T: Tool>(&self, input: Value) -> String {
        self.call_in::<T>(&self.cx(), input)
    }

    /// The same in a read-only workspace.
    pub fn read_only<T: Tool>(&self, input: Value) -> String {
        let cx = Context::test().with_root(self.dir.path().to_str().unwrap(), "ro");
        self.call_in::<T>(&cx, input)
    }

    /// Calls a tool with each of its examples; all must succeed.
    pub fn run_examples<T: Tool>(&self) {
        for example in T::descriptor().examples {
            let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
            let outcome = testing::call::<T>(&self.cx(), input);
            assert!(outcome.is_ok(), "{}: {outcome:?}", example.description);
        }
    }

    fn call_in<T: Tool>(&self, cx: &Context, input: Value) -> String {
        let answer = match testing::call::<T>(cx, input) {
            Ok(outcome) => show(outcome),
            Err(error) => testing::error_line(&error),
        };
        self.normalize(&answer)
    }
}

fn show(outcome: Outcome) -> String {
    let mut lines: Vec<String> = outcome.llm.iter().map(part).collect();
    lines.extend(
        outcome
            .error
            .map(|error| format!("error: {}", testing::error_line(&error))),
    );
    lines.extend(outcome.summary.map(|summary| format!("summary: {summary}")));
    lines.extend(
        outcome
            .display
            .and_then(|display| Some(format!("display:\n{}", display.diff?.diff))),
    );
    if let Some(mut data) = outcome.structured {
        mask_volatile(&mut data);
        lines.push(data.to_string());
    }
    lines.join("\n")
}

fn part(part: &Part) -> String {
    match (&part.text, &part.data) {
        (Some(text), _) => text.clone(),
        (None, Some(data)) => {
            let name = part.name.as_deref().unwrap_or_default();
            format!(
                "[{} {} {name} {} bytes]",
                part.kind,
                part.media_type.as_deref().unwrap_or_default(),
                data.len()
            )
        }
        (None, None) => String::new(),
    }
}

/// Replaces times and hashes, which vary between runs.
fn mask_volatile(data: &mut Value) {
    match data {
        Value::Object(members) => {
            for (name, value) in members {
                match name.as_str() {
                    "mtime_ms" | "modified" | "created" | "accessed" if !value.is_boolean() => {
                        *value = "<time>".into();
                    }
                    "sha256" => *value = "<hash>".into(),
                    _ => mask_volatile(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask_volatile),
        _ => {}
    }
}
