//! Record shapes: text that many rows share, stored once, because calls of one tool differ in few values.
//!
//! The digest of a row covers the text of its shape, and the hash of a step covers the expanded values.

use rusqlite::{Connection, OptionalExtension as _};
use serde_json::{Value, json};

use crate::CallRow;

/// Maximum number of stored shapes; beyond it rows contain their full text.
const MAX_SHAPES: i64 = 4_096;
/// Maximum length of a shape, in bytes.
const MAX_SHAPE_LEN: usize = 2_048;

/// Record fields whose values depend on the tool and on how the call ended. Fields with free text are excluded,
/// because every new value creates a shape.
const SHARED_FIELDS: [&str; 7] = [
    "attempts",
    "effect",
    "isError",
    "mode",
    "origin",
    "toolHash",
    "toolVersion",
];

/// Id of a text; `None` if it is not stored.
pub fn id(connection: &Connection, text: &str) -> rusqlite::Result<Option<i64>> {
    if text.len() > MAX_SHAPE_LEN {
        return Ok(None);
    }
    let known = connection
        .prepare_cached("SELECT id FROM shapes WHERE text = ?1")?
        .query_row([text], |row| row.get(0))
        .optional()?;
    if known.is_some() {
        return Ok(known);
    }
    let count: i64 = connection
        .prepare_cached("SELECT count(*) FROM shapes")?
        .query_row([], |row| row.get(0))?;
    if count >= MAX_SHAPES {
        return Ok(None);
    }
    connection
        .prepare_cached("INSERT INTO shapes (text) VALUES (?1)")?
        .execute([text])?;
    Ok(Some(connection.last_insert_rowid()))
}

/// The column that contains the value of a field.
fn column(row: &CallRow, member: &str) -> Option<Value> {
    match member {
        "id" => Some(json!(row.id)),
        "name" => row.tool.as_ref().map(|tool| json!(tool)),
        "sessionId" => Some(json!(row.session)),
        "state" => Some(json!(row.state)),
        "plugin" => row.plugin.as_ref().map(|plugin| json!(plugin)),
        "batchId" => row.batch.as_ref().map(|batch| json!(batch)),
        "parentCallId" => row.parent.as_ref().map(|parent| json!(parent)),
        "createdAt" => Some(json!(row.created_ms)),
        "updatedAt" | "completedAt" => Some(json!(row.updated_ms)),
        _ => None,
    }
}

/// Splits a record into its shape and the list of its own values. `None` if it has no shape.
///
/// The shape lists the fields in order: `["name"]` is the value of a column, `["name", value]` is the value itself,
/// and `"name"` is the next value of the list.
pub fn split(row: &CallRow) -> Option<(String, String)> {
    let (Value::Object(members), Some(_)) = (&row.record, &row.tool) else {
        return None;
    };
    let mut own = Vec::new();
    let shape: Vec<Value> = members
        .iter()
        .map(|(name, value)| {
            if column(row, name).as_ref() == Some(value) {
                json!([name])
            } else if SHARED_FIELDS.contains(&name.as_str())
                && !value.is_object()
                && !value.is_array()
            {
                json!([name, value])
            } else {
                own.push(value);
                json!(name)
            }
        })
        .collect();
    let own = serde_json::to_string(&own).ok()?;
    Some((Value::Array(shape).to_string(), own))
}

/// Reassembles the record of a row. `None` if the parts do not match.
pub fn join(row: &mut CallRow, shape: &str) -> Option<()> {
    let Value::Array(own) = row.record.take() else {
        return None;
    };
    let mut own = own.into_iter();
    let shape: Vec<Value> = serde_json::from_str(shape).ok()?;
    let mut record = serde_json::Map::new();
    for member in shape {
        let (name, value) = match member {
            Value::String(name) => (name, own.next()?),
            Value::Array(parts) => match <[Value; 2]>::try_from(parts) {
                Ok([Value::String(name), value]) => (name, value),
                Ok(_) => return None,
                Err(parts) => {
                    let name = parts.first()?.as_str()?.to_owned();
                    let value = column(row, &name)?;
                    (name, value)
                }
            },
            _ => return None,
        };
        record.insert(name, value);
    }
    row.record = Value::Object(record);
    own.next().is_none().then_some(())
}
