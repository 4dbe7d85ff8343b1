-- What the steps say of the rows of other tables: `digest` is the hash of the row that was written with the step, and
-- 32 zero bytes when the row was removed. `subject` names the table (0: a step of a call). `shape` holds what many rows
-- have in common. A row of this format stores the hash of its last step only; the others follow from it.
ALTER TABLE transitions ADD COLUMN subject INTEGER NOT NULL DEFAULT 0;
ALTER TABLE transitions ADD COLUMN digest BLOB;
ALTER TABLE transitions ADD COLUMN shape INTEGER;
ALTER TABLE calls ADD COLUMN shape INTEGER;
-- Which process keeps a session open.
ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT '';

-- Text that many rows share, stored once.
CREATE TABLE shapes (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
) STRICT;

-- The chain in parts that are dropped as a whole. `last` is the number of the last step, `head` its hash, `at_ms` the
-- latest time in it, `total` a hash over this row and the `total` before it. A dropped part keeps its row.
CREATE TABLE segments (
    last  INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    head  BLOB NOT NULL,
    total BLOB NOT NULL
) STRICT;
-- The `last` of the newest part that was dropped; 0 when there is none.
ALTER TABLE chain ADD COLUMN base INTEGER NOT NULL DEFAULT 0;

DROP TRIGGER transitions_stay;
CREATE TRIGGER transitions_stay BEFORE DELETE ON transitions
WHEN old.seq > (SELECT base FROM chain WHERE id = 1)
BEGIN
    SELECT raise(ABORT, 'transitions are never deleted');
END;
