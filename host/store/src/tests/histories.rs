//! Random histories and random damage, checked by `verify` and by a second implementation.

use proptest::prelude::*;
use proptest::sample::{Index, select};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::recomputation::agree;
use super::{Home, answer, approval, call, commit, event, step};
use crate::{
    BatchRow, CommitState, RecordRetention, SessionRow, Store, TransitionRow, Verification, Write,
};

/// An operation on a store.
#[derive(Debug, Clone)]
enum Act {
    Call {
        id: u8,
        states: Vec<&'static str>,
        detail: bool,
        note: Option<String>,
    },
    Event,
    Session(u8, Option<i64>),
    Batch(u8),
    Approval(u8),
    Revoke(u8),
    Use(u8),
    Answer(u8),
    Commit(u8),
    EndCommit(u8),
    Seal,
    Prune,
}

impl Act {
    /// Refused operations change nothing.
    async fn happen(&self, store: &Store) {
        match self.clone() {
            Self::Call {
                id,
                states,
                detail,
                note,
            } => {
                let id = format!("c{id}");
                let transitions = states.iter().map(|state| TransitionRow {
                    note: note.clone(),
                    detail: if detail {
                        json!({"by": ["policy", 7]})
                    } else {
                        Value::Null
                    },
                    ..step(&id, state)
                });
                let mut row = call(&id, states.last().copied().unwrap_or("pending"));
                row.record = json!({"id": id, "name": "read", "effect": "writes", "x": note});
                let write = Write::Call {
                    row: Box::new(row),
                    transitions: transitions.collect(),
                };
                let _ = store.commit(write).await;
            }
            Self::Event => {
                let _ = store.commit(Write::Event(event("control", "asked"))).await;
            }
            Self::Session(id, ended_ms) => {
                let row = SessionRow {
                    id: format!("s{id}"),
                    started_ms: 1,
                    ended_ms,
                    client: "terminal".to_owned(),
                    mode: "default".to_owned(),
                    detail: json!({"cwd": "/ws"}),
                };
                let _ = store.commit(Write::Session(row)).await;
            }
            Self::Batch(id) => {
                let row = BatchRow {
                    id: format!("b{id}"),
                    session: "s1".to_owned(),
                    created_ms: 1,
                    finished_ms: Some(2),
                    submitted_ms: None,
                    calls: 2,
                    strategy: "waves".to_owned(),
                };
                let _ = store.commit(Write::Batch(row)).await;
            }
            Self::Approval(id) => {
                let mut row = approval(&format!("a{id}"));
                row.uses_left = Some(2);
                let _ = store.put_approval(row).await;
            }
            Self::Revoke(id) => {
                let _ = store.revoke_approval(&format!("a{id}"), 7).await;
            }
            Self::Use(id) => {
                let _ = store.use_approval(&format!("a{id}"), 8).await;
            }
            Self::Answer(id) => {
                let _ = store.answer(answer(&format!("c{id}"), "user")).await;
            }
            Self::Commit(id) => {
                let _ = store.begin_commit(commit(&format!("w{id}"))).await;
            }
            Self::EndCommit(id) => {
                let done = CommitState::Done;
                let _ = store.end_commit(&format!("w{id}"), done, 9).await;
            }
            Self::Seal => {
                store.seal_head().await.unwrap();
            }
            Self::Prune => {
                let keep = RecordRetention {
                    now_ms: 1_000_000,
                    max_age_ms: Some(10),
                    max_bytes: None,
                    undo_ms: 10,
                };
                store.prune(keep, None).await.unwrap();
            }
        }
    }
}

fn act() -> impl Strategy<Value = Act> {
    let id = || 0..4_u8;
    let states = || {
        let state = select(vec![
            "pending",
            "executing",
            "awaiting_approval",
            "completed",
        ]);
        prop::collection::vec(state, 0..5)
    };
    let note = || {
        prop_oneof![
            Just(None),
            Just(Some(String::new())),
            Just(Some("why".to_owned()))
        ]
    };
    prop_oneof![
        8 => (id(), states(), any::<bool>(), note())
            .prop_map(|(id, states, detail, note)| Act::Call { id, states, detail, note }),
        1 => Just(Act::Event),
        1 => (id(), prop::option::of(1..9_i64)).prop_map(|(id, ended)| Act::Session(id, ended)),
        1 => id().prop_map(Act::Batch),
        1 => id().prop_map(Act::Approval),
        1 => id().prop_map(Act::Revoke),
        1 => id().prop_map(Act::Use),
        1 => id().prop_map(Act::Answer),
        1 => id().prop_map(Act::Commit),
        1 => id().prop_map(Act::EndCommit),
        2 => Just(Act::Seal),
        1 => Just(Act::Prune),
    ]
}

