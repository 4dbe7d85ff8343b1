//! Text of plugins, models, files and other programs: escaped, bounded, and isolated from the text around it.

use maud::{Markup, html};
use toolhost_contract::text;

/// One line. A direction that the text sets ends with it.
pub fn line(guest: &str, max: usize) -> Markup {
    html! { bdi { (text::escape_line(guest, max)) } }
}

/// One line in a fixed-width font.
pub fn code(guest: &str, max: usize) -> Markup {
    html! { bdi { code { (text::escape_line(guest, max)) } } }
}

/// Several lines in a fixed-width font.
pub fn block(guest: &str, max: usize) -> Markup {
    html! { pre tabindex="0" dir="ltr" { bdi { (text::escape_lines(guest, max)) } } }
}
