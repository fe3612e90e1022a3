-- The first documents of each bucket, beside each of its documents. A bucket is all documents with
-- one key.
-- A line that ends in "each place" is repeated for each place from 1 on, as {place}.
-- in:  keys(key, document)
-- out: document, candidate_1, candidate_2, ... (null where the bucket has fewer up to the document)
select
    document
    , nth_value(document, {place}) over earlier as candidate_{place} -- each place
from keys
window earlier as (
    partition by key order by document nulls last rows between unbounded preceding and current row
)
