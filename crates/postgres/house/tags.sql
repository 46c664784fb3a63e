CASE WHEN {column} IS NOT NULL THEN ARRAY(SELECT json_array_elements_text({column}::json)) END
