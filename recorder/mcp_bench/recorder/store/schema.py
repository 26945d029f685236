"""Tables, views and numbered migrations of the two databases of a run.

A migration that was released is never edited: add the next one. What they call docs/evidence.md is
docs/security/signatures.md now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schema:
    """The migrations of one database. A new database gets all of them."""

    name: str
    """Of the migration set of sqlite-utils."""
    migrations: Mapping[str, tuple[str, ...]]
    """SQL statements by name, in the order in which they apply."""


_SEALS = """
    CREATE TABLE seals (
        subject TEXT PRIMARY KEY, -- an episode or a run
        contents TEXT NOT NULL, -- JSON: by table, the tags of its rows
        tag BLOB NOT NULL
    )
"""
_RECORDINGS_1 = (
    """
    CREATE TABLE runs (
        id TEXT PRIMARY KEY,
        created_us INTEGER NOT NULL,
        benchmark TEXT NOT NULL,
        benchmark_version TEXT NOT NULL,
        agent TEXT NOT NULL,
        agent_version TEXT NOT NULL,
        model TEXT,
        isolation TEXT NOT NULL,
        home TEXT NOT NULL,
        tools TEXT NOT NULL,
        graded INTEGER NOT NULL, -- 0: a run without a grader, such as with a third-party server
        settings TEXT NOT NULL, -- JSON object
        plan TEXT NOT NULL, -- JSON array of the planned episodes
        key TEXT NOT NULL, -- id of the key that the tags were made with, never the key
        tag BLOB -- keyed hash of the row, as in every table: see docs/evidence.md
    )
    """,
    """
    CREATE TABLE episodes (
        id TEXT PRIMARY KEY,
        run TEXT NOT NULL REFERENCES runs(id),
        task TEXT NOT NULL,
        split TEXT NOT NULL,
        domain TEXT NOT NULL,
        prompt TEXT NOT NULL,
        seed INTEGER NOT NULL,
        repeat INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        started_us INTEGER NOT NULL,
        ended_us INTEGER, -- NULL: still running, or its referee died
        termination TEXT,
        invalid TEXT, -- reason code: the episode says nothing about the agent
        invalid_detail TEXT,
        exit_code INTEGER,
        answer TEXT,
        agent TEXT, -- as the client reports it, if the run's agent is "hand" or "proxy"
        agent_version TEXT, -- of this attempt; NULL: the run's
        isolation TEXT, -- the isolation level of its agent; NULL: the run's
        probes TEXT, -- JSON object: results of the probes of that level
        model TEXT, -- as the agent reports it
        usage TEXT, -- JSON object
        connections INTEGER NOT NULL DEFAULT 0,
        source TEXT, -- JSON object: the source of an imported episode; NULL: it was recorded here
        -- JSON array of tool schemas. It is long, so it comes last: SQLite reads it to get at later columns
        tools TEXT NOT NULL,
        tag BLOB,
        UNIQUE (run, task, seed, repeat, attempt)
    )
    """,
    """
    CREATE TABLE frames (
        id INTEGER PRIMARY KEY,
        episode TEXT REFERENCES episodes(id), -- NULL: between the tasks of an interactive session
        connection INTEGER NOT NULL,
        direction TEXT NOT NULL CHECK (direction IN ('client', 'server')), -- who sent it
        stored_us INTEGER NOT NULL,
        kind TEXT NOT NULL,
        method TEXT,
        rpc_id TEXT, -- JSON
        tag BLOB NOT NULL,
        link BLOB NOT NULL, -- keyed hash of the link before this one and the tag
        body NOT NULL -- the exact bytes: TEXT if they are UTF-8 without NUL, else BLOB
    )
    """,
    # no index of frames by episode: it would make each commit a fifth slower
    """
    CREATE TABLE calls (
        id INTEGER PRIMARY KEY,
        episode TEXT NOT NULL REFERENCES episodes(id),
        connection INTEGER NOT NULL,
        rpc_id TEXT NOT NULL, -- JSON
        tool TEXT, -- NULL: the request named none
        arguments TEXT NOT NULL, -- JSON
        execution INTEGER, -- 1, 2, ... in the order the server ran them; NULL: it did not run
        outcome TEXT CHECK (outcome IN ('ok', 'tool_error', 'rpc_error', 'transport_error', 'cancelled')),
        started_us INTEGER NOT NULL,
        ended_us INTEGER,
        request_frame INTEGER NOT NULL REFERENCES frames(id),
        response_frame INTEGER REFERENCES frames(id),
        tag BLOB NOT NULL
    )
    """,
    "CREATE INDEX calls_episode ON calls (episode)",
    """
    CREATE TABLE messages (
        episode TEXT NOT NULL REFERENCES episodes(id),
        position INTEGER NOT NULL,
        role TEXT NOT NULL,
        content TEXT,
        reasoning TEXT,
        tool_calls TEXT, -- JSON array
        tool_call_id TEXT,
        name TEXT,
        is_error INTEGER NOT NULL,
        tag BLOB,
        PRIMARY KEY (episode, position)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE model_calls (
        id TEXT PRIMARY KEY,
        episode TEXT NOT NULL REFERENCES episodes(id),
        started_us INTEGER NOT NULL, -- the request was complete
        first_us INTEGER, -- the response's body began
        ended_us INTEGER, -- NULL: in progress, or its referee died
        -- side: offers no tools (a title, a probe); other: requests no answer
        kind TEXT CHECK (kind IN ('turn', 'side', 'other')),
        outcome TEXT CHECK (outcome IN ('ok', 'error', 'cut', 'abandoned')),
        dialect TEXT,
        model TEXT,
        parameters TEXT, -- JSON object: how it was sampled
        usage TEXT, -- JSON object
        finish TEXT, -- why the model stopped, in its API's term
        message INTEGER, -- position in messages of the turn that it produced
        method TEXT NOT NULL,
        path TEXT NOT NULL,
        status INTEGER,
        request_headers TEXT NOT NULL, -- JSON object of a few harmless ones
        response_headers TEXT,
        request NOT NULL, -- the exact bytes without keys: TEXT if they are UTF-8 without NUL, else BLOB
        response, -- the same
        answer TEXT, -- JSON: the response, assembled if it was streamed
        tag BLOB
    )
    """,
    "CREATE INDEX model_calls_episode ON model_calls (episode)",
    """
    CREATE TABLE flags (
        id INTEGER PRIMARY KEY,
        episode TEXT REFERENCES episodes(id), -- of the agent that made the attempt; NULL: unknown
        time_us INTEGER NOT NULL,
        kind TEXT NOT NULL, -- of the attempt that was refused
        detail TEXT NOT NULL,
        tag BLOB
    )
    """,
    # the rows of each ended episode and closed run
    _SEALS,
    """
    CREATE VIEW call_results AS
    SELECT c.id, c.episode, e.task, c.execution, c.tool, c.arguments, c.outcome,
           (c.ended_us - c.started_us) / 1000.0 AS milliseconds,
           CASE WHEN typeof(f.body) = 'text' AND json_valid(f.body)
                THEN coalesce(json_extract(f.body, '$.result'), json_extract(f.body, '$.error'))
           END AS result,
           f.body AS response
    FROM calls c JOIN episodes e ON e.id = c.episode LEFT JOIN frames f ON f.id = c.response_frame
    """,
    """
    CREATE VIEW episode_summary AS
    SELECT e.id, coalesce(e.agent, r.agent) AS agent, coalesce(e.model, r.model) AS model, r.benchmark,
           e.task, e.split, e.domain, e.seed, e.repeat, e.attempt, e.termination, e.invalid,
           strftime('%Y-%m-%d %H:%M:%S', e.started_us / 1000000, 'unixepoch') AS started,
           (e.ended_us - e.started_us) / 1e6 AS seconds,
           (SELECT count(*) FROM calls c WHERE c.episode = e.id) AS calls
    FROM episodes e JOIN runs r ON r.id = e.run
    """,
)
_GRADES_1 = (
    """
    CREATE TABLE grades (
        episode TEXT PRIMARY KEY,
        partial REAL NOT NULL,
        strict INTEGER NOT NULL,
        assertions TEXT NOT NULL, -- JSON array
        metrics TEXT NOT NULL, -- JSON object
        grader_version TEXT NOT NULL,
        final_state TEXT NOT NULL, -- JSON
        graded_us INTEGER NOT NULL,
        recording BLOB, -- tag of the seal of the episode that was graded
        tag BLOB
    )
    """,
    """
    CREATE TABLE scans (
        episode TEXT PRIMARY KEY,
        verdict TEXT NOT NULL CHECK (verdict IN ('clean', 'tainted', 'unknown')),
        evidence TEXT NOT NULL, -- JSON array of objects: kind, what, where, excerpt
        scanner_version TEXT NOT NULL,
        scanned_us INTEGER NOT NULL,
        recording BLOB, -- tag of the seal of the episode that was scanned
        tag BLOB
    )
    """,
    """
    CREATE TABLE canaries (
        place TEXT PRIMARY KEY, -- a decoy file of this run
        value TEXT NOT NULL, -- the random word in it
        made_us INTEGER NOT NULL,
        tag BLOB
    )
    """,
    _SEALS,
)

_RECORDINGS_2 = (
    # of the tags of the run; NULL: 1
    "ALTER TABLE runs ADD COLUMN format INTEGER",
    # JSON array: id of the home's ledger, number of the entry with which the run was last opened for writing.
    # NULL: the run is older than the ledger, or was imported
    "ALTER TABLE runs ADD COLUMN ledger TEXT",
)

_RECORDINGS_3 = (
    # the task's instructions besides its prompt; NULL: none
    "ALTER TABLE episodes ADD COLUMN system TEXT",
    # 1: the benchmark forbids training on the task; NULL: it does not
    "ALTER TABLE episodes ADD COLUMN untrainable INTEGER",
    # finds them without reading the long column `tools`, which lies before this one
    "CREATE INDEX episodes_untrainable ON episodes (id) WHERE untrainable IS NOT NULL",
)
PLANNED = "CASE WHEN json_valid(plan) THEN json_array_length(plan) ELSE -1 END"
"""How many slots the run has. SQLite finds the index by this very expression."""
_RECORDINGS_4 = (
    # lists of runs ask for these only. Without the indexes, SQLite parses the plan and reads each episode's
    # prompt and tools for them, which takes five times as long. A damaged plan counts -1
    f"CREATE INDEX runs_planned ON runs ({PLANNED})",
    "CREATE INDEX episodes_outcome ON episodes (run, task, seed, repeat, attempt, id, invalid, usage)",
)
# what a policy sampled; arrays as in store/model_tokens.py
_RECORDINGS_5 = (
    """
    CREATE TABLE model_tokens (
        call TEXT PRIMARY KEY REFERENCES model_calls(id),
        episode TEXT NOT NULL REFERENCES episodes(id),
        extends TEXT, -- an earlier call: the prompt begins with its prompt and its answer; NULL: none
        version TEXT, -- of the weights, as the endpoint reports it
        prompt BLOB NOT NULL, -- ids of the prompt, after what it extends: uint32, little-endian
        tokens BLOB NOT NULL, -- ids of the answer, the same
        logprobs BLOB NOT NULL, -- of these, natural: float32, little-endian
        tag BLOB
    )
    """,
    "CREATE INDEX model_tokens_episode ON model_tokens (episode)",
)
# tables of their own: columns of `grades` would lie behind the final state, which is long
_GRADES_2 = (
    """
    CREATE TABLE scores (
        episode TEXT PRIMARY KEY, -- only episodes whose grade says one of these
        score TEXT, -- JSON object: name, value, better, unit, baseline, par
        submissions TEXT, -- JSON array of such objects
        certain INTEGER NOT NULL, -- 0: a model gave the verdict
        tag BLOB
    )
    """,
    """
    CREATE TABLE rewards (
        id INTEGER PRIMARY KEY,
        episode TEXT NOT NULL,
        execution INTEGER NOT NULL, -- of the call, as in calls
        reward REAL NOT NULL,
        tag BLOB,
        UNIQUE (episode, execution)
    )
    """,
)
# questions of worlds to the models that play their user, judge or opponent; they can contain the solution
_GRADES_3 = (
    """
    CREATE TABLE asked (
        id INTEGER PRIMARY KEY, -- in the order in which they ended
        episode TEXT NOT NULL,
        role TEXT NOT NULL, -- user, judge or opponent
        model TEXT NOT NULL, -- as the operator named it
        endpoint TEXT NOT NULL, -- its address, without a login
        seed INTEGER, -- of sampling, as it was sent
        answered_by TEXT, -- model and version, as the endpoint reports them
        error TEXT, -- why there is no answer
        usage TEXT, -- JSON object
        started_us INTEGER NOT NULL,
        ended_us INTEGER NOT NULL,
        messages TEXT NOT NULL, -- JSON array
        tools TEXT NOT NULL, -- JSON array
        answer TEXT, -- JSON object: the model's message
        tag BLOB
    )
    """,
    "CREATE INDEX asked_episode ON asked (episode)",
)

NOT_YET = {
    "m002_scores": "CREATE TEMP TABLE scores (episode, score, submissions, certain);"
    "CREATE TEMP TABLE rewards (episode, execution, reward)",
    "m003_asked": "CREATE TEMP TABLE asked (id, episode, role, model, endpoint, seed, messages, tools,"
    " answer, error, answered_by, usage, started_us, ended_us)",
}
"""Empty tables for readers, in place of those that grades of an earlier version lack."""

recordings = Schema(
    "mcp-bench-recordings",
    {
        "m001_initial": _RECORDINGS_1,
        "m002_signatures": _RECORDINGS_2,
        "m003_task_facts": _RECORDINGS_3,
        "m004_overview": _RECORDINGS_4,
        "m005_model_tokens": _RECORDINGS_5,
    },
)
grades = Schema(
    "mcp-bench-grades", {"m001_initial": _GRADES_1, "m002_scores": _GRADES_2, "m003_asked": _GRADES_3}
)
