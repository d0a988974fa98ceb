//! The tables, and the version that tells which program wrote them.
//!
//! Owns the schema text and its version number. It must not know any row's meaning beyond its column comments.

/// Version of the schema this program writes (`PRAGMA user_version`). A change of the tables raises it and adds a migration.
pub(crate) const VERSION: i64 = 1;

/// Marks the file as ours (`PRAGMA application_id`, "AMPj").
pub(crate) const APPLICATION_ID: i64 = 0x414d_506a;

/// Columns that a row is found by stand first and long texts last, so that a lookup never walks through a long text. A job
/// that has ended keeps its outcome and drops its request. An outbox row of an outcome keeps no copy: it points at the job that
/// names it in `sent`, until that job gives way to a new one of the same key.
pub(crate) const TABLES: &str = "
CREATE TABLE jobs (
  id           INTEGER PRIMARY KEY,  -- rises in the order of acceptance
  state        INTEGER NOT NULL,     -- see rows.rs
  hash         BLOB    NOT NULL,     -- SHA-256 of the request
  accepted     INTEGER NOT NULL,     -- ms since 1970, as every time here
  attempts     INTEGER NOT NULL,     -- runs begun
  ended        INTEGER,              -- when, none while it is active
  sent         INTEGER,              -- newest outbox row of its outcome, delivered or not
  bytes        INTEGER NOT NULL DEFAULT 0, -- about what the ended row takes
  agent        TEXT    NOT NULL,
  door         TEXT    NOT NULL,
  owner        TEXT    NOT NULL,
  job          TEXT    NOT NULL,
  depth        INTEGER,              -- from here the request, gone once it has ended
  expires      INTEGER,
  parent       TEXT,
  root         TEXT,
  service      TEXT,
  requested_by TEXT,
  args         TEXT,
  fuel         INTEGER,              -- from here the outcome
  wall_ms      INTEGER,
  peak_bytes   INTEGER,
  run          INTEGER,
  guest        TEXT,
  redacted     TEXT,                 -- JSON [[name, source], ...], none when nothing was
  word         TEXT,                 -- the result type of a guest's answer, or the reason
  message      TEXT,                 -- none for a guest's answer
  body         TEXT                  -- the answer, or the further members
) STRICT;
CREATE UNIQUE INDEX jobs_key ON jobs (job, owner, agent, door);
CREATE INDEX jobs_active ON jobs (agent) WHERE ended IS NULL;
CREATE INDEX jobs_ended ON jobs (ended, bytes) WHERE ended IS NOT NULL;

CREATE TABLE outbox (
  id         INTEGER PRIMARY KEY,    -- rises in the order of commits, never used twice
  item       INTEGER NOT NULL,       -- see rows.rs
  ts         INTEGER NOT NULL,
  agent      TEXT    NOT NULL,
  door       TEXT    NOT NULL,
  owner      TEXT    NOT NULL,
  job        TEXT    NOT NULL,
  fuel       INTEGER,                -- from here as in jobs; none where the job has it, and for events
  wall_ms    INTEGER,
  peak_bytes INTEGER,
  run        INTEGER,
  guest      TEXT,
  redacted   TEXT,
  word       TEXT,
  message    TEXT,
  body       TEXT
) STRICT;
CREATE INDEX outbox_notices ON outbox (job, owner, agent, door) WHERE item IN (2, 3);

CREATE TABLE tombstones (
  id     INTEGER PRIMARY KEY,
  until  INTEGER NOT NULL,
  notice INTEGER NOT NULL,           -- stamp of the cancel_rejected that was shown
  agent  TEXT    NOT NULL,
  door   TEXT    NOT NULL,
  owner  TEXT    NOT NULL,
  job    TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX tombstones_key ON tombstones (job, owner, agent, door);
CREATE INDEX tombstones_until ON tombstones (until);

CREATE TABLE books (
  one          INTEGER PRIMARY KEY CHECK (one = 1),
  stamp_ahead  INTEGER NOT NULL,     -- no stamp later than this was shown
  row_ahead    INTEGER NOT NULL      -- no outbox id above this was used
) STRICT;
INSERT INTO books (one, stamp_ahead, row_ahead) VALUES (1, 0, 0);
";
