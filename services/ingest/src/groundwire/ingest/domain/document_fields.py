"""Decide the fields of a document from what the caller says, what its front matter says, and what is stored."""

from dataclasses import fields, replace

from groundwire.ingest.domain.front_matter import FrontMatter, fields_of
from groundwire.kernel.document import DocumentFields

_DEFAULTS = DocumentFields()
_NAMES = tuple(field.name for field in fields(DocumentFields) if field.name != "metadata")


def stated_fields(stated: DocumentFields, front_matter: FrontMatter) -> DocumentFields:
    """Return what the caller states; the front matter fills what the caller leaves out."""
    read = fields_of(front_matter)
    missing = {name: read[name] for name in read if getattr(stated, name) == getattr(_DEFAULTS, name)}
    return replace(stated, **missing)


def kept_fields(stored: DocumentFields, before: FrontMatter, now: FrontMatter) -> DocumentFields:
    """Return the stored fields, of which those that came from the old front matter follow the new one."""
    old, new = fields_of(before), fields_of(now)
    changes = {
        name: new.get(name, getattr(_DEFAULTS, name))
        for name in _NAMES
        if getattr(stored, name) == old.get(name, getattr(_DEFAULTS, name))
    }
    return replace(stored, **changes)
