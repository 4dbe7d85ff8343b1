//! The read position of each task, kept in session state.

use toolhost_sdk::prelude::*;

const KEY: &str = "read";
/// Limit of remembered tasks; the least recently read one is dropped.
const MOST: usize = 64;

type Cursors = Vec<(String, u64)>;

/// The byte offset to continue from.
pub fn get(cx: &Context, id: &str) -> Result<u64> {
    let cursors: Cursors = cx.recall(KEY)?.unwrap_or_default();
    let found = cursors.iter().find(|(task, _)| task == id);
    Ok(found.map_or(0, |(_, next)| *next))
}

pub fn set(cx: &Context, id: &str, next: u64) -> Result<()> {
    let mut cursors: Cursors = cx.recall(KEY)?.unwrap_or_default();
    cursors.retain(|(task, _)| task != id);
    cursors.push((id.to_owned(), next));
    let old = cursors.len().saturating_sub(MOST);
    cursors.drain(..old);
    cx.remember(KEY, &cursors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_task_has_its_own_and_there_are_not_too_many() {
        let cx = Context::test();
        assert_eq!(get(&cx, "1").unwrap(), 0);
        set(&cx, "1", 5).unwrap();
        set(&cx, "2", 6).unwrap();
        set(&cx, "1", 7).unwrap();
        assert_eq!((get(&cx, "1").unwrap(), get(&cx, "2").unwrap()), (7, 6));
        for number in 0..MOST - 1 {
            set(&cx, &format!("x{number}"), 1).unwrap();
        }
        assert_eq!((get(&cx, "1").unwrap(), get(&cx, "2").unwrap()), (7, 0));
    }
}
