//! Record shapes: text that many rows share, stored once, because calls of one tool differ in few values.
//!
//! The digest of a row covers the text of its shape, and the hash of a step covers the expanded values.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension as _};
use serde::Serialize;
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

/// Ids of the texts that one transaction uses. Not kept longer, because another process can remove a text.
#[derive(Default)]
pub struct ShapeIds(HashMap<String, i64>);

impl ShapeIds {
    /// Id of a text; `None` if it is not stored.
    pub fn id(&mut self, connection: &Connection, text: &str) -> rusqlite::Result<Option<i64>> {
        if let Some(id) = self.0.get(text) {
            return Ok(Some(*id));
        }
        let id = stored_id(connection, text)?;
        if let Some(id) = id {
            self.0.insert(text.to_owned(), id);
        }
        Ok(id)
    }
}

fn stored_id(connection: &Connection, text: &str) -> rusqlite::Result<Option<i64>> {
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

/// The value of a column.
enum Column<'a> {
    Text(&'a str),
    Number(i64),
}

impl Column<'_> {
    fn is(&self, value: &Value) -> bool {
        match self {
            Self::Text(text) => value == text,
            Self::Number(number) => value == number,
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Number(number) => json!(number),
        }
    }
}

/// The column that contains the value of a field.
fn column<'a>(row: &'a CallRow, member: &str) -> Option<Column<'a>> {
    match member {
        "id" => Some(Column::Text(&row.id)),
        "name" => row.tool.as_deref().map(Column::Text),
        "sessionId" => Some(Column::Text(&row.session)),
        "state" => Some(Column::Text(&row.state)),
        "plugin" => row.plugin.as_deref().map(Column::Text),
        "batchId" => row.batch.as_deref().map(Column::Text),
        "parentCallId" => row.parent.as_deref().map(Column::Text),
        "createdAt" => Some(Column::Number(row.created_ms)),
        "updatedAt" | "completedAt" => Some(Column::Number(row.updated_ms)),
        _ => None,
    }
}

/// Splits a record into its shape and the list of its own values. `None` if it has no shape.
///
/// The shape lists the fields in order: `["name"]` is the value of a column, `["name", value]` is the value itself,
/// and `"name"` is the next value of the list. Both are written directly, because this runs for each record.
pub fn split(row: &CallRow) -> Option<(String, String)> {
    let (Value::Object(members), Some(_)) = (&row.record, &row.tool) else {
        return None;
    };
    let (mut shape, mut own) = (JsonList::default(), JsonList::default());
    for (name, value) in members {
        if column(row, name).is_some_and(|column| column.is(value)) {
            shape.push(&[name])?;
        } else if SHARED_FIELDS.contains(&name.as_str()) && !value.is_object() && !value.is_array()
        {
            shape.push(&(name, value))?;
        } else {
            own.push(value)?;
            shape.push(name)?;
        }
    }
    Some((shape.finish()?, own.finish()?))
}

/// The text of a JSON list, element by element.
#[derive(Default)]
struct JsonList(Vec<u8>);

impl JsonList {
    fn push(&mut self, element: &(impl Serialize + ?Sized)) -> Option<()> {
        self.0.push(if self.0.is_empty() { b'[' } else { b',' });
        serde_json::to_writer(&mut self.0, element).ok()
    }

    fn finish(mut self) -> Option<String> {
        if self.0.is_empty() {
            self.0.push(b'[');
        }
        self.0.push(b']');
        String::from_utf8(self.0).ok()
    }
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
                    let value = column(row, &name)?.to_json();
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
