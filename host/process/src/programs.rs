//! The list of allowed programs, and the lookup of a program's file.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use crate::ProcessError;

/// The programs that the host may start. The sandbox restricts what these start in turn: allowing a shell allows every
/// program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AllowedPrograms {
    /// Names, looked up in the search path only, or absolute paths.
    Only(Vec<String>),
    Any,
}

impl AllowedPrograms {
    /// Returns the file to execute. A name is never looked up in the working directory, where a tool could have created
    /// one.
    pub fn find(&self, program: &str, path: &[PathBuf]) -> Result<PathBuf, ProcessError> {
        if let AllowedPrograms::Only(list) = self
            && !list.iter().any(|allowed| allowed == program)
        {
            return Err(ProcessError::NotAllowed {
                program: program.to_owned(),
                allowed: list.join(", "),
            });
        }
        let is_plain = |text: &str| {
            let mut parts = Path::new(text).components();
            matches!(parts.next(), Some(Component::Normal(name)) if name == text)
                && parts.next().is_none()
        };
        let not_found = |searched: String| ProcessError::NotFound {
            program: program.to_owned(),
            searched,
        };
        if Path::new(program).is_absolute() {
            let file = PathBuf::from(program);
            return is_executable(&file)
                .then_some(file)
                .ok_or_else(|| not_found("the file system or is not executable".to_owned()));
        }
        if !is_plain(program) {
            return Err(not_found(
                "the search path: use a plain name or an absolute path".to_owned(),
            ));
        }
        path.iter()
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(program))
            .find(|file| is_executable(file))
            .ok_or_else(|| {
                let dirs: Vec<_> = path.iter().map(|dir| dir.display().to_string()).collect();
                not_found(dirs.join(":"))
            })
    }
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(programs: &AllowedPrograms, program: &str, expected: &str) {
        let path = ["relative", "/nowhere", "/usr/bin", "/bin"].map(PathBuf::from);
        let found = match programs.find(program, &path) {
            Ok(file) => file.display().to_string(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{program:?}");
    }

    #[test]
    fn only_listed_programs_are_found() {
        let list = AllowedPrograms::Only(vec!["sh".to_owned(), "/usr/bin/env".to_owned()]);
        check(&list, "sh", "/usr/bin/sh");
        check(&list, "/usr/bin/env", "/usr/bin/env");
        check(
            &list,
            "env",
            "the program `env` is not on the list of allowed programs; allowed: sh, /usr/bin/env",
        );
        check(
            &list,
            "/tmp/sh",
            "the program `/tmp/sh` is not on the list of allowed programs; allowed: sh, /usr/bin/env",
        );
    }

    #[test]
    fn names_are_looked_up_only_in_the_search_path() {
        let odd = "the search path: use a plain name or an absolute path";
        for program in ["./sh", "../bin/sh", "bin/sh", "", ".", "..", "sh/"] {
            check(
                &AllowedPrograms::Any,
                program,
                &format!("program `{program}` was not found in {odd}"),
            );
        }
        check(
            &AllowedPrograms::Any,
            "no-such-program",
            "program `no-such-program` was not found in relative:/nowhere:/usr/bin:/bin",
        );
        check(
            &AllowedPrograms::Any,
            "/etc/passwd",
            "program `/etc/passwd` was not found in the file system or is not executable",
        );
    }
}
