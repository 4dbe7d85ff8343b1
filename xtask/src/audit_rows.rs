//! Report of version 0.1 audit rows without a test. The test name `a_07_…` covers row A-07.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use crate::requirements::{FOLDERS, test_names};
use crate::shell;

/// The letter of each table of the audit and the number of its last row.
const TABLES: [(char, u8); 3] = [('a', 20), ('c', 14), ('d', 3)];

pub fn report(root: &Path) -> Result<()> {
    let mut proved = BTreeSet::new();
    for folder in FOLDERS {
        proved.extend(
            test_names(&root.join(folder))?
                .iter()
                .filter_map(|name| row(name)),
        );
    }
    let rows: Vec<(char, u8)> = TABLES
        .iter()
        .flat_map(|&(table, last)| (1..=last).map(move |number| (table, number)))
        .collect();
    let missing: Vec<String> = rows
        .iter()
        .filter(|row| !proved.contains(*row))
        .map(|(table, number)| format!("{}-{number:02}", table.to_ascii_uppercase()))
        .collect();
    let count = rows.len() - missing.len();
    shell::note(&format!(
        "audit: {count} of {} rows have a test",
        rows.len()
    ));
    if !missing.is_empty() {
        shell::note(&format!(
            "audit rows without a test: {}",
            missing.join(", ")
        ));
    }
    Ok(())
}

/// The row at the start of a test's name.
fn row(name: &str) -> Option<(char, u8)> {
    let (table, rest) = name.split_once('_')?;
    let (number, _) = rest.split_once('_')?;
    let &(table, last) = TABLES
        .iter()
        .find(|(letter, _)| table == letter.to_string())?;
    let number = (number.len() == 2).then(|| number.parse().ok()).flatten()?;
    (1..=last).contains(&number).then_some((table, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_proves_the_row_that_it_begins_with() {
        for (name, expected) in [
            ("a_07_a_deny_holds_for_links", Some(('a', 7))),
            ("d_03_grep_agrees_with_ripgrep", Some(('d', 3))),
            ("d_04_no_such_row", None),
            ("a_7_short", None),
            ("a_path_is_refused", None),
            ("b_01_no_such_table", None),
        ] {
            assert_eq!(row(name), expected, "{name}");
        }
    }
}
