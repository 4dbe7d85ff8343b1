//! The table of verbs: each is a name, a line of help and the steps it takes.

use std::ffi::OsString;
use std::thread;

use anyhow::{Result, bail};

use crate::job::{Job, Profile};
use crate::shell;
use crate::step::Step;

struct Verb {
    name: &'static str,
    about: &'static str,
    profile: Profile,
    takes: Takes,
    steps: &'static [Step],
}

/// What may follow the verb on the command line.
#[derive(Clone, Copy)]
enum Takes {
    Nothing,
    /// `--debug` builds the host with the dev profile.
    Debug,
    /// Everything goes on to the program that the last step starts.
    Further(&'static str),
}

const BUILD: &[Step] = &[Step::Target, Step::HostAndPlugins, Step::Pack];

const TEST: &[Step] = &[
    Step::Target,
    Step::Clients,
    Step::HostAndPlugins,
    Step::Pack,
    // Before the samples: both build an example named `services` in the same directory.
    Step::Guests,
    Step::Samples,
    Step::TestBuild,
    Step::Warm,
    Step::Test,
];

const VERBS: &[Verb] = &[
    Verb {
        name: "setup",
        about: "install what builds for the wasm32-wasip2 target",
        profile: Profile::Release,
        takes: Takes::Nothing,
        steps: &[Step::Target],
    },
    Verb {
        name: "build",
        about: "build the host and every plugin",
        profile: Profile::Release,
        takes: Takes::Debug,
        steps: BUILD,
    },
    Verb {
        name: "run",
        about: "build, then start the host on this folder with our plugins",
        profile: Profile::Dev,
        takes: Takes::Further("-- ARGS of `host run`"),
        steps: &[Step::Target, Step::HostAndPlugins, Step::Pack, Step::Run],
    },
    Verb {
        name: "plugins",
        about: "renew plugins/*.wasm, and the host that packs them",
        profile: Profile::Release,
        takes: Takes::Debug,
        steps: BUILD,
    },
    Verb {
        name: "dist",
        about: "build the packages in which the host is installed",
        profile: Profile::Release,
        takes: Takes::Debug,
        steps: &[Step::Target, Step::HostAndPlugins, Step::Pack, Step::Dist],
    },
    Verb {
        name: "guests",
        about: "build the misbehaving guests that the tests load",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Target, Step::Guests],
    },
    Verb {
        name: "samples",
        about: "build the sample plugin of each other language",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Samples],
    },
    Verb {
        name: "clients",
        about: "install the MCP clients and the conformance suite that the tests use",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Clients],
    },
    Verb {
        name: "test",
        about: "build what the tests need, then test the workspace",
        profile: Profile::Dev,
        takes: Takes::Further("ARGS of `cargo test`"),
        steps: TEST,
    },
    Verb {
        name: "conformance",
        about: "run the official MCP conformance suite and print its counts",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[
            Step::Target,
            Step::Clients,
            Step::Host,
            Step::Guests,
            Step::Conformance,
        ],
    },
    Verb {
        name: "check",
        about: "formatting, dependencies and lints, as CI runs them",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Format, Step::SupplyChain, Step::Lint, Step::Claims],
    },
    Verb {
        name: "requirements",
        about: "show which test proves which numbered requirement",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Requirements],
    },
    Verb {
        name: "mutate",
        about: "break the implementation of requirements and check that their tests fail",
        profile: Profile::Dev,
        takes: Takes::Further("[R-nnn ...]"),
        steps: &[Step::Mutate],
    },
    Verb {
        name: "bless",
        about: "test, and write what came out into the expectations",
        profile: Profile::Dev,
        takes: Takes::Further("ARGS of `cargo test`"),
        steps: &[
            Step::Target,
            Step::HostAndPlugins,
            Step::Pack,
            Step::Guests,
            Step::Samples,
            Step::Bless,
        ],
    },
    Verb {
        name: "picture",
        about: "draw the terminal session and the pictures of the web page again",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[
            Step::Target,
            Step::Clients,
            Step::HostAndPlugins,
            Step::Pack,
            Step::Picture,
        ],
    },
    Verb {
        name: "bench",
        about: "build, then measure what a call costs here",
        profile: Profile::Release,
        takes: Takes::Further("[--peers] [--json] [GROUP ...]"),
        steps: &[
            Step::Target,
            Step::MeasuredHost,
            Step::Plugins,
            Step::Pack,
            Step::Guests,
            Step::Bench,
        ],
    },
    Verb {
        name: "soak",
        about: "load an HTTP and a stdio server for 30 minutes and check that memory does not grow",
        profile: Profile::Release,
        takes: Takes::Further("-- --minutes N | -- --attack"),
        steps: &[
            Step::Target,
            Step::MeasuredHost,
            Step::Plugins,
            Step::Pack,
            Step::Soak,
        ],
    },
    Verb {
        name: "fuzz",
        about: "search for inputs that break a reader of untrusted input",
        profile: Profile::Dev,
        takes: Takes::Further("[TARGET ...] [--minutes N]"),
        steps: &[Step::Fuzz],
    },
    Verb {
        name: "doc",
        about: "build the API documentation of our own crates",
        profile: Profile::Dev,
        takes: Takes::Nothing,
        steps: &[Step::Doc],
    },
];

