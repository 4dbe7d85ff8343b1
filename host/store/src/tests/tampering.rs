//! `verify` detects every change by another program, and the store does not read changed rows.

use rusqlite::Connection;
use serde_json::json;

use super::{Home, answer, approval, commit, event, write};
use crate::{
    BatchRow, CallFilter, ChainDefect, CommitFilter, CommitState, RecordedHead, SessionRow, Store,
    StoreError, TransitionFilter, Verification, Write,
};

/// A store with a row in every table.
async fn filled() -> Home {
    let home = Home::new();
    fill(&home).await;
    home
}

pub async fn fill(home: &Home) {
    let store = home.open();
    store
        .commit(Write::Many(vec![
            write("c1", &["pending", "executing", "completed"]),
            write("c2", &["pending", "awaiting_approval"]),
            Write::Event(event("control", "asked")),
            Write::Session(SessionRow {
                id: "s1".to_owned(),
                started_ms: 1,
                ended_ms: Some(2),
                client: "terminal".to_owned(),
                mode: "default".to_owned(),
                detail: json!({"cwd": "/ws"}),
            }),
            Write::Batch(BatchRow {
                id: "b1".to_owned(),
                session: "s1".to_owned(),
                created_ms: 1,
                finished_ms: Some(2),
                submitted_ms: Some(3),
                calls: 2,
                strategy: "waves".to_owned(),
            }),
        ]))
        .await
        .unwrap();
    let mut saved = approval("a1");
    (saved.session, saved.expires_ms) = (Some("s1".to_owned()), Some(1_000_000));
    (saved.uses_left, saved.revoked_ms) = (Some(3), Some(7));
    store.put_approval(saved).await.unwrap();
    store.answer(answer("c2", "terminal")).await.unwrap();
    for (id, of) in [("w1", None), ("w2", Some("w1".to_owned()))] {
        let row = crate::CommitRow { of, ..commit(id) };
        store.begin_commit(row).await.unwrap();
        store.end_commit(id, CommitState::Done, 9).await.unwrap();
    }
    store.seal_head().await.unwrap();
}

