"""Arrow tables: the columns of documents, and texts that a caller gives."""
