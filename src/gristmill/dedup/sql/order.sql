-- Documents in the order that decides: highest value first, nulls last, equal values by number.
-- in:  valued(document, value)
-- out: document
select document
from valued
order by value desc nulls last, document nulls last
