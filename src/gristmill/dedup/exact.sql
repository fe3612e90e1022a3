-- Documents whose normalised text is that of an earlier one: each names the earliest.
-- in:  left_over(document, scope, text_hash)
-- out: document, keeper
select left_over.document, firsts.keeper
from left_over
join (
    select scope, text_hash, min(document) as keeper
    from left_over
    group by scope, text_hash
    having count(*) > 1
) as firsts
    on left_over.scope = firsts.scope and left_over.text_hash = firsts.text_hash
where left_over.document <> firsts.keeper
order by left_over.document nulls last
