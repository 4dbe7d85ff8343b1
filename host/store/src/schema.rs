//! Database connections, and schema migrations from an empty file to the current format.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::{StoreError, chain, segments, subject};

/// SQLite application id: the letters `thst`.
pub const APPLICATION_ID: i64 = 0x7468_7374;

/// Step `n` migrates from format `n` to `n + 1`. Released steps are never changed; new ones are appended.
const STEPS: &[&str] = &[
    include_str!("schema/1.sql"),
    include_str!("schema/2.sql"),
    include_str!("schema/3.sql"),
    include_str!("schema/4.sql"),
    include_str!("schema/5.sql"),
];

/// The format that this program writes.
pub const FORMAT: i64 = STEPS.len().cast_signed() as i64;

/// Opens a connection with the settings of all connections.
pub fn connect(database: &Path, busy: Duration) -> Result<Connection, StoreError> {
    // `StorePaths` created and checked the file, so a missing file was removed just now.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(database, flags)
        .map_err(|error| StoreError::sql(database, &error))?;
    // SQLite silently opens an unwritable file read-only, and would only fail at the first write.
    let read_only = connection
        .is_readonly("main")
        .map_err(|error| StoreError::sql(database, &error))?;
    if read_only {
        return Err(StoreError::ReadOnly {
            path: database.to_owned(),
        });
    }
    configure(&connection, busy).map_err(|error| StoreError::sql(database, &error))?;
    Ok(connection)
}

fn configure(connection: &Connection, busy: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy)?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // Checkpoints less often, because many rows share pages.
    connection.pragma_update(None, "wal_autocheckpoint", 4_000)?;
    // An acknowledged row survives a power failure, not only a kill.
    connection.pragma_update(None, "synchronous", "FULL")
}

/// Migrates the file to the current format, or reports why it cannot be used.
pub fn migrate(
    connection: &mut Connection,
    database: &Path,
    busy: Duration,
) -> Result<(), StoreError> {
    let sql = |error: rusqlite::Error| StoreError::sql(database, &error);
    // Read in one snapshot, because another process can be migrating too.
    let snapshot = connection.transaction().map_err(sql)?;
    let format = current_format(&snapshot, database)?;
    drop(snapshot);
    if format < FORMAT {
        if format == 0 {
            // Effective only in an empty file. Allows returning freed pages to the file system.
            connection
                .pragma_update(None, "auto_vacuum", "INCREMENTAL")
                .map_err(sql)?;
        }
        // Two processes can start with the same empty file. SQLite does not wait for another process that changes
        // the journal mode, so this loop does.
        let mut patience = busy.as_millis() / 10;
        while let Err(error) = connection.pragma_update(None, "journal_mode", "WAL") {
            let error = sql(error);
            if !matches!(error, StoreError::Locked { .. }) || patience == 0 {
                return Err(error);
            }
            patience -= 1;
            std::thread::sleep(Duration::from_millis(10));
        }
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(sql)?;
        // Checked again under the write lock: the other process may have finished the migration.
        let format = current_format(&transaction, database)?;
        for step in STEPS
            .iter()
            .skip(usize::try_from(format).unwrap_or_default())
        {
            transaction.execute_batch(step).map_err(sql)?;
        }
        if format == 0 {
            let genesis = chain::genesis();
            transaction
                .execute(
                    "INSERT INTO chain (id, rows, head) VALUES (1, 0, ?1)",
                    [genesis.as_slice()],
                )
                .map_err(sql)?;
        }
        if (1..4).contains(&format) {
            segments::seal_all(&transaction).map_err(sql)?;
            subject::append_all_states(&transaction).map_err(sql)?;
        }
        transaction
            .pragma_update(None, "application_id", APPLICATION_ID)
            .map_err(sql)?;
        transaction
            .pragma_update(None, "user_version", FORMAT)
            .map_err(sql)?;
        transaction.commit().map_err(sql)?;
    }
    Ok(())
}

/// The format of a file that is ours or empty.
fn current_format(connection: &Connection, database: &Path) -> Result<i64, StoreError> {
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .map_err(|error| StoreError::sql(database, &error))
    };
    let path = || database.to_owned();
    let format = number("PRAGMA user_version")?;
    match number("PRAGMA application_id")? {
        APPLICATION_ID if format > FORMAT => Err(StoreError::Newer {
            path: path(),
            found: format,
            known: FORMAT,
        }),
        APPLICATION_ID if format > 0 => Ok(format),
        0 if format == 0 && number("SELECT count(*) FROM sqlite_schema")? == 0 => Ok(0),
        _ => Err(StoreError::NotADatabase { path: path() }),
    }
}