pub fn run(mut arguments: Vec<OsString>) -> Result<()> {
    if arguments.is_empty() {
        print!("{}", help());
        return Ok(());
    }
    let name = arguments.remove(0).to_string_lossy().into_owned();
    if matches!(name.as_str(), "help" | "--help" | "-h") {
        print!("{}", help());
        return Ok(());
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == name) else {
        bail!("{}\n\n{}", unknown(&name), help().trim_end());
    };
    let (profile, rest) = verb.read(arguments)?;
    let job = Job::find(profile, rest)?;
    thread::scope(|scope| {
        let mut in_background = Vec::new();
        for (done, step) in verb.steps.iter().enumerate() {
            let title = step.title(&job)?;
            shell::progress(&format!("[{}/{}] {title}", done + 1, verb.steps.len()));
            let is_last = done + 1 == verb.steps.len();
            if step.runs_in_background() && !is_last {
                in_background.push(scope.spawn(|| step.run(&job)));
                continue;
            }
            if is_last {
                for step in in_background.drain(..) {
                    step.join().expect("a step does not panic")?;
                }
            }
            step.run(&job)?;
        }
        Ok(())
    })
}

impl Verb {
    fn read(&self, mut arguments: Vec<OsString>) -> Result<(Profile, Vec<OsString>)> {
        let mut profile = self.profile;
        match self.takes {
            Takes::Further(_) => return Ok((profile, arguments)),
            Takes::Nothing => {}
            Takes::Debug => arguments.retain(|argument| {
                let debug = argument == "--debug";
                if debug {
                    profile = Profile::Dev;
                }
                !debug
            }),
        }
        if let Some(argument) = arguments.first() {
            let usage = format!("cargo xtask {} {}", self.name, self.takes.usage());
            bail!(
                "`{}` takes no `{}`: use `{}`",
                self.name,
                argument.display(),
                usage.trim_end()
            );
        }
        Ok((profile, arguments))
    }
}

impl Takes {
    fn usage(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Debug => "[--debug]",
            Self::Further(text) => text,
        }
    }
}

fn help() -> String {
    use std::fmt::Write;

    let mut text = String::from("usage: cargo xtask VERB\n\n");
    for verb in VERBS {
        let _ = write!(text, "  {:<12} {}", verb.name, verb.about);
        match verb.takes {
            Takes::Nothing => {}
            Takes::Debug | Takes::Further(_) => {
                let _ = write!(text, " ({})", verb.takes.usage());
            }
        }
        text.push('\n');
    }
    text.push_str("  help         this list\n");
    text
}

fn unknown(name: &str) -> String {
    let nearest = VERBS
        .iter()
        .map(|verb| (distance(name, verb.name), verb.name))
        .min();
    match nearest {
        Some((distance, near)) if distance <= 2 => {
            format!("there is no verb `{name}`, did you mean `{near}`?")
        }
        _ => format!("there is no verb `{name}`"),
    }
}

/// How many letters must change, come or go to make `a` into `b`.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (above, a) in a.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, b) in b.iter().enumerate() {
            let change = diagonal + usize::from(a != *b);
            diagonal = row[column + 1];
            row[column + 1] = change.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(unknown(name), expected);
    }

    #[test]
    fn a_slip_of_the_finger_gets_a_suggestion() {
        check("tset", "there is no verb `tset`, did you mean `test`?");
        check("biuld", "there is no verb `biuld`, did you mean `build`?");
        check(
            "plugin",
            "there is no verb `plugin`, did you mean `plugins`?",
        );
    }

    #[test]
    fn a_word_like_no_verb_gets_none() {
        check("deploy", "there is no verb `deploy`");
    }

    #[test]
    fn only_a_verb_that_builds_takes_debug() {
        for verb in VERBS {
            let accepted = verb.read(vec!["--debug".into()]).is_ok();
            assert_eq!(
                accepted,
                !matches!(verb.takes, Takes::Nothing),
                "{}",
                verb.name
            );
        }
    }
}
