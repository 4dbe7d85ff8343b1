//! How the user wants the terminal to be used: colours, and plain prompts for screen readers.

use std::sync::OnceLock;

use clap::{Args, ValueEnum};

/// Variable that enables plain prompts, unless it is empty or `0`.
const PLAIN_VARIABLE: &str = "TOOLHOST_PLAIN";

static OPTIONS: OnceLock<TerminalArgs> = OnceLock::new();

#[derive(Debug, Clone, Default, Args)]
pub struct TerminalArgs {
    /// When to use colors; `auto` uses them at a terminal unless NO_COLOR is set [default: auto]
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        hide_possible_values = true,
        help_heading = "Terminal"
    )]
    color: Option<ColorChoice>,

    /// Ask in plain lines that are answered with Enter, without redraws, for screen readers (also TOOLHOST_PLAIN=1)
    #[arg(long, global = true, help_heading = "Terminal")]
    plain_prompts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    Auto,
    Always,
    Never,
}

impl TerminalArgs {
    /// Applies to the whole process. Later calls have no effect.
    pub fn apply(self) {
        let _ = OPTIONS.set(self);
    }
}

pub fn color_choice() -> ColorChoice {
    let choice = OPTIONS.get().and_then(|options| options.color);
    choice.unwrap_or(ColorChoice::Auto)
}

/// Whether prompts are lines that are answered with Enter, and nothing is redrawn.
pub fn is_plain() -> bool {
    let is_set = std::env::var_os(PLAIN_VARIABLE).is_some_and(|on| !on.is_empty() && on != "0");
    is_set || is_dumb() || OPTIONS.get().is_some_and(|options| options.plain_prompts)
}

/// Whether the terminal understands no control sequences.
pub fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|term| term == "dumb")
}
