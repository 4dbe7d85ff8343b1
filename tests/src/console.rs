//! Console examples of documents: parses them, runs them as a user would type them, and compares their output.
//!
//! A line `...` stands for any number of lines, and `...` in a line for any text. Ids and hashes stand for those of the
//! run, in later commands too; times and durations are compared by their form. A command without output in the document
//! has to succeed. Text after a prompt is typed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use regex::Regex;
use tempfile::TempDir;

use crate::terminal::{Terminal, without_progress};
use crate::{host, root, target};

/// Where the home directory is in the documents.
const HOME: &str = "/home/me";
/// Of the host's command line.
const LINE_PROMPT: &str = "host>";
/// The last two take one key.
const PROMPTS: [&str; 4] = ["answer:", LINE_PROMPT, "[y/N]", "›"];

pub struct Example {
    pub line: usize,
    pub command: String,
    pub output: Vec<String>,
}

/// The commands in the `console` blocks of a page.
pub fn examples(page: &str) -> Vec<Example> {
    let mut examples = Vec::<Example>::new();
    let mut lines = page.lines().enumerate();
    while lines.by_ref().any(|(_, line)| line == "```console") {
        while let Some((at, line)) = lines.next().filter(|(_, line)| *line != "```") {
            let Some(command) = line.strip_prefix("$ ") else {
                let example = examples.last_mut().expect("a block starts with a command");
                example.output.push(line.trim_end().to_owned());
                continue;
            };
            let mut command = command.to_owned();
            while command.ends_with('\\') {
                command.pop();
                command += lines.next().expect("the command goes on").1.trim_start();
            }
            // A comment is for the reader.
            let command = command.split("  # ").next().unwrap_or_default().trim_end();
            examples.push(Example {
                line: at + 1,
                command: command.to_owned(),
                output: Vec::new(),
            });
        }
    }
    examples
}

/// The examples of one page share a home directory and what earlier commands printed.
pub struct Session {
    home: TempDir,
    /// The ids and hashes of the document with those of this run.
    ids: BTreeMap<String, String>,
    /// Text of the document, and what it stands for in this run.
    replacements: Vec<(String, String)>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    pub fn new() -> Self {
        Self::with_replacements(Vec::new())
    }

    pub fn with_replacements(replacements: Vec<(String, String)>) -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        fs::create_dir_all(&project).unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        symlink(root().join("plugins"), project.join("plugins")).unwrap();
        symlink(host(&[]).get_program(), home.path().join("bin/host")).unwrap();
        let session = Self {
            home,
            ids: BTreeMap::new(),
            replacements,
        };
        // So that no example reports that it compiles plugins.
        let (ok, output) = session.run("host plugins --plugins ./plugins");
        assert!(ok, "{output}");
        session
    }

    fn command(&self, script: &str) -> Command {
        let home = self.home.path();
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin",
            home.join("bin").display()
        );
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .env("PATH", path)
            .env("HOME", home)
            .env("NO_COLOR", "1")
            .env("GUESTS", target().join("guests"))
            .env("TOOLHOST_CACHE_DIR", target().join("test-cache"))
            .env_remove("TOOLHOST_STATE_DIR")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_STATE_HOME")
            .current_dir(home.join("project"))
            .stdin(Stdio::null());
        command
    }

    /// Whether it succeeded, and both of its outputs as a terminal shows them.
    pub fn run(&self, script: &str) -> (bool, String) {
        let output = self.command(script).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), self.shown(&text))
    }

    /// Types what follows each prompt of the example; one without text is left unanswered.
    fn converse(&self, script: &str, expected: &[String]) -> String {
        let mut command = self.command(script);
        let is_plain = expected.iter().any(|line| line.starts_with(LINE_PROMPT));
        if is_plain {
            // Without the editing of lines, which draws them several times. Enter ends each answer then.
            command.env("TERM", "dumb");
        }
        // So wide that questions are not wrapped.
        let mut terminal = Terminal::start_with_size(&command, "", (100, 250));
        let mut drawn = String::new();
        for line in expected {
            let Some((prompt, typed)) = prompt(line) else {
                continue;
            };
            drawn += &terminal.wait_for(&format!("{prompt} "));
            if typed.is_empty() {
                return self.shown(&without_progress(&drawn).replace('\r', ""));
            }
            let is_line = is_plain || prompt == "answer:";
            let end = if is_line { "\n" } else { "" };
            terminal.type_keys(&format!("{typed}{end}"));
        }
        let (_, screen) = terminal.wait();
        self.shown(&without_progress(&screen).replace('\r', ""))
    }

    fn shown(&self, text: &str) -> String {
        let home = self.home.path().display().to_string();
        let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        let mut shown = lines.join("\n").replace(&home, HOME);
        for (documented, actual) in &self.replacements {
            shown = shown.replace(actual, documented);
        }
        shown
    }

    /// Runs the command and compares its output.
    pub fn check(&mut self, example: &Example) -> Result<(), String> {
        let command = ID.replace_all(&example.command, |found: &regex::Captures| {
            self.ids
                .get(&found[0])
                .cloned()
                .unwrap_or_else(|| found[0].to_owned())
        });
        let mut command = command.into_owned();
        for (documented, actual) in &self.replacements {
            command = command.replace(documented, actual);
        }
        let is_dialogue = example.output.iter().any(|line| prompt(line).is_some());
        let (ok, output) = if is_dialogue {
            (true, self.converse(&command, &example.output))
        } else {
            self.run(&command)
        };
        if example.output.is_empty() {
            return if ok {
                Ok(())
            } else {
                Err(format!("`{command}` failed: {output}"))
            };
        }
        let (pattern, ids) = pattern(&example.output.join("\n"), &self.ids);
        let Some(found) = Regex::new(&pattern).unwrap().captures(&output) else {
            return Err(format!("`{command}` prints\n{output}"));
        };
        for (id, found) in ids.iter().zip(found.iter().skip(1).flatten()) {
            let known = self
                .ids
                .entry(id.clone())
                .or_insert(found.as_str().to_owned());
            if known != found.as_str() {
                return Err(format!("`{id}` is two ids in\n{output}"));
            }
        }
        Ok(())
    }
}

