-- Stores a session, unless it was ended: then its value is empty. KEYS: session. ARGV: seconds, row.
if redis.call('GET', KEYS[1]) == '' then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[1])
return 1
