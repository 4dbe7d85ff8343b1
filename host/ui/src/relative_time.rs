//! Times in words, relative to the delivery of the page.

use maud::{Markup, html};
use toolhost_contract::lifecycle::Timestamp;

/// Shows how long ago a time was. The script of the page updates it.
pub fn since(at: Timestamp, now: Timestamp) -> Markup {
    let date = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    let date = date.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    html! { time class="relative" datetime=(date) title=(date) { (in_words(at, now)) } }
}

/// Returns how long ago a time was, such as `12 s ago`.
fn in_words(at: Timestamp, now: Timestamp) -> String {
    let seconds = now.0.saturating_sub(at.0) / 1_000;
    match seconds {
        ..=0 => "just now".to_owned(),
        1..=119 => format!("{seconds} s ago"),
        120..=7_199 => format!("{} min ago", seconds / 60),
        7_200..=172_799 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} days ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_down() {
        for (seconds, expected) in [
            (-5, "just now"),
            (0, "just now"),
            (119, "119 s ago"),
            (120, "2 min ago"),
            (7_199, "119 min ago"),
            (7_200, "2 h ago"),
            (172_800, "2 days ago"),
        ] {
            let shown = in_words(Timestamp(0), Timestamp(seconds * 1_000));
            assert_eq!(shown, expected);
        }
    }
}
