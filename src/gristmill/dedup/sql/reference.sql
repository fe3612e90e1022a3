-- New documents whose text, or URL, is in a reference corpus: each names the earliest document
-- there.
-- in:  left_over(document, value, scope),
--      reference(document, value, scope), where document + scope is the document's number,
--      set_aside(number): documents of reference corpora that other rules had dropped
-- out: document, keeper (a number)
select left_over.document, min(reference.document + reference.scope) as keeper
from left_over
join reference on left_over.value = reference.value
left join set_aside on reference.document + reference.scope = set_aside.number
where set_aside.number is null
group by left_over.document
order by left_over.document nulls last
