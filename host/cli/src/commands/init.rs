//! `host init`: grants the current directory what three answers say, in a table of the user's configuration file, so that
//! `host run` needs no flags there.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum, ValueHint};
use toml_edit::{Array, DocumentMut, Item, Table, value};
use toolhost::Mode;
use toolhost::grants::ScopeOpener;
use toolhost_contract::text;
use toolhost_net::HostRule;

use crate::config::{EditedFile, PathEntry};
use crate::exit::{CliError, Exit, OrExit, current_directory};
use crate::settings::CliSettings;
use crate::shell_words::split_command;
use crate::terminal::prompter::{TypedLine, ask_line};
use crate::terminal::{note, print};

pub const HELP: &str = "\
Examples:
  host init                                  ask three questions
  host init --allow-path .:rw --changes ask  ask nothing

The answers become the table [project.\"DIR\"] of your configuration file, which `host run` and the
other commands use when they are started in DIR or below it. Nothing is written into DIR, because
the files of a project cannot grant anything.";

const PATHS_QUESTION: &str = "\
1/3 Which directories may tools read? DIR, or DIR:rw to let them write too; . is this directory.";
const HOSTS_QUESTION: &str = "\
2/3 Which network hosts may tools contact? For example docs.rs *.example.org, or none.";
const CHANGES_QUESTION: &str = "\
3/3 Apply changes of files after asking you (ask), or without asking (allow)?";

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory or file for tools, as `:ro` (the default) or `:rw`; repeatable; required without a terminal
    #[arg(long, value_name = "PATH[:ro|rw]", value_hint = ValueHint::AnyPath)]
    pub allow_path: Vec<PathEntry>,

    /// Network host for tools; repeatable [default without a terminal: none]
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<HostText>,

    /// Whether tools change files after asking or without [default without a terminal: ask]
    #[arg(long, value_name = "HOW")]
    pub changes: Option<Changes>,

    /// Directory of plugins, or plugin file, instead of the installed ones; repeatable
    #[arg(long, value_name = "DIR", value_hint = ValueHint::AnyPath)]
    pub plugins: Vec<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Changes {
    Ask,
    Allow,
}

/// A rule for hosts that was checked.
#[derive(Debug, Clone)]
pub struct HostText(String);

impl std::str::FromStr for HostText {
    type Err = String;

    fn from_str(host: &str) -> Result<Self, String> {
        HostRule::parse(host).map_err(|error| error.to_string())?;
        Ok(Self(host.to_owned()))
    }
}

struct Answers {
    paths: Vec<PathEntry>,
    hosts: Vec<HostText>,
    changes: Changes,
}

pub fn init(args: &InitArgs) -> Result<Exit, CliError> {
    let directory = current_directory()?;
    let Some(name) = directory.to_str() else {
        let shown = text::escape_line(&directory.to_string_lossy(), 4_096);
        let message = format!("{shown}: the name is not UTF-8; rename the directory");
        return Err(CliError::new(Exit::Usage, message));
    };
    let open = || {
        let file = EditedFile::open(None)?;
        refuse_existing(&file.document, name, file.path()).map(|()| file)
    };
    // Not locked while the user is asked.
    drop(open()?);
    let answers = Answers::collect(args)?;
    let plugins = plugin_names(&args.plugins, &directory)?;
    let mut file = open()?;
    let shown = add(&mut file.document, name, &answers, plugins).or_exit(Exit::Config)?;
    check(file.path(), &file.document.to_string()).inspect_err(|_| {
        note(&format!(
            "{} was not changed. Your answers:\n\n{shown}",
            file.path().display()
        ));
    })?;
    file.write()?;
    print(&format!(
        "added to {}:\n\n{shown}\nStart the host here with `{} run`.",
        file.path().display(),
        started_as()
    ))
    .or_exit(Exit::Internal)?;
    Ok(Exit::Ok)
}

/// The name of the command: packages of systems install it as `toolhost`.
fn started_as() -> String {
    let program = std::env::args_os().next().map(PathBuf::from);
    let name = program.as_deref().and_then(Path::file_name);
    let name = name.map(|name| text::escape_line(&name.to_string_lossy(), 100));
    name.unwrap_or_else(|| "host".to_owned())
}

fn refuse_existing(document: &DocumentMut, name: &str, file: &Path) -> Result<(), CliError> {
    let projects = document.get("project").and_then(Item::as_table_like);
    if projects.is_some_and(|projects| projects.contains_key(name)) {
        let message = format!(
            "{} has a table [project.\"{name}\"] already; change it there",
            file.display()
        );
        return Err(CliError::new(Exit::Usage, message));
    }
    Ok(())
}

impl Answers {
    /// The answers of the flags, and at a terminal those of the user to the other questions.
    fn collect(args: &InitArgs) -> Result<Self, CliError> {
        let mut answers = Self {
            paths: args.allow_path.clone(),
            hosts: args.allow_host.clone(),
            changes: args.changes.unwrap_or(Changes::Ask),
        };
        if answers.paths.is_empty() {
            let Some(paths) = ask(PATHS_QUESTION, parse_paths)? else {
                let message = "no terminal to ask at; pass --allow-path DIR, and optionally --allow-host HOST and \
                               --changes allow";
                return Err(CliError::new(Exit::Usage, message));
            };
            answers.paths = paths;
        }
        if answers.hosts.is_empty() {
            answers.hosts = ask(HOSTS_QUESTION, parse_hosts)?.unwrap_or_default();
        }
        if args.changes.is_none() {
            answers.changes = ask(CHANGES_QUESTION, parse_changes)?.unwrap_or(Changes::Ask);
        }
        Ok(answers)
    }
}

/// Asks until the answer is valid. Returns `None` without a terminal.
fn ask<T>(
    question: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, CliError> {
    loop {
        let line = match ask_line(&format!("{question}\nanswer:")) {
            TypedLine::Line(line) => line,
            TypedLine::Ended => return Err(CliError::new(Exit::Denied, "nothing was written")),
            TypedLine::NoTerminal => return Ok(None),
        };
        match parse(&line) {
            Ok(answer) => return Ok(Some(answer)),
            Err(reason) => note(&text::escape_lines(&reason, 2_000)),
        }
    }
}

fn parse_paths(line: &str) -> Result<Vec<PathEntry>, String> {
    let words = split_command(line).map_err(|_| "name at least one directory, such as .")?;
    let entry = |word: &String| {
        let entry: PathEntry = word.parse()?;
        // Names with variables are checked with the whole file.
        let is_plain = !entry.path.starts_with('~') && !entry.path.contains('$');
        if is_plain && !Path::new(&entry.path).exists() {
            return Err(format!("`{}` does not exist", entry.path));
        }
        Ok(entry)
    };
    words.iter().map(entry).collect()
}

fn parse_hosts(line: &str) -> Result<Vec<HostText>, String> {
    match line.trim() {
        "" | "none" => Ok(Vec::new()),
        hosts => hosts.split_whitespace().map(str::parse).collect(),
    }
}

fn parse_changes(line: &str) -> Result<Changes, String> {
    Changes::from_str(line.trim(), true).map_err(|_| "answer ask or allow".to_owned())
}

/// Absolute paths, which stay valid in another working directory.
fn plugin_names(plugins: &[PathBuf], directory: &Path) -> Result<Vec<String>, CliError> {
    let name = |path: &PathBuf| {
        // Without `.`, as in `./plugins`.
        let path: PathBuf = directory.join(path).components().collect();
        let name = path.to_str().map(str::to_owned);
        name.ok_or_else(|| CliError::new(Exit::Usage, "the name of --plugins is not UTF-8"))
    };
    plugins.iter().map(name).collect()
}

/// Adds the table of the directory and returns its text.
fn add(
    document: &mut DocumentMut,
    name: &str,
    answers: &Answers,
    plugins: Vec<String>,
) -> anyhow::Result<String> {
    let mut table = Table::new();
    let lists = [
        ("plugins", plugins),
        (
            "allowed_paths",
            strings(&answers.paths, |entry| {
                format!("{}:{}", entry.path, entry.access.as_str())
            }),
        ),
        ("allowed_hosts", strings(&answers.hosts, |host| &host.0)),
    ];
    for (key, list) in lists {
        if !list.is_empty() {
            table[key] = value(Array::from_iter(list));
        }
    }
    let mode = match answers.changes {
        Changes::Ask => Mode::Default,
        Changes::Allow => Mode::AcceptEdits,
    };
    table["mode"] = value(mode.as_str());
    let mut shown = DocumentMut::new();
    for document in [&mut shown, document] {
        let projects = document.entry("project").or_insert_with(|| {
            let mut projects = Table::new();
            projects.set_implicit(true);
            Item::Table(projects)
        });
        let projects = projects.as_table_like_mut();
        let projects =
            projects.ok_or_else(|| anyhow::anyhow!("`project` is not a table; correct it"))?;
        projects.insert(name, Item::Table(table.clone()));
    }
    Ok(shown.to_string())
}

fn strings<'a, T, S: Display + 'a>(items: &'a [T], text: impl Fn(&'a T) -> S) -> Vec<String> {
    items.iter().map(|item| text(item).to_string()).collect()
}

/// Refuses what the host would refuse when it is started here, before anything is written.
fn check(file: &Path, after: &str) -> Result<(), CliError> {
    let settings = CliSettings::of_text(file, after)?;
    ScopeOpener::new(&settings.core).or_exit(Exit::Config)?;
    if settings.core.plugins.is_empty() && !settings.has_servers() {
        let message = "no plugins were installed with this program; pass --plugins DIR";
        return Err(CliError::new(Exit::Usage, message));
    }
    if let Some(missing) = settings.core.plugins.iter().find(|path| !path.exists()) {
        let message = format!("plugins: {} does not exist", missing.display());
        return Err(CliError::new(Exit::Config, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn answers(paths: &[&str], hosts: &str, changes: Changes) -> Answers {
        Answers {
            paths: paths.iter().map(|path| path.parse().unwrap()).collect(),
            hosts: parse_hosts(hosts).unwrap(),
            changes,
        }
    }

    fn check(before: &str, name: &str, answers: &Answers, expected: Expect) {
        let mut document: DocumentMut = before.parse().unwrap();
        add(&mut document, name, answers, Vec::new()).unwrap();
        let after = document.to_string();
        let config =
            crate::config::parse(Path::new("t.toml"), crate::config::FileFormat::Toml, &after);
        assert!(config.unwrap().project.contains_key(name), "{after}");
        assert!(refuse_existing(&document, name, Path::new("t.toml")).is_err());
        expected.assert_eq(&after);
    }

    #[test]
    fn a_table_is_added_and_the_rest_is_kept() {
        let read_only = answers(&["."], "none", Changes::Ask);
        check(
            "# mine\nplugins = [\"p\"] # here\n",
            "/home/me/app",
            &read_only,
            expect![[r#"
                # mine
                plugins = ["p"] # here

                [project."/home/me/app"]
                allowed_paths = [".:ro"]
                mode = "default"
            "#]],
        );
        let wide = answers(&["a b:rw", "c:ro"], "docs.rs *.example.org", Changes::Allow);
        check(
            "[project.\"/a\"]\nmode = \"plan\" # old\n",
            "/quote\"\\\n",
            &wide,
            expect![[r#"
                [project."/a"]
                mode = "plan" # old

                [project."/quote\"\\\n"]
                allowed_paths = ["a b:rw", "c:ro"]
                allowed_hosts = ["docs.rs", "*.example.org"]
                mode = "accept_edits"
            "#]],
        );
    }

    #[test]
    fn answers_are_checked() {
        let paths = |line| parse_paths(line).map(|paths| paths.len());
        assert_eq!(paths(". /:rw '.'"), Ok(3));
        assert_eq!(
            paths("/no/such"),
            Err("`/no/such` does not exist".to_owned())
        );
        assert!(paths(" ").is_err());
        assert!(parse_hosts("https://").is_err());
        assert!(parse_hosts("").unwrap().is_empty());
        assert_eq!(parse_changes(" ALLOW "), Ok(Changes::Allow));
        assert_eq!(parse_changes("yes"), Err("answer ask or allow".to_owned()));
    }
}
