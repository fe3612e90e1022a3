-- Documents whose value (a URL, or the hash of a normalised text) an earlier document has: each
-- names the earliest.
-- in:  left_over(document, scope, value)
-- out: document, keeper
select left_over.document, firsts.keeper
from left_over
join (
    select scope, value, min(document) as keeper
    from left_over
    where value is not null
    group by scope, value
    having count(*) > 1
) as firsts
    on left_over.scope = firsts.scope and left_over.value = firsts.value
where left_over.document <> firsts.keeper
order by left_over.document nulls last
