//! Directories and files of the user's state that no other user of the machine can read, lock or fill.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

/// Creates a directory and its missing parents, or removes the permissions of others from an existing one.
pub fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o700))
}

/// Opens a file with these options, readable only by its owner even if it was readable by others before.
pub fn private_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_of_others_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("a/b"), dir.path().join("a/b/f"));
        let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
        for round in 0..2 {
            private_folder(&folder).unwrap();
            private_file(File::options().create(true).append(true), &file).unwrap();
            assert_eq!(
                (mode(&folder), mode(&file)),
                (0o700, 0o600),
                "round {round}"
            );
            fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        }
    }
}
