//! A chart of calls over time: a row for each level of nesting, and times without calls shortened.
//!
//! Positions are percentages and sizes are attributes, because the content security policy forbids inline styles.

use maud::{Markup, html};
use toolhost_contract::text;
use toolhost_contract::units::format_duration;

use std::time::Duration;

/// Height of a row and of the bar in it, in pixels.
const ROW: usize = 24;
const BAR: usize = 20;
/// Maximum number of rows of one chart.
const MAX_ROWS: usize = 24;
/// Width of a gap in percent, if there are few of them.
const GAP: f64 = 1.5;
/// Maximum share of all gaps in percent.
const MAX_GAPS: f64 = 30.0;
/// A time without calls that is longer than this part of the rest is shortened.
const LONG_GAP: i64 = 10;
/// Minimum width of a bar in percent.
const MIN_WIDTH: f64 = 0.3;
/// Width in percent from which a bar has a label.
const LABEL_WIDTH: f64 = 4.0;

/// What a call did during a part of its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Check,
    /// Waits for the user.
    Ask,
    /// Waits for other calls.
    Queue,
    Run,
}

impl Phase {
    /// The phase that begins when a call enters a state.
    pub fn of_state(state: &str) -> Self {
        match state {
            "awaiting_approval" => Self::Ask,
            "approved" | "scheduled" => Self::Queue,
            "executing" => Self::Run,
            _ => Self::Check,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Check => "check",
            Self::Ask => "ask",
            Self::Queue => "queue",
            Self::Run => "run",
        }
    }
}

/// A call in a chart. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Index of the bar of the call that made this call.
    pub parent: Option<usize>,
    pub start: i64,
    pub end: i64,
    pub phases: Vec<(Phase, i64, i64)>,
    pub label: String,
    pub title: String,
    pub link: String,
    /// Class of its outcome.
    pub outcome: &'static str,
    /// How often it ran again.
    pub retries: usize,
    pub is_undone: bool,
}

/// A turn: a line above the bars of its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub start: i64,
    pub end: i64,
    pub label: String,
}

/// Maps times to percentages of the width. Long times without calls have a fixed width.
struct TimeScale {
    pieces: Vec<Piece>,
}

struct Piece {
    start: i64,
    end: i64,
    x: f64,
    width: f64,
    is_gap: bool,
}

impl TimeScale {
    fn of(intervals: impl Iterator<Item = (i64, i64)>) -> Self {
        let mut intervals: Vec<(i64, i64)> = intervals
            .map(|(start, end)| (start, end.max(start + 1)))
            .collect();
        intervals.sort_unstable();
        let mut busy: Vec<(i64, i64)> = Vec::new();
        for (start, end) in intervals {
            match busy.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => busy.push((start, end)),
            }
        }
        let total: i64 = busy.iter().map(|(start, end)| end - start).sum();
        // Short gaps keep their length.
        let shortest = (total / LONG_GAP).max(1);
        let mut groups: Vec<(i64, i64)> = Vec::new();
        for (start, end) in busy {
            match groups.last_mut() {
                Some(last) if start - last.1 <= shortest => last.1 = end,
                _ => groups.push((start, end)),
            }
        }
        Self {
            pieces: pieces(&groups),
        }
    }

    fn x(&self, at: i64) -> f64 {
        let index = self.pieces.partition_point(|piece| piece.end < at);
        let Some(piece) = self.pieces.get(index) else {
            return 100.0;
        };
        let length = ratio(piece.end - piece.start).max(1.0);
        piece.x + piece.width * (ratio(at - piece.start) / length).clamp(0.0, 1.0)
    }
}

fn pieces(groups: &[(i64, i64)]) -> Vec<Piece> {
    let gaps = groups.len().saturating_sub(1);
    let count = ratio(i64::try_from(gaps).unwrap_or(i64::MAX));
    let gap = if gaps == 0 {
        0.0
    } else {
        GAP.min(MAX_GAPS / count)
    };
    let total: f64 = groups.iter().map(|(start, end)| ratio(end - start)).sum();
    let scale = (100.0 - gap * count) / total.max(1.0);
    let mut pieces: Vec<Piece> = Vec::new();
    let mut x = 0.0;
    for &(start, end) in groups {
        if let Some(before) = pieces.last().map(|piece| piece.end) {
            pieces.push(Piece {
                start: before,
                end: start,
                x,
                width: gap,
                is_gap: true,
            });
            x += gap;
        }
        let width = ratio(end - start) * scale;
        pieces.push(Piece {
            start,
            end,
            x,
            width,
            is_gap: false,
        });
        x += width;
    }
    pieces
}

#[expect(clippy::cast_precision_loss, reason = "a position in a chart")]
fn ratio(number: i64) -> f64 {
    number as f64
}

/// Assigns a row to each bar: below its parent, where no other bar is at the same time.
fn rows(bars: &[Bar]) -> Vec<usize> {
    let mut ends: Vec<i64> = Vec::new();
    let mut rows = vec![0; bars.len()];
    let mut order: Vec<usize> = (0..bars.len()).collect();
    order.sort_by_key(|&at| (bars[at].start, at));
    for at in order {
        let bar = &bars[at];
        let parent = bar.parent.filter(|parent| *parent != at);
        let first = parent.map_or(0, |parent| rows[parent] + 1);
        let mut row = first;
        while ends.get(row).is_some_and(|end| *end > bar.start) {
            row += 1;
        }
        if ends.len() <= row {
            ends.resize(row + 1, i64::MIN);
        }
        ends[row] = bar.end.max(bar.start + 1);
        rows[at] = row;
    }
    rows
}

