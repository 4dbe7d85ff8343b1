//! Environment variables of programs, and the list of inert ones.
//!
//! A variable can change what a command runs as much as its arguments can: `MAKEFILES` names a file that `make` reads
//! first, `GIT_SSH_COMMAND` a program that `git` starts. No list of such variables is complete. This module therefore
//! lists the variables that are documented to affect only the amount, color, language or target of a program's output,
//! and treats every other variable as affecting its behavior.

use std::collections::BTreeMap;

/// Names and values, sorted by name.
pub type Variables = BTreeMap<String, String>;

/// The variables of calls without any.
pub static NO_VARIABLES: Variables = Variables::new();

/// Maximum number of variables that a session or a call can set.
pub const MAX_VARIABLES: usize = 64;
/// Maximum size in bytes of all names and values together.
pub const MAX_VARIABLE_BYTES: usize = 64 << 10;
/// Maximum size in bytes of an inert value.
const MAX_INERT_VALUE_BYTES: usize = 256;

/// Inert variables with the document that specifies each. docs/permissions.md contains the same list for operators.
const INERT: [(&str, &str); 38] = [
    ("CARGO_TERM_COLOR", CARGO),
    ("CI", GITHUB),
    ("CLICOLOR", CLICOLORS),
    ("CLICOLOR_FORCE", CLICOLORS),
    ("COLORTERM", NCURSES),
    ("COLUMNS", POSIX),
    ("FORCE_COLOR", FORCE),
    ("GOARCH", GO),
    ("GOOS", GO),
    ("LANG", POSIX),
    ("LC_ADDRESS", LOCALE),
    ("LC_ALL", POSIX),
    ("LC_COLLATE", POSIX),
    ("LC_CTYPE", POSIX),
    ("LC_IDENTIFICATION", LOCALE),
    ("LC_MEASUREMENT", LOCALE),
    ("LC_MESSAGES", POSIX),
    ("LC_MONETARY", POSIX),
    ("LC_NAME", LOCALE),
    ("LC_NUMERIC", POSIX),
    ("LC_PAPER", LOCALE),
    ("LC_TELEPHONE", LOCALE),
    ("LC_TIME", POSIX),
    ("LINES", POSIX),
    ("NODE_ENV", NODE),
    ("NO_COLOR", COLOR),
    ("PYTHONDONTWRITEBYTECODE", PYTHON),
    ("PYTHONHASHSEED", PYTHON),
    ("PYTHONUNBUFFERED", PYTHON),
    ("PYTHONUTF8", PYTHON),
    ("RUST_BACKTRACE", RUST),
    ("RUST_LIB_BACKTRACE", RUST),
    ("RUST_LOG", ENV_LOGGER),
    ("RUST_TEST_THREADS", RUSTC),
    ("RUST_TEST_TIME_UNIT", RUSTC),
    ("SOURCE_DATE_EPOCH", REPRODUCIBLE),
    ("TERM", POSIX),
    ("TZ", POSIX),
];

const CARGO: &str = "https://doc.rust-lang.org/cargo/reference/config.html#termcolor";
const CLICOLORS: &str = "https://bixense.com/clicolors/";
const COLOR: &str = "https://no-color.org/";
const ENV_LOGGER: &str = "https://docs.rs/env_logger/latest/env_logger/#enabling-logging";
const FORCE: &str = "https://force-color.org/";
const GITHUB: &str = "https://docs.github.com/en/actions/reference/workflows-and-actions/variables#default-environment-variables";
const GO: &str = "https://pkg.go.dev/cmd/go#hdr-Environment_variables";
const LOCALE: &str = "https://man7.org/linux/man-pages/man7/locale.7.html";
const NCURSES: &str = "https://github.com/termstandard/colors";
const NODE: &str = "https://nodejs.org/en/learn/getting-started/nodejs-the-difference-between-development-and-production";
const POSIX: &str = "https://pubs.opengroup.org/onlinepubs/9799919799/basedefs/V1_chap08.html";
const PYTHON: &str = "https://docs.python.org/3/using/cmdline.html#environment-variables";
const REPRODUCIBLE: &str = "https://reproducible-builds.org/specs/source-date-epoch/";
const RUST: &str = "https://doc.rust-lang.org/std/backtrace/index.html#environment-variables";
const RUSTC: &str = "https://doc.rust-lang.org/rustc/tests/index.html";

