-- The documents that are left, by their place in the order that decides.
-- in:  unplaced(document, value, scope), places(document, place)
-- out: document (its place), value, scope
select places.place as document, unplaced.value, unplaced.scope
from unplaced
join places on unplaced.document = places.document
