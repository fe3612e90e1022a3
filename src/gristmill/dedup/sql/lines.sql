-- Lines that are in more than `most` documents, with the earliest document of each.
-- in:  counted(hash, documents, earliest, scope), where a hash may be in several rows;
--      parameters(most), of one row
-- out: scope, hash, documents, earliest
select totals.scope, totals.hash, totals.documents, totals.earliest
from (
    select scope, hash, cast(sum(documents) as bigint) as documents, min(earliest) as earliest
    from counted
    group by scope, hash
) as totals
cross join parameters
where totals.documents > parameters.most
order by totals.earliest nulls last, totals.hash nulls last
