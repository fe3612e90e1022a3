-- What is left when documents that are gone are left aside.
-- in:  every(document, ..., scope), gone(document)
-- out: the columns of every
select every.*
from every
left join gone on every.document = gone.document
where gone.document is null
