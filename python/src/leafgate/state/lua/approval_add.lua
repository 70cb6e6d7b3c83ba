-- Stores an approval; 0 if there are too many. ARGV: caller, most of all, most of one caller, milliseconds, id, status,
-- content. Under P: i:<id> (status, content, caller), all and of:<caller> (ids by their end).
local P, caller, ttl, id = KEYS[1], ARGV[1], tonumber(ARGV[4]), ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local of_one = P .. ':of:' .. caller
for place, ids in ipairs({P .. ':all', of_one}) do
  redis.call('ZREMRANGEBYSCORE', ids, '-inf', now)
  if redis.call('ZCARD', ids) >= tonumber(ARGV[1 + place]) then return 0 end
end
redis.call('HSET', P .. ':i:' .. id, 'status', ARGV[6], 'content', ARGV[7], 'caller', caller)
redis.call('PEXPIRE', P .. ':i:' .. id, ttl)
for _, ids in ipairs({P .. ':all', of_one}) do
  redis.call('ZADD', ids, now + ttl, id)
  if redis.call('PTTL', ids) < ttl then redis.call('PEXPIRE', ids, ttl) end
end
return 1