fn columns(connection: &Connection, table: &str) -> Vec<(String, String)> {
    connection
        .prepare(&format!(
            "SELECT name, type FROM pragma_table_info('{table}')"
        ))
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

/// Everything that the host's commands list.
fn everything(store: &Store) -> Result<String, StoreError> {
    let every = TransitionFilter {
        every_subject: true,
        ..TransitionFilter::default()
    };
    Ok(format!(
        "{:?}{:?}{:?}{:?}{:?}{:?}{:?}{:?}",
        store.transitions(&every)?,
        store.calls(&CallFilter::default())?,
        store.sessions(9)?,
        store.batches("s1")?,
        store.approvals()?,
        store.commits(&CommitFilter::default())?,
        store.events(None, 0, 9)?,
        store.answer_for("c2", 2_000)?,
    ))
}

const TABLES: [&str; 12] = [
    "calls",
    "transitions",
    "chain",
    "approvals",
    "sessions",
    "batches",
    "events",
    "answers",
    "commits",
    "segments",
    "shapes",
    "probe",
];

#[tokio::test]
async fn a_17_every_column_of_every_table_is_covered_by_the_chain() {
    let home = filled().await;
    assert!(matches!(
        home.open().verify().unwrap(),
        Verification::Verified { .. }
    ));
    let raw = home.raw();
    let known: usize = raw
        .query_row(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
            [],
            |row| Ok(usize::try_from(row.get::<_, i64>(0)?).unwrap()),
        )
        .unwrap();
    assert_eq!(known, TABLES.len(), "a table is not tested");
    drop(raw);
    let mut tried = 0;
    for table in TABLES.into_iter().filter(|table| *table != "probe") {
        for (column, kind) in columns(&home.raw(), table) {
            // The only row of `chain` has only one valid key.
            if (table, column.as_str()) == ("chain", "id") {
                continue;
            }
            let value = match kind.as_str() {
                "INTEGER" => format!("coalesce({column}, 0) + 1"),
                "TEXT" => format!("coalesce({column}, '') || 'x'"),
                _ => format!("CAST(coalesce(substr({column}, 2), x'') || x'07' AS BLOB)"),
            };
            let other = filled().await;
            let honest = everything(&other.open()).unwrap();
            let raw = other.raw();
            raw.execute_batch(
                "DROP TRIGGER transitions_stay_unchanged; DROP TRIGGER transitions_stay;",
            )
            .unwrap();
            let last = format!("(SELECT max(rowid) FROM {table})");
            let one = match table {
                "answers" => String::new(),
                _ => format!(" WHERE rowid = {last}"),
            };
            let changed = raw
                .execute(&format!("UPDATE {table} SET {column} = {value}{one}"), [])
                .unwrap();
            assert!(changed > 0, "{table}.{column}");
            drop(raw);
            let store = other.open();
            let found = store.verify().unwrap();
            assert!(
                matches!(found, Verification::Broken { .. }),
                "{table}.{column}: {found:?}"
            );
            // The changed value is not returned. A row with a changed key is not found under its old key.
            if let Ok(contents) = everything(&store) {
                let is_missing = contents.len() < honest.len();
                assert!(is_missing || contents == honest, "{table}.{column}");
            }
            tried += 1;
        }
    }
    assert!(tried > 80, "{tried}");
}

#[tokio::test]
async fn a_17_rows_that_are_removed_or_planted_are_found() {
    for (sql, table) in [
        ("DELETE FROM calls WHERE id = 'c1'", "calls"),
        ("DELETE FROM approvals", "approvals"),
        ("DELETE FROM answers", "answers"),
        ("DELETE FROM commits WHERE id = 'w1'", "commits"),
        ("DELETE FROM sessions", "sessions"),
        ("DELETE FROM batches", "batches"),
        ("DELETE FROM events", "events"),
        (
            "INSERT INTO calls SELECT 9, 'c9', session, batch, parent, tool, plugin, state, finished, deferred, effectful,
                 created_ms, updated_ms, owner, record, shape FROM calls WHERE id = 'c1'",
            "calls",
        ),
        (
            "INSERT INTO approvals (id, tool, plugin, identity, scope, body, created_ms, used)
                 VALUES ('a9', 'shell', 'shell', '', 'user', '{}', 1, 0)",
            "approvals",
        ),
        (
            "INSERT INTO answers VALUES ('c1', 2000, 'allow_once', NULL, NULL, 'person', 1)",
            "answers",
        ),
        ("INSERT INTO probe VALUES (x'00')", "probe"),
    ] {
        let home = filled().await;
        home.raw().execute_batch(sql).unwrap();
        let store = home.open();
        let Verification::Broken { reason, .. } = store.verify().unwrap() else {
            panic!("not found: {sql}");
        };
        assert!(reason.to_string().contains(table), "{sql}: {reason}");
        // A planted approval or answer allows nothing.
        if sql.contains("INTO approvals") {
            assert!(store.approvals().is_err());
            assert!(store.use_approval("a9", 1).await.is_err());
        }
        if sql.contains("INTO answers") {
            assert!(store.answer_for("c1", 2_000).is_err());
        }
    }
}

#[tokio::test]
async fn a_17_a_recorded_head_detects_an_older_copy_and_a_recreated_chain() {
    let home = filled().await;
    let store = home.open();
    let recorded = |(seq, hash)| RecordedHead {
        seq: Some(seq),
        hash,
    };
    let early = recorded(store.seal_head().await.unwrap());
    drop(store);
    let copy = std::fs::read(home.database()).unwrap();
    let store = home.open();
    store.commit(write("c3", &["completed"])).await.unwrap();
    let late = recorded(store.seal_head().await.unwrap());
    for head in [early, late] {
        let found = store.verify_head(head).unwrap();
        assert!(matches!(found, Verification::Verified { .. }), "{found:?}");
    }
    // The number of another step.
    let (stated, found) = (early.seq.unwrap(), late.seq.unwrap());
    let swapped = store.verify_head(RecordedHead {
        seq: early.seq,
        ..late
    });
    let Verification::Broken { reason, .. } = swapped.unwrap() else {
        panic!("the number was not compared")
    };
    assert_eq!(reason, ChainDefect::HeadNumber { stated, found });
    drop(store);
    std::fs::write(home.database(), copy).unwrap();
    let store = home.open();
    assert!(matches!(
        store.verify().unwrap(),
        Verification::Verified { .. }
    ));
    assert!(matches!(
        store.verify_head(early).unwrap(),
        Verification::Verified { .. }
    ));
    let found = store.verify_head(late).unwrap();
    assert!(
        matches!(
            found,
            Verification::Broken {
                reason: ChainDefect::Rollback,
                ..
            }
        ),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_17_changed_rows_are_not_confirmed_by_writes() {
    let home = Home::new();
    let gone = home.open();
    gone.commit(write("c1", &["executing"])).await.unwrap();
    gone.begin_commit(commit("w1")).await.unwrap();
    drop(gone);
    home.raw()
        .execute_batch("UPDATE calls SET tool = 'rm'; UPDATE commits SET body = '[]'")
        .unwrap();
    let store = home.open();
    assert_eq!(store.adopt_orphans().await.unwrap(), []);
    assert!(store.adopt_commits().await.is_err());
    assert!(store.end_commit("w1", CommitState::Done, 1).await.is_err());
    let found = store.verify().unwrap();
    assert!(matches!(found, Verification::Broken { .. }), "{found:?}");
}

#[tokio::test]
async fn a_17_a_missing_or_replaced_table_is_a_defect() {
    for table in TABLES {
        for view in ["", "CREATE VIEW {t} AS SELECT * FROM saved"] {
            let home = filled().await;
            let sql = format!(
                "DROP TRIGGER transitions_stay_unchanged; DROP TRIGGER transitions_stay;
                 CREATE TABLE saved AS SELECT * FROM {table}; DROP TABLE {table}; {}",
                view.replace("{t}", table)
            );
            home.raw().execute_batch(&sql).unwrap();
            let store = home.open();
            for found in [store.verify(), store.verify_chain()] {
                let Verification::Broken { reason, .. } = found.unwrap() else {
                    panic!("not found: {sql}")
                };
                assert_eq!(reason, ChainDefect::Table(table));
            }
            // Not reported as a bug of the host.
            let error = store
                .flush()
                .await
                .and(store.commit(write("c9", &["pending"])).await);
            if let Err(error) = error {
                assert!(!error.to_string().contains("INSERT"), "{error}");
                assert!(
                    matches!(error, StoreError::Corrupt { .. }),
                    "{sql}: {error}"
                );
            }
        }
    }
}

#[tokio::test]
async fn an_error_about_a_changed_row_names_the_row() {
    let home = filled().await;
    home.raw()
        .execute_batch("UPDATE commits SET tool = 'rm' WHERE id = 'w1'")
        .unwrap();
    let error = home.open().commit_row("w1").unwrap_err().to_string();
    assert!(
        error.contains("(`w1` of commits does not match the audit chain)"),
        "{error}"
    );
}
