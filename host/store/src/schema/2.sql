-- The commit journal: file changes and their state.
CREATE TABLE commits (
    seq     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE,
    call    TEXT NOT NULL,
    session TEXT NOT NULL,
    batch   TEXT,
    tool    TEXT NOT NULL,
    at_ms   INTEGER NOT NULL,
    state   TEXT NOT NULL,
    of      TEXT,
    owner   TEXT NOT NULL,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX commits_call ON commits (call);
CREATE INDEX commits_session ON commits (session);
CREATE INDEX commits_batch ON commits (batch);
-- Always small: finished commits are not in it.
CREATE INDEX commits_begun ON commits (seq) WHERE state = 'begun';
