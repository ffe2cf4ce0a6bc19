"""Messages of sessions that quote a document, which go when it is deleted for good."""

import json
from collections.abc import Sequence

from sqlalchemy import ColumnElement, Connection, and_, delete, exists, func, or_, select

from groundwire.catalog.session_tables import messages


def forget_quoting_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Remove the answers that quote any of the documents, and their questions; return how many messages went."""
    answers = messages.alias("answers")
    asked = select(answers.c.message_key).where(
        answers.c.session_key == messages.c.session_key,
        answers.c.related_message_id == messages.c.message_id,
        _quotes(answers.c.tenant, answers.c.cited, tenant, document_ids),
    )
    quoting = _quotes(messages.c.tenant, messages.c.cited, tenant, document_ids)
    keys = list(connection.execute(select(messages.c.message_key).where(or_(quoting, exists(asked)))).scalars())
    connection.execute(delete(messages).where(messages.c.message_key.in_(keys)))
    return len(keys)


def count_quoting_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Return how many answers quote any of the documents."""
    quoting = _quotes(messages.c.tenant, messages.c.cited, tenant, document_ids)
    return int(connection.execute(select(func.count()).where(quoting)).scalar_one())


def _quotes(
    of_tenant: ColumnElement[str], cited: ColumnElement[list[str]], tenant: str, document_ids: Sequence[str]
) -> ColumnElement[bool]:
    each = func.json_each(cited).table_valued("value")
    given = func.json_each(json.dumps(list(document_ids))).table_valued("value")
    is_cited = exists(select(1).select_from(each).where(each.c.value.in_(select(given.c.value))))
    return and_(of_tenant == tenant, is_cited)
