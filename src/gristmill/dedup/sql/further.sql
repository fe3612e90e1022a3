-- Pairs of a round, each once, and how like they are where the round before compared them.
-- in:  met(document, candidate, similarity), where a pair may stand more than once; compared(document, candidate, similarity)
-- out: document, candidate, similarity
select pairs.document, pairs.candidate, coalesce(compared.similarity, pairs.similarity) as similarity
from (
    select document, candidate, max(similarity) as similarity
    from met
    group by document, candidate
) as pairs
left join compared on pairs.document = compared.document and pairs.candidate = compared.candidate
order by pairs.document nulls last, pairs.candidate nulls last
