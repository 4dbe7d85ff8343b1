//! `current_time`: the current time in a time zone, from a bundled time zone database.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use toolhost_sdk::prelude::*;

/// A point in time in a time zone.
#[data]
pub struct Now {
    /// Milliseconds since 1970 in UTC.
    timestamp: i64,
    /// ISO 8601 with offset, such as `2026-01-31T10:30:00.000+01:00`.
    iso: String,
    /// IANA time zone.
    timezone: String,
    /// Readable form, such as `Saturday, 31 January 2026, 10:30:00 CET`.
    formatted: String,
    /// Offset from UTC, such as `+01:00`.
    offset: String,
}

/// Get the current date and time in a time zone.
#[tool(
    reads,
    plain_text,
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
    /// IANA time zone, such as `Europe/Vienna`.
    #[arg(default = "UTC", aliases = ["tz", "time_zone"])]
    timezone: String,
) -> Result<Outcome> {
    let now = at(Timestamp::now(), &timezone)?;
    Ok(Outcome::text(format!("{} ({})", now.formatted, now.iso)).structured(&now))
}

fn at(timestamp: Timestamp, timezone: &str) -> Result<Now> {
    let zone = TimeZone::get(timezone.trim()).map_err(|_| unknown(timezone))?;
    let name = zone.iana_name().unwrap_or("UTC").to_owned();
    // `%Z` does not preserve lower case letters: `ChST`.
    let abbreviation = zone.to_offset_info(timestamp).abbreviation().to_owned();
    let zoned = timestamp.to_zoned(zone);
    Ok(Now {
        timestamp: timestamp.as_millisecond(),
        iso: if name == "UTC" {
            format!("{timestamp:.3}")
        } else {
            zoned.strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
        },
        timezone: name,
        formatted: format!(
            "{} {abbreviation}",
            zoned.strftime("%A, %-d %B %Y, %H:%M:%S")
        ),
        offset: zoned.strftime("%:z").to_string(),
    })
}

/// Never falls back to another zone, because a wrong time is worse than none.
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

/// Users often write only the city, so each part of the name is compared.
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
            Err(error) => toolhost_sdk::testing::error_line(&error),
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

    /// For each zone and second, the result of Python's `zoneinfo`; null for unknown zones.
    const ZONES: &str = r#"
import json, sys
from datetime import datetime, timezone
from zoneinfo import ZoneInfo
def tell(name, second):
    try:
        zone = ZoneInfo(name)
    except Exception:
        return None
    time = datetime.fromtimestamp(second, timezone.utc).astimezone(zone)
    return [time.strftime("%Y-%m-%dT%H:%M:%S"), time.strftime("%z"), time.strftime("%A, ") + str(time.day) + time.strftime(" %B %Y, %H:%M:%S %Z")]
json.dump([tell(name, second) for name, second in json.load(sys.stdin)], sys.stdout)
"#;

    /// New database versions correct earlier years and add rules for later ones.
    const YEARS: std::ops::Range<i64> = 1990..2020;

    #[test]
    fn every_zone_is_as_python_has_it() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};

        let mut cases = Vec::new();
        for (nth, name) in (0_i64..).zip(jiff::tz::db().available()) {
            // Old names such as `MET` became aliases in 2024.
            if !name.to_string().contains('/') {
                continue;
            }
            for year in YEARS {
                // A different day and hour for each zone and year.
                let second =
                    (year - 1970) * 31_556_952 + (nth * 7919 + year * 104_729) * 3601 % 31_556_952;
                cases.push((name.to_string(), second));
            }
        }
        let started = Command::new("python3")
            .args(["-I", "-c", ZONES])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let Ok(mut child) = started else {
            println!("skipped: python3 is not installed");
            return;
        };
        let mut stdin = child.stdin.take().unwrap();
        let input = json!(cases).to_string();
        let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        let answers: Vec<Option<[String; 3]>> =
            toolhost_sdk::serde_json::from_slice(&output.stdout).unwrap();
        let mut compared = 0;
        let mut different = Vec::new();
        for ((name, second), answer) in cases.iter().zip(answers) {
            let Some([time, offset, formatted]) = answer else {
                continue;
            };
            compared += 1;
            let now = at(Timestamp::from_second(*second).unwrap(), name).unwrap();
            let is_same = now.iso.starts_with(&format!("{time}.000"))
                && now.offset.replace(':', "") == offset
                && now.formatted == formatted;
            if !is_same {
                different.push(format!(
                    "{name} {second}: {} {}, Python {formatted} {offset}",
                    now.formatted, now.offset
                ));
            }
        }
        assert_eq!(different, Vec::<String>::new(), "of {compared}");
        if compared == 0 {
            println!("skipped: Python has no time zones here");
        }
    }
}
