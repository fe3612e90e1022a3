-- Candidates of all partitions of the keys: a pair that shares bands in several partitions is one
-- pair.
-- in:  found(document, candidate)
-- out: document, candidate
select distinct document, candidate
from found
order by document nulls last, candidate nulls last
