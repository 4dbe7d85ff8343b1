//! `current_time`: the one tool that needs a table of the world's time zones, which it carries with it.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use toolhost_sdk::prelude::*;

/// A point in time, as somewhere on earth sees it.
#[data]
pub struct Now {
    /// Milliseconds since 1970 in UTC.
    timestamp: i64,
    /// ISO 8601 with offset, such as `2026-01-31T10:30:00.000+01:00`.
    iso: String,
    /// The zone's name in the IANA database.
    timezone: String,
    /// For people, such as `Saturday, 31 January 2026, 10:30:00 CET`.
    formatted: String,
    /// Distance from UTC, such as `+01:00`.
    offset: String,
}

/// Tell the current date and time in a time zone.
#[tool(
    reads,
    requires = [],
    category = "system",
    kind = "read",
    icon = "clock",
    tags = ["time", "date", "timezone"],
    output = Now,
    example(description = "In UTC", input = "{}"),
    example(description = "In Vienna", input = r#"{"timezone": "Europe/Vienna"}"#),
)]
pub fn current_time(
    /// IANA name of a time zone, for example `Europe/Vienna` or `UTC`.
    #[arg(default = "UTC", aliases = ["tz", "time_zone"])]
    timezone: String,
) -> Result<Outcome> {
    let now = at(Timestamp::now(), &timezone)?;
    Ok(Outcome::text(format!("{} ({})", now.formatted, now.iso)).structured(&now))
}

fn at(timestamp: Timestamp, timezone: &str) -> Result<Now> {
    let zone = TimeZone::get(timezone.trim()).map_err(|_| unknown(timezone))?;
    let name = zone.iana_name().unwrap_or("UTC").to_owned();
    let zoned = timestamp.to_zoned(zone);
    Ok(Now {
        timestamp: timestamp.as_millisecond(),
        iso: if name == "UTC" {
            format!("{timestamp:.3}")
        } else {
            zoned.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
        },
        timezone: name,
        formatted: zoned.strftime("%A, %-d %B %Y, %H:%M:%S %Z").to_string(),
        offset: zoned.strftime("%:z").to_string(),
    })
}

/// Never falls back to another zone: a time that is silently wrong is worse than none.
fn unknown(timezone: &str) -> Error {
    let wanted = timezone.trim().to_lowercase().replace(' ', "_");
    let mut near: Vec<(usize, String)> = jiff::tz::db()
        .available()
        .map(|name| name.to_string())
        .filter_map(|name| Some((distance(&wanted, &name.to_lowercase())?, name)))
        .collect();
    near.sort();
    let nearest = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance <= nearest + 1);
    let near: Vec<String> = near.into_iter().take(3).map(|(_, name)| name).collect();
    let advice = if near.is_empty() {
        "use an IANA name such as Europe/Vienna, or UTC".to_owned()
    } else {
        format!("did you mean: {}?", near.join(", "))
    };
    Error::invalid_input(format!("unknown time zone {timezone:?}; {advice}"))
        .code("invalid_timezone")
}

/// People write the city alone, so each part of the name may be what was meant.
fn distance(wanted: &str, name: &str) -> Option<usize> {
    let city = name.rsplit('/').next().unwrap_or(name);
    let distance = strsim::osa_distance(wanted, name).min(strsim::osa_distance(wanted, city));
    (distance <= wanted.chars().count() / 4).then_some(distance)
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

    use super::*;

    fn check(seconds: i64, timezone: &str, expected: Expect) {
        let timestamp = Timestamp::from_second(seconds).unwrap();
        expected.assert_eq(&match at(timestamp, timezone) {
            Ok(now) => Value::to_string(&toolhost_sdk::serde_json::to_value(now).unwrap()),
            Err(error) => format!(
                "{:?} {}: {error}",
                error.kind,
                error.code.as_deref().unwrap_or("-")
            ),
        });
    }

    // R-360
    #[test]
    fn zones() {
        check(
            1_769_851_800,
            "UTC",
            expect![[
                r#"{"timestamp":1769851800000,"iso":"2026-01-31T09:30:00.000Z","timezone":"UTC","formatted":"Saturday, 31 January 2026, 09:30:00 UTC","offset":"+00:00"}"#
            ]],
        );
        check(
            1_769_851_800,
            "Europe/Vienna",
            expect![[
                r#"{"timestamp":1769851800000,"iso":"2026-01-31T10:30:00.000+01:00","timezone":"Europe/Vienna","formatted":"Saturday, 31 January 2026, 10:30:00 CET","offset":"+01:00"}"#
            ]],
        );
        check(
            1_785_490_200,
            "europe/vienna",
            expect![[
                r#"{"timestamp":1785490200000,"iso":"2026-07-31T11:30:00.000+02:00","timezone":"Europe/Vienna","formatted":"Friday, 31 July 2026, 11:30:00 CEST","offset":"+02:00"}"#
            ]],
        );
        check(
            1_769_851_800,
            "Asia/Kathmandu",
            expect![[
                r#"{"timestamp":1769851800000,"iso":"2026-01-31T15:15:00.000+05:45","timezone":"Asia/Kathmandu","formatted":"Saturday, 31 January 2026, 15:15:00 +0545","offset":"+05:45"}"#
            ]],
        );
        check(
            1_769_851_800,
            "America/St_Johns",
            expect![[
                r#"{"timestamp":1769851800000,"iso":"2026-01-31T06:00:00.000-03:30","timezone":"America/St_Johns","formatted":"Saturday, 31 January 2026, 06:00:00 NST","offset":"-03:30"}"#
            ]],
        );
    }

    // R-360
    #[test]
    fn an_unknown_zone_is_an_error() {
        check(
            0,
            "Vienna",
            expect![[
                r#"InvalidInput invalid_timezone: unknown time zone "Vienna"; did you mean: Europe/Vienna?"#
            ]],
        );
        check(
            0,
            "Europe/Viena",
            expect![[
                r#"InvalidInput invalid_timezone: unknown time zone "Europe/Viena"; did you mean: Europe/Vienna?"#
            ]],
        );
        check(
            0,
            "new york",
            expect![[
                r#"InvalidInput invalid_timezone: unknown time zone "new york"; did you mean: America/New_York?"#
            ]],
        );
        check(
            0,
            "Middle-earth",
            expect![[
                r#"InvalidInput invalid_timezone: unknown time zone "Middle-earth"; use an IANA name such as Europe/Vienna, or UTC"#
            ]],
        );
        check(
            0,
            "",
            expect![[
                r#"InvalidInput invalid_timezone: unknown time zone ""; use an IANA name such as Europe/Vienna, or UTC"#
            ]],
        );
    }

    #[test]
    fn the_clock_is_read() {
        let outcome =
            toolhost_sdk::testing::call::<current_time>(&Context::test(), json!({})).unwrap();
        let data = outcome.structured.unwrap();
        assert_eq!(data["timezone"], "UTC");
        assert!(data["timestamp"].as_i64() > Some(1_700_000_000_000));
    }

    #[test]
    fn it_needs_no_capability() {
        assert!(current_time::descriptor().requires.is_empty());
        toolhost_sdk::testing::check_examples::<current_time>().unwrap();
    }
}
