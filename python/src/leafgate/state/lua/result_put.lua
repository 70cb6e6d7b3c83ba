-- Stores a result, and drops the least recently used beyond the bounds.
local size, ttl, most_entries, most_bytes = ARGV[2], ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
drop(key)
redis.call('SET', P .. ':k:' .. key, ARGV[6], 'PX', ttl)
redis.call('HSET', P .. ':size', key, size)
redis.call('ZADD', P .. ':lru', redis.call('INCR', P .. ':tick'), key)
redis.call('INCRBY', P .. ':used', size)
while redis.call('ZCARD', P .. ':lru') > most_entries or tonumber(redis.call('GET', P .. ':used')) > most_bytes do
  drop(redis.call('ZRANGE', P .. ':lru', 0, 0)[1])
end
return true
