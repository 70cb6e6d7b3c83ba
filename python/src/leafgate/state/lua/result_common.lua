-- The start of result_get.lua and result_put.lua.
-- Under P: k:<key> (a result, with its time), size (by key), lru (keys by last use), used (bytes), tick.
local P, key = KEYS[1], ARGV[1]

local function drop(gone)
  local size = redis.call('HGET', P .. ':size', gone)
  redis.call('DEL', P .. ':k:' .. gone)
  redis.call('ZREM', P .. ':lru', gone)
  if size then
    redis.call('HDEL', P .. ':size', gone)
    redis.call('DECRBY', P .. ':used', size)
  end
end
