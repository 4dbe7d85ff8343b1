//! Comparison of the numbered requirements in docs/requirements.md with the tests that tests/requirements.toml names.
//!
//! Each requirement has at least one test in the table, or the page states after `**Not met**:` why it has none. Only
//! the table and names such as `r_163_…` claim a requirement; comments do not.

pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use table::{Claim, Number, TABLE, Table, TestPath};

const PAGE: &str = "docs/requirements.md";
/// Marks a requirement that is not met; the reason follows.
const NOT_MET: &str = "**Not met**:";

/// The directories with tests. Tests of this program claim nothing.
const CLAIMING: [&str; 4] = ["host", "plugins", "sdk", "tests"];
pub const FOLDERS: [&str; 5] = ["host", "plugins", "sdk", "tests", "xtask"];

/// Fails if the page, the table and the tests differ. The list has the tests of each requirement.
pub fn run(root: &Path, list: bool) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let page = Page::parse(&page)?;
    let table = Table::read(root)?;
    let mut named = BTreeMap::<Number, Vec<TestPath>>::new();
    for folder in CLAIMING {
        for file in sources(&root.join(folder))? {
            let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy();
            for test in tests_of(&file)? {
                for number in numbers_of(&test) {
                    let test = TestPath::new(&path, &test);
                    named.entry(number).or_default().push(test);
                }
            }
        }
    }
    let mut problems = page.compare(&table);
    problems.extend(
        named
            .keys()
            .filter(|number| !page.defined.contains(number))
            .map(|number| {
                format!("{number}: a test has it in its name, and {PAGE} does not define it")
            }),
    );
    for (number, claim) in &table.claims {
        problems.extend(check_claim(root, *number, claim)?);
    }
    if list {
        print!("{}", shown(&table, &named));
    }
    let mutated = table
        .claims
        .values()
        .filter(|claim| claim.mutation.is_some());
    eprintln!(
        "{} requirements: {} have tests, {} of these a mutation, {} are not met",
        page.defined.len(),
        table.claims.len(),
        mutated.count(),
        page.not_met.len()
    );
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// The requirements that the page defines, and those that it marks as not met.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    defined: BTreeSet<Number>,
    not_met: BTreeSet<Number>,
}

impl Page {
    fn parse(page: &str) -> Result<Self> {
        let mut found = Self::default();
        for row in page.lines().filter_map(|line| line.strip_prefix("| R-")) {
            let Some((number, text)) = row.split_once(" | ") else {
                bail!("{PAGE}: `| R-{row}` is not a row of two columns");
            };
            let number: Number = format!("R-{number}").parse().context(PAGE)?;
            if !found.defined.insert(number) {
                bail!("{PAGE}: {number} is defined twice");
            }
            if let Some((_, reason)) = text.split_once(NOT_MET) {
                if reason.trim_matches([' ', '|']).is_empty() {
                    bail!("{PAGE}: {number} has no reason after `{NOT_MET}`");
                }
                found.not_met.insert(number);
            }
        }
        Ok(found)
    }

    fn compare(&self, table: &Table) -> Vec<String> {
        let claimed: BTreeSet<Number> = table.claims.keys().copied().collect();
        let mut problems = Vec::new();
        for (numbers, problem) in [
            (
                &claimed - &self.defined,
                format!("has a row in {TABLE}, and {PAGE} does not define it"),
            ),
            (
                &(&self.defined - &self.not_met) - &claimed,
                format!("has no row in {TABLE}, and {PAGE} has no `{NOT_MET}` with a reason"),
            ),
            (
                &self.not_met & &claimed,
                format!("has a row in {TABLE}, and {PAGE} has `{NOT_MET}`"),
            ),
        ] {
            problems.extend(numbers.iter().map(|number| format!("{number}: {problem}")));
        }
        problems
    }
}

/// The tests exist, and the mutation still finds its place.
fn check_claim(root: &Path, number: Number, claim: &Claim) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for test in &claim.tests {
        let file = root.join(&test.file);
        let count = if file.is_file() {
            let tests = tests_of(&file)?;
            tests.iter().filter(|name| **name == test.name).count()
        } else {
            0
        };
        match count {
            0 => problems.push(format!("{number}: no test `{test}`: correct it in {TABLE}")),
            1 => {}
            _ => problems.push(format!("{number}: several tests `{test}`: rename one")),
        }
    }
    if let Some(mutation) = &claim.mutation
        && let Err(error) = mutation.read_source(root)
    {
        problems.push(format!("{number}: {error:#}"));
    }
    Ok(problems)
}

fn shown(table: &Table, named: &BTreeMap<Number, Vec<TestPath>>) -> String {
    let mut lines = String::new();
    for (number, claim) in &table.claims {
        let named = named.get(number).map_or(&[][..], Vec::as_slice);
        let others = named.iter().filter(|test| !claim.tests.contains(test));
        for test in claim.tests.iter().chain(others) {
            let _ = writeln!(lines, "{number}  {test}");
        }
    }
    lines
}

