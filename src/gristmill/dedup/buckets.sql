-- The first four documents of each bucket, beside each of its documents.
-- in:  keys(key, document)
-- out: document, first_one, second_one, third_one, fourth_one (null where the bucket has fewer up to the document)
select
    document,
    nth_value(document, 1) over earlier as first_one,
    nth_value(document, 2) over earlier as second_one,
    nth_value(document, 3) over earlier as third_one,
    nth_value(document, 4) over earlier as fourth_one
from keys
window earlier as (
    partition by key order by document nulls last rows between unbounded preceding and current row
)
