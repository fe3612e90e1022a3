-- Frequent lines in the order of the list: most documents first.
-- in:  found(scope, hash, documents, earliest, text)
-- out: the columns of found
select scope, hash, documents, earliest, text
from found
order by documents desc nulls last, hash nulls last, scope nulls last
