//! Dates and times in UTC, as the commands print them.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use maud::{Markup, html};

/// Formats a time as `2026-11-22 02:43:05Z`.
pub fn utc(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms).unwrap_or_default();
    at.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A time. Programs can read the text, and the script of the page leaves it as it is.
pub fn time(at_ms: i64) -> Markup {
    html! { time { (utc(at_ms)) } }
}

/// The first and the last millisecond of a day such as `2026-11-22`.
pub fn day(text: &str) -> Option<(i64, i64)> {
    // The parser accepts a date with a time too.
    let day: Date = text
        .parse()
        .ok()
        .filter(|_| text.len() == "2026-11-22".len())?;
    let start = day
        .to_zoned(TimeZone::UTC)
        .ok()?
        .timestamp()
        .as_millisecond();
    Some((start, start + 24 * 60 * 60 * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_in_utc_and_others_are_refused() {
        assert_eq!(day("1970-01-02"), Some((86_400_000, 172_800_000)));
        for text in ["", "yesterday", "2026-13-01", "1970-01-02T10:00"] {
            assert_eq!(day(text), None, "{text}");
        }
        assert_eq!(utc(0), "1970-01-01 00:00:00Z");
    }
}
