-- Returns a result, or false.
local found = redis.call('GET', P .. ':k:' .. key)
if not found then
  drop(key)
  return false
end
redis.call('ZADD', P .. ':lru', redis.call('INCR', P .. ':tick'), key)
return found