/// Draws the bars of one session. A list of the same calls must follow, because the chart is for the eye only.
pub fn chart(bars: &[Bar], turns: &[Turn]) -> Markup {
    let intervals = bars.iter().map(|bar| (bar.start, bar.end));
    let scale = TimeScale::of(intervals);
    let rows = rows(bars);
    let top = if turns.is_empty() { 0 } else { 10 };
    let count = rows.iter().max().map_or(0, |row| row + 1);
    let hidden = rows.iter().filter(|row| **row >= MAX_ROWS).count();
    let height = top + count.min(MAX_ROWS) * ROW;
    let shown = bars.iter().zip(&rows).filter(|(_, row)| **row < MAX_ROWS);
    html! {
        svg class="flame" width="100%" height=(height) aria-hidden="true" focusable="false" {
            @for piece in scale.pieces.iter().filter(|piece| piece.is_gap) {
                rect class="gap" x=(percent(piece.x)) width=(percent(piece.width)) y="0" height=(height) {
                    title { (duration(piece.end - piece.start)) " without calls" }
                }
            }
            @for turn in turns {
                rect class="turn" x=(percent(scale.x(turn.start))) y="0" height="4"
                    width=(percent((scale.x(turn.end) - scale.x(turn.start)).max(MIN_WIDTH))) {
                    title { (text::escape_line(&turn.label, 200)) }
                }
            }
            @for (bar, row) in shown { (draw(bar, &scale, top + row * ROW)) }
        }
        @if hidden > 0 { p class="note" { (hidden) " calls that run at the same time are only in the list." } }
    }
}

fn draw(bar: &Bar, scale: &TimeScale, y: usize) -> Markup {
    let left = scale.x(bar.start);
    let width = (scale.x(bar.end) - left).max(MIN_WIDTH);
    let left = left.min(100.0 - width);
    let inside = |at: i64| ((scale.x(at) - left) / width * 100.0).clamp(0.0, 100.0);
    html! {
        a href=(bar.link) tabindex="-1" {
            svg class={ "bar " (bar.outcome) } x=(percent(left)) y=(y) width=(percent(width)) height=(BAR) {
                title { (text::escape_line(&bar.title, 300)) }
                rect class="base" width="100%" height=(BAR) rx="3" {}
                @for (phase, start, end) in &bar.phases {
                    rect class=(phase.class()) x=(percent(inside(*start))) height=(BAR)
                        width=(percent((inside(*end) - inside(*start)).max(0.0))) {}
                }
                @if bar.retries > 0 { rect class="retry" width="100%" height="3" {} }
                @if bar.is_undone { line class="undone" x1="0" x2="100%" y1=(BAR / 2) y2=(BAR / 2) {} }
                @if width >= LABEL_WIDTH { text x="5" y="14" { (text::escape_line(&bar.label, 60)) } }
            }
        }
    }
}

fn percent(value: f64) -> String {
    format!("{value:.3}%")
}

fn duration(millis: i64) -> String {
    format_duration(Duration::from_millis(
        u64::try_from(millis).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(parent: Option<usize>, start: i64, end: i64) -> Bar {
        Bar {
            parent,
            start,
            end,
            phases: vec![(Phase::Run, start, end)],
            label: "grep".to_owned(),
            title: "<b>\u{202e}".to_owned(),
            link: "/call?id=c".to_owned(),
            outcome: "ok",
            retries: 0,
            is_undone: false,
        }
    }

    #[test]
    fn calls_at_the_same_time_and_nested_calls_have_different_rows() {
        let bars = [
            bar(None, 0, 100),
            bar(Some(0), 10, 50),
            bar(Some(0), 60, 90),
            bar(None, 20, 30),
            bar(None, 100, 110),
            bar(Some(3), 22, 28),
        ];
        assert_eq!(rows(&bars), [0, 1, 1, 2, 0, 3]);
        // A record can state anything.
        assert_eq!(
            rows(&[bar(Some(0), 0, 1), bar(Some(2), 0, 1), bar(Some(1), 0, 1)]),
            [0, 1, 2]
        );
    }

    #[test]
    fn long_times_without_calls_are_shortened_and_positions_stay_in_order() {
        let day = 86_400_000;
        let scale = TimeScale::of([(0, 100), (110, 200), (day, day + 100)].into_iter());
        assert_eq!(scale.pieces.len(), 3);
        let at = [0, 100, 110, 200, day, day + 50, day + 100, day * 2];
        let positions: Vec<f64> = at.iter().map(|at| scale.x(*at)).collect();
        assert!(positions.is_sorted(), "{positions:?}");
        assert!((positions[4] - positions[3] - GAP).abs() < 0.01);
        assert!((positions[6] - 100.0).abs() < 0.01);
    }

    #[test]
    fn a_thousand_gaps_leave_room_for_the_calls() {
        let scale = TimeScale::of((0..1_000).map(|at| (at * 1_000_000, at * 1_000_000 + 5)));
        let gaps: f64 = scale
            .pieces
            .iter()
            .filter(|piece| piece.is_gap)
            .map(|piece| piece.width)
            .sum();
        assert!(gaps <= MAX_GAPS + 0.01);
        assert!((scale.x(i64::MAX) - 100.0).abs() < 0.01);
    }

    #[test]
    fn a_chart_escapes_titles_and_bounds_its_height() {
        let many: Vec<Bar> = (0..100).map(|_| bar(None, 0, 10)).collect();
        let markup = chart(&many, &[]).into_string();
        assert!(markup.contains("&lt;b&gt;\\u{202e}"));
        assert!(!markup.contains("style="));
        assert!(markup.contains("76 calls that run at the same time"));
        assert!(chart(&[], &[]).into_string().contains("height=\"0\""));
    }
}
