-- The journal of commits: which changes of files were begun, and what became of them.
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
-- Small at any time: what has ended leaves it.
CREATE INDEX commits_begun ON commits (seq) WHERE state = 'begun';
