//! A command line as the policy sees it: the only place that knows how one is read.

/// What a command line would run and touch.
pub(super) enum Line {
    Known(Known),
    /// It could not be read, so nobody can say what it would do.
    Unknown(String),
}

pub(super) struct Known {
    pub commands: Vec<Simple>,
    pub redirects: Vec<Redirect>,
    pub reads_only: bool,
    pub danger: Option<&'static str>,
}

#[derive(Debug)]
pub(super) struct Simple {
    pub text: String,
    /// What a lasting approval may remember.
    pub prefix: Option<Vec<String>>,
    pub words: Vec<String>,
}

pub(super) struct Redirect {
    /// `None`: only the shell will know.
    pub path: Option<String>,
    pub write: bool,
}

pub(super) fn read(command: &str) -> Line {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./=:,@+".contains(c);
    if !command.chars().all(plain) || command.trim().is_empty() {
        return Line::Unknown("it is more than one plain command".to_owned());
    }
    let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    let prefix = words
        .iter()
        .take_while(|word| word.bytes().all(|b| b.is_ascii_alphabetic()));
    let prefix: Vec<String> = prefix.take(2).cloned().collect();
    Line::Known(Known {
        commands: vec![Simple {
            text: words.join(" "),
            prefix: (!prefix.is_empty()).then_some(prefix),
            words,
        }],
        redirects: Vec::new(),
        reads_only: matches!(command.split_whitespace().next(), Some("ls" | "cat")),
        danger: None,
    })
}

/// The right side of `Bash(…)`.
#[derive(Debug, Clone)]
pub(super) struct CommandPattern(String);

impl CommandPattern {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Err("a command pattern is empty; write one such as `git *`".to_owned()),
            text => Ok(Self(text.to_owned())),
        }
    }

    pub(super) fn matches(&self, command: &Simple) -> bool {
        let prefix = self
            .0
            .strip_suffix(":*")
            .or_else(|| self.0.strip_suffix(" *"));
        match prefix {
            Some(prefix) => command
                .text
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' ')),
            None => super::address::wildcard(&self.0, &command.text),
        }
    }
}
