//! Locations of the host's files, according to the XDG Base Directory Specification.

use std::path::PathBuf;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostPaths {
    /// Compiled code, which is executed unverified, so only the user may have write access.
    pub cache: Option<PathBuf>,
    /// History of the prompt and the store.
    pub state: Option<PathBuf>,
    pub config: Option<PathBuf>,
}

impl HostPaths {
    /// Determines the locations. `variable` looks up an environment variable. `TOOLHOST_CACHE_DIR` and
    /// `TOOLHOST_STATE_DIR` override the defaults.
    pub fn from_env(variable: impl Fn(&str) -> Option<String>) -> Self {
        // The specification requires ignoring relative paths, which would depend on the working directory.
        let absolute = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let ours = |name: &str, below_home: &str| {
            absolute(name)
                .or_else(|| Some(absolute("HOME")?.join(below_home)))
                .map(|base| base.join("toolhost"))
        };
        Self {
            cache: absolute("TOOLHOST_CACHE_DIR").or_else(|| ours("XDG_CACHE_HOME", ".cache")),
            state: absolute("TOOLHOST_STATE_DIR")
                .or_else(|| ours("XDG_STATE_HOME", ".local/state")),
            config: ours("XDG_CONFIG_HOME", ".config"),
        }
    }

    /// The directory of the store.
    pub fn store_dir(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|folder| folder.join("store"))
    }

    /// The parent of the directories that belong to MCP servers.
    pub fn server_data_dir(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|folder| folder.join("mcp/data"))
    }

    /// The only configuration file that is read by default. Files in the current directory are never read, because a
    /// cloned repository must not configure the host.
    pub fn config_file(&self) -> Option<PathBuf> {
        self.config
            .as_ref()
            .map(|folder| folder.join("toolhost.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(variables: &[(&str, &str)]) -> [Option<PathBuf>; 3] {
        let host_paths = HostPaths::from_env(|name| {
            variables
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, value)| (*value).to_owned())
        });
        [host_paths.cache, host_paths.state, host_paths.config]
    }

    #[test]
    fn directories_come_from_the_environment_and_are_absolute() {
        let some = |path: &str| Some(PathBuf::from(path));
        assert_eq!(find(&[]), [None, None, None]);
        assert_eq!(
            find(&[("HOME", "/h")]),
            [
                some("/h/.cache/toolhost"),
                some("/h/.local/state/toolhost"),
                some("/h/.config/toolhost")
            ]
        );
        assert_eq!(
            find(&[
                ("HOME", "/h"),
                ("XDG_CACHE_HOME", "/c"),
                ("XDG_STATE_HOME", "relative")
            ]),
            [
                some("/c/toolhost"),
                some("/h/.local/state/toolhost"),
                some("/h/.config/toolhost")
            ]
        );
        assert_eq!(
            find(&[("HOME", "/h"), ("TOOLHOST_CACHE_DIR", "/x")])[0],
            some("/x")
        );
    }
}
