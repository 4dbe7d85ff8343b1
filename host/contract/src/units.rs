//! Sizes and durations in human-readable notation: `64MiB`, `30s`.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {expected}")]
pub struct UnitError {
    text: String,
    expected: &'static str,
}

/// Parses a size in bytes: `512`, `64KiB`, `4MiB`, `1GiB` (powers of 1024) or `64KB`, `4MB`, `1GB` (powers of 1000).
pub fn parse_size(text: &str) -> Result<u64, UnitError> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "" | "B" => Some(1),
        "KiB" | "Ki" => Some(1 << 10),
        "MiB" | "Mi" => Some(1 << 20),
        "GiB" | "Gi" => Some(1 << 30),
        "KB" => Some(1_000),
        "MB" => Some(1_000_000),
        "GB" => Some(1_000_000_000),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .ok_or_else(|| UnitError {
            text: crate::text::escape_line(text, 40),
            expected: "a size such as `512KiB` or `64MiB`",
        })
}

/// Parses a duration: `250ms`, `30s`, `2m`, `1h`, `90d`. A number without a unit is refused because it is ambiguous.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split_unit(text);
    let factor = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(number, factor)| number.checked_mul(factor))
        .map(Duration::from_millis)
        .ok_or_else(|| UnitError {
            text: crate::text::escape_line(text, 40),
            expected: "a duration such as `500ms` or `30s`",
        })
}

/// Like [`parse_duration`], but refuses 0, for example for time limits.
pub fn parse_positive_duration(text: &str) -> Result<Duration, UnitError> {
    match parse_duration(text)? {
        Duration::ZERO => Err(UnitError {
            text: crate::text::escape_line(text, 40),
            expected: "a duration of at least `1ms`",
        }),
        duration => Ok(duration),
    }
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// Formats a size: `1536` → `1.5 KiB`.
#[expect(clippy::cast_precision_loss, reason = "shown with one decimal")]
pub fn format_size(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    if unit == "B" {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// Formats a duration: `1500 ms` → `1.5s`, `30000 ms` → `30s`.
pub fn format_duration(duration: Duration) -> String {
    let ms = duration.as_millis();
    if ms < 1000 {
        format!("{ms}ms")
    } else if ms.is_multiple_of(1000) {
        format!("{}s", ms / 1000)
    } else {
        format!("{:.1}s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_parsed() {
        for (text, size) in [
            ("12", 12),
            ("4KiB", 4096),
            ("64 MiB", 64 << 20),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(parse_size(text).unwrap(), size);
        }
        for text in ["", "MiB", "1.5MiB", "-1", "1XB", "99999999999GiB"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
        for (text, ms) in [
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1d", 86_400_000),
        ] {
            assert_eq!(parse_duration(text).unwrap().as_millis(), ms);
        }
        for text in ["30", "", "s", "-1s", "1 fortnight"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("0s").unwrap(), Duration::ZERO);
        for text in ["0s", "0d", "000 ms", "30"] {
            assert!(parse_positive_duration(text).is_err(), "{text}");
        }
        assert!(parse_positive_duration("1ms").is_ok());
    }

    #[test]
    fn sizes_and_durations_are_formatted() {
        assert_eq!(format_size(1536), "1.5 KiB");
        assert_eq!(format_size(12), "12 B");
        assert_eq!(format_duration(Duration::from_millis(30_000)), "30s");
        assert_eq!(format_duration(Duration::from_millis(1_500)), "1.5s");
    }
}
