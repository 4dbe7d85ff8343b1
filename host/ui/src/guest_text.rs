//! Text of plugins, models, files and other programs: escaped, bounded, and isolated from the text around it.
//!
//! The direction is always from left to right, because the first letter of a text must not reorder code or a path.

use maud::{Markup, html};
use toolhost_contract::text;

/// One line. A direction that the text sets ends with it.
pub fn line(guest: &str, max: usize) -> Markup {
    html! { bdi dir="ltr" { (text::escape_line(guest, max)) } }
}

/// One line in a fixed-width font.
pub fn code(guest: &str, max: usize) -> Markup {
    html! { bdi dir="ltr" { code { (text::escape_line(guest, max)) } } }
}

/// One line of the host about guest text: what is between backticks is in a fixed-width font.
pub fn sentence(text: &str, max: usize) -> Markup {
    let escaped = text::escape_line(text, max);
    let parts = escaped.split('`').enumerate();
    html! {
        bdi dir="ltr" {
            @for (at, part) in parts {
                @if at % 2 == 1 { code { (part) } } @else { (part) }
            }
        }
    }
}

/// Several lines in a fixed-width font.
pub fn block(guest: &str, max: usize) -> Markup {
    html! { pre tabindex="0" { bdi dir="ltr" { (text::escape_lines(guest, max)) } } }
}

/// Like [`block`], for text that a user decides about: long runs of blanks, which could hide the text after them, are
/// replaced by their number.
pub fn decision_block(guest: &str, max: usize) -> Markup {
    let shown = text::decision_lines(guest, max);
    html! { pre tabindex="0" { bdi dir="ltr" { (shown) } } }
}
