-- Stores an artifact and returns its handle.
local owner, handle, identity, digest = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local about, length, quota, capacity, ttl, packed = ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11]
local content, size = P .. ':c:' .. digest, length + cost

local function used(by) return tonumber(redis.call('HGET', P .. ':bytes', by) or 0) end

local known = redis.call('HGET', P .. ':id:' .. owner, identity)
if known and redis.call('EXISTS', content) == 1 then
  touch(owner, known)
  redis.call('ZADD', P .. ':age', now + ttl, owner .. ':' .. known)
  redis.call('PEXPIRE', content, 2 * ttl)
  return known
end
if known then drop(owner, known) end

local more = cost
if redis.call('HINCRBY', P .. ':refs', digest, 1) == 1 then more = more + length end
redis.call('SET', content, packed, 'PX', 2 * ttl)
redis.call('HINCRBY', P .. ':bytes', '*', more)
redis.call('HINCRBY', P .. ':bytes', owner, size)
redis.call('HSET', P .. ':e:' .. owner .. ':' .. handle,
  'about', about, 'digest', digest, 'size', size, 'length', length, 'identity', identity)
redis.call('HSET', P .. ':id:' .. owner, identity, handle)
redis.call('ZADD', P .. ':age', now + ttl, owner .. ':' .. handle)
touch(owner, handle)

while used(owner) > tonumber(quota) do
  local oldest = redis.call('ZRANGE', P .. ':of:' .. owner, 0, 0)[1]
  if not oldest or oldest == handle then break end
  drop(owner, oldest)
end
while used('*') > tonumber(capacity) do
  local oldest = redis.call('ZRANGE', P .. ':lru', 0, 0)[1]
  if not oldest or oldest == owner .. ':' .. handle then break end
  drop(split(oldest))
end
return handle
