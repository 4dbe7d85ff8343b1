//! The plugins that were installed with this program, found by the location of the program.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Directories of plugins, relative to that of the program: of archives, `.deb` and npm packages, and of wheels.
const PLACES: [&str; 2] = ["plugins", "../lib/toolhost/plugins"];

/// The directory of the installed plugins, if the program was installed with plugins.
pub fn find() -> Option<PathBuf> {
    // A link to the program, such as `/usr/bin/toolhost`, is resolved.
    beside(&std::env::current_exe().ok()?)
}

/// Users who can change the program may also provide plugins. A directory that others can write to is not used: the
/// program can be in a directory in which all users create files.
fn beside(program: &Path) -> Option<PathBuf> {
    let owner = fs::metadata(program).ok()?.uid();
    let trusted = [0, rustix::process::geteuid().as_raw(), owner];
    let is_safe = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_dir() && trusted.contains(&found.uid()) && found.mode() & 0o002 == 0
        })
    };
    let directory = program.parent()?;
    let places = PLACES.iter().map(|place| directory.join(place));
    let found = places.into_iter().find(is_safe)?;
    fs::canonicalize(found).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A program in `bin` with a directory of plugins at `place`.
    fn installed(place: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(root.path()).unwrap();
        let program = base.join("bin/host");
        fs::create_dir(base.join("bin")).unwrap();
        fs::write(&program, "").unwrap();
        let plugins = base.join(place);
        fs::create_dir_all(&plugins).unwrap();
        (root, program, plugins)
    }

    #[test]
    fn plugins_are_found_beside_the_program_and_beside_its_directory() {
        for place in ["bin/plugins", "lib/toolhost/plugins"] {
            let (_root, program, plugins) = installed(place);
            assert_eq!(beside(&program), Some(plugins));
        }
        let (_root, program, _) = installed("lib/other/plugins");
        assert_eq!(beside(&program), None);
    }

    #[test]
    fn a_directory_that_others_can_change_is_not_used() {
        let (root, program, plugins) = installed("bin/plugins");
        fs::set_permissions(&plugins, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(beside(&program), None);
        fs::remove_dir(&plugins).unwrap();
        let elsewhere = root.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        symlink(elsewhere, &plugins).unwrap();
        assert_eq!(beside(&program), None);
    }
}
