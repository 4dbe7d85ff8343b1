//! Folding of repeated lines into one line and a count.

/// A line to show, and the output lines that it represents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub text: String,
    /// The first of them, from 1; `None` after a gap.
    pub at: Option<u64>,
    /// Number of lines; 0 for a remark about missing bytes.
    pub lines: u64,
    /// Number of omitted characters, or of missing bytes; 0 for a line that is shown as it is.
    pub lost: usize,
}

/// Which lines are folded together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldMode {
    /// Identical text. No information is lost.
    Same,
    /// Identical except for numbers, which are lost; used only if the output would not fit otherwise.
    ButForNumbers,
}

/// Minimum number of folded lines.
const MIN_RUN: usize = 3;
/// Higher than `MIN_RUN`, because lines of tables also differ by numbers.
const MIN_NUMBERED_RUN: usize = 6;

pub fn fold(items: Vec<Item>, alike: FoldMode) -> Vec<Item> {
    let mut folded: Vec<Item> = Vec::with_capacity(items.len());
    let mut run: Vec<Item> = Vec::new();
    for item in items {
        if run.last().is_some_and(|last| !belongs(last, &item, alike)) {
            close(&mut run, alike, &mut folded);
        }
        run.push(item);
    }
    close(&mut run, alike, &mut folded);
    folded
}

fn belongs(last: &Item, next: &Item, alike: FoldMode) -> bool {
    // A remark of an earlier pass is not an output line.
    last.lines == 1
        && next.lines == 1
        && match alike {
            FoldMode::Same => last.text == next.text,
            FoldMode::ButForNumbers => same_but_for_numbers(&last.text, &next.text),
        }
}

/// Moves a run to the result: unchanged, or as first line, count and last line.
fn close(run: &mut Vec<Item>, alike: FoldMode, folded: &mut Vec<Item>) {
    let (fewest, label, last) = match alike {
        FoldMode::Same => (MIN_RUN, "identical", 0),
        FoldMode::ButForNumbers => (MIN_NUMBERED_RUN, "similar", 1),
    };
    let hidden = run.len().saturating_sub(1 + last);
    let remark = format!("[… {hidden} {label} lines]");
    let end = run.len() - last.min(run.len());
    let gone: usize = run
        .iter()
        .take(end)
        .skip(1)
        .map(|item| item.text.len() + 1)
        .sum();
    if hidden < fewest || gone <= remark.len() {
        folded.append(run);
        return;
    }
    let lost = match alike {
        FoldMode::Same => 0,
        FoldMode::ButForNumbers => run[1..end]
            .iter()
            .map(|item| item.text.chars().count() + 1)
            .sum(),
    };
    let at = run[1].at;
    folded.push(run[0].clone());
    folded.push(Item {
        text: remark,
        at,
        lines: hidden as u64,
        lost,
    });
    folded.extend(run.drain(end..));
    run.clear();
}

/// Lines without letters are data and are not folded.
fn same_but_for_numbers(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    let mut letters = false;
    loop {
        let (digits_a, digits_b) = (digits(a), digits(b));
        if (digits_a == 0) != (digits_b == 0) {
            return false;
        }
        (a, b) = (&a[digits_a..], &b[digits_b..]);
        match (a.split_first(), b.split_first()) {
            (None, None) => return letters,
            (Some((x, rest_a)), Some((y, rest_b))) if x == y => {
                letters |= x.is_ascii_alphabetic() || !x.is_ascii();
                (a, b) = (rest_a, rest_b);
            }
            _ => return false,
        }
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};

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

    fn check(lines: &str, alike: FoldMode, expected: Expect) {
        let folded = fold(items(lines.split(' ').map(str::to_owned)), alike);
        let shown: Vec<String> = folded
            .iter()
            .map(|item| format!("{}:{}", item.at.unwrap(), item.text))
            .collect();
        expected.assert_eq(&shown.join("\n"));
    }

    #[test]
    fn identical_lines_become_one_and_a_count() {
        let line = "downloading".to_owned();
        let folded = fold(
            items([line.clone(), line.clone(), line.clone(), line, "b".into()]),
            FoldMode::Same,
        );
        let shown: Vec<_> = folded.iter().map(|item| (&*item.text, item.at)).collect();
        assert_eq!(
            shown,
            [
                ("downloading", Some(1)),
                ("[… 3 identical lines]", Some(2)),
                ("b", Some(5))
            ]
        );
    }

    #[test]
    fn a_remark_never_takes_more_room_than_what_it_hides() {
        check(
            "aa aa aa aa",
            FoldMode::Same,
            expect![[r#"
            1:aa
            2:aa
            3:aa
            4:aa"#]],
        );
        check(
            "downloading downloading",
            FoldMode::Same,
            expect![[r#"
            1:downloading
            2:downloading"#]],
        );
    }

    #[test]
    fn of_similar_lines_the_first_and_the_last_are_left() {
        check(
            "get1% get20% get33% get45% get50% get60% get70% get100% end",
            FoldMode::ButForNumbers,
            expect![[r#"
                1:get1%
                2:[… 6 similar lines]
                8:get100%
                9:end"#]],
        );
        check(
            "get1% get2% get3%",
            FoldMode::ButForNumbers,
            expect![[r#"
            1:get1%
            2:get2%
            3:get3%"#]],
        );
    }

    #[test]
    fn numbers_alone_are_data() {
        for (a, b, similar) in [
            ("a1", "a22", true),
            ("1,2", "3,4", false),
            ("a1", "a", false),
            ("a1b", "a2c", false),
            ("é1", "é2", true),
            ("", "", false),
        ] {
            assert_eq!(same_but_for_numbers(a, b), similar, "{a} {b}");
        }
    }
}