/// Returns whether the name is on the list of inert variables. Values that are unknown to the host, for example in a
/// command line, are evaluated together with the command line.
pub fn is_inert_name(name: &str) -> bool {
    INERT.iter().any(|(known, _)| *known == name)
}

/// Returns whether a program behaves the same with and without this variable, apart from the form of its output.
///
/// The value matters: `TZ=:/etc/shadow` makes programs read that file, and bash evaluates `$(…)` in a number that it
/// reads from a variable. An inert value consists of letters, digits and `._,:=@+-`; that of `TZ` may also be a
/// relative path without `..`.
pub fn is_inert(name: &str, value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._,:=@+-".contains(c);
    let zone = || {
        name == "TZ" && !value.starts_with([':', '/']) && !value.split('/').any(|part| part == "..")
    };
    is_inert_name(name)
        && value.len() <= MAX_INERT_VALUE_BYTES
        && (value.chars().all(plain) && name != "TZ"
            || value.chars().all(|c| plain(c) || c == '/') && zone())
}

/// Returns whether this is a valid name in every shell: letters, digits and `_`, not starting with a digit. Other
/// names, such as `BASH_FUNC_ls%%`, define functions.
pub fn is_variable_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_05_variables_that_affect_behavior_are_not_inert() {
        for (name, value) in [
            ("MAKEFILES", "x"),
            ("MAKEFLAGS", "--eval=x"),
            ("RUSTFLAGS", "x"),
            ("GOFLAGS", "x"),
            ("GCC_EXEC_PREFIX", "x"),
            ("RSYNC_RSH", "x"),
            ("DOTNET_STARTUP_HOOKS", "x"),
            ("TAR_OPTIONS", "x"),
            ("XDG_CONFIG_HOME", "."),
            ("HOME", "."),
            ("LANGUAGE", "../../x"),
            ("LC_ALL", "../../x"),
            ("LC_OTHER", "C"),
            ("TZ", ":/etc/passwd"),
            ("TZ", "/etc/passwd"),
            ("TZ", "../../../etc/passwd"),
            ("COLUMNS", "a[$(touch x)]"),
            ("COLUMNS", "`x`"),
            ("BASH_FUNC_ls%%", "() { x; }"),
            ("lang", "C"),
            ("", ""),
        ] {
            assert!(!is_inert(name, value), "{name}={value}");
        }
        assert!(!is_inert("RUST_LOG", &"x".repeat(257)));
    }

    #[test]
    fn harmless_variables_are_inert() {
        for (name, value) in [
            ("RUST_LOG", "debug,hyper::client=trace"),
            ("LANG", "de_AT.UTF-8@euro"),
            ("LC_ALL", "C"),
            ("TZ", "Europe/Berlin"),
            ("TZ", "CET-1CEST"),
            ("NO_COLOR", ""),
            ("COLUMNS", "120"),
        ] {
            assert!(is_inert(name, value), "{name}={value}");
        }
    }

    /// The documentation contains this list for operators.
    #[test]
    fn the_documentation_lists_inert_variables_with_sources() {
        let page = include_str!("../../../docs/permissions.md");
        for (name, source) in INERT {
            assert!(page.contains(&format!("`{name}`")), "{name}");
            assert!(page.contains(source), "{source}");
        }
    }

    #[test]
    fn variable_names_are_valid_in_every_shell() {
        for name in ["A", "_a1", "HOME"] {
            assert!(is_variable_name(name), "{name}");
        }
        for name in ["", "1A", "A-B", "BASH_FUNC_ls%%", "A=B", "Ä", "A\0"] {
            assert!(!is_variable_name(name), "{name:?}");
        }
    }
}
