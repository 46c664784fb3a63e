-- The store's incarnation, and whether it has come to another server or timeline since that began.
SELECT s.incarnation, h.timeline IS NOT NULL AND (s.system_id, s.timeline) IS DISTINCT FROM (h.system_id, h.timeline)
FROM windlass.store s CROSS JOIN windlass.server() h
