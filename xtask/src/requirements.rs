//! Report of numbered requirements without a test.
//!
//! The numbers are those of the four tool systems that Toolhost unites, in the claimed ranges. A test covers a
//! requirement if its name (`r_163_…`), the comment above it or a comment in it contains the number (`R-163`). The
//! quality of the test is not checked.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// First and last number of each range.
const RANGES: [(u16, u16); 17] = [
    (80, 82),
    (90, 93),
    (127, 129),
    (140, 149),
    (160, 166),
    (170, 179),
    (190, 204),
    (210, 218),
    (230, 247),
    (300, 311),
    (320, 329),
    (340, 351),
    (360, 377),
    (400, 409),
    (420, 428),
    (440, 458),
    (490, 496),
];

pub const FOLDERS: [&str; 5] = ["host", "plugins", "sdk", "tests", "xtask"];

/// Fails for requirements without a test. The table lists the tests of each requirement.
pub fn run(root: &Path, show_table: bool) -> Result<()> {
    let mut proofs = BTreeMap::<u16, Vec<String>>::new();
    for folder in FOLDERS {
        for file in sources(&root.join(folder))? {
            let text =
                fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
            let shown = file.strip_prefix(root).unwrap_or(&file).display();
            for (number, test) in covered_requirements(&text) {
                proofs
                    .entry(number)
                    .or_default()
                    .push(format!("{shown}: {test}"));
            }
        }
    }
    let mut missing = Vec::new();
    let mut table = String::new();
    for number in RANGES.iter().flat_map(|(first, last)| *first..=*last) {
        match proofs.get(&number) {
            Some(tests) => {
                for test in tests {
                    let _ = writeln!(table, "R-{number}  {test}");
                }
            }
            None => missing.push(format!("R-{number}")),
        }
    }
    if show_table {
        print!("{table}");
    }
    if missing.is_empty() {
        Ok(())
    } else {
        bail!("no test carries the number of {}", missing.join(", "))
    }
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
        let mut words: Vec<&str> = above.copied().collect();
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
        words.extend(lines[head..end].iter().filter(|line| line.contains("//")));
        let mut numbers: Vec<u16> = words.iter().flat_map(|line| numbers(line, "R-")).collect();
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

fn three_digits(word: &str) -> Option<u16> {
    (word.len() == 3).then(|| word.parse().ok()).flatten()
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
