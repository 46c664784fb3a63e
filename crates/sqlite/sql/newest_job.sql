-- The greatest id: whoever brings a greater one brings a new job.
SELECT max(id) FROM jobs
