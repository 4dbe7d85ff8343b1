//! Migration of files of earlier formats, with all their rows.

use rusqlite::{Connection, params};

use super::{Home, approval, call, event, step, write};
use crate::chain::{self, Link};
use crate::{ChainSubject, CommitFilter, Store, TransitionFilter, Verification, schema};

/// A file in the first released format, with rows.
fn first_format(home: &Home) {
    drop(home.open());
    for file in ["store.db", "store.db-wal", "store.db-shm"] {
        let _ = std::fs::remove_file(home.state().join(file));
    }
    let connection = home.raw();
    connection
        .execute_batch(include_str!("../schema/1.sql"))
        .unwrap();
    // The hashes that the first format's program wrote.
    let mut head = chain::genesis();
    for (seq, id, state) in [
        (1, "c1", "pending"),
        (2, "c1", "completed"),
        (3, "c2", "executing"),
    ] {
        let row = step(id, state);
        let detail = row.detail.to_string();
        let link = Link {
            seq,
            call: &row.call,
            session: &row.session,
            at_ms: row.at_ms,
            state: row.state.as_str().into(),
            kind: row.kind.as_str().into(),
            note: row.note.as_deref().map(Into::into),
            detail: &detail,
            subject: ChainSubject::Step,
            digest: None,
        };
        head = link.hash(&head);
        connection
            .execute(
                "INSERT INTO transitions VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                params![
                    seq,
                    row.call,
                    row.session,
                    row.at_ms,
                    row.state,
                    row.kind,
                    row.note,
                    detail,
                    head.as_slice()
                ],
            )
            .unwrap();
    }
    connection
        .execute("INSERT INTO chain VALUES (1, 3, ?1)", [head.as_slice()])
        .unwrap();
    let gone = "0".repeat(32);
    for row in [call("c1", "completed"), call("c2", "executing")] {
        connection
            .execute(
                "INSERT INTO calls (id, session, batch, parent, tool, plugin, state, finished, deferred, effectful,
                                    created_ms, updated_ms, owner, record)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                params![
                    row.id,
                    row.session,
                    row.batch,
                    row.parent,
                    row.tool,
                    row.plugin,
                    row.state,
                    row.finished,
                    row.deferred,
                    row.effectful,
                    row.created_ms,
                    row.updated_ms,
                    gone,
                    row.record.to_string()
                ],
            )
            .unwrap();
    }
    connection
        .execute_batch(
            r#"INSERT INTO events (channel, session, call, at_ms, kind, body)
                   VALUES ('control', 's1', 'c1', 5, 'asked', '{"kind":"asked"}');
               INSERT INTO approvals (id, tool, plugin, identity, scope, body, created_ms, used)
                   VALUES ('a1', 'write', 'files', 'sha256:00', 'project', '{"path":"src/**"}', 100, 0)"#,
        )
        .unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA application_id = {}; PRAGMA user_version = 1",
            schema::APPLICATION_ID
        ))
        .unwrap();
    drop(connection);
    let mut permissions = std::fs::metadata(home.database()).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o600);
    std::fs::set_permissions(home.database(), permissions).unwrap();
}

/// All tables, indexes and triggers.
fn shape(connection: &Connection) -> Vec<(String, Option<String>)> {
    connection
        .prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn format(home: &Home) -> i64 {
    home.raw()
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .unwrap()
}

#[tokio::test]
async fn a_file_of_the_first_format_keeps_its_rows_and_takes_new_ones() {
    let home = Home::new();
    first_format(&home);
    assert_eq!(format(&home), 1);
    let store = home.open();
    assert_eq!(format(&home), schema::FORMAT);
    let fresh = Home::new();
    drop(fresh.open());
    assert_eq!(shape(&home.raw()), shape(&fresh.raw()));

    assert_eq!(store.call("c1").unwrap(), Some(call("c1", "completed")));
    assert_eq!(store.orphans().unwrap(), [call("c2", "executing")]);
    assert_eq!(store.approvals().unwrap(), [approval("a1")]);
    assert_eq!(
        store.events(None, 0, 9).unwrap(),
        [(1, event("control", "asked"))]
    );
    let steps = store.transitions(&TransitionFilter::default()).unwrap();
    let rows: Vec<_> = steps.into_iter().map(|step| step.row).collect();
    let expected = [("c1", "pending"), ("c1", "completed"), ("c2", "executing")];
    assert_eq!(rows, expected.map(|(id, state)| step(id, state)));

    assert_eq!(store.commits(&CommitFilter::default()).unwrap(), []);
    store.begin_commit(super::commit("w1")).await.unwrap();
    store.commit(write("c3", &["pending"])).await.unwrap();
    drop(store);
    let store = home.open();
    assert_eq!(store.commit_row("w1").unwrap(), Some(super::commit("w1")));
    let verified = store.verify().unwrap();
    assert!(
        matches!(verified, Verification::Verified { rows: 9, .. }),
        "{verified:?}"
    );
}

#[test]
fn many_starts_on_one_file_of_the_first_format_agree() {
    let home = Home::new();
    first_format(&home);
    let stores: Vec<Store> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| home.open())).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(format(&home), schema::FORMAT);
    for store in stores {
        assert!(store.call("c1").unwrap().is_some());
        assert_eq!(store.begun_commits().unwrap(), []);
    }
}
