//! Pages of calls: filters, continuation, bounds, and errors of a locked or changed file.

use serde_json::json;

use super::{BUSY, Home, call, event, step};
use crate::{HistoryFilter, HistoryPage, MAX_SCAN, Store, StoreError, Write};

/// Writes calls `c0` to `c{count - 1}`, oldest first; `change` sets what differs.
async fn fill(store: &Store, count: u32, change: impl Fn(u32, &mut crate::CallRow)) {
    for number in 0..count {
        let id = format!("c{number}");
        let mut row = call(&id, "completed");
        row.created_ms = i64::from(number);
        row.record =
            json!({"agentId": "main", "inputPreview": {"path": format!("src/{number}.rs")}});
        change(number, &mut row);
        let mut step = step(&id, &row.state);
        step.session.clone_from(&row.session);
        let write = Write::Call {
            row: Box::new(row),
            transitions: vec![step],
        };
        if number % 500 == 499 {
            store.commit(write).await.unwrap();
        } else {
            store.queue(write).unwrap();
        }
    }
    store.flush().await.unwrap();
}

fn ids(page: &HistoryPage) -> Vec<&str> {
    page.rows.iter().map(|(_, row)| row.id.as_str()).collect()
}

#[tokio::test]
async fn pages_continue_where_the_last_one_ended() {
    let home = Home::new();
    let store = home.open();
    fill(&store, 5, |_, _| {}).await;
    let history = store.history().unwrap();
    let mut filter = HistoryFilter {
        limit: 2,
        ..HistoryFilter::default()
    };
    let mut seen = Vec::new();
    loop {
        let page = history.page(&filter).unwrap();
        seen.push(ids(&page).join(" "));
        let Some(next) = page.next else { break };
        filter.before = Some(next);
    }
    assert_eq!(seen, ["c4 c3", "c2 c1", "c0"]);
    let newer = history
        .newer(history.position_before(2).unwrap(), 10)
        .unwrap();
    let newer: Vec<_> = newer.iter().map(|(_, row)| row.id.as_str()).collect();
    assert_eq!(newer, ["c3", "c4"]);
    let named = history
        .calls(&["c1".to_owned(), "gone".to_owned()])
        .unwrap();
    assert_eq!(named.len(), 1);
}

#[tokio::test]
async fn each_filter_narrows() {
    let home = Home::new();
    let store = home.open();
    fill(&store, 6, |number, row| match number {
        0 => row.session = "s2".to_owned(),
        1 => row.tool = Some("Write".to_owned()),
        2 => row.plugin = Some("other".to_owned()),
        3 => row.state = "failed".to_owned(),
        4 => row.record = json!({"agentId": "sub", "inputPreview": {"path": "a\"b/Ünï.RS"}}),
        _ => {
            row.record =
                json!({"agentId": "main", "error": {"code": "no", "message": "100% wrong_"}});
        }
    })
    .await;
    let history = store.history().unwrap();
    let some = |text: &str| Some(text.to_owned());
    let all = || HistoryFilter {
        limit: 10,
        ..HistoryFilter::default()
    };
    for (filter, expected) in [
        (
            HistoryFilter {
                session: some("s2"),
                ..all()
            },
            "c0",
        ),
        (
            HistoryFilter {
                tool: some("Write"),
                ..all()
            },
            "c1",
        ),
        (
            HistoryFilter {
                plugin: some("other"),
                ..all()
            },
            "c2",
        ),
        (
            HistoryFilter {
                states: vec!["failed".to_owned(), "x'".to_owned()],
                ..all()
            },
            "c3",
        ),
        (
            HistoryFilter {
                agent: some("sub"),
                ..all()
            },
            "c4",
        ),
        (
            HistoryFilter {
                agent: some("su"),
                ..all()
            },
            "",
        ),
        (
            HistoryFilter {
                text: some("A\"B/"),
                ..all()
            },
            "c4",
        ),
        (
            HistoryFilter {
                text: some("Ünï"),
                ..all()
            },
            "c4",
        ),
        (
            HistoryFilter {
                text: some("100% WRONG_"),
                ..all()
            },
            "c5",
        ),
        (
            HistoryFilter {
                text: some("write"),
                ..all()
            },
            "c1",
        ),
        (
            HistoryFilter {
                text: some("%"),
                ..all()
            },
            "c5",
        ),
        (
            HistoryFilter {
                text: some("src/3"),
                ..all()
            },
            "c3",
        ),
        (
            HistoryFilter {
                text: some("inputPreview"),
                ..all()
            },
            "",
        ),
        (
            HistoryFilter {
                batch: some("b2"),
                ..all()
            },
            "",
        ),
        (
            HistoryFilter {
                after_ms: Some(4),
                ..all()
            },
            "c5 c4",
        ),
        (
            HistoryFilter {
                before_ms: Some(1),
                ..all()
            },
            "c0",
        ),
        (
            HistoryFilter {
                text: some("' OR 1 --"),
                ..all()
            },
            "",
        ),
    ] {
        let page = history.page(&filter).unwrap();
        assert_eq!(ids(&page).join(" "), expected, "{filter:?}");
        assert_eq!(page.next, None, "{filter:?}");
    }
}

