-- Candidates: for each document the first four documents of each of its buckets that are earlier than itself. A bucket is all
-- documents with one key. So a document's candidates never change when later documents come, and a bucket of n documents makes
-- at most 4n pairs, however hot.
-- in:  keys(key, document)
-- out: document, candidate
select distinct document, candidate
from (
    select document, first_one as candidate from ranked
    union all
    select document, second_one from ranked
    union all
    select document, third_one from ranked
    union all
    select document, fourth_one from ranked
) as pairs
where candidate < document
order by document nulls last, candidate nulls last
