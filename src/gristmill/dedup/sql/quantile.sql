-- How often each value of a measure stands, lowest first.
-- in:  valued(value)
-- out: value, documents
select value, count(*) as documents
from valued
group by value
order by value nulls last
