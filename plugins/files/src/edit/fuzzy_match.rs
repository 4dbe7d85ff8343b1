//! Fuzzy search for lines that differ in a few letters, with bounded work.
//!
//! Digits, operators and punctuation must be equal: lines that differ in them (`timeout = 30` and `timeout = 60`) usually
//! are two places, not one with a typing error. A deletion has no new text in which the user could notice a wrong place,
//! so it never matches.

use super::find::{TextReplacement, whole_lines};
use super::indentation::IndentMap;
use super::{lines, similar_region};

/// Shorter texts have too many similar ones.
const LEAST_LETTERS: usize = 10;
/// Limit of differing text, in percent.
const MOST_WRONG: usize = 10;
/// Ten white space characters count as one letter.
const SPACE: usize = 10;
/// Share of common trigrams below which a text cannot match with one letter in ten wrong.
const LEAST_LIKENESS: f64 = 0.5;
/// Limit of computed table cells per search.
const MOST_CELLS: usize = 8_000_000;

/// The only lines similar enough to `old`, with `new` adjusted to them.
pub fn find(text: &str, old: &str, new: &str) -> Vec<TextReplacement> {
    let body = old.trim_matches('\n');
    let theirs = letters(body);
    if theirs.len() < LEAST_LETTERS || new.is_empty() {
        return Vec::new();
    }
    let all = lines::split(text);
    let mut cells = MOST_CELLS;
    let mut near = Vec::new();
    for region in similar_region::most_similar(text, &all, body) {
        if region.likeness < LEAST_LIKENESS {
            break;
        }
        let range = &all[region.lines.clone()];
        let ours = &text[range[0].start..range[range.len() - 1].end];
        let ours_letters = letters(ours);
        if !signs(body).eq(signs(ours)) {
            continue;
        }
        let most = theirs.len() * MOST_WRONG / 100;
        let Some(wrong) = distance(&theirs, &ours_letters, most, &mut cells) else {
            continue;
        };
        let spaces = spaces(body).abs_diff(spaces(ours));
        if wrong * SPACE + spaces <= theirs.len() * SPACE * MOST_WRONG / 100 {
            near.push(region.lines);
        }
    }
    // Two candidates are ambiguous.
    let [one] = near.as_slice() else {
        return Vec::new();
    };
    let range = &all[one.clone()];
    let pairs = body
        .lines()
        .zip(range.iter().map(|line| &text[line.start..line.end]));
    let new = IndentMap::of(pairs).apply(new.trim_start_matches('\n'));
    vec![whole_lines(text, range, old, &new)]
}

fn letters(text: &str) -> Vec<char> {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Digits, operators and punctuation.
fn signs(text: &str) -> impl Iterator<Item = char> + '_ {
    text.chars()
        .filter(|c| !c.is_alphabetic() && !c.is_whitespace())
}

fn spaces(text: &str) -> usize {
    text.chars()
        .filter(|c| c.is_whitespace() && !matches!(c, '\n' | '\r'))
        .count()
}

/// The edit distance in letters; `None` if it exceeds `most` or the remaining cells do not suffice.
fn distance(a: &[char], b: &[char], most: usize, cells: &mut usize) -> Option<usize> {
    if a.len().abs_diff(b.len()) > most {
        return None;
    }
    // Beyond this distance from the diagonal all values exceed `most`.
    let width = 2 * most + 1;
    *cells = cells.checked_sub(width.checked_mul(a.len())?)?;
    let far = most + 1;
    // `row[k]` is the cell in column `line + k - most` of the current row.
    let mut row = vec![far; width + 1];
    for (k, cell) in row.iter_mut().enumerate().take(width).skip(most) {
        *cell = k - most;
    }
    for (line, c) in a.iter().enumerate() {
        let mut least = far;
        let mut left = far;
        for k in 0..width {
            // The column minus one; left of the table there are no cells.
            let Some(column) = (line + 1 + k).checked_sub(most) else {
                row[k] = far;
                continue;
            };
            let mut cell = (row[k + 1] + 1).min(left + 1);
            if column == 0 {
                cell = line + 1;
            } else if column <= b.len() {
                cell = cell.min(row[k] + usize::from(b[column - 1] != *c));
            } else {
                cell = far;
            }
            row[k] = cell.min(far);
            left = row[k];
            least = least.min(left);
        }
        if least > most {
            return None;
        }
    }
    let last = (b.len() + most).checked_sub(a.len())?;
    row.get(last).copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_is_that_of_levenshtein() {
        let words = [
            "", "a", "kitten", "sitting", "sunday", "saturday", "abcdef", "bcdefa", "abcdxf",
        ];
        for a in words {
            for b in words {
                for most in 0..8 {
                    let real = strsim::levenshtein(a, b);
                    let ours = distance(&letters(a), &letters(b), most, &mut { MOST_CELLS });
                    assert_eq!(ours, (real <= most).then_some(real), "{a} {b} {most}");
                }
            }
        }
    }

    #[test]
    fn it_gives_up_when_it_would_be_too_much_work() {
        let long = vec!['a'; 1000];
        assert_eq!(distance(&long, &long, 100, &mut 200_000), None);
        assert_eq!(distance(&long, &long, 100, &mut 201_000), Some(0));
    }

    /// The edited text; `None` if `old` does not match exactly one place.
    fn check(text: &str, old: &str, new: &str, expected: Option<&str>) {
        let replacements = find(text, old, new);
        let answer = replacements.first().map(|one| {
            let (before, after) = (&text[..one.range.start], &text[one.range.end..]);
            format!("{before}{}{after}", one.new)
        });
        assert_eq!(answer.as_deref(), expected, "{old:?} in {text:?}");
    }

    #[test]
    fn a_few_wrong_letters_match() {
        check(
            "a\n    let total = prices.iter().sum();\nb\n",
            "let totl = prices.iter().sum();",
            "let total = 0;",
            Some("a\n    let total = 0;\nb\n"),
        );
        check(
            "let total = prices.iter().sum();\n",
            "let total = costs.iter().max();\n",
            "x",
            None,
        );
        check(
            "let a1 = call(1);\nlet a2 = call(1);\n",
            "let a3 = call(1);\n",
            "x",
            None,
        );
        check("abc\n", "abd", "x", None);
    }

    #[test]
    fn signs_must_be_equal() {
        for (text, old) in [
            ("    request_timeout = 30;\n", "request_timeout = 60;"),
            ("if total_count <= limit {\n", "if total_count >= limit {"),
            (
                "let total = count + offset;\n",
                "let total = count - offset;",
            ),
            ("values.first_one[0];\n", "values.first_one(0);"),
            ("let total_count = items;\n", "let totalcount = items;"),
        ] {
            check(text, old, "x", None);
        }
    }

    #[test]
    fn a_deletion_does_not_match() {
        check(
            "let total = prices.iter().sum();\n",
            "let totl = prices.iter().sum();\n",
            "",
            None,
        );
    }
}
