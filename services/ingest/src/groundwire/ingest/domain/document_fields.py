"""Decide the fields of a document from what the caller says, what the source says about itself, and what is stored."""

from dataclasses import fields, replace

from groundwire.kernel.document import DocumentFields

_DEFAULTS = DocumentFields()
_NAMES = tuple(field.name for field in fields(DocumentFields) if field.name != "metadata")


def stated_fields(stated: DocumentFields, properties: DocumentFields) -> DocumentFields:
    """Return what the caller states; what the source says fills what the caller leaves out."""
    missing = {name: getattr(properties, name) for name in _NAMES if getattr(stated, name) == getattr(_DEFAULTS, name)}
    return replace(stated, **missing)


def kept_fields(stored: DocumentFields, before: DocumentFields, now: DocumentFields) -> DocumentFields:
    """Return the stored fields, of which those that the source said before follow what it says now."""
    changes = {name: getattr(now, name) for name in _NAMES if getattr(stored, name) == getattr(before, name)}
    return replace(stored, **changes)
