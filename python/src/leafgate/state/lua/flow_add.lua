-- Stores a flow record, and drops the oldest of its kind and server beyond the bounds. KEYS: owner.
-- ARGV: id, kind and server as a tag, data, milliseconds, most bytes, most records.
-- Under the owner's key: id\ntag by time; behind it :<id>, the data.
local owner, id, tag, ttl = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', owner, '-inf', now - ttl)
local order = redis.call('INCR', owner .. ':order') % 1000 / 1000
redis.call('PEXPIRE', owner .. ':order', ttl)
redis.call('ZADD', owner, now + order, id .. '\n' .. tag)
redis.call('SET', owner .. ':' .. id, ARGV[3], 'PX', ttl)
redis.call('PEXPIRE', owner, ttl)
local size, number = 0, 0
for _, member in ipairs(redis.call('ZREVRANGE', owner, 0, -1)) do
  local line = string.find(member, '\n', 1, true)
  if string.sub(member, line + 1) == tag then
    local other = owner .. ':' .. string.sub(member, 1, line - 1)
    size, number = size + redis.call('STRLEN', other), number + 1
    if number > 1 and (size > tonumber(ARGV[5]) or number > tonumber(ARGV[6])) then
      redis.call('ZREM', owner, member)
      redis.call('DEL', other)
    end
  end
end
return true
