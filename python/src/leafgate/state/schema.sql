-- Schema version 1. Changing it needs a higher SCHEMA_VERSION in sqlite_file.py, except for tables at the end.

CREATE TABLE tick (last INTEGER NOT NULL);
INSERT INTO tick VALUES (0);

CREATE TABLE contents (
    digest TEXT PRIMARY KEY, packed BLOB NOT NULL, length INTEGER NOT NULL, entries INTEGER NOT NULL
);
CREATE TABLE artifacts (
    owner TEXT NOT NULL, handle TEXT NOT NULL, identity TEXT NOT NULL, digest TEXT NOT NULL, about TEXT NOT NULL,
    size INTEGER NOT NULL, used INTEGER NOT NULL, expires REAL NOT NULL,
    PRIMARY KEY (owner, handle), UNIQUE (owner, identity)
) WITHOUT ROWID;
CREATE INDEX artifacts_by_use ON artifacts (used);
CREATE INDEX artifacts_of_owner ON artifacts (owner, used);
CREATE INDEX artifacts_by_age ON artifacts (expires);
CREATE TABLE artifact_owners (owner TEXT PRIMARY KEY, bytes INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE artifact_bytes (total INTEGER NOT NULL);
INSERT INTO artifact_bytes VALUES (0);

CREATE TABLE results (
    key TEXT PRIMARY KEY, packed BLOB NOT NULL, size INTEGER NOT NULL, used INTEGER NOT NULL, expires REAL NOT NULL
);
CREATE INDEX results_by_use ON results (used);
CREATE TABLE result_bytes (total INTEGER NOT NULL, entries INTEGER NOT NULL);
INSERT INTO result_bytes VALUES (0, 0);

CREATE TABLE usage (
    space TEXT NOT NULL, owner TEXT NOT NULL, scope TEXT NOT NULL,
    recent TEXT NOT NULL, total INTEGER NOT NULL, last REAL NOT NULL, used INTEGER NOT NULL,
    PRIMARY KEY (space, owner, scope)
) WITHOUT ROWID;
CREATE INDEX usage_by_use ON usage (used);

CREATE TABLE browse_states (owner TEXT PRIMARY KEY, catalog TEXT NOT NULL, cards BLOB NOT NULL, used INTEGER NOT NULL);
CREATE INDEX browse_states_by_use ON browse_states (used);

CREATE TABLE counts (name TEXT PRIMARY KEY, times REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE counts_since (since TEXT NOT NULL);

CREATE TABLE sessions (name TEXT PRIMARY KEY, user TEXT NOT NULL, hello BLOB NOT NULL, expires REAL NOT NULL);
CREATE INDEX sessions_by_age ON sessions (expires);
CREATE TABLE session_events (
    number INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, stream TEXT NOT NULL, gateway TEXT NOT NULL,
    message BLOB NOT NULL, expires REAL NOT NULL
);
CREATE INDEX session_events_of ON session_events (session, number);
CREATE INDEX session_events_by_age ON session_events (expires);
CREATE TABLE gateways (name TEXT PRIMARY KEY, expires REAL NOT NULL) WITHOUT ROWID;

-- Added later: created in older files too, which an older leafgate can still use.
CREATE TABLE IF NOT EXISTS tasks (
    owner TEXT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL, expires REAL NOT NULL, PRIMARY KEY (owner, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS tasks_by_age ON tasks (expires);
CREATE TABLE IF NOT EXISTS approvals (
    id TEXT PRIMARY KEY, caller TEXT NOT NULL, status TEXT NOT NULL, content TEXT NOT NULL, tick INTEGER NOT NULL,
    expires REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS flow_key (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS flows (
    owner TEXT NOT NULL, id TEXT NOT NULL, kind TEXT NOT NULL, server TEXT NOT NULL, data BLOB NOT NULL,
    tick INTEGER NOT NULL, expires REAL NOT NULL, PRIMARY KEY (owner, id)
);
CREATE INDEX IF NOT EXISTS flows_by_age ON flows (expires);
