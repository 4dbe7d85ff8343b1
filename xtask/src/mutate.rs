//! `cargo xtask mutate [R-nnn …]`: break the implementation of each requirement and see that its test fails.
//!
//! The mutations of tests/requirements.toml are applied to a copy, a git worktree in the target directory; the checkout
//! is not changed. Mutations that are expressions or statements are compiled together, and a variable of the
//! environment selects one at run time. Each test has to pass without a mutation and to fail with its own. A test of the
//! package `e2e` starts a program `host` with the mutations, and components of the checkout, which have none.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::components;
use crate::job::Job;
use crate::requirements::table::{Mutation, MutationKind, Number, TABLE, Table, TestPath};
use crate::shell;

/// Selects the mutation in a test program, by number.
const VARIABLE: &str = "TOOLHOST_MUTANT";
/// The package of which the tests start `host`.
const END_TO_END: &str = "e2e";
/// A mutation can cause an endless loop.
const LIMIT: Duration = Duration::from_mins(3);

struct Case {
    number: Number,
    test: TestPath,
    mutation: Mutation,
}

/// The package and target that contain a test, as arguments for cargo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TestTarget {
    /// The directory of the package, relative to the workspace.
    directory: String,
    package: String,
    /// `--lib`, `--bin=NAME` or `--test=NAME`.
    target: String,
}

#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Passed,
    Failed,
    Aborted,
    TimedOut,
}

