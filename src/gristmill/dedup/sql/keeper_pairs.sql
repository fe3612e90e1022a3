-- The pairs of a round, each once, with the similarity that an earlier round found, if any.
-- in:  found(document, candidate, similarity), where a pair may occur more than once;
--      compared(document, candidate, similarity)
-- out: document, candidate, similarity
select
    pairs.document
    , pairs.candidate
    , coalesce(compared.similarity, pairs.similarity) as similarity
from (
    select document, candidate, max(similarity) as similarity
    from found
    group by document, candidate
) as pairs
left join compared on pairs.document = compared.document and pairs.candidate = compared.candidate
order by pairs.document nulls last, pairs.candidate nulls last
