-- How much of each document is paragraphs of other documents.
-- in:  paragraphs(document, hash, times, characters), a pair of document and hash once;
--      parameters(most, keeps_first, by_characters), of one row
-- out: document, repeated, whole (characters or paragraphs), of documents with a repeated one
select summed.document, summed.repeated, summed.whole
from (
    select
        sized.document,
        cast(sum(case
            when repeats.hash is null then 0
            when sized.keeps_first = 1 and repeats.earliest = sized.document then 0
            else sized.size
        end) as bigint) as repeated,
        cast(sum(sized.size) as bigint) as whole
    from (
        select
            paragraphs.document,
            paragraphs.hash,
            parameters.keeps_first,
            case
                when parameters.by_characters = 1 then paragraphs.times * paragraphs.characters
                else paragraphs.times
            end as size
        from paragraphs
        cross join parameters
    ) as sized
    left join (
        select totals.hash, totals.earliest
        from (
            select hash, count(*) as documents, min(document) as earliest
            from paragraphs
            group by hash
        ) as totals
        cross join parameters
        where totals.documents > parameters.most
    ) as repeats on sized.hash = repeats.hash
    group by sized.document
) as summed
where summed.repeated > 0
order by summed.document nulls last
