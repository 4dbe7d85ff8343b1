//! Line endings of new files according to `.gitattributes`.

use std::fs;
use std::path::Path;

use ignore::gitignore::GitignoreBuilder;

use crate::path::Target;

/// A larger file is ignored.
const MOST_BYTES: u64 = 64 << 10;

/// Whether the new file `target` should have CR LF.
pub fn wants_crlf(target: &Target) -> bool {
    let mut dirs: Vec<&Path> = target
        .path
        .ancestors()
        .skip(1)
        .take_while(|dir| dir.starts_with(&target.root))
        .collect();
    // The nearest file takes precedence, and in it the last line.
    dirs.reverse();
    let mut crlf = false;
    for dir in dirs {
        let path = dir.join(".gitattributes");
        let is_small = fs::metadata(&path)
            .is_ok_and(|metadata| metadata.is_file() && metadata.len() <= MOST_BYTES);
        let Some(text) = is_small.then(|| fs::read_to_string(&path).ok()).flatten() else {
            continue;
        };
        for line in text.lines() {
            if let Some(is_crlf) = line_ending_attribute(line)
                && matches(dir, line, &target.path)
            {
                crlf = is_crlf;
            }
        }
    }
    crlf
}

/// Whether a line requests CR LF; `None` if it does not mention line endings.
fn line_ending_attribute(line: &str) -> Option<bool> {
    if line.trim_start().starts_with('#') {
        return None;
    }
    let attributes = line.split_whitespace().skip(1);
    attributes.fold(None, |value, attribute| match attribute {
        "eol=crlf" => Some(true),
        "eol=lf" | "-text" | "binary" | "-eol" | "!eol" => Some(false),
        _ => value,
    })
}

fn matches(dir: &Path, line: &str, path: &Path) -> bool {
    let Some(pattern) = line.split_whitespace().next() else {
        return false;
    };
    let mut builder = GitignoreBuilder::new(dir);
    drop(builder.add_line(None, pattern));
    builder
        .build()
        .is_ok_and(|pattern| pattern.matched(path, false).is_ignore())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::resolve;
    use crate::testing::Workspace;

    #[test]
    fn the_nearest_file_and_its_last_line_have_the_last_word() {
        let workspace = Workspace::new(&[
            (
                ".gitattributes",
                "# *.rs eol=crlf\n* text=auto\n*.bat text eol=crlf\nkeep.bat -text\n/win/** eol=crlf\n",
            ),
            ("win/unix/.gitattributes", "* eol=lf\n*.cmd eol=crlf\n"),
        ]);
        for (path, expected) in [
            ("a.rs", false),
            ("a.bat", true),
            ("deep/a.bat", true),
            ("keep.bat", false),
            ("win/a.rs", true),
            ("win/unix/a.rs", false),
            ("win/unix/a.cmd", true),
        ] {
            let target = resolve(&workspace.cx(), path).unwrap();
            assert_eq!(wants_crlf(&target), expected, "{path}");
        }
    }
}
