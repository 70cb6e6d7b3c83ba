-- Ends a session: it stays as an empty value, so that it cannot come back. KEYS: session, events. ARGV: seconds.
redis.call('DEL', KEYS[2])
return redis.call('SET', KEYS[1], '', 'EX', ARGV[1])
