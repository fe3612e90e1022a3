-- Candidates of all cuts of the keys: a pair that shares bands of several cuts is one pair.
-- in:  found(document, candidate)
-- out: document, candidate
select distinct document, candidate
from found
order by document nulls last, candidate nulls last
