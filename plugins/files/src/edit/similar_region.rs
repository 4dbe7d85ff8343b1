//! The lines of a file that are most similar to a missing text, found in linear time.

use std::ops::Range;

use super::lines::Line;

/// Number of hash buckets of trigrams. Collisions only make regions look slightly more similar.
const BUCKETS: usize = 4096;
/// Limit of returned regions, which do not overlap.
const MOST: usize = 8;

/// Some lines of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// Indices of lines.
    pub lines: Range<usize>,
    /// From 0, nothing in common, to 1.
    pub likeness: f64,
}

/// Regions with as many lines as `old`, most similar first.
pub fn most_similar(text: &str, lines: &[Line], old: &str) -> Vec<Region> {
    let height = old.trim_matches('\n').lines().count().min(lines.len());
    let mut wanted = TrigramCounts::new();
    old.lines().for_each(|line| wanted.add(line));
    if height == 0 || wanted.total == 0 {
        return Vec::new();
    }
    let line = |index: usize| &text[lines[index].start..lines[index].end];
    let mut window = Window::new(&wanted);
    let mut scores = Vec::with_capacity(lines.len());
    for index in 0..lines.len() {
        window.put(line(index), 1);
        if index >= height {
            window.put(line(index - height), -1);
        }
        if index + 1 >= height {
            scores.push((window.likeness(), index + 1 - height));
        }
    }
    best(scores, height, |start| {
        // A region starts and ends with non-blank lines.
        !line(start).trim().is_empty() && !line(start + height - 1).trim().is_empty()
    })
}

fn best(mut scores: Vec<(f64, usize)>, height: usize, fits: impl Fn(usize) -> bool) -> Vec<Region> {
    scores.retain(|(likeness, _)| *likeness > 0.0);
    // Of two equally similar ones, the first.
    scores.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut regions: Vec<Region> = Vec::new();
    for (likeness, start) in scores {
        let overlaps = regions
            .iter()
            .any(|known| start < known.lines.end && known.lines.start < start + height);
        if !overlaps && fits(start) {
            regions.push(Region {
                lines: start..start + height,
                likeness,
            });
        }
        if regions.len() == MOST {
            break;
        }
    }
    regions
}

/// Trigram counts of a text.
struct TrigramCounts {
    drawers: Vec<i64>,
    total: i64,
}

impl TrigramCounts {
    fn new() -> Self {
        Self {
            drawers: vec![0; BUCKETS],
            total: 0,
        }
    }

    fn add(&mut self, line: &str) {
        for_each_trigram(line, |drawer| {
            self.drawers[drawer] += 1;
            self.total += 1;
        });
    }
}

struct Window<'a> {
    wanted: &'a TrigramCounts,
    here: TrigramCounts,
    common: i64,
}

impl<'a> Window<'a> {
    fn new(wanted: &'a TrigramCounts) -> Self {
        Self {
            wanted,
            here: TrigramCounts::new(),
            common: 0,
        }
    }

    fn put(&mut self, line: &str, step: i64) {
        for_each_trigram(line, |drawer| {
            let (wanted, here) = (self.wanted.drawers[drawer], &mut self.here.drawers[drawer]);
            let before = wanted.min(*here);
            *here += step;
            self.common += wanted.min(*here) - before;
            self.here.total += step;
        });
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a file has fewer letters than that"
    )]
    fn likeness(&self) -> f64 {
        // Missing text weighs four times as much as extra text: half of the right region with half of its neighbour
        // must not win against the right region with different words.
        let both = 4 * self.wanted.total + self.here.total;
        5.0 * self.common as f64 / both as f64
    }
}

/// Calls `each` for every three consecutive bytes that are not white space; shorter lines count as a whole.
fn for_each_trigram(line: &str, mut each: impl FnMut(usize)) {
    let (mut a, mut b, mut length) = (0, 0, 0);
    for byte in line.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        length += 1;
        if length >= 3 {
            each(bucket(a, b, byte));
        }
        (a, b) = (b, byte);
    }
    if length == 1 || length == 2 {
        each(bucket(a, b, 0));
    }
}

fn bucket(a: u8, b: u8, c: u8) -> usize {
    let number = (u32::from(a) << 16) | (u32::from(b) << 8) | u32::from(c);
    // A multiplicative hash; its upper bits are distributed best.
    (number.wrapping_mul(2_654_435_761) >> 20) as usize % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::lines;

    fn check(text: &str, old: &str, expected: &[(Range<usize>, u32)]) {
        let found = most_similar(text, &lines::split(text), old);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is from 0 to 100"
        )]
        let found: Vec<_> = found
            .into_iter()
            .map(|region| (region.lines, (region.likeness * 100.0) as u32))
            .collect();
        assert_eq!(found, expected, "{old:?} in {text:?}");
    }

    #[test]
    fn what_is_most_alike_comes_first() {
        let text = "fn alpha() {\n    one();\n}\n\nfn beta() {\n    two();\n}\n";
        check(
            text,
            "fn beta() {\n    twice();\n}",
            &[(4..7, 66), (0..3, 36)],
        );
        check(text, "\n    one()\n", &[(1..2, 93)]);
        check(text, "zzzzz", &[]);
        check("", "a", &[]);
        check("a\n", "", &[]);
        check("a\n", "a\nb\nc", &[(0..1, 38)]);
    }
}
