//! Interpretations of a command as program, subcommand and options.

use super::{SimpleCommand, Word};

/// Options of `git` before the subcommand that take the next word as their value. `git` rejects unknown options.
/// Source: git(1), OPTIONS.
const GIT_VALUES: &[&str] = &[
    "-C",
    "-c",
    "--git-dir",
    "--work-tree",
    "--namespace",
    "--super-prefix",
    "--config-env",
    "--attr-source",
];

/// The commands of git 2.51, from `git --list-cmds=builtins,main`. Any other word may be an alias for any command.
const GIT_COMMANDS: &str = include_str!("git-commands.txt");

/// Programs whose operands are all targets: `make all install`.
const MULTI_TARGET_PROGRAMS: &[&str] = &[
    "ant", "bmake", "gmake", "gradle", "gradlew", "invoke", "just", "make", "mvn", "mvnw", "ninja",
    "rake",
];

/// Synonyms of subcommands. Source: npm help COMMAND, `cargo --list`.
const SYNONYMS: &[(&str, &[&str])] = &[
    (
        "npm",
        &[
            "install", "i", "add", "in", "ins", "inst", "insta", "instal", "isnt", "isnta",
            "isntal", "isntall",
        ],
    ),
    ("npm", &["run", "run-script", "rum", "urn"]),
    ("npm", &["exec", "x"]),
    ("npm", &["test", "t", "tst"]),
    ("npm", &["uninstall", "remove", "rm", "r", "un", "unlink"]),
    ("npm", &["update", "up", "upgrade", "udpate"]),
    ("pnpm", &["install", "i"]),
    ("pnpm", &["run", "run-script"]),
    ("pnpm", &["remove", "rm", "uninstall", "un"]),
    ("cargo", &["build", "b"]),
    ("cargo", &["check", "c"]),
    ("cargo", &["test", "t"]),
    ("cargo", &["run", "r"]),
    ("cargo", &["doc", "d"]),
    ("cargo", &["remove", "rm"]),
];

/// Subcommands that only group others: `docker container run` equals `docker run`.
const GROUPS: &[(&str, &[&str])] = &[
    ("docker", &["container", "image"]),
    ("podman", &["container", "image"]),
];

/// Maximum number of candidate positions of the subcommand; each requires a pass over all words.
const MAX_SUBCOMMAND_POSITIONS: usize = 32;

/// One interpretation of a command.
#[derive(Debug, Clone)]
pub(super) struct Invocation {
    /// Name without directory, in lower case.
    pub program: String,
    pub words: Vec<Word>,
    /// Index of the first of these words in the command.
    pub first: usize,
}

impl Invocation {
    /// `None` if the program is known only when the shell runs.
    pub(super) fn of(command: &SimpleCommand) -> Option<Self> {
        let program = command.program()?.to_ascii_lowercase();
        let arguments = command.arguments().to_vec();
        // git also installs each of its commands as a program.
        match program.strip_prefix("git-") {
            Some(name) if is_git_command(name) => Some(Self {
                words: [vec![Word::Literal(name.to_owned())], arguments].concat(),
                program: "git".to_owned(),
                first: 0,
            }),
            _ => Some(Self {
                program,
                words: arguments,
                first: 1,
            }),
        }
    }

    /// The command itself, and the module that `python -m` runs.
    pub(super) fn interpretations(command: &SimpleCommand) -> Vec<Self> {
        let Some(first) = Self::of(command) else {
            return Vec::new();
        };
        let module = first.program.starts_with("python").then(|| {
            let at = first
                .words
                .iter()
                .position(|word| word.literal() == Some("-m"))?;
            Some(Self {
                program: first.words.get(at + 1)?.literal()?.to_ascii_lowercase(),
                words: first.words[at + 2..].to_vec(),
                first: first.first + at + 2,
            })
        });
        std::iter::once(first).chain(module.flatten()).collect()
    }

    /// Candidate positions of the subcommand. An unknown option may take the next word or not, so there can be several.
    /// `None`: more than [`MAX_SUBCOMMAND_POSITIONS`].
    pub(super) fn subcommands(&self) -> Option<Vec<usize>> {
        let mut reached = vec![false; self.words.len() + 2];
        reached[0] = true;
        let mut found = Vec::new();
        for (at, word) in self.words.iter().enumerate() {
            if !reached[at] {
                continue;
            }
            match word.literal() {
                Some(option) if is_option(option) => {
                    let known = self.program == "git";
                    let takes = if known {
                        GIT_VALUES.contains(&option)
                    } else {
                        !option.contains('=')
                    };
                    reached[at + 1] |= !(known && takes);
                    reached[at + 2] |= takes;
                }
                Some(group) if self.is_group(group) => {
                    found.push(at);
                    reached[at + 1] = true;
                }
                _ => found.push(at),
            }
        }
        (found.len() <= MAX_SUBCOMMAND_POSITIONS).then_some(found)
    }