/// A line with a prompt, and what is typed there.
fn prompt(line: &str) -> Option<(&'static str, &str)> {
    PROMPTS.iter().find_map(|prompt| {
        let (_, typed) = line.split_once(prompt)?;
        Some((*prompt, typed.trim()))
    })
}

const ID_FORM: &str = "[a-z]+-[0-9a-z]{16}|[0-9a-f]{64}";
static ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(&format!(r"\b(?:{ID_FORM})\b")).unwrap());

/// The regular expression of the documented output, with a group for each id that is not known yet.
fn pattern(documented: &str, known: &BTreeMap<String, String>) -> (String, Vec<String>) {
    const TIME_FORM: &str = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ";
    const DURATION_FORM: &str = r"\d+ ?ms";
    static VARIABLE: LazyLock<Regex> = LazyLock::new(|| {
        let all = format!(
            r"(?P<lines>(?m:^\.\.\.(?:\n|\z)))|(?P<rest>\.\.\.)|\b(?:(?P<id>{ID_FORM})|(?P<time>{TIME_FORM})|(?P<duration>{DURATION_FORM}))\b|(?P<gap>\b {{2,}})"
        );
        Regex::new(&all).unwrap()
    });
    let (mut pattern, mut ids, mut end) = ("^".to_owned(), Vec::new(), 0);
    for found in VARIABLE.captures_iter(documented) {
        let whole = found.get(0).unwrap();
        pattern += &regex::escape(&documented[end..whole.start()]);
        end = whole.end();
        let part = match found
            .name("id")
            .map(|id| (id.as_str(), known.get(id.as_str())))
        {
            Some((_, Some(id))) => regex::escape(id),
            Some((id, None)) => {
                ids.push(id.to_owned());
                format!("({ID_FORM})")
            }
            None if found.name("lines").is_some() => "(?s:.*)".to_owned(),
            None if found.name("rest").is_some() => ".*".to_owned(),
            None if found.name("time").is_some() => TIME_FORM.to_owned(),
            None if found.name("duration").is_some() => DURATION_FORM.to_owned(),
            None => " {2,}".to_owned(),
        };
        pattern.push_str(&part);
    }
    pattern += &regex::escape(&documented[end..]);
    (pattern + "$", ids)
}
