//! Console examples of the documents: commands that start `host` are run as a user would type them, and their output
//! is compared.
//!
//! A line `...` stands for any number of lines, and `...` in a line for any text. Ids and hashes stand for those of the
//! run, in later commands too; times and durations are compared by their form. A command without output in the document
//! has to succeed. Text after a prompt is typed. Examples that cannot be run are blocks of `text`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use e2e::terminal::Terminal;
use e2e::{host, root, target};
use regex::Regex;
use tempfile::TempDir;

/// Where the home directory is in the documents.
const HOME: &str = "/home/me";
/// So that the test fails when examples become blocks of `text`.
const MIN_COMMANDS: usize = 30;
const PROMPTS: [&str; 2] = ["answer:", "[y/N]"];

/// What has to exist before an example: the page, a command, and a script that runs before it.
const PREPARATIONS: &[(&str, &str, &str)] = &[
    (
        "docs/audit.md",
        "host calls --since 1h",
        "host call write_file path=old.txt content=old --plugins ./plugins --allow-path .:rw --allow-tool write_file",
    ),
    (
        "docs/audit.md",
        "host calls --state awaiting_approval",
        r#"printf '[policy]\non_headless_ask = "callback"\n' > callback.toml
        for file in a b; do
            timeout 120 host call write_file path=$file.txt content=x --plugins ./plugins --allow-path .:rw \
                --config callback.toml > $file.out 2>&1 &
            until [ "$(host calls --state awaiting_approval --json | grep -c '"id"')" = "$(ls *.out | wc -l)" ]; do
                :
            done
        done"#,
    ),
    (
        "docs/batch.md",
        "host batch calls.json --plugins ./plugins --allow-path . > results.json",
        r#"echo '[{"id": "toolu_1", "name": "read_file", "input": {"path": "README.md"}},
            {"id": "toolu_2", "name": "grep", "input": {"pattern": "TODO"}}]' > calls.json; touch README.md"#,
    ),
    (
        "docs/components.md",
        "host tools --plugins ./notes.wasm",
        r#"cp "$GUESTS/plain_functions.wasm" notes.wasm"#,
    ),
    (
        "docs/components.md",
        "host pack notes.wasm --manifest notes.plugin.toml --output packed.wasm",
        r#"printf 'name = "notes"\nversion = "1.0.0"\ndescription = "Notes in files"\n' > notes.plugin.toml"#,
    ),
    (
        "docs/formats.md",
        "host tools --format anthropic --plugins ./plugins --allow-path . > tools.json",
        r#"echo '{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read_file",
            "input": {"path": "a.txt"}}]}' > message.json; echo a > a.txt"#,
    ),
    (
        "docs/mcp-servers.md",
        "host mcp list",
        r#"mkdir -p ~/.config/toolhost; echo 'mcp_servers.memory = { command = "npx" }' > ~/.config/toolhost/toolhost.toml"#,
    ),
    (
        "docs/permissions.md",
        "host policy explain read_file path=.ssh/id --config toolhost.toml --plugins ./plugins --allow-path .",
        r#"printf '[policy]\ndeny = ["Read(.ssh/**)"]\n' > toolhost.toml"#,
    ),
    (
        "docs/prompts.md",
        "host call write_file path=notes/a.txt content=one --plugins ./plugins --allow-path .:rw",
        "mkdir notes",
    ),
    (
        "docs/signatures.md",
        "host key new ann > ann.pub",
        r#"cp "$GUESTS/plain_functions.wasm" notes.wasm"#,
    ),
    (
        "docs/staged-writes.md",
        "host call rewrite from=old to=new --plugins ./rewrite.wasm --allow-path ws:rw",
        r#"mkdir -p ws/deep
        printf 'the old way\n' > ws/a.txt
        printf 'old and old\nlast line\n' > ws/deep/b.txt
        printf '# old\n\nSee the old page.\n' > ws/deep/c.md
        printf '[[needs]]\ncapability = "%s"\nwhy = "an example"\n' fs.read fs.write > needs.toml
        printf 'name = "rewrite"\nversion = "0.1.0"\ndescription = "An example"\n' | cat - needs.toml > plugin.toml
        host pack "$GUESTS/rewrite.wasm" --manifest plugin.toml --output rewrite.wasm"#,
    ),
];

