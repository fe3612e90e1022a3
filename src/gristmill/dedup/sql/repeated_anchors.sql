-- Anchors of windows that are at more than `most` places, and the runs of windows that have them.
-- in:  anchors(hash, places), a row for each run; parameters(most), of one row
-- out: hash, runs
select totals.hash, totals.runs
from (
    select hash, cast(sum(places) as bigint) as places, cast(count(*) as bigint) as runs
    from anchors
    group by hash
) as totals
cross join parameters
where totals.places > parameters.most
order by totals.hash nulls last
