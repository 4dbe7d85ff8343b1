//! Names of input members that contain paths, by the naming convention for tools.

/// Members that name files and directories which a call reads or changes.
pub const PATH_MEMBERS: [&str; 9] = [
    "path",
    "paths",
    "from",
    "to",
    "file_path",
    "notebook_path",
    "directory",
    "dir_path",
    "include",
];

/// Members that name the directory in which a call runs a command.
pub const DIRECTORY_MEMBERS: [&str; 3] = ["cwd", "workdir", "working_directory"];

/// Whether a member contains paths.
pub fn is_path_member(name: &str) -> bool {
    PATH_MEMBERS.contains(&name) || DIRECTORY_MEMBERS.contains(&name)
}
