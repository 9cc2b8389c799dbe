"""The PostgreSQL schema of a ledger: everything lies in the schema `causebook` of one database.

Text columns compare by the collation "C", so that their order is that of code points, whatever the database's
locale. Row ids are an identity column, which an INSERT cannot choose. The triggers stop accidents, as in
`sqlite_file.py`; the owner of the tables can drop them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import LiteralString

COLUMNS: Mapping[str, Mapping[str, str]] = {
    "stored_events": {
        "originator_id": "text",
        "originator_version": "bigint",
        "topic": "text",
        "state": "bytea",
        "notification_id": "bigint",
    },
    "evidence": {"commitment": "text", "salt": "bytea", "task": "text", "body": "bytea"},
    "evidence_erasing": {"commitment": "text"},
    "projection_rows": {"projection": "text", "key": "text", "value": "bytea"},
    "projection_positions": {
        "projection": "text",
        "version": "bigint",
        "row_id": "bigint",
        "digest": "text",
    },
    "tree_tiles": {"level": "bigint", "number": "bigint", "hashes": "bytea", "row_ids": "bytea"},
    "checkpoints": {"size": "bigint", "note": "bytea"},
    "checkpoint_additions": {"size": "bigint", "kind": "text", "body": "bytea"},
    "causebook_format": {"version": "bigint"},
}
"""The tables, and the type of each of their columns."""

SCHEMA: tuple[LiteralString, ...] = (
    "CREATE SCHEMA IF NOT EXISTS causebook",
    """
    CREATE TABLE causebook.stored_events (
        originator_id text COLLATE "C" NOT NULL,
        originator_version bigint NOT NULL,
        topic text NOT NULL,
        state bytea NOT NULL,
        notification_id bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
        PRIMARY KEY (originator_id, originator_version)
    )
    """,
    # VOLATILE, the default, lets the check of a row see the rows that the same statement inserted before.
    """
    CREATE FUNCTION causebook.check_next() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.originator_version IS DISTINCT FROM 1 + (
            SELECT coalesce(max(originator_version), 0) FROM causebook.stored_events
            WHERE originator_id = NEW.originator_id
        ) THEN
            RAISE EXCEPTION 'the version is not the next of its stream'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE FUNCTION causebook.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        RAISE EXCEPTION 'a stored row is never changed or deleted (% on %)', TG_OP, TG_TABLE_NAME
            USING ERRCODE = 'integrity_constraint_violation';
    END $$
    """,
    """
    CREATE TRIGGER stored_events_next BEFORE INSERT ON causebook.stored_events
    FOR EACH ROW EXECUTE FUNCTION causebook.check_next()
    """,
    """
    CREATE TRIGGER stored_events_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON causebook.stored_events
    FOR EACH STATEMENT EXECUTE FUNCTION causebook.refuse()
    """,
    """
    CREATE TABLE causebook.evidence (
        commitment text COLLATE "C" PRIMARY KEY,
        salt bytea NOT NULL,
        task text COLLATE "C" NOT NULL,
        body bytea NOT NULL
    )
    """,
    # The bodies are compressed already.
    "ALTER TABLE causebook.evidence ALTER COLUMN body SET STORAGE EXTERNAL",
    "CREATE INDEX evidence_task ON causebook.evidence (task)",
    'CREATE TABLE causebook.evidence_erasing (commitment text COLLATE "C" PRIMARY KEY)',
    """
    CREATE FUNCTION causebook.check_erasure() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NOT EXISTS (
            SELECT 1 FROM causebook.evidence_erasing WHERE commitment = OLD.commitment
        ) THEN
            RAISE EXCEPTION 'evidence is deleted by an erasure only'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN OLD;
    END $$
    """,
    """
    CREATE TRIGGER evidence_kept BEFORE UPDATE OR TRUNCATE ON causebook.evidence
    FOR EACH STATEMENT EXECUTE FUNCTION causebook.refuse()
    """,
    """
    CREATE TRIGGER evidence_delete BEFORE DELETE ON causebook.evidence
    FOR EACH ROW EXECUTE FUNCTION causebook.check_erasure()
    """,
    """
    CREATE TABLE causebook.projection_rows (
        projection text COLLATE "C", key text COLLATE "C", value bytea NOT NULL,
        PRIMARY KEY (projection, key)
    )
    """,
    """
    CREATE TABLE causebook.projection_positions (
        projection text COLLATE "C" PRIMARY KEY,
        version bigint NOT NULL, row_id bigint NOT NULL, digest text NOT NULL
    )
    """,
    """
    CREATE TABLE causebook.tree_tiles (
        level bigint, number bigint, hashes bytea NOT NULL, row_ids bytea NOT NULL,
        PRIMARY KEY (level, number)
    )
    """,
    # Hashes cannot be compressed.
    "ALTER TABLE causebook.tree_tiles ALTER COLUMN hashes SET STORAGE EXTERNAL",
    """
    CREATE TABLE causebook.checkpoints (
        size bigint PRIMARY KEY CHECK (size > 0), note bytea NOT NULL
    )
    """,
    # A log grows: so a size is taken once.
    """
    CREATE FUNCTION causebook.check_checkpoint() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF NEW.size <= (SELECT max(size) FROM causebook.checkpoints) THEN
            RAISE EXCEPTION 'a checkpoint is larger than those before it'
                USING ERRCODE = 'integrity_constraint_violation';
        END IF;
        RETURN NEW;
    END $$
    """,
    """
    CREATE TRIGGER checkpoints_next BEFORE INSERT ON causebook.checkpoints
    FOR EACH ROW EXECUTE FUNCTION causebook.check_checkpoint()
    """,
    """
    CREATE TRIGGER checkpoints_kept BEFORE UPDATE OR DELETE OR TRUNCATE ON causebook.checkpoints
    FOR EACH STATEMENT EXECUTE FUNCTION causebook.refuse()
    """,
    """
    CREATE TABLE causebook.checkpoint_additions (
        size bigint NOT NULL REFERENCES causebook.checkpoints,
        kind text COLLATE "C" NOT NULL CHECK (kind IN ('cosignature', 'timestamp')),
        body bytea NOT NULL
    )
    """,
    # By its hash: a timestamp is longer than an index takes.
    """
    CREATE UNIQUE INDEX checkpoint_additions_once
    ON causebook.checkpoint_additions (size, kind, sha256(body))
    """,
    """
    CREATE TRIGGER checkpoint_additions_kept
    BEFORE UPDATE OR DELETE OR TRUNCATE ON causebook.checkpoint_additions
    FOR EACH STATEMENT EXECUTE FUNCTION causebook.refuse()
    """,
    "CREATE TABLE causebook.causebook_format (version bigint NOT NULL)",
)
