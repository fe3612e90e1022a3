-- N-grams of benchmarks that are in more than `most` documents: too common to be evidence of an
-- item.
-- in:  hits(document, ngram), where a pair may occur more than once; parameters(most), of one row
-- out: ngram, documents
select counted.ngram, counted.documents
from (
    select ngram, count(*) as documents
    from (select distinct document, ngram from hits) as pairs
    group by ngram
) as counted
cross join parameters
where counted.documents > parameters.most
order by counted.ngram nulls last