    fn is_group(&self, word: &str) -> bool {
        GROUPS
            .iter()
            .any(|(program, words)| *program == self.program && words.contains(&word))
    }

    /// Whether the word at `at` may be an alias for any subcommand.
    fn may_be_alias(&self, at: usize) -> bool {
        self.program == "git"
            && self.words[at]
                .literal()
                .is_some_and(|name| !is_git_command(name))
    }

    /// Whether the words of a rule can match: its operands in this order with any options between them, and its options
    /// in any position. `open`: further operands may follow.
    pub(super) fn may_match(&self, rule: &[String], open: bool) -> bool {
        let (options, operands): (Vec<&String>, Vec<&String>) =
            rule.iter().partition(|word| is_option(word));
        let unknown = self.words.iter().any(|word| word.literal().is_none());
        let options_fit = unknown || options.iter().all(|option| self.has_option(option));
        if !options_fit {
            return false;
        }
        if operands.is_empty() {
            return open || unknown || self.operands_follow(&[0], &[], false);
        }
        let starts = if MULTI_TARGET_PROGRAMS.contains(&self.program.as_str()) {
            Some((0..self.words.len()).collect())
        } else {
            self.subcommands()
        };
        starts.is_none_or(|starts| {
            starts.iter().any(|at| self.may_be_alias(*at))
                || self.operands_follow(&starts, &operands, open)
        })
    }

    /// Whether the operands follow from one of these positions. Each option between them may have a value.
    fn operands_follow(&self, starts: &[usize], operands: &[&String], open: bool) -> bool {
        let width = operands.len() + 1;
        let mut reached = vec![false; (self.words.len() + 3) * width];
        for at in starts {
            reached[at * width] = true;
        }
        for at in 0..=self.words.len() {
            for done in 0..width {
                if !reached[at * width + done] {
                    continue;
                }
                let all = done == operands.len();
                let Some(word) = self.words.get(at) else {
                    if all {
                        return true;
                    }
                    continue;
                };
                if all && open {
                    return true;
                }
                let Some(word) = word.literal() else {
                    return true;
                };
                if is_option(word) {
                    reached[(at + 1) * width + done] = true;
                    reached[(at + 2) * width + done] |= !word.contains('=');
                }
                if !all && self.is_synonym(operands[done], word) {
                    reached[(at + 1) * width + done + 1] = true;
                }
            }
        }
        false
    }

    fn is_synonym(&self, operand: &str, word: &str) -> bool {
        operand == word
            || SYNONYMS.iter().any(|(program, words)| {
                *program == self.program && words.contains(&operand) && words.contains(&word)
            })
    }

    fn has_option(&self, option: &str) -> bool {
        let literals = || self.words.iter().filter_map(Word::literal);
        if let Some(long) = option.strip_prefix("--") {
            let (name, value) = split_value(long);
            return literals().any(|word| {
                let (found, given) = split_value(word.strip_prefix("--").unwrap_or_default());
                !found.is_empty()
                    && name.starts_with(found)
                    && (value.is_none() || given.is_none() || value == given)
            });
        }
        let letters = option.trim_start_matches(['-', '+']);
        let clusters =
            || literals().filter(|word| word.starts_with('-') && !word.starts_with("--"));
        literals().any(|word| word == option)
            || option.starts_with('-')
                && (1..=3).contains(&letters.len())
                && letters
                    .chars()
                    .all(|letter| clusters().any(|cluster| cluster[1..].contains(letter)))
    }

    /// The command as texts to compare with a pattern: as a whole, and from each candidate subcommand.
    pub(super) fn match_texts(&self) -> Vec<String> {
        let join = |words: &[Word]| {
            let shown = words.iter().map(Word::as_written);
            std::iter::once(self.program.as_str())
                .chain(shown)
                .collect::<Vec<_>>()
                .join(" ")
        };
        let from = self.subcommands().unwrap_or_default();
        let inner = from.into_iter().filter(|at| *at > 0);
        std::iter::once(join(&self.words))
            .chain(inner.map(|at| join(&self.words[at..])))
            .collect()
    }
}

/// Whether a word may precede the subcommand: an option, a toolchain such as `+nightly`, or an assignment.
fn is_option(word: &str) -> bool {
    word.len() > 1 && word.starts_with(['-', '+'])
        || word
            .split_once('=')
            .is_some_and(|(name, _)| super::parser::is_name(name))
}

fn split_value(long: &str) -> (&str, Option<&str>) {
    match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    }
}

fn is_git_command(name: &str) -> bool {
    GIT_COMMANDS.split_whitespace().any(|known| known == name)
}
