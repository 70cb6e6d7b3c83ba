-- The bytes stored. KEYS: prefix.
return tonumber(redis.call('HGET', KEYS[1] .. ':bytes', '*') or 0)
