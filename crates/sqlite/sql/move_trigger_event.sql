-- What came of an event so far.
-- ?1 id  ?2 due_at  ?3 processed_at  ?4 detail
UPDATE trigger_events SET due_at = ?2, processed_at = ?3, detail = ?4 WHERE id = ?1
