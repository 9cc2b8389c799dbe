"""The part of the `eventsourcing` library that a store stands on, without what would surprise a ledger.

Left out on purpose: the process environment, which beats the library's own `env=` and can move the
database or import a module (`SQLITE_DBNAME`, `COMPRESSOR_TOPIC`, `PERSISTENCE_MODULE`); the default mapper,
which leaves stream, version and topic outside what is stored; topics as import paths: here one is a label.
"""

from __future__ import annotations

from typing import Any

from eventsourcing.application import Application
from eventsourcing.persistence import InfrastructureFactory, JSONTranscoder, Mapper, StoredEvent
from eventsourcing.utils import Environment, EnvType

from .port import Row


class RowMapper(Mapper[str]):
    """`Row` ↔ `StoredEvent`: the record is the state as it stands, nothing is encoded or resolved."""

    def __init__(self) -> None:
        super().__init__(JSONTranscoder())

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        row: Row = domain_event
        return StoredEvent(row.stream, row.version, row.type, row.record)

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        return to_row(stored_event)


def to_row(stored: StoredEvent) -> Row:
    return Row(str(stored.originator_id), stored.originator_version, stored.topic, stored.state)


class LedgerApplication(Application[str]):
    """An application over a factory that was made beforehand; nothing of it is configured from outside."""

    name = "causebook"

    def __init__(self, factory: InfrastructureFactory[Any]) -> None:
        self._given_factory = factory
        super().__init__()

    def construct_env(self, name: str, env: EnvType | None = None) -> Environment:
        return Environment(name, env)

    def construct_factory(self, env: Environment) -> InfrastructureFactory[Any]:
        return self._given_factory

    def construct_mapper(self) -> Mapper[str]:
        return RowMapper()
