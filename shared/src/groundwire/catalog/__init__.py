"""The catalog: the truth in SQL, of which vectors and full-text rows can be built again.

* The database: `database` (snapshots to read, and the one thread that writes), `schema` (the
  tables), `migrations`, `sqlite` and `postgresql` (what only one of them understands), `dialects` (which picks),
  `encoding`, `rows` (values to rows and back, and which rows readers see); `transfer` and `file_copy` copy one.
* The door: `catalog` has an attribute for each aggregate; `audit` has what these have in common, and the audit log.
* What is stored: `collections`, `documents`, `records`, `generations`, `chunks`, `texts`, `vectors`, `sessions`.
* What is done to it: `deletions` (and restorations), `index_builds`; what engines still have to do about it is in
  `outbox`.
* What a search reads: `search_view`, `filters`, `lexical_search` (the index: `lexical_index`, `index_words`),
  `vocabularies`.
* Bookkeeping: `idempotency`, `operations`, `uploads`, `query_log`, `consistency_tokens`.
* Checks: `inspection`, and of the index `lexical_index`.
"""
