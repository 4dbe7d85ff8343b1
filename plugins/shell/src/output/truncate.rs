//! Truncation of long output in the middle, at line ends.

use super::fold::Item;

/// Percentage of space for the beginning; errors are usually at the end.
const HEAD_PERCENT: usize = 40;
/// Space for the remark.
const REMARK: usize = 400;

/// What was omitted from a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Omitted {
    /// Lines that are not shown at all.
    pub lines: u64,
    pub characters: usize,
    /// The first line that is not shown completely, from 1.
    pub at: Option<u64>,
}

pub fn characters(items: &[Item]) -> usize {
    items.iter().map(width).sum()
}

fn width(item: &Item) -> usize {
    item.text.chars().count() + 1
}

/// At most `most` characters, and whether something is missing; `remark` describes it.
pub fn cut(items: &[Item], most: usize, remark: impl FnOnce(Omitted) -> String) -> (String, bool) {
    let total = characters(items);
    let room = most.saturating_sub(REMARK.min(most / 2));
    match items.iter().position(|item| item.lost > 0) {
        None if total <= most => return (joined(items), false),
        Some(first) if total <= room => {
            let Item {
                at, lines, lost, ..
            } = items[first];
            let left = Omitted {
                lines,
                characters: lost,
                at,
            };
            let (before, after) = (joined(&items[..first]), joined(&items[first + 1..]));
            return (format!("{before}{}\n{after}", remark(left)), true);
        }
        None | Some(_) => {}
    }
    let head_room = room * HEAD_PERCENT / 100;
    let (head, head_part) = fitting(items.iter(), head_room, Side::Head);
    let (tail, tail_part) = fitting(items[head..].iter().rev(), room - head_room, Side::Tail);
    let between = &items[head..items.len() - tail];
    // One long line can contribute a beginning and an end.
    let touched = match between {
        [_] => usize::from(head_part.is_some() || tail_part.is_some()),
        _ => usize::from(head_part.is_some()) + usize::from(tail_part.is_some()),
    };
    let shown_of_between: usize = [&head_part, &tail_part]
        .into_iter()
        .flatten()
        .map(|part| part.chars().count())
        .sum();
    let untouched_from = usize::from(head_part.is_some()).min(between.len());
    let untouched = &between[untouched_from..untouched_from + (between.len() - touched)];
    let lost = between
        .iter()
        .fold(0_usize, |lost, item| lost.saturating_add(item.lost));
    // How many lines the host did not keep is unknown.
    let is_unknown = untouched
        .iter()
        .any(|item| item.lines == 0 && item.lost > 0);
    let lines = untouched.iter().map(|item| item.lines);
    let left = Omitted {
        lines: if is_unknown { 0 } else { lines.sum() },
        characters: lost.saturating_add(characters(between).saturating_sub(shown_of_between)),
        at: between.first().and_then(|item| item.at),
    };
    let mut text = joined(&items[..head]);
    if let Some(part) = head_part {
        text.push_str(&part);
        text.push_str("…\n");
    }
    text.push_str(&remark(left));
    text.push('\n');
    if let Some(part) = tail_part {
        text.push('…');
        text.push_str(&part);
        text.push('\n');
    }
    text.push_str(&joined(&items[items.len() - tail..]));
    (text, true)
}

#[derive(Clone, Copy)]
enum Side {
    Head,
    Tail,
}

/// The number of items that fit, and a part of the next one if the space would otherwise stay mostly unused.
fn fitting<'a>(
    items: impl Iterator<Item = &'a Item>,
    room: usize,
    side: Side,
) -> (usize, Option<String>) {
    let mut left = room;
    for (count, item) in items.enumerate() {
        let width = width(item);
        if width > left {
            // Two for the ellipsis and the line break.
            let piece = left.saturating_sub(2);
            let worth = left > room / 2 && piece > 0;
            let part = worth.then(|| match side {
                Side::Head => item.text.chars().take(piece).collect(),
                Side::Tail => item.text.chars().skip(width - 1 - piece).collect(),
            });
            return (count, part);
        }
        left -= width;
    }
    // Unreachable: the caller passes more than fits.
    (0, None)
}

fn joined(items: &[Item]) -> String {
    let mut text = String::with_capacity(items.iter().map(|item| item.text.len() + 1).sum());
    for item in items {
        text.push_str(&item.text);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(lines: impl IntoIterator<Item = String>) -> Vec<Item> {
        let item = |(at, text)| Item {
            text,
            at: Some(at),
            lines: 1,
            lost: 0,
        };
        (1..).zip(lines).map(item).collect()
    }

    fn remark(left: Omitted) -> String {
        format!(
            "[{} lines, {} characters, from {}]",
            left.lines,
            left.characters,
            left.at.unwrap()
        )
    }

    #[test]
    fn what_fits_stays_as_it_is() {
        let items = items(["a".into(), "b".into()]);
        assert_eq!(cut(&items, 4, remark), ("a\nb\n".into(), false));
    }

    #[test]
    fn forty_percent_of_the_beginning_and_sixty_of_the_end() {
        let items = items((1..=1000).map(|number| format!("line {number:04}")));
        let (text, was_cut) = cut(&items, 1400, remark);
        assert!(was_cut);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 40 + 1 + 60);
        assert_eq!(lines[39], "line 0040");
        assert_eq!(lines[40], "[900 lines, 9000 characters, from 41]");
        assert_eq!(lines[41], "line 0941");
    }

    #[test]
    fn of_one_long_line_the_ends_are_shown() {
        let items = items(["start".into(), "x".repeat(5000), "end".into()]);
        let (text, _) = cut(&items, 1400, remark);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "start");
        assert!(lines[1].starts_with("xxx") && lines[1].ends_with("x…"));
        assert!(lines[2].starts_with("[0 lines, ") && lines[2].ends_with("from 2]"));
        assert!(lines[3].starts_with("…x"));
        assert_eq!(lines[4], "end");
        assert!(text.chars().count() <= 1400);
    }
}