pub fn run(job: &Job) -> Result<()> {
    let cases = selected(Table::read(&job.root)?, &job.rest)?;
    let scratch = Scratch::create(job)?;
    let (together, alone): (Vec<Case>, Vec<Case>) = cases
        .into_iter()
        .partition(|case| case.mutation.kind == MutationKind::Switched);
    for file in scratch.apply(&together)? {
        shell::note(&format!("mutated {file}"));
    }
    let mut by_target = BTreeMap::<TestTarget, Vec<&Case>>::new();
    for case in &together {
        let target = TestTarget::of(&scratch.root, &case.test)?;
        by_target.entry(target).or_default().push(case);
    }
    println!("| requirement | changed file | test | result |\n|---|---|---|---|");
    let mut problems = Vec::new();
    for (target, cases) in by_target {
        match scratch.build(job, &target) {
            Ok(program) => problems.extend(
                cases
                    .into_iter()
                    .filter_map(|case| program.check(case).err()),
            ),
            Err(error) => problems.push(error),
        }
    }
    for case in alone {
        problems.extend(scratch.check_alone(job, &case).err());
    }
    scratch.reset()?;
    if !problems.is_empty() {
        let problems: Vec<String> = problems
            .iter()
            .map(|problem| format!("{problem:#}"))
            .collect();
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

impl Case {
    /// Prints the result as a row of a table. Fails if the test passes.
    fn report(&self, ending: &Ending) -> Result<()> {
        let result = match ending {
            Ending::Passed => "**passed**",
            Ending::Failed => "failed",
            Ending::Aborted => "aborted",
            Ending::TimedOut => "timed out",
        };
        println!(
            "| {} | `{}` | `{}` | {result} |",
            self.number, self.mutation.file, self.test.name
        );
        if *ending == Ending::Passed {
            bail!(
                "{}: `{}` passes although the implementation is broken",
                self.number,
                self.test
            );
        }
        Ok(())
    }
}

/// All mutations, or those of the numbers in the arguments.
fn selected(table: Table, arguments: &[std::ffi::OsString]) -> Result<Vec<Case>> {
    let numbers = arguments
        .iter()
        .map(|argument| argument.to_string_lossy().parse())
        .collect::<Result<Vec<Number>>>()?;
    if let Some(number) = numbers.iter().find(|number| {
        let claim = table.claims.get(number);
        claim.is_none_or(|claim| claim.mutation.is_none())
    }) {
        bail!("{number} has no mutation in {TABLE}");
    }
    let chosen = |number: &Number| numbers.is_empty() || numbers.contains(number);
    let claims = table
        .claims
        .into_iter()
        .filter(|(number, _)| chosen(number));
    Ok(claims
        .filter_map(|(number, claim)| {
            Some(Case {
                number,
                test: claim.tests.into_iter().next()?,
                mutation: claim.mutation?,
            })
        })
        .collect())
}

/// A worktree of the state of the checkout, without files that git does not know.
struct Scratch {
    root: PathBuf,
    commit: String,
}

impl Scratch {
    fn create(job: &Job) -> Result<Self> {
        let root = job.target.join("mutants");
        let git = |arguments: &[&str]| {
            let mut git = Command::new("git");
            git.args(arguments).current_dir(&job.root);
            git
        };
        // A commit of uncommitted changes, made with a copy of the index.
        let index = job.target.join("mutants.index");
        let own = shell::capture(&mut git(&["rev-parse", "--git-path", "index"]))?;
        fs::copy(job.root.join(own.trim()), &index).context("copy the index of git")?;
        let with_copy =
            |arguments: &[&str]| shell::capture(git(arguments).env("GIT_INDEX_FILE", &index));
        with_copy(&["add", "--update"])?;
        let tree = with_copy(&["write-tree"])?;
        let tree = ["commit-tree", "-p", "HEAD", "-m", "mutants", tree.trim()];
        let commit = with_copy(&tree)?;
        let copy = Self {
            root,
            commit: commit.trim().to_owned(),
        };
        if copy.root.join(".git").exists() {
            copy.reset()?;
        } else {
            shell::run(
                git(&["worktree", "add", "--quiet", "--detach", "--force"])
                    .arg(&copy.root)
                    .arg(&copy.commit),
            )?;
        }
        Ok(copy)
    }

    fn reset(&self) -> Result<()> {
        shell::run(
            Command::new("git")
                .args(["checkout", "--quiet", "--force", "--detach", &self.commit])
                .current_dir(&self.root),
        )
    }

    /// Writes all switched mutations into the sources and returns the changed files.
    fn apply(&self, cases: &[Case]) -> Result<Vec<String>> {
        let mut by_file = BTreeMap::<&str, Vec<&Case>>::new();
        for case in cases {
            case.mutation
                .read_source(&self.root)
                .with_context(|| case.number.to_string())?;
            by_file.entry(&case.mutation.file).or_default().push(case);
        }
        for (file, cases) in &by_file {
            let path = self.root.join(file);
            let text = fs::read_to_string(&path)?;
            let text = switched(&text, cases).with_context(|| format!("mutate {file}"))?;
            fs::write(path, text)?;
        }
        Ok(by_file.into_keys().map(str::to_owned).collect())
    }

    fn check_alone(&self, job: &Job, case: &Case) -> Result<()> {
        self.reset()?;
        let target = TestTarget::of(&self.root, &case.test)?;
        self.build(job, &target)?.check_unchanged(case)?;
        let text = case.mutation.read_source(&self.root)?;
        let text = text.replacen(&case.mutation.find, &case.mutation.replace, 1);
        fs::write(self.root.join(&case.mutation.file), text)?;
        let program = self.build(job, &target)?;
        case.report(&program.test(&program.full_name(&case.test)?, None)?)
    }

    fn build(&self, job: &Job, target: &TestTarget) -> Result<Program> {
        let arguments = ["--no-run", "--package", &target.package, &target.target];
        let mut program = Program::new(
            self.executable(job, "test", &arguments)?,
            self.root.join(&target.directory),
        )?;
        if target.package == END_TO_END {
            self.copy_components(job)?;
            // The next build of the checkout replaces it in the target directory.
            let host = ["--package", "toolhost-cli", "--bin", "host"];
            program.environment = vec![
                ("TOOLHOST_BIN", self.executable(job, "build", &host)?),
                ("TOOLHOST_TEST_TARGET", job.target.clone()),
            ];
        }
        Ok(program)
    }

    fn executable(&self, job: &Job, verb: &str, arguments: &[&str]) -> Result<PathBuf> {
        let messages = shell::capture(
            job.cargo(verb)
                .current_dir(&self.root)
                .arg("--message-format=json-render-diagnostics")
                .args(arguments),
        )?;
        // Cargo also names the programs that a test starts.
        let profile = if verb == "test" {
            r#""test":true},"features""#
        } else {
            r#""test":false},"features""#
        };
        messages
            .lines()
            .rev()
            .filter(|line| line.contains(profile))
            .find_map(|line| line.split_once("\"executable\":\"")?.1.split('"').next())
            .map(PathBuf::from)
            .with_context(|| format!("cargo built no program with {arguments:?}"))
    }

    /// Copies the plugins of the checkout, which git does not know.
    fn copy_components(&self, job: &Job) -> Result<()> {
        if !job.target.join("guests").is_dir() {
            bail!("the target directory has no guests: run `cargo xtask test` before this");
        }
        for name in components::plugins(job)? {
            let file = format!("plugins/{name}.wasm");
            fs::copy(job.root.join(&file), self.root.join(&file))
                .with_context(|| format!("copy {file}"))?;
        }
        Ok(())
    }
}

/// The source with each `find` replaced by a choice between it and its replacement.
fn switched(text: &str, cases: &[&Case]) -> Result<String> {
    let mut by_find = BTreeMap::<usize, Vec<&Case>>::new();
    for case in cases {
        let at = text
            .find(&case.mutation.find)
            .with_context(|| case.number.to_string())?;
        by_find.entry(at).or_default().push(case);
    }
    let mut result = String::new();
    let mut end = 0;
    for (at, cases) in by_find {
        let find = &cases[0].mutation.find;
        let different = cases.iter().any(|case| case.mutation.find != *find);
        if at < end || different {
            bail!(
                "{}: its `find` overlaps another one: give both the same `find`",
                cases[0].number
            );
        }
        result.push_str(&text[end..at]);
        let mut choice = String::new();
        for case in &cases {
            let _ = write!(
                choice,
                "if ::std::env::var_os({VARIABLE:?}).is_some_and(|name| name == \"{}\") {{ {} }} else ",
                case.number, case.mutation.replace
            );
        }
        let choice = format!("{choice}{{ {find} }}");
        if find.ends_with(';') {
            result.push_str(&choice);
        } else {
            let _ = write!(result, "({choice})");
        }
        end = at + find.len();
    }
    result.push_str(&text[end..]);
    Ok(result)
}

impl TestTarget {
    fn of(root: &Path, test: &TestPath) -> Result<Self> {
        let (directory, rest) = ["src/", "tests/"]
            .iter()
            .flat_map(|folder| test.file.match_indices(folder))
            .map(|(at, _)| (test.file[..at].trim_end_matches('/'), &test.file[at..]))
            // The workspace itself is no package.
            .find(|(directory, _)| {
                !directory.is_empty() && root.join(directory).join("Cargo.toml").is_file()
            })
            .with_context(|| format!("{test} is in no package"))?;
        let manifest = fs::read_to_string(root.join(directory).join("Cargo.toml"))?;
        let manifest: toml::Table = manifest
            .parse()
            .with_context(|| format!("read the manifest in {directory}"))?;
        let package = manifest
            .get("package")
            .and_then(|package| package.get("name")?.as_str())
            .with_context(|| format!("the package in {directory} has no name"))?;
        let bin = || {
            let bins = manifest.get("bin")?.as_array()?;
            bins.first()?.get("name")?.as_str()
        };
        let target = match rest.strip_prefix("tests/") {
            Some(file) => {
                let name = file.split(['/', '.']).next().unwrap_or_default();
                format!("--test={name}")
            }
            None if root.join(directory).join("src/lib.rs").is_file() => "--lib".to_owned(),
            None => format!("--bin={}", bin().unwrap_or(package)),
        };
        Ok(Self {
            directory: directory.to_owned(),
            package: package.to_owned(),
            target,
        })
    }
}

/// A compiled test program.
struct Program {
    path: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
    tests: Vec<String>,
    /// Variables of the environment, with paths.
    environment: Vec<(&'static str, PathBuf)>,
}

impl Program {
    fn new(path: PathBuf, directory: PathBuf) -> Result<Self> {
        let list = shell::capture(
            Command::new(&path)
                .args(["--list", "--format=terse"])
                .current_dir(&directory),
        )?;
        let tests = list
            .lines()
            .filter_map(|line| line.strip_suffix(": test"))
            .map(str::to_owned)
            .collect();
        Ok(Self {
            path,
            directory,
            tests,
            environment: Vec::new(),
        })
    }

    /// The name of a test with its modules: of several tests with one name, the one whose modules are in its path.
    fn full_name(&self, test: &TestPath) -> Result<String> {
        let same_name = |full: &&String| full.rsplit("::").next() == Some(&test.name);
        let found: Vec<&String> = self.tests.iter().filter(same_name).collect();
        let modules = test.file.trim_end_matches(".rs").replace('/', "::");
        let score = |full: &String| {
            let own = full.strip_suffix(&test.name).unwrap_or(full);
            let own = own.trim_end_matches("::");
            let inline = own.strip_suffix("::tests").unwrap_or(own);
            modules.ends_with(own) || modules.ends_with(inline)
        };
        match found[..] {
            [full] => Ok(full.clone()),
            _ => found
                .into_iter()
                .filter(|full| score(full))
                .max_by_key(|full| full.len())
                .cloned()
                .with_context(|| format!("{} has no test `{test}`", self.path.display())),
        }
    }

    /// Runs the test of a case without and with its mutation.
    fn check(&self, case: &Case) -> Result<()> {
        self.check_unchanged(case)?;
        let test = self.full_name(&case.test)?;
        case.report(&self.test(&test, Some(case.number))?)
    }

    fn check_unchanged(&self, case: &Case) -> Result<()> {
        if self.test(&self.full_name(&case.test)?, None)? == Ending::Passed {
            return Ok(());
        }
        bail!(
            "{}: `{}` does not pass without its mutation",
            case.number,
            case.test
        );
    }

    fn test(&self, name: &str, mutation: Option<Number>) -> Result<Ending> {
        let mut command = Command::new(&self.path);
        command
            .args(["--exact", name])
            .current_dir(&self.directory)
            .env("CARGO_MANIFEST_DIR", &self.directory)
            .env("BOLERO_RANDOM_ITERATIONS", "0")
            .env_remove(VARIABLE)
            .envs(self.environment.iter().map(|(name, path)| (*name, path)))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if let Some(number) = mutation {
            command.env(VARIABLE, number.to_string());
        }
        // A file instead of a pipe, which would have to be drained while waiting.
        let mut output = tempfile::NamedTempFile::new().context("make a temporary file")?;
        command.stdout(output.reopen()?);
        let Some(status) = shell::wait_within(LIMIT, &mut command)? else {
            return Ok(Ending::TimedOut);
        };
        let mut text = Vec::new();
        std::io::Read::read_to_end(output.as_file_mut(), &mut text)?;
        let text = String::from_utf8_lossy(&text);
        Ok(ending(status.success(), &text, name))
    }
}

/// How the one test of a run ended.
fn ending(success: bool, output: &str, name: &str) -> Ending {
    if success && output.contains("test result: ok. 1 passed") {
        Ending::Passed
    } else if output.contains(&format!("\n    {name}\n")) && output.contains("1 failed") {
        Ending::Failed
    } else {
        Ending::Aborted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(number: u16, find: &str, replace: &str) -> Case {
        Case {
            number: Number(number),
            test: TestPath::new("a/src/lib.rs", "t"),
            mutation: Mutation {
                file: "a/src/lib.rs".into(),
                find: find.into(),
                replace: replace.into(),
                kind: MutationKind::Switched,
            },
        }
    }

    #[test]
    fn a_switch_keeps_the_original_and_nests_changes_of_one_place() {
        let cases = [
            case(1, "a + b", "a"),
            case(2, "a + b", "b"),
            case(3, "f();", ""),
        ];
        let cases: Vec<&Case> = cases.iter().collect();
        let condition = |number: u16| {
            format!(
                "if ::std::env::var_os(\"TOOLHOST_MUTANT\").is_some_and(|name| name == \"R-{number:03}\")"
            )
        };
        assert_eq!(
            switched("let x = a + b; f(); x", &cases).unwrap(),
            format!(
                "let x = ({} {{ a }} else {} {{ b }} else {{ a + b }}); {} {{  }} else {{ f(); }} x",
                condition(1),
                condition(2),
                condition(3)
            )
        );
        let overlap = [case(1, "a + b", "a"), case(2, "b; f();", "")];
        let overlap: Vec<&Case> = overlap.iter().collect();
        let error = switched("let x = a + b; f(); x", &overlap).unwrap_err();
        assert_eq!(
            error.to_string(),
            "R-002: its `find` overlaps another one: give both the same `find`"
        );
    }

    #[test]
    fn only_a_failure_of_the_named_test_is_a_failure() {
        for (success, output, expected) in [
            (
                true,
                "\ntest result: ok. 1 passed; 0 failed;",
                Ending::Passed,
            ),
            (
                true,
                "\ntest result: ok. 0 passed; 0 failed;",
                Ending::Aborted,
            ),
            (
                false,
                "\nfailures:\n    a::t\n\ntest result: FAILED. 0 passed; 1 failed;",
                Ending::Failed,
            ),
            (false, "\nrunning 1 test\n", Ending::Aborted),
        ] {
            assert_eq!(ending(success, output, "a::t"), expected, "{output}");
        }
    }

    #[test]
    fn arguments_select_mutations() {
        let table = "[R-001]\ntests = [\"a/src/lib.rs::t\"]\n[R-002]\ntests = [\"a/src/lib.rs::t\"]\n\
                     file = \"a\"\nfind = \"x\"\nreplace = \"y\"\n";
        let select = |arguments: &[&str]| {
            let arguments: Vec<_> = arguments.iter().map(Into::into).collect();
            selected(Table::parse(table).unwrap(), &arguments)
                .map(|cases| cases.iter().map(|case| case.number).collect::<Vec<_>>())
                .map_err(|error| error.to_string())
        };
        assert_eq!(select(&[]), Ok(vec![Number(2)]));
        assert_eq!(select(&["R-002"]), Ok(vec![Number(2)]));
        assert_eq!(
            select(&["R-001"]),
            Err("R-001 has no mutation in tests/requirements.toml".into())
        );
        assert_eq!(
            select(&["all"]),
            Err("`all` is not `R-` and three digits".into())
        );
    }
}
