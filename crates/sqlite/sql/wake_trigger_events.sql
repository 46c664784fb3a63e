-- What a trigger could not process yet is tried again now.
-- ?1 name  ?2 now
UPDATE trigger_events SET due_at = ?2 WHERE trigger_name = ?1 AND due_at > ?2
