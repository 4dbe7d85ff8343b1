//! Small directory trees for tests.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use toolhost_sdk::prelude::*;
use toolhost_sdk::testing;

/// A directory with these files, each an hour older than the previous one.
pub fn tree(files: &[(&str, &str)]) -> TempDir {
    let tree = tempfile::tempdir().unwrap();
    let mut time = SystemTime::UNIX_EPOCH + Duration::from_hours(400_000);
    for (name, content) in files {
        let path = tree.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
        time -= Duration::from_hours(1);
    }
    tree
}

pub fn context(tree: &TempDir) -> Context {
    Context::test().with_root(tree.path(), "ro")
}

/// The result of a call as text; the name of the temporary directory becomes `/tree`.
pub fn answer<T: Tool>(cx: &Context, tree: &Path, input: Value) -> String {
    let text = match testing::call::<T>(cx, input) {
        Ok(outcome) => outcome
            .llm
            .iter()
            .filter_map(|part| part.text.clone())
            .collect(),
        Err(error) => {
            let code = error.code.as_deref().unwrap_or("?");
            let mut lines = vec![format!("{:?} {code}: {error}", error.kind())];
            lines.extend(
                error
                    .recommendations
                    .iter()
                    .map(|advice| format!("-> {advice}")),
            );
            lines.join("\n")
        }
    };
    text.replace(&*tree.to_string_lossy(), "/tree")
}

/// Calls the tool with each of its examples and returns one line per result.
pub fn examples<T: Tool>(cx: &Context) -> String {
    testing::check_examples::<T>().unwrap();
    let mut lines = Vec::new();
    for example in &T::descriptor().examples {
        let input = toolhost_sdk::serde_json::from_str(&example.input).unwrap();
        let outcome = testing::call::<T>(cx, input).unwrap();
        let summary = outcome.summary.unwrap();
        lines.push(format!("{}: {summary}\n", example.description));
    }
    lines.concat()
}

/// The structured output of a call.
pub fn data<T: Tool>(cx: &Context, input: Value) -> String {
    let data = testing::call::<T>(cx, input).unwrap().structured.unwrap();
    toolhost_sdk::serde_json::to_string_pretty(&data).unwrap()
}