/// A change by another program.
#[derive(Debug, Clone)]
enum Damage {
    /// Sets a column of a row to another value.
    Set(Index, Index, Index, &'static str),
    Delete(Index, Index),
    /// Swaps two rows of the chain.
    Swap(Index, Index),
    /// Removes the end; if `true`, also adjusts the head of the chain.
    Truncate(Index, bool),
    /// Inserts a row that the host did not write.
    Plant(&'static str),
}

/// `{c}` is replaced by the column.
const VALUES: [&str; 20] = [
    "{c} + 1",
    "{c} - 1",
    "0",
    "1",
    "-1",
    "9223372036854775807",
    "-9223372036854775807",
    "NULL",
    "''",
    "{c} || 'x'",
    "'c1'",
    "'null'",
    "'[]'",
    "'[[\"pending\",\"state\"]]'",
    "'[[5],[]]'",
    "CAST(x'ff' AS TEXT)",
    "x''",
    "zeroblob(32)",
    "zeroblob(64)",
    "CAST(substr({c}, 2) || x'07' AS BLOB)",
];

const PLANTS: [&str; 5] = [
    "INSERT INTO probe VALUES (x'00')",
    "INSERT INTO approvals (id, tool, plugin, identity, scope, body, created_ms, used)
         VALUES ('planted', 'shell', 'shell', '', 'user', '{}', 1, 0)",
    "INSERT INTO approvals (id, tool, plugin, identity, scope, body, created_ms, used)
         VALUES (CAST(x'ff' AS TEXT), 'shell', 'shell', '', 'user', '{}', 1, 0)",
    "INSERT INTO transitions SELECT seq + 1, call, session, at_ms, state, kind, note, detail, hash, earlier, subject, digest, shape
         FROM transitions ORDER BY seq DESC LIMIT 1",
    "INSERT INTO segments SELECT rows, 0, head, head FROM chain",
];

/// Names of all tables with their columns.
pub fn columns(connection: &Connection) -> Vec<(String, Vec<String>)> {
    let names = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get(0)).unwrap();
        rows.collect::<Result<_, _>>().unwrap()
    };
    names("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")
        .into_iter()
        .map(|table| {
            let columns = names(&format!("SELECT name FROM pragma_table_info('{table}')"));
            (table, columns)
        })
        .collect()
}

/// A condition that selects each row of a table.
pub fn rows_of(connection: &Connection, table: &str) -> Vec<String> {
    // The table `answers` has no `rowid`.
    let (key, picked) = match table {
        "answers" => ("call", "quote(call)"),
        _ => ("rowid", "rowid"),
    };
    let mut statement = connection
        .prepare(&format!(
            "SELECT '{key} = ' || {picked} FROM {table} ORDER BY {key}"
        ))
        .unwrap();
    let rows = statement.query_map([], |row| row.get(0)).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

impl Damage {
    /// The SQL statements; `None` if there is nothing to damage.
    fn sql(&self, connection: &Connection) -> Option<String> {
        let tables = columns(connection);
        let one = |table: &str, at: &Index| {
            let rows = rows_of(connection, table);
            (!rows.is_empty()).then(|| at.get(&rows).clone())
        };
        let seq = |at: &Index| Some(one("transitions", at)?.replace("rowid = ", ""));
        Some(match self {
            Self::Set(table, column, row, value) => {
                let (table, columns) = table.get(&tables);
                let (column, row) = (column.get(columns), one(table, row)?);
                let value = value.replace("{c}", column);
                format!("UPDATE {table} SET {column} = {value} WHERE {row}")
            }
            Self::Delete(table, row) => {
                let (table, _) = table.get(&tables);
                format!("DELETE FROM {table} WHERE {}", one(table, row)?)
            }
            Self::Swap(one_row, other) => {
                let (a, b) = (seq(one_row)?, seq(other)?);
                format!(
                    "UPDATE transitions SET seq = -7 WHERE seq = {a};
                     UPDATE transitions SET seq = {a} WHERE seq = {b};
                     UPDATE transitions SET seq = {b} WHERE seq = -7"
                )
            }
            Self::Truncate(row, fits) => {
                let last = seq(row)?;
                let head = "UPDATE chain SET rows = seq, head = substr(hash, -32)
                            FROM (SELECT seq, hash FROM transitions ORDER BY seq DESC LIMIT 1)";
                let head = if *fits { head } else { "" };
                format!("DELETE FROM transitions WHERE seq > {last}; {head}")
            }
            Self::Plant(sql) => (*sql).to_owned(),
        })
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let any = any::<Index>;
    prop_oneof![
        8 => (any(), any(), any(), select(VALUES.to_vec()))
            .prop_map(|(table, column, row, value)| Damage::Set(table, column, row, value)),
        2 => (any(), any()).prop_map(|(table, row)| Damage::Delete(table, row)),
        1 => (any(), any()).prop_map(|(a, b)| Damage::Swap(a, b)),
        1 => (any(), prop::bool::ANY).prop_map(|(row, fits)| Damage::Truncate(row, fits)),
        1 => select(PLANTS.to_vec()).prop_map(Damage::Plant),
    ]
}

/// A connection with the permissions of any program that can write to the file.
pub fn unguarded(home: &Home) -> Connection {
    let raw = home.raw();
    raw.execute_batch(
        "PRAGMA synchronous = OFF; PRAGMA foreign_keys = OFF;
         DROP TRIGGER transitions_stay_unchanged; DROP TRIGGER transitions_stay;",
    )
    .unwrap();
    raw
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(ProptestConfig::default().cases / 8)
    })]

    #[test]
    fn verify_agrees_with_a_second_implementation(
        acts in prop::collection::vec(act(), 0..20),
        damages in prop::collection::vec(prop::collection::vec(damage(), 1..3), 40),
    ) {
        let home = Home::new();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = home.open();
            for act in &acts {
                act.happen(&store).await;
            }
        });
        let raw = unguarded(&home);
        let whole = agree(&raw, "undamaged");
        prop_assert!(matches!(whole, Verification::Verified { .. }), "{whole:?}");
        for damages in damages {
            raw.execute_batch("BEGIN").unwrap();
            let mut outcomes = Vec::new();
            for damage in &damages {
                let Some(sql) = damage.sql(&raw) else { continue };
                // A value that the column rejects changes nothing.
                let done = raw.execute_batch(&sql);
                outcomes.push(format!("{sql}: {done:?}"));
            }
            agree(&raw, &outcomes.join("; "));
            raw.execute_batch("ROLLBACK").unwrap();
        }
    }
}
