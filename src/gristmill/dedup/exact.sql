-- Documents whose normalised text is that of an earlier one: each names the earliest.
-- in:  hashes(document, scope, text_hash)
-- out: document, keeper
select hashes.document, firsts.keeper
from hashes
join (
    select scope, text_hash, min(document) as keeper
    from hashes
    group by scope, text_hash
    having count(*) > 1
) as firsts
    on hashes.scope = firsts.scope and hashes.text_hash = firsts.text_hash
where hashes.document <> firsts.keeper
order by hashes.document nulls last