#[test]
fn console_examples_show_real_output() {
    let (mut commands, mut others, mut prepared, mut wrong) = (0, 0, 0, String::new());
    for page in pages() {
        let examples = examples(&fs::read_to_string(root().join(&page)).unwrap());
        let (ours, foreign): (Vec<_>, Vec<_>) = examples
            .into_iter()
            .partition(|example| example.command.starts_with("host "));
        others += foreign.len();
        commands += ours.len();
        if ours.is_empty() {
            continue;
        }
        let mut session = Session::new();
        for example in &ours {
            for (of, before, script) in PREPARATIONS {
                if *of == page && *before == example.command {
                    prepared += 1;
                    let (ok, output) = session.run(script);
                    assert!(ok, "{page}: preparing `{before}`: {output}");
                }
            }
            if let Err(problem) = session.check(example) {
                let _ = writeln!(wrong, "{page}:{}: {problem}", example.line);
            }
        }
    }
    assert_eq!(
        prepared,
        PREPARATIONS.len(),
        "an example was changed or removed"
    );
    println!("{commands} commands were run; {others} are commands of other programs");
    assert!(wrong.is_empty(), "{wrong}");
    assert!(commands >= MIN_COMMANDS, "{commands}");
}

#[test]
fn documents_name_existing_commands_and_flags() {
    let mention = Regex::new(r"(?m)(?:`|^\$ )host ([^`|>\n]*)").unwrap();
    let flag = Regex::new("--[a-z][a-z-]+").unwrap();
    let mut helps = BTreeMap::<String, String>::new();
    let (mut count, mut wrong) = (0, String::new());
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).unwrap();
        for found in mention.captures_iter(&text) {
            let (mut command, mut has_flags) = (String::new(), false);
            for word in found[1].split_whitespace().take_while(|word| *word != "--") {
                let help = helps.entry(command.clone()).or_insert_with(|| {
                    let words: Vec<&str> = command.split_whitespace().collect();
                    let output = host(&words).arg("--help").output().unwrap();
                    String::from_utf8(output.stdout).unwrap()
                });
                let exists = if let Some(flag) = flag.find(word) {
                    has_flags = true;
                    help.split(|c: char| c != '-' && !c.is_ascii_lowercase())
                        .any(|word| word == flag.as_str())
                } else if has_flags || !help.contains("Commands:\n") {
                    true
                } else if word.starts_with(|c: char| c.is_ascii_lowercase()) {
                    let _ = write!(command, "{word} ");
                    help.lines()
                        .any(|line| line.starts_with(&format!("  {word} ")))
                } else {
                    // A placeholder such as `COMMAND`.
                    break;
                };
                count += 1;
                if !exists {
                    let _ = writeln!(wrong, "{page}: {}: no {word}", &found[0]);
                    break;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count > 200, "{count}");
}

fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned(), "SECURITY.md".to_owned()];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name
            .rsplit_once('.')
            .is_some_and(|(_, extension)| extension == "md")
        {
            pages.push(format!("docs/{name}"));
        }
    }
    pages.sort();
    pages
}

struct Example {
    line: usize,
    command: String,
    output: Vec<String>,
}

/// The commands in the `console` blocks of a page.
fn examples(page: &str) -> Vec<Example> {
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
struct Session {
    home: TempDir,
    /// The ids and hashes of the document with those of this run.
    ids: BTreeMap<String, String>,
}

impl Session {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let project = home.path().join("project");
        fs::create_dir_all(&project).unwrap();
        fs::create_dir(home.path().join("bin")).unwrap();
        symlink(root().join("plugins"), project.join("plugins")).unwrap();
        symlink(host(&[]).get_program(), home.path().join("bin/host")).unwrap();
        let session = Self {
            home,
            ids: BTreeMap::new(),
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
    fn run(&self, script: &str) -> (bool, String) {
        let output = self.command(script).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        (output.status.success(), self.shown(&text))
    }

    /// Types what follows each prompt of the example; one without text is left unanswered.
    fn converse(&self, script: &str, expected: &[String]) -> String {
        let mut terminal = Terminal::start(&self.command(script), "");
        // Questions are not wrapped.
        terminal.resize(100, 250);
        let mut drawn = String::new();
        for line in expected {
            let Some((prompt, typed)) = prompt(line) else {
                continue;
            };
            drawn += &terminal.wait_for(&format!("{prompt} "));
            if typed.is_empty() {
                return self.shown(&drawn.replace('\r', ""));
            }
            terminal.type_keys(&format!("{typed}\n"));
        }
        let (_, screen) = terminal.wait();
        self.shown(&screen.replace('\r', ""))
    }

    fn shown(&self, text: &str) -> String {
        let home = self.home.path().display().to_string();
        let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
        lines.join("\n").replace(&home, HOME)
    }

    fn check(&mut self, example: &Example) -> Result<(), String> {
        let command = ID.replace_all(&example.command, |found: &regex::Captures| {
            self.ids
                .get(&found[0])
                .cloned()
                .unwrap_or_else(|| found[0].to_owned())
        });
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
