//! A command line: every command that it would run, and what is known about each.

use maud::{Markup, html};
use toolhost_shell_syntax::{
    RedirectTarget, Script, Word, describe_danger, find_risky_options, parse,
};

use crate::guest_text::{code, sentence};

/// Maximum length of a shown command, in characters.
const MAX_COMMAND: usize = 2_000;

/// Labels of facts that this view shows in more detail.
pub const REPLACED_FACTS: [&str; 3] = ["runs", "writes", "appends"];

/// Shows the parts of a command line. `None` if it cannot be parsed.
pub fn show(command: &str) -> Option<Markup> {
    let script = parse(command).ok()?;
    Some(html! {
        div class="commands" {
            @if let Some(danger) = describe_danger(&script) {
                p class="danger-text" { "This " (danger) "." }
            }
            (commands(&script))
            @for target in &script.writes {
                p { @if target.append { "Appends to " } @else { "Writes to " } (code(path(target), MAX_COMMAND)) }
            }
            @for target in &script.reads { p { "Reads from " (code(path(target), MAX_COMMAND)) } }
        }
    })
}

fn commands(script: &Script) -> Markup {
    html! {
        ol {
            @for command in &script.commands {
                li {
                    (code(&command.text(), MAX_COMMAND))
                    @if command.piped { span class="meta" { "reads the output of the command before it" } }
                    @for outer in &command.via { span class="meta" { "inside " (code(outer, 200)) } }
                    @for option in find_risky_options(command) {
                        span class="danger-text" { (sentence(&option.to_string(), 300)) }
                    }
                }
            }
        }
    }
}

fn path(target: &RedirectTarget) -> &str {
    let (Word::Literal(path) | Word::Dynamic(path)) = &target.path;
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_context_and_its_dangers() {
        let command = "cd a && bash -c 'git fetch --upload-pack=x' | tee b >>log; rm -rf /x";
        let shown = show(command).unwrap().into_string();
        for part in [
            "inside <bdi dir=\"ltr\"><code>bash -c</code></bdi>",
            "reads the output of the command before it",
            "--upload-pack",
            "can run other programs",
            "Appends to <bdi dir=\"ltr\"><code>log</code></bdi>",
            "This deletes directories recursively without prompting.",
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
        let shown = show("ls '<b>'").unwrap().into_string();
        assert!(shown.contains("&lt;b&gt;"), "{shown}");
        assert!(show("echo 'unfinished").is_none());
    }
}
