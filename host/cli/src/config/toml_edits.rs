//! Edits of TOML documents that keep the comments.

use anyhow::Context as _;
use toml_edit::{Array, Decor, DocumentMut, Item, RawString, TableLike, Value};

/// Adds a text to a list. In a list with several lines it gets its own line, so that a comment stays beside its item.
pub fn push_item(list: &mut Array, item: &str) {
    let end = list.len().wrapping_sub(1);
    let trailing = raw_text(Some(list.trailing()));
    let Some(last) = list.get_mut(end) else {
        return list.push(item);
    };
    let gap = raw_text(last.decor().suffix()) + &trailing;
    let Some((beside, rest)) = gap.split_once('\n') else {
        return list.push(item);
    };
    let prefix = raw_text(last.decor().prefix());
    let indent = prefix.rsplit_once('\n').map_or("  ", |(_, indent)| indent);
    last.decor_mut().set_suffix("");
    let mut added = Value::from(item);
    *added.decor_mut() = Decor::new(format!("{}\n{indent}", beside.trim_end()), "");
    list.push_formatted(added);
    list.set_trailing(format!("\n{rest}"));
    list.set_trailing_comma(true);
}

/// Removes an item and keeps all comments. Those before an item can be about the previous one.
pub fn remove_item(list: &mut Array, index: usize) {
    let removed = list.remove(index);
    let before = raw_text(removed.decor().prefix());
    match list.get_mut(index) {
        Some(next) if before.contains('#') => {
            let own = raw_text(next.decor().prefix());
            next.decor_mut()
                .set_prefix(before + own.trim_start_matches([' ', '\t']));
        }
        // The first item takes the place of the one before.
        Some(next) if index == 0 && !raw_text(next.decor().prefix()).contains('#') => {
            next.decor_mut().set_prefix(before);
        }
        None if before.contains('#') => {
            let trailing = raw_text(Some(list.trailing()));
            list.set_trailing(before.trim_end_matches([' ', '\t', '\n']).to_owned() + &trailing);
        }
        _ => {}
    }
}

/// Removes an entry of a table. The comments above it stay, because they can be about more than the entry.
pub fn remove_entry(file: &mut DocumentMut, path: &[&str]) -> anyhow::Result<()> {
    let before = file.to_string();
    let mut table: &mut dyn TableLike = file.as_table_mut();
    let (key, tables) = path.split_last().context("no entry to remove")?;
    for name in tables {
        let inner = table.get_mut(name).and_then(Item::as_table_like_mut);
        table = inner.with_context(|| format!("`{name}` is not a table"))?;
    }
    let comments = comments_above(table, key);
    table.remove(key);
    if comments.contains('#') {
        *file = restore_comments(&before, &file.to_string(), &comments).parse()?;
    }
    Ok(())
}

/// The comments above an entry, and blank lines.
fn comments_above(table: &dyn TableLike, key: &str) -> String {
    let above = match table.get(key) {
        Some(Item::Table(removed)) if removed.is_dotted() => {
            let first = removed
                .get_values()
                .first()
                .and_then(|(keys, _)| keys.last().copied());
            first.and_then(|key| key.leaf_decor().prefix())
        }
        Some(Item::Table(removed)) => removed.decor().prefix(),
        _ => table.key(key).and_then(|key| key.leaf_decor().prefix()),
    };
    // Without the indentation of the entry.
    let above = raw_text(above);
    let end = above.rfind('\n').map_or(0, |end| end + 1);
    above[..end].to_owned()
}

/// Inserts comments that were removed from `before` into `after`, at the first line that differs.
fn restore_comments(before: &str, after: &str, comments: &str) -> String {
    let lines = before
        .split_inclusive('\n')
        .zip(after.split_inclusive('\n'));
    let same = lines.take_while(|(old, new)| old == new);
    let same: usize = same.map(|(line, _)| line.len()).sum();
    let blank_above = if before[same..].starts_with('\n') {
        "\n"
    } else {
        ""
    };
    // The comment must not become one about the next entry.
    let blank_below = if after[same..].starts_with(['[', '#']) {
        "\n"
    } else {
        ""
    };
    let comments = comments.trim_matches('\n');
    let (kept, rest) = after.split_at(same);
    format!("{kept}{blank_above}{comments}\n{blank_below}{rest}")
}

/// Spaces and comments.
fn raw_text(raw: Option<&RawString>) -> String {
    raw.and_then(RawString::as_str).unwrap_or("").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_added_after_the_comment_of_the_last_one() {
        for (before, after) in [
            ("[]", "[\"x\"]"),
            ("[\"a\"]", "[\"a\", \"x\"]"),
            (
                "[\n  \"a\", # about a\n]",
                "[\n  \"a\", # about a\n  \"x\",\n]",
            ),
            (
                "[\n  \"a\" # about a\n]",
                "[\n  \"a\", # about a\n  \"x\",\n]",
            ),
            (
                "[\"a\", # about a\n  # end\n]",
                "[\"a\", # about a\n  \"x\",\n  # end\n]",
            ),
        ] {
            let mut document: DocumentMut = format!("l = {before}\n").parse().unwrap();
            push_item(document["l"].as_array_mut().unwrap(), "x");
            assert_eq!(document.to_string(), format!("l = {after}\n"));
        }
    }
}
