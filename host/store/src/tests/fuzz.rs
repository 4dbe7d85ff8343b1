//! Fuzz target for reading rows with a modified column.

use std::cell::RefCell;
use std::panic::AssertUnwindSafe;
use std::path::Path;

use rusqlite::types::Value as Cell;
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use toolhost_fuzz_input::{assembled, check_message};

use super::histories::{columns, rows_of, unguarded};
use super::recomputation::agree;
use super::{Home, call, step};
use crate::{
    CallFilter, CommitFilter, StoreError, TransitionFilter, TransitionRow, Verification, Write,
    commits, prune, read,
};

/// Fragments of columns with JSON and of columns with keywords.
const FRAGMENTS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "-1",
    "9223372036854775807",
    "1e400",
    "\"id\"",
    "\"name\"",
    "\"state\"",
    "\"pending\"",
    "\"completedAt\"",
    "\"parentCallId\"",
    "[\"id\"]",
    "[\"effect\",\"writes\"]",
    "[[\"pending\",\"state\"]]",
    "[[0],[]]",
    "[[0],[[0,\"why\"]]]",
    "[1234,\"pending\",\"state\",null]",
    "begun",
    "done",
    "allow_once",
    "\u{202e}",
    "\u{1b}[2J",
    "\\u0000",
];

/// All lists that the host reads, with their names.
fn everything(connection: &Connection) -> Vec<(&'static str, rusqlite::Result<Vec<String>>)> {
    fn shown<T: std::fmt::Debug>(rows: rusqlite::Result<Vec<T>>) -> rusqlite::Result<Vec<String>> {
        rows.map(|rows| rows.iter().map(|row| format!("{row:?}")).collect())
    }
    let every = TransitionFilter {
        every_subject: true,
        ..TransitionFilter::default()
    };
    let answer = read::answer(connection, "c2", 2_000);
    let call = read::call(connection, "c1");
    vec![
        ("steps", shown(read::transitions(connection, &every))),
        (
            "calls",
            shown(read::calls(connection, &CallFilter::default())),
        ),
        ("call", shown(call.map(|row| row.into_iter().collect()))),
        ("sessions", shown(read::sessions(connection, 9))),
        ("batches", shown(read::batches(connection, "s1"))),
        ("approvals", shown(read::approvals(connection))),
        ("events", shown(read::events(connection, None, 0, 9))),
        ("answer", shown(answer.map(|row| row.into_iter().collect()))),
        (
            "commits",
            shown(commits::commits(connection, &CommitFilter::default())),
        ),
    ]
}

/// Lists whose rows are not checked against the chain before they are used.
fn unchecked(connection: &Connection) -> Vec<Option<rusqlite::Error>> {
    let keep = crate::RecordRetention {
        now_ms: 1_000_000,
        max_age_ms: Some(1),
        max_bytes: Some(1),
        undo_ms: 1,
    };
    vec![
        read::unfinished(connection).err(),
        commits::begun(connection).err(),
        prune::due(connection, &keep).err(),
        prune::drop_oldest(connection, Path::new("/nowhere"), &keep, i64::MAX).err(),
    ]
}

#[test]
fn fuzz_row() {
    let home = Home::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        super::tampering::fill(&home).await;
        // Steps without details share a row.
        let transitions = ["pending", "executing", "completed"].map(|state| TransitionRow {
            detail: Value::Null,
            ..step("c3", state)
        });
        let mut row = call("c3", "completed");
        row.record = json!({"id": "c3", "name": "read", "effect": "writes", "x": [1.5]});
        let write = Write::Call {
            row: Box::new(row),
            transitions: transitions.into(),
        };
        home.open().commit(write).await.unwrap();
    });
    let connection = unguarded(&home);
    let honest: Vec<Vec<String>> = everything(&connection)
        .into_iter()
        .map(|(_, rows)| rows.unwrap())
        .collect();
    let connection = AssertUnwindSafe(RefCell::new(connection));
    bolero::check!().for_each(|bytes: &[u8]| {
        let connection = &*connection;
        let connection = connection.borrow();
        let [table, column, row, kind, value @ ..] = bytes else {
            return;
        };
        connection.execute_batch("BEGIN").unwrap();
        damage(&connection, [*table, *column, *row, *kind], value);
        let label = format!("{bytes:?}");
        let is_whole = matches!(agree(&connection, &label), Verification::Verified { .. });
        let path = Path::new("store.db");
        for ((name, rows), honest) in everything(&connection).into_iter().zip(&honest) {
            match rows {
                // Every row that is read is unchanged.
                Ok(rows) => assert!(
                    rows.iter().all(|row| honest.contains(row)),
                    "{name}: {rows:?}"
                ),
                Err(error) => {
                    assert!(!is_whole, "{name}: {error}");
                    check_message(&StoreError::sql(path, &error).to_string());
                }
            }
        }
        for error in unchecked(&connection).into_iter().flatten() {
            check_message(&StoreError::sql(path, &error).to_string());
        }
        connection.execute_batch("ROLLBACK").unwrap();
    });
}

/// The first four bytes select the place and the type of the value, the rest is the value.
fn damage(connection: &Connection, [table, column, row, kind]: [u8; 4], value: &[u8]) {
    let tables = columns(connection);
    let (table, columns) = &tables[usize::from(table) % tables.len()];
    let rows = rows_of(connection, table);
    if rows.is_empty() {
        return;
    }
    let column = &columns[usize::from(column) % columns.len()];
    let row = &rows[usize::from(row) % rows.len()];
    let (new, value) = match kind % 6 {
        0 => ("?1", Cell::Null),
        1 => ("?1", Cell::Blob(value.to_vec())),
        2 => (
            "?1",
            Cell::Integer(value.iter().fold(0, |number: i64, byte| {
                number.wrapping_mul(256).wrapping_add((*byte).into())
            })),
        ),
        // Not always UTF-8.
        3 => ("CAST(?1 AS TEXT)", Cell::Blob(value.to_vec())),
        4 => ("CAST(?1 || $ AS BLOB)", Cell::Blob(value.to_vec())),
        _ => ("?1", Cell::Text(assembled(value, FRAGMENTS))),
    };
    let new = new.replace('$', column);
    // A value that the column rejects changes nothing.
    let _ = connection.execute(
        &format!("UPDATE {table} SET {column} = {new} WHERE {row}"),
        params![value],
    );
}
