-- The documents that are not dropped.
-- in:  every(document, ..., scope), dropped(document)
-- out: the columns of every
select every.*
from every
left join dropped on every.document = dropped.document
where dropped.document is null
