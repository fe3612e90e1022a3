-- Documents whose URL is that of an earlier one: each names the earliest.
-- in:  left_over(document, scope, url)
-- out: document, keeper
select left_over.document, firsts.keeper
from left_over
join (
    select scope, url, min(document) as keeper
    from left_over
    where url is not null
    group by scope, url
    having count(*) > 1
) as firsts
    on left_over.scope = firsts.scope and left_over.url = firsts.url
where left_over.document <> firsts.keeper
order by left_over.document nulls last
