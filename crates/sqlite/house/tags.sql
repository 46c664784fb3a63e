CASE version WHEN 1 THEN
  (SELECT json_group_array(tag) FROM job_tags WHERE job_tags.job_id = job_events.job_id HAVING count(*) > 0) END
