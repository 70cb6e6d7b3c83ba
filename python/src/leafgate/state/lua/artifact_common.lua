-- The start of artifact_put.lua and artifact_get.lua: drops what has expired.
-- Under P: lru, age (owner:handle by last use, by end), of:<owner> (handles by use), id:<owner> (handles by identity),
-- e:<owner>:<handle> (an entry), c:<digest> (content), refs (entries by digest), bytes (by owner, and * for all), tick.
local P, cost = KEYS[1], tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function drop(owner, handle)
  local entry, member = P .. ':e:' .. owner .. ':' .. handle, owner .. ':' .. handle
  local found = redis.call('HMGET', entry, 'digest', 'size', 'length', 'identity')
  redis.call('ZREM', P .. ':lru', member)
  redis.call('ZREM', P .. ':age', member)
  redis.call('ZREM', P .. ':of:' .. owner, handle)
  if not found[1] then return end
  redis.call('DEL', entry)
  redis.call('HDEL', P .. ':id:' .. owner, found[4])
  if redis.call('HINCRBY', P .. ':bytes', owner, -found[2]) <= 0 then redis.call('HDEL', P .. ':bytes', owner) end
  local less = cost
  if redis.call('HINCRBY', P .. ':refs', found[1], -1) <= 0 then
    redis.call('HDEL', P .. ':refs', found[1])
    redis.call('DEL', P .. ':c:' .. found[1])
    less = less + found[3]
  end
  redis.call('HINCRBY', P .. ':bytes', '*', -less)
end

local function split(member)
  local colon = string.find(member, ':', 1, true)
  return string.sub(member, 1, colon - 1), string.sub(member, colon + 1)
end

local function touch(owner, handle)
  local tick = redis.call('INCR', P .. ':tick')
  redis.call('ZADD', P .. ':lru', tick, owner .. ':' .. handle)
  redis.call('ZADD', P .. ':of:' .. owner, tick, handle)
end

-- A bounded number at a time, so that no call waits for thousands.
for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. ':age', '-inf', now, 'LIMIT', 0, 200)) do
  drop(split(member))
end
