//! How much of what was found an answer holds: a model pays for every character.

/// Characters of one answer, without the notes at its end.
pub const MOST_CHARS: usize = 20_000;

/// How many of the lines fit, and at least the first: else nobody would ever get past it.
pub fn fitting<'a>(lines: impl Iterator<Item = &'a str>) -> usize {
    let mut chars = 0;
    let fitting = lines
        .take_while(|line| {
            chars += line.chars().count() + 1;
            chars <= MOST_CHARS
        })
        .count();
    fitting.max(1)
}
