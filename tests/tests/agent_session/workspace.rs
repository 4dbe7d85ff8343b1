//! The project that the session works on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

const FILES: [(&str, &str); 10] = [
    (".gitignore", "build/\n"),
    ("README.md", "# Greeter\n\nSays hello.\n"),
    ("build/out.txt", "built: TODO\n"),
    ("check.sh", "echo \"checking\"\necho \"2 passed\"\n"),
    ("config.ini", "[colours]\nbackground = red\n"),
    ("data/old.csv", "name,greeting\nworld,hello\n"),
    ("plan.md", "# Greet in French\n1. Say Bonjour\n"),
    (
        "src/greet.py",
        "def greet(name):\n    return \"Hello, \" + name\n\n\ndef part(name):\n    return \"Goodbye, \" + name\n",
    ),
    (
        "src/main.py",
        "from greet import greet\n\n# TODO: greet whoever the command line names\nprint(greet(\"world\"))\n",
    ),
    (
        "tests/test_greet.py",
        "from greet import greet\n\n\ndef test_greet():\n    assert greet(\"Ada\") == \"Hello, Ada\"\n",
    ),
];

const NOTEBOOK: &str = r##"{
 "cells": [
  {"cell_type": "markdown", "id": "title", "metadata": {}, "source": ["# Greetings"]},
  {"cell_type": "code", "execution_count": 1, "id": "count", "metadata": {},
   "outputs": [{"name": "stdout", "output_type": "stream", "text": ["2\n"]}],
   "source": ["greetings = ['Hello', 'Goodbye']\n", "print(len(greetings))"]}
 ],
 "metadata": {"language_info": {"name": "python"}},
 "nbformat": 4,
 "nbformat_minor": 5
}
"##;

/// Each file is a minute younger than the one before it, for tools that sort by age.
pub fn make(workspace: &Path) {
    let files = FILES.into_iter().chain([("analysis.ipynb", NOTEBOOK)]);
    let times = (0..).map(|minute| SystemTime::UNIX_EPOCH + Duration::from_secs(minute * 60));
    for ((path, content), time) in files.zip(times) {
        let path = workspace.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_modified(time).unwrap();
    }
}

/// Every file with its content, and every folder with none.
pub fn tree(workspace: &Path) -> BTreeMap<String, String> {
    let mut tree = BTreeMap::new();
    into(workspace, "", &mut tree);
    tree
}

fn into(dir: &Path, below: &str, tree: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("{below}{}", path.file_name().unwrap().display());
        if path.is_dir() {
            into(&path, &format!("{name}/"), tree);
            tree.insert(name + "/", String::new());
        } else {
            tree.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// What was added (`+`), removed (`-`) and changed (`~`).
pub fn difference(
    before: &BTreeMap<String, String>,
    after: &BTreeMap<String, String>,
) -> Vec<String> {
    let gone = before
        .keys()
        .filter(|name| !after.contains_key(*name))
        .map(|name| format!("-{name}"));
    let other = after.iter().filter_map(|(name, content)| {
        Some(match before.get(name) {
            None => format!("+{name}"),
            Some(old) if old != content => format!("~{name}"),
            Some(_) => return None,
        })
    });
    gone.chain(other).collect()
}
