//! Log lines of plugins.

use maud::{Markup, html};

use crate::guest_text::line;
use crate::history::LogLine;
use crate::times;

/// Maximum length of a line in characters.
const MAX_LINE: usize = 500;

pub fn lines(lines: &[LogLine]) -> Markup {
    html! {
        div class="log" tabindex="0" role="log" aria-label="Log" {
            @for one in lines {
                p { span class="meta" { (times::utc(one.at.0)) " " (line(&one.source, 20)) } " " (line(&one.text, MAX_LINE)) }
            }
        }
    }
}