/// With and without a shape, in which most records have this member.
#[tokio::test]
async fn completed_calls_are_found_by_their_result() {
    let home = Home::new();
    let store = home.open();
    fill(&store, 5, |number, row| {
        row.record = json!({"isError": number % 2 == 0, "inputPreview": "\"isError\":true"});
        if number == 3 {
            row.state = "denied".to_owned();
        }
        if number < 2 {
            row.tool = None;
        }
    })
    .await;
    let history = store.history().unwrap();
    for (is_error, expected) in [
        (Some(true), "c4 c3 c2 c0"),
        (Some(false), "c3 c1"),
        (None, "c4 c3 c2 c1 c0"),
    ] {
        let filter = HistoryFilter {
            is_error,
            limit: 10,
            ..HistoryFilter::default()
        };
        assert_eq!(
            ids(&history.page(&filter).unwrap()).join(" "),
            expected,
            "{is_error:?}"
        );
    }
}

#[tokio::test]
async fn a_page_looks_at_a_bounded_number_of_calls() {
    let home = Home::new();
    let store = home.open();
    let count = MAX_SCAN + 10;
    fill(&store, count, |number, row| {
        if number < 5 {
            row.tool = Some("rare".to_owned());
        }
        if number == 7 {
            row.session = "s2".to_owned();
        }
    })
    .await;
    let history = store.history().unwrap();
    let mut filter = HistoryFilter {
        tool: Some("rare".to_owned()),
        limit: 100,
        ..HistoryFilter::default()
    };
    let first = history.page(&filter).unwrap();
    assert_eq!((first.rows.len(), first.next), (0, Some(11)));
    filter.before = first.next;
    let second = history.page(&filter).unwrap();
    assert_eq!(ids(&second), ["c4", "c3", "c2", "c1", "c0"]);
    assert_eq!(second.next, None);
    // The index finds the calls of a session, wherever they are.
    let session = HistoryFilter {
        session: Some("s2".to_owned()),
        limit: 100,
        ..HistoryFilter::default()
    };
    assert_eq!(ids(&history.page(&session).unwrap()), ["c7"]);
}

#[tokio::test]
async fn events_of_a_call_and_sessions_are_paged() {
    let home = Home::new();
    let store = home.open();
    for number in 0..3 {
        let mut other = event("monitor", "call.custom");
        other.call = Some("c2".to_owned());
        let events = vec![
            Write::Event(event("monitor", &format!("e{number}"))),
            Write::Event(other),
        ];
        store.commit(Write::Many(events)).await.unwrap();
    }
    let history = store.history().unwrap();
    let events = history.events("c1", 1, 10).unwrap();
    let kinds: Vec<_> = events.iter().map(|(_, row)| row.kind.as_str()).collect();
    assert_eq!(kinds, ["e1", "e2"]);
    assert_eq!(history.sessions(None, 10).unwrap(), []);
}

/// What a page shows is what the chain covers, and other processes are not waited for.
#[tokio::test]
async fn changed_rows_and_a_locked_file_are_errors() {
    let home = Home::new();
    let store = Store::open_with(&home.state(), BUSY).unwrap();
    fill(&store, 1, |_, _| {}).await;
    let history = store.history().unwrap();
    let raw = home.raw();
    raw.execute("UPDATE calls SET tool = 'forged'", []).unwrap();
    let all = HistoryFilter {
        limit: 1,
        ..HistoryFilter::default()
    };
    let error = history.page(&all).unwrap_err();
    assert!(matches!(error, StoreError::Unreadable { .. }), "{error}");
    drop((history, store));
    raw.execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE")
        .unwrap();
    let error = Store::open_with(&home.state(), BUSY)
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
}
