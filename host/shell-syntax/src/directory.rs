//! Commands that change the working directory, and commands whose effect depends on it.

use super::invocation::Invocation;
use super::risky_options::{uses_working_directory, without_version};
use super::wrapper::is_shell;
use super::{SimpleCommand, Word};

/// Programs that run the file that an argument names.
const INTERPRETERS: &[&str] = &[
    ".",
    "ash",
    "bash",
    "bun",
    "dash",
    "deno",
    "dotnet",
    "elixir",
    "escript",
    "groovy",
    "guile",
    "irb",
    "java",
    "jshell",
    "julia",
    "ksh",
    "lua",
    "luajit",
    "mksh",
    "node",
    "nodejs",
    "ocaml",
    "octave",
    "osascript",
    "perl",
    "php",
    "pypy",
    "python",
    "r",
    "rbash",
    "rscript",
    "ruby",
    "runghc",
    "sh",
    "source",
    "swift",
    "tclsh",
    "ts-node",
    "tsx",
    "wish",
    "zsh",
];

impl SimpleCommand {
    /// Whether it changes the directory of later commands, or that of the command that it runs.
    pub fn changes_directory(&self) -> bool {
        let has_long = || {
            let mut words = self.arguments().iter().filter_map(Word::literal);
            words.any(|word| word.starts_with("--chdir"))
        };
        match self.program() {
            None => !self.words.is_empty(),
            Some("cd" | "chdir" | "pushd" | "popd") => true,
            Some("env") => self.has_short_flag('C') || has_long(),
            Some("sudo") => self.has_short_flag('D') || self.has_short_flag('i') || has_long(),
            Some("find") => self.has_argument("-execdir") || self.has_argument("-okdir"),
            Some(_) => false,
        }
    }

    /// Whether what it runs depends on its working directory: the program is a relative path, runs a script that may be
    /// one, or uses files of the directory.
    pub fn depends_on_directory(&self) -> bool {
        let is_absolute = |word: &Word| {
            word.literal()
                .is_some_and(|text| text.starts_with(['/', '~']))
        };
        let is_relative_path = |word: &Word| word.as_written().contains('/') && !is_absolute(word);
        // The commands in the text of `bash -c` are looked at one by one.
        let first = self.arguments().first().and_then(Word::literal);
        let takes_text = first.is_some_and(|option| {
            option.starts_with('-') && !option.starts_with("--") && option.contains('c')
        });
        let runs_relative_script = |program: &str| {
            [program, without_version(program)]
                .iter()
                .any(|name| INTERPRETERS.contains(name))
                && !self.arguments().iter().all(is_absolute)
                && !(is_shell(program) && takes_text)
        };
        self.words.first().is_some_and(is_relative_path)
            || Invocation::interpretations(self).iter().any(|one| {
                runs_relative_script(&one.program) || uses_working_directory(&one.program)
            })
    }
}
