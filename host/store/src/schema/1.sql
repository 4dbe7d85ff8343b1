CREATE TABLE calls (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    session    TEXT NOT NULL,
    batch      TEXT,
    parent     TEXT,
    tool       TEXT,
    plugin     TEXT,
    state      TEXT NOT NULL,
    finished   INTEGER NOT NULL,
    deferred   INTEGER NOT NULL,
    effectful  INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    updated_ms INTEGER NOT NULL,
    owner      TEXT NOT NULL,
    record     TEXT NOT NULL
) STRICT;
CREATE INDEX calls_session ON calls (session);
-- Always small: finished calls are not in it.
CREATE INDEX calls_unfinished ON calls (seq) WHERE finished = 0;

CREATE TABLE transitions (
    seq     INTEGER PRIMARY KEY,
    call    TEXT NOT NULL,
    session TEXT NOT NULL,
    at_ms   INTEGER NOT NULL,
    state   TEXT NOT NULL,
    kind    TEXT NOT NULL,
    note    TEXT,
    detail  TEXT NOT NULL,
    hash    BLOB NOT NULL
) STRICT;
CREATE INDEX transitions_call ON transitions (call);
CREATE TRIGGER transitions_stay_unchanged BEFORE UPDATE ON transitions
BEGIN
    SELECT raise(ABORT, 'transitions are never changed');
END;
CREATE TRIGGER transitions_stay BEFORE DELETE ON transitions
BEGIN
    SELECT raise(ABORT, 'transitions are never deleted');
END;

-- One row: the number of transitions and the hash of the last one, so that a truncated end is detected.
CREATE TABLE chain (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    rows INTEGER NOT NULL,
    head BLOB NOT NULL
) STRICT;

CREATE TABLE approvals (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    tool       TEXT NOT NULL,
    plugin     TEXT NOT NULL,
    identity   TEXT NOT NULL,
    scope      TEXT NOT NULL,
    session    TEXT,
    body       TEXT NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    uses_left  INTEGER,
    used       INTEGER NOT NULL,
    revoked_ms INTEGER
) STRICT;

CREATE TABLE sessions (
    seq        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    started_ms INTEGER NOT NULL,
    ended_ms   INTEGER,
    client     TEXT NOT NULL,
    mode       TEXT NOT NULL,
    detail     TEXT NOT NULL
) STRICT;

CREATE TABLE batches (
    seq          INTEGER PRIMARY KEY,
    id           TEXT NOT NULL UNIQUE,
    session      TEXT NOT NULL,
    created_ms   INTEGER NOT NULL,
    finished_ms  INTEGER,
    submitted_ms INTEGER,
    calls        INTEGER NOT NULL,
    strategy     TEXT NOT NULL
) STRICT;
CREATE INDEX batches_session ON batches (session);

-- AUTOINCREMENT: numbers are never reused, so a follower's position stays valid when old events are removed.
CREATE TABLE events (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    channel TEXT NOT NULL,
    session TEXT NOT NULL,
    call    TEXT,
    at_ms   INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX events_channel ON events (channel, seq);

CREATE TABLE answers (
    call     TEXT PRIMARY KEY,
    -- Which question it answers: `updated_ms` of the call when it was given.
    asked_ms INTEGER NOT NULL,
    decision TEXT NOT NULL,
    note     TEXT,
    payload  TEXT,
    by       TEXT NOT NULL,
    at_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Written by the writer to check for free space; always empty.
CREATE TABLE probe (
    body BLOB NOT NULL
) STRICT;
