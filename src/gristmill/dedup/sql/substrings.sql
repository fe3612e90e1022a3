-- Intervals of windows that occur again, in document order.
-- in:  found(document, first_byte, end_byte, places, earliest)
-- out: the columns of found
select document, first_byte, end_byte, places, earliest
from found
order by document nulls last, first_byte nulls last
