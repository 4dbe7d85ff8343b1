//! Small charts, drawn without a library and without inline styles.

use maud::{Markup, html};

/// A line of a chart.
pub struct Series<'a> {
    pub name: &'a str,
    /// Class of its color: `one`, `two` or `three`.
    pub class: &'static str,
    /// `None` where nothing was measured.
    pub values: Vec<Option<f64>>,
}

/// Height of the coordinates.
const HEIGHT: f64 = 40.0;

/// A chart with its name, its current value and the range. `describe` formats a value.
pub fn lines(
    title: &str,
    note: &str,
    series: &[Series<'_>],
    describe: impl Fn(f64) -> String,
) -> Markup {
    let values = || series.iter().flat_map(|one| &one.values).flatten().copied();
    let top = values().fold(0.0, f64::max);
    let latest: Vec<String> = series
        .iter()
        .map(|one| {
            let last = one.values.iter().rev().flatten().next();
            let last = last.map_or_else(|| "no data".to_owned(), |value| describe(*value));
            if series.len() == 1 {
                last
            } else {
                format!("{} {last}", one.name)
            }
        })
        .collect();
    let latest = latest.join(", ");
    let label = format!("{title}: {latest}; highest {}", describe(top));
    html! {
        figure class="chart" {
            figcaption {
                span class="chart-title" { (title) }
                span class="chart-value" { (latest) }
            }
            svg viewBox="0 0 100 40" preserveAspectRatio="none" role="img" aria-label=(label) {
                @for one in series {
                    @for part in polylines(&one.values, top) {
                        polyline class={ "line " (one.class) } points=(part) {}
                    }
                }
            }
            p class="meta" {
                "highest " (describe(top)) " · " (note)
                @if series.len() > 1 {
                    " · "
                    @for one in series { span class={ "key " (one.class) } { (one.name) } " " }
                }
            }
        }
    }
}

/// The points of each part without a missing value.
fn polylines(values: &[Option<f64>], top: f64) -> Vec<String> {
    let last = count(values.len().saturating_sub(1)).max(1.0);
    let mut parts: Vec<Vec<String>> = vec![Vec::new()];
    for (at, value) in values.iter().enumerate() {
        match value {
            Some(value) => {
                let y = HEIGHT - 1.0 - value / top.max(f64::MIN_POSITIVE) * (HEIGHT - 2.0);
                if let Some(part) = parts.last_mut() {
                    part.push(format!("{:.2},{y:.2}", count(at) / last * 100.0));
                }
            }
            None => parts.push(Vec::new()),
        }
    }
    let parts = parts.into_iter().filter(|part| !part.is_empty());
    parts
        .map(|mut part| {
            // A single point is not drawn.
            if let [only] = &part[..] {
                part.push(only.clone());
            }
            part.join(" ")
        })
        .collect()
}

/// A bar that shows how much of a limit is used.
pub fn meter(used: f64, limit: f64) -> Markup {
    let share = (used / limit.max(f64::MIN_POSITIVE) * 100.0).clamp(0.0, 100.0);
    let class = match share {
        90.0.. => "high",
        60.0.. => "medium",
        _ => "low",
    };
    html! {
        svg class="meter" width="64" height="6" aria-hidden="true" focusable="false" {
            rect class="base" width="100%" height="6" rx="3" {}
            rect class=(class) width=(format!("{share:.1}%")) height="6" rx="3" {}
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
pub fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_values_interrupt_a_line() {
        let parts = polylines(&[Some(0.0), Some(2.0), None, Some(1.0)], 2.0);
        assert_eq!(
            parts,
            ["0.00,39.00 33.33,1.00", "100.00,20.00 100.00,20.00"]
        );
        assert!(polylines(&[None, None], 0.0).is_empty());
        assert_eq!(polylines(&[Some(0.0)], 0.0), ["0.00,39.00 0.00,39.00"]);
    }

    #[test]
    fn a_chart_states_its_values_as_text() {
        let series = Series {
            name: "p95",
            class: "one",
            values: vec![Some(1.0), Some(3.0)],
        };
        let markup = lines("Latency", "last hour", &[series], |value| {
            format!("{value} ms")
        })
        .into_string();
        assert!(
            markup.contains("aria-label=\"Latency: 3 ms; highest 3 ms\""),
            "{markup}"
        );
        assert!(!markup.contains("style="));
    }

    #[test]
    fn a_meter_is_full_at_its_limit() {
        assert!(
            meter(5.0, 1.0)
                .into_string()
                .contains("class=\"high\" width=\"100.0%\"")
        );
        assert!(
            meter(0.0, 0.0)
                .into_string()
                .contains("class=\"low\" width=\"0.0%\"")
        );
    }
}
