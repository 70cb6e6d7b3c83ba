-- Ends a session: it stays as an empty value, so that it cannot come back. KEYS: session, events, their bytes. ARGV: seconds.
redis.call('DEL', KEYS[2], KEYS[3])
return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])