/// The name of every test below a directory.
pub fn test_names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in sources(folder)? {
        names.extend(tests_of(&file)?);
    }
    Ok(names)
}

fn tests_of(file: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
    let mut names = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while lines.any(is_test) {
        names.extend(lines.by_ref().find_map(name));
    }
    Ok(names)
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(sources(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn is_test(line: &str) -> bool {
    line.starts_with("#[test]") || line.starts_with("#[tokio::test")
}

fn name(line: &str) -> Option<String> {
    let rest = line
        .strip_prefix("async ")
        .unwrap_or(line)
        .strip_prefix("fn ")?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_')?;
    Some(rest[..end].to_owned())
}

/// The numbers at the start of a test's name, as in `r_230_231_…` and `r_170_r_171_…`.
fn numbers_of(test: &str) -> Vec<Number> {
    let Some(rest) = test.strip_prefix("r_") else {
        return Vec::new();
    };
    rest.split('_')
        .filter(|part| *part != "r")
        .map_while(Number::from_digits)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(of: &[u16]) -> BTreeSet<Number> {
        of.iter().copied().map(Number).collect()
    }

    #[test]
    fn rows_of_the_page_are_requirements() {
        let page =
            "| number | requirement |\n| R-007 | one |\n| R-120 | two **Not met**: why |\nR-130\n";
        let expected = Page {
            defined: numbers(&[7, 120]),
            not_met: numbers(&[120]),
        };
        assert_eq!(Page::parse(page).unwrap(), expected);
        for (page, error) in [
            ("| R-7 | one |", "docs/requirements.md"),
            (
                "| R-007 | one |\n| R-007 | two |",
                "docs/requirements.md: R-007 is defined twice",
            ),
            (
                "| R-007 | one **Not met**: |",
                "docs/requirements.md: R-007 has no reason after `**Not met**:`",
            ),
        ] {
            assert_eq!(Page::parse(page).unwrap_err().to_string(), error);
        }
    }

    #[test]
    fn each_number_is_claimed_or_not_met_and_never_both() {
        let page = Page {
            defined: numbers(&[1, 2, 3]),
            not_met: numbers(&[2, 3]),
        };
        let claim = "tests = [\"host/a/src/b.rs::c\"]\n";
        let table = format!("[R-003]\n{claim}[R-004]\n{claim}");
        assert_eq!(
            page.compare(&Table::parse(&table).unwrap()),
            [
                "R-004: has a row in tests/requirements.toml, and docs/requirements.md does not define it",
                "R-001: has no row in tests/requirements.toml, and docs/requirements.md has no `**Not met**:` with a reason",
                "R-003: has a row in tests/requirements.toml, and docs/requirements.md has `**Not met**:`",
            ]
        );
    }

    #[test]
    fn a_claim_needs_its_test_and_the_place_of_its_mutation() {
        let root = tempfile::tempdir().unwrap();
        let source = "let x = 1;\n// R-002\n#[test]\nfn one() {}\n#[tokio::test]\nasync fn two() {}\n#[test]\nfn two() {}\n";
        fs::write(root.path().join("a.rs"), source).unwrap();
        let check = |row: &str, expected: &[&str]| {
            let table = Table::parse(&format!("[R-002]\n{row}")).unwrap();
            let claim = table.claims.values().next().unwrap();
            let problems = check_claim(root.path(), Number(2), claim).unwrap();
            assert_eq!(problems, expected, "{row}");
        };
        check("tests = [\"a.rs::one\"]", &[]);
        check(
            "tests = [\"a.rs::three\", \"b.rs::one\", \"a.rs::two\"]",
            &[
                "R-002: no test `a.rs::three`: correct it in tests/requirements.toml",
                "R-002: no test `b.rs::one`: correct it in tests/requirements.toml",
                "R-002: several tests `a.rs::two`: rename one",
            ],
        );
        let mutation = |find: &str| {
            format!("tests = [\"a.rs::one\"]\nfile = \"a.rs\"\nfind = \"{find}\"\nreplace = \"2\"")
        };
        check(&mutation("1"), &[]);
        check(
            &mutation("fn"),
            &["R-002: a.rs contains `fn` 3 times: make `find` in tests/requirements.toml unique"],
        );
        check(
            &mutation("zzz"),
            &[
                "R-002: a.rs does not contain `zzz`: correct the mutation in tests/requirements.toml",
            ],
        );
    }

    #[test]
    fn only_numbers_at_the_start_of_a_name_count() {
        for (name, expected) in [
            ("r_230_231_events", vec![230, 231]),
            ("r_170_r_171_r_172_strategies", vec![170, 171, 172]),
            ("r_033_no_500_r_034", vec![33]),
            ("error_404", vec![]),
            ("r_33_short", vec![]),
        ] {
            let found: Vec<u16> = numbers_of(name)
                .into_iter()
                .map(|number| number.0)
                .collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
