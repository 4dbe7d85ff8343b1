//! Comparison of the numbered requirements in docs/requirements.md with the tests that cite them.
//!
//! A test covers a requirement if its name (`r_163_…`), the comment above it or a comment in it contains the number
//! (`R-163`). The quality of the test is not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

const PAGE: &str = "docs/requirements.md";
/// Marks a requirement without a test.
const UNTESTED: &str = "no test yet: ";

pub const FOLDERS: [&str; 5] = ["host", "plugins", "sdk", "tests", "xtask"];

/// Fails if the page and the tests differ. The table lists the tests of each requirement.
pub fn run(root: &Path, show_table: bool) -> Result<()> {
    let page = fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let (known, untested) = requirements(&page);
    let mut tests = BTreeMap::<u16, Vec<String>>::new();
    for folder in FOLDERS {
        for file in sources(&root.join(folder))? {
            let text =
                fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            for (number, test) in covered_requirements(&text) {
                let test = format!("{shown}: {test}");
                tests.entry(number).or_default().push(test);
            }
        }
    }
    if show_table {
        let mut table = String::new();
        for (number, tests) in &tests {
            for test in tests {
                let _ = writeln!(table, "R-{number:03}  {test}");
            }
        }
        print!("{table}");
    }
    let tested: BTreeSet<u16> = tests.into_keys().collect();
    eprintln!(
        "{} of {} requirements have a test",
        tested.intersection(&known).count(),
        known.len()
    );
    for (numbers, problem) in [
        (
            &tested - &known,
            "are cited by tests and not defined in docs/requirements.md",
        ),
        (
            &(&known - &untested) - &tested,
            "have no test and no `no test yet:` in docs/requirements.md",
        ),
        (
            &untested & &tested,
            "have a test and `no test yet:` in docs/requirements.md",
        ),
    ] {
        if !numbers.is_empty() {
            let numbers: Vec<_> = numbers
                .iter()
                .map(|number| format!("R-{number:03}"))
                .collect();
            bail!("{} {problem}", numbers.join(", "));
        }
    }
    Ok(())
}

/// The numbers of all requirements on the page, and of those that are marked as untested.
fn requirements(page: &str) -> (BTreeSet<u16>, BTreeSet<u16>) {
    let rows = page.lines().filter_map(|line| {
        let (number, text) = line.strip_prefix("| R-")?.split_once(" | ")?;
        Some((three_digits(number)?, text))
    });
    let untested = rows.clone().filter(|(_, text)| text.starts_with(UNTESTED));
    (
        rows.clone().map(|row| row.0).collect(),
        untested.map(|row| row.0).collect(),
    )
}

/// The name of every test below a directory.
pub fn test_names(folder: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for file in sources(folder)? {
        let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let mut lines = text.lines().map(str::trim);
        while lines.any(is_test) {
            names.extend(lines.by_ref().find_map(name));
        }
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

/// The numbers in a file with their tests.
fn covered_requirements(text: &str) -> Vec<(u16, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut claims = Vec::new();
    let mut index = 0;
    while index < lines.len() {
        if !is_test(lines[index]) {
            index += 1;
            continue;
        }
        let above = lines[..index]
            .iter()
            .rev()
            .take_while(|line| line.starts_with("//"));
        let mut comments: Vec<&str> = above.copied().collect();
        let Some(head) = (index..lines.len()).find(|at| name(lines[*at]).is_some()) else {
            break;
        };
        let test = name(lines[head]).unwrap_or_default();
        // Up to the next test; comments between two tests that are not directly above the second belong to the first.
        let end = (head + 1..lines.len())
            .find(|at| is_test(lines[*at]))
            .unwrap_or(lines.len());
        let end = end
            - lines[head..end]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("//"))
                .count();
        comments.extend(lines[head..end].iter().filter(|line| line.contains("//")));
        let mut numbers: Vec<u16> = comments
            .iter()
            .flat_map(|line| numbers(line, "R-"))
            .collect();
        numbers.extend(self::numbers(&test, "r_"));
        numbers.sort_unstable();
        numbers.dedup();
        claims.extend(numbers.into_iter().map(|number| (number, test.clone())));
        index = end.max(head + 1);
    }
    claims
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

/// Every three-digit number after the mark; after `r_` several can follow, as in `r_230_231_…`.
fn numbers(line: &str, mark: &str) -> Vec<u16> {
    let mut found = Vec::new();
    for (at, _) in line.match_indices(mark) {
        let starts = at == 0 || !line[..at].ends_with(|c: char| c.is_alphanumeric());
        if !starts {
            continue;
        }
        let rest = &line[at + mark.len()..];
        if mark == "r_" {
            found.extend(rest.split('_').map_while(three_digits));
        } else {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            found.extend(three_digits(&rest[..end]));
        }
    }
    found
}

fn three_digits(text: &str) -> Option<u16> {
    (text.len() == 3).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(u16, &str)]) {
        let found = covered_requirements(text);
        let found: Vec<_> = found
            .iter()
            .map(|(number, test)| (*number, test.as_str()))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn rows_of_the_page_are_requirements() {
        let page =
            "| number | requirement |\n| R-007 | one |\n| R-120 | no test yet: two |\nR-130\n";
        let (known, untested) = requirements(page);
        assert_eq!(
            (known, untested),
            (BTreeSet::from([7, 120]), BTreeSet::from([120]))
        );
    }

    #[test]
    fn a_number_counts_in_a_name_above_a_test_and_in_it() {
        check(
            "// R-001\nfn x() {}\n\n// R-163, R-164\n#[test]\nfn order() {\n    // and R-165\n}\n",
            &[(163, "order"), (164, "order"), (165, "order")],
        );
        check(
            "#[tokio::test(start_paused = true)]\nasync fn r_230_231_events() {}\n// R-9 R-1234\n#[test]\nfn y() {}\n",
            &[(230, "r_230_231_events"), (231, "r_230_231_events")],
        );
        check("// R-163\nfn no_test() {}\n", &[]);
    }
}
