//! The size limit of a result, because models pay per character.

/// Limit of characters of a result, without the notes at its end.
pub const MOST_CHARS: usize = 20_000;

/// The number of lines that fit, at least one, so that paging always makes progress.
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
