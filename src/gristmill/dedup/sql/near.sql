-- Candidates: for each document the first documents of each of its buckets that are earlier than
-- itself. So a document's candidates never change when later documents are added, and a bucket of n
-- documents makes at most n pairs a place, however large it is.
-- in:  ranked(document, candidate_1, candidate_2, ...)
-- out: document, candidate
select distinct document, candidate
from (
    select document, document as candidate from ranked where 1 = 0
    union all select document, candidate_{place} from ranked where candidate_{place} < document -- each place
) as pairs
order by document nulls last, candidate nulls last
