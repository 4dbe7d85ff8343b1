//! What rules on reading leave out of the folders that a program gets.

use std::fs;
use std::path::{Path, PathBuf};

use toolhost_contract::policy::{DeniedPlace, ReadGuard};
use toolhost_contract::{Failure, text};

/// Entries that are looked through for names that a pattern fits.
const MAX_ENTRIES: usize = 20_000;

/// The paths below `granted` that no program of the call may read. Landlock grants folders and not names, so names that
/// only a pattern fits are looked for now; what is made later is not among them.
pub fn denied_below(
    guard: Option<&ReadGuard>,
    granted: &[PathBuf],
) -> Result<Vec<PathBuf>, Failure> {
    let Some(guard) = guard else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    let mut left = MAX_ENTRIES;
    let mut searched: Vec<PathBuf> = Vec::new();
    for place in guard.places() {
        match place {
            DeniedPlace::Tree(path) => {
                let path = PathBuf::from(path);
                // A rule of a higher priority may let the folder in and leave things in it out.
                let refused = guard.refuses(&path.to_string_lossy());
                if let Ok(real) = path.canonicalize()
                    && refused
                {
                    found.push(real);
                }
            }
            DeniedPlace::Below(start) => {
                for folder in granted {
                    let start = Path::new(&start);
                    let from = if start.starts_with(folder) {
                        start
                    } else if folder.starts_with(start) {
                        folder
                    } else {
                        continue;
                    };
                    if !searched.iter().any(|known| from.starts_with(known)) {
                        search(guard, from, &mut found, &mut left)?;
                        searched.push(from.to_owned());
                    }
                }
            }
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

fn search(
    guard: &ReadGuard,
    dir: &Path,
    found: &mut Vec<PathBuf>,
    left: &mut usize,
) -> Result<(), Failure> {
    let mut waiting = vec![dir.to_owned()];
    while let Some(path) = waiting.pop() {
        if guard.refuses(&path.to_string_lossy()) {
            found.push(path);
            continue;
        }
        let Ok(entries) = fs::read_dir(&path) else {
            continue;
        };
        for entry in entries.flatten() {
            if *left == 0 {
                return Err(too_many(guard, dir));
            }
            *left -= 1;
            // What a link leads to is looked at where it is.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            } else if guard.refuses(&entry.path().to_string_lossy()) {
                found.push(entry.path());
            }
        }
    }
    Ok(())
}

fn too_many(guard: &ReadGuard, dir: &Path) -> Failure {
    let rules = match guard.hits().as_slice() {
        [] => "a rule".to_owned(),
        labels => format!("rule {}", labels.join(", ")),
    };
    Failure {
        recommendations: vec![
            "name a directory in the rule, such as `Read(config/**)`, or write the rule as a table with `programs = false` if programs may read such files".to_owned(),
        ],
        ..Failure::new(
            "read_denied",
            format!(
                "{rules} denies reading files by a pattern, and `{}` has more than {MAX_ENTRIES} entries to compare with it before a program starts",
                text::inline(&dir.to_string_lossy(), 200)
            ),
        )
    }
}
