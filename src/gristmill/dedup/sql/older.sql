-- New documents whose text, or URL, an older corpus has: each names the earliest.
-- in:  left_over(document, value, scope), older(document, value, scope) where document + scope is its number,
--      set_aside(number): those of them that had gone before this was asked
-- out: document, keeper (a number)
select left_over.document, min(older.document + older.scope) as keeper
from left_over
join older on left_over.value = older.value
left join set_aside on older.document + older.scope = set_aside.number
where set_aside.number is null
group by left_over.document
order by left_over.document nulls last
