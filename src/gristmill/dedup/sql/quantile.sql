-- How many documents have each value of a measure, lowest first.
-- in:  valued(value)
-- out: value, documents
select value, count(*) as documents
from valued
group by value
order by value nulls last
